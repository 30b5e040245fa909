"""`likewise features`: one sentence or JSON on stdout, remarks on stderr, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from tests.pictures.conftest import save_photos
from typer.testing import CliRunner, Result

from likewise.cli.features import features
from likewise.errors import LikewiseError
from likewise.rows import FeatureStore

app = typer.Typer()
app.command()(features)
app.callback()(lambda: None)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return save_photos(tmp_path / "photos")


def run(*arguments: object, catch: bool = False) -> Result:
    return CliRunner().invoke(app, ["features", *map(str, arguments)], catch_exceptions=catch)


def test_a_folder_becomes_a_store(photos: Path, tmp_path: Path) -> None:
    done = run(photos, "-o", tmp_path / "s.features", "-e", "pixels", "--size", 4)
    assert done.exit_code == 0
    assert done.stdout.startswith(
        f"{tmp_path / 's.features'}: 12 images × 48 features, 3 labels (12 new, 0 unchanged, 0 removed;"
    )
    assert "images/s" in done.stdout
    assert len(FeatureStore.open(tmp_path / "s.features")) == 12


def test_a_second_run_says_that_nothing_is_new(photos: Path, tmp_path: Path) -> None:
    arguments = (photos, "-o", tmp_path / "s.features", "-e", "pixels")
    run(*arguments)
    assert "(0 new, 12 unchanged, 0 removed)" in run(*arguments).stdout


def test_json_is_for_programs(photos: Path, tmp_path: Path) -> None:
    done = run(photos, "-o", tmp_path / "s.features", "-e", "pixels", "--json")
    summary = json.loads(done.stdout)
    assert summary["n_items"] == 12
    assert summary["images_per_second"] > 0


def test_only_strict_tells_by_its_exit_code_that_something_was_skipped(photos: Path, tmp_path: Path) -> None:
    (photos / "a" / "bad.jpg").write_bytes(b"")
    arguments = (photos, "-o", tmp_path / "s.features", "-e", "pixels")
    assert run(*arguments).exit_code == 0
    done = run(*arguments, "--strict")
    assert done.exit_code == 1
    details = FeatureStore.open(tmp_path / "s.features").version / "skipped.csv"
    assert done.stderr == f"likewise: skipped 1 file: 1 empty (details: {details})\n"


def test_strict_with_nothing_skipped_is_content(photos: Path, tmp_path: Path) -> None:
    assert run(photos, "-o", tmp_path / "s.features", "-e", "pixels", "--strict").exit_code == 0


def test_llc_takes_its_settings_from_the_command_line(photos: Path, tmp_path: Path) -> None:
    common = (photos, "-e", "llc", "--words", 10, "--workers", 1)
    run(*common, "-o", tmp_path / "a.features", "--components", 3)
    run(*common, "-o", tmp_path / "b.features", "--no-pca", "--dtype", "float32")
    widths = [FeatureStore.open(tmp_path / f"{name}.features").features for name in "ab"]
    assert [(w.shape[1], w.dtype) for w in widths] == [(3, np.float32), (210, np.float32)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-e", "no"), "unknown extractor 'no'"),
        (("-e", "llc", "--no-pca", "--components", 3), "--no-pca and --components exclude each other"),
        (
            ("-e", "onnx:m.onnx", "--mean", "a,b"),
            "--mean 'a,b' is not a number; expected one, or three separated by commas",
        ),
        (("-e", "pixels", "--words", 3), "extractor pixels has no parameter n_words"),
        (("-e", "pixels", "--labels", "none.csv"), "cannot read none.csv"),
        (("-e", "pixels", "--dtype", "int8"), "dtype='int8' is not supported"),
    ],
)
def test_mistakes_are_one_sentence(photos: Path, tmp_path: Path, arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(LikewiseError) as caught:
        run(photos, "-o", tmp_path / "s.features", *arguments)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_renamed_files_are_counted_apart(photos: Path, tmp_path: Path) -> None:
    arguments = (photos, "-o", tmp_path / "s.features", "-e", "pixels")
    run(*arguments)
    (photos / "a" / "00.png").rename(photos / "a" / "zz.png")
    assert "(0 new, 1 renamed, 11 unchanged, 0 removed)" in run(*arguments).stdout


def test_labels_may_be_left_out(photos: Path, tmp_path: Path) -> None:
    arguments = (photos, "-o", tmp_path / "s.features", "-e", "pixels")
    assert "12 images × 3,072 features, 0 labels" in run(*arguments, "--labels", "none").stdout
    assert "3 labels" in run(*arguments, "--labels", "folders").stdout
