"""`likewise check`, `backup` and `restore`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from likewise.rows import FeatureStore
from likewise.rows.store import FEATURES, ITEMS
from likewise.serve import update_library
from likewise.teach import Feedback, Teacher, load_index


@pytest.fixture
def home(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pictures, their features and their index, with a label of one of them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for number in range(6):
        path = tmp_path / "photos" / f"{number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (9, 9, 3)).astype(np.uint8)).save(path)
    for words in (("features", "photos", "-o", "p.features", "-e", "pixels"), ("index", "p.features", "-o", "p.index")):
        assert run(*words).exit_code == 0
    Teacher(load_index("p.index"), Feedback("p.index")).label([3], "odd", "ann")
    return tmp_path


def _change(path: Path, place: int = -4) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)


def test_what_is_sound_is_said_to_be(run: Any, home: Path) -> None:
    done = run("check", "p.index")
    assert (done.exit_code, done.stdout) == (0, "p.index is sound: 6 items, 1 mark or label, 0 lessons\n")
    assert run("check", "p.features").stdout == "p.features is sound\n"
    card = json.loads(run("check", "p.index", "--json").stdout)
    assert card == {
        "path": "p.index", "damaged": [], "repaired": [], "items": 6, "steps": 1, "lessons": 0, "missing": [],
        "parked": [],
    }  # fmt: skip


def test_a_damaged_index_is_named_and_repaired(run: Any, home: Path) -> None:
    vectors = next(home.glob("p.index/*/vectors.npy"))
    _change(vectors)
    done = run("check", "p.index")
    place = vectors.relative_to(home)
    assert done.exit_code == 1
    assert done.stdout == f"damaged: {place} has been altered or damaged: its checksum does not match its content\n"
    done = run("check", "p.index", "--repair")
    assert done.exit_code == 0
    assert done.stdout == (
        f"repaired: computed again from the rows and the model of {vectors.parent.name}: 6 items\n"
        "p.index is sound: 6 items, 1 mark or label, 0 lessons\n"
    )


@pytest.mark.parametrize("words", [("search", "p.index", "--row", 1), ("serve", "p.index"), ("learn", "p.index")])
def test_a_lost_pointer_is_said_by_every_verb_and_what_brings_it_back(run: Any, home: Path, words: Any) -> None:
    (home / "p.index" / "CURRENT").unlink()
    done = run(*words)
    assert done.exit_code == 2
    assert "p.index is damaged: its CURRENT is lost; likewise check p.index --repair" in done.stderr
    assert run("check", "p.index", "--repair").exit_code == 0
    assert Feedback("p.index").events()[0].label == "odd"


def test_where_all_is_lost_the_verb_that_is_named_keeps_the_marks(run: Any, home: Path) -> None:
    shutil.rmtree(next(home.glob("p.index/version-*")))
    done = run("check", "p.index", "--repair")
    assert done.exit_code == 2
    again = (
        "likewise serve PHOTOS -o p.index, or likewise index [MODEL] GALLERY -o p.index, builds it again around them"
    )
    assert f"its marks stay: {again}" in done.stderr
    assert run("index", "p.features", "-o", "p.index").exit_code == 0
    assert run("check", "p.index").stdout == "p.index is sound: 6 items, 1 mark or label, 0 lessons\n"


@pytest.mark.parametrize("name", ["raw.npy", "model.likewise", "items.json"])
def test_an_index_of_a_library_is_built_again_around_its_marks(run: Any, home: Path, name: str) -> None:
    update_library("photos", labels="none", extractor="pixels")
    Teacher(load_index("photos.index"), Feedback("photos.index")).label([3], "odd", "ann")
    _change(next(home.glob(f"photos.index/*/{name}")), 200)
    done = run("check", "photos.index", "--repair")
    assert done.exit_code == 0
    assert done.stdout == (
        f"repaired: built again from {home / 'photos'} and photos.features, without a model\n"
        "photos.index is sound: 6 items, 1 mark or label, 0 lessons\n"
    )
    (home / "photos.features").rename(home / "elsewhere")
    _change(next(home.glob(f"photos.index/*/{name}")), 200)
    shutil.rmtree(sorted(home.glob("photos.index/version-*"), key=lambda path: path.stat().st_mtime_ns)[0])
    assert "its marks stay: likewise serve" in run("check", "photos.index", "--repair").stderr


def test_missing_pictures_and_parked_steps_are_said(run: Any, home: Path) -> None:
    (home / "photos" / "1" / "1.png").unlink()
    done = run("check", "p.index")
    assert done.exit_code == 1
    missing = home / "photos" / "1" / "1.png"
    assert f"1 picture missing, such as {missing}; --root DIR of search and serve" in done.stdout
    for words in (("features", "photos", "-o", "p.features", "-e", "pixels"), ("index", "p.features", "-o", "p.index")):
        assert run(*words).exit_code == 0
    done = run("check", "p.index")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[1:] == [
        "1 step about items that are not in the index, which --place OLD NEW places:", "  1/1.png: label odd by ann",
    ]  # fmt: skip
    done = run("check", "p.index", "--place", "1/1.png", "1/3.png")
    assert done.stdout.splitlines()[0] == "repaired: 1 step about 1/1.png now about 1/3.png"
    labels = load_index("p.index").labels
    assert labels is not None
    assert labels[load_index("p.index").rows_of(["1/3.png"])[0]] == "odd"
    assert run("check", "p.index", "--place", "1/1.png", "none").exit_code == 2


def test_damaged_rows_of_features_are_computed_again(run: Any, home: Path) -> None:
    before = np.array(FeatureStore.open("p.features").features)
    file = FeatureStore.open("p.features").version / FEATURES
    _change(file)
    done = run("check", "p.features")
    assert done.exit_code == 1
    assert done.stdout == (
        f"damaged: 6 rows of {file} from row 0 on are damaged; likewise check p.features --repair, then likewise "
        "features, compute them again\n"
    )
    done = run("check", "p.features", "--repair")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (
        1, f"repaired: likewise features {home / 'photos'} -o p.features computes 6 rows again",
    )  # fmt: skip
    assert run("features", "photos", "-o", "p.features", "-e", "pixels").exit_code == 0
    assert run("check", "p.features").exit_code == 0
    np.testing.assert_array_equal(FeatureStore.open("p.features").features, before)
    _change(FeatureStore.open("p.features").version / ITEMS, -60)
    assert run("check", "p.features").exit_code == 1


def test_a_model_is_checked_and_other_files_are_refused(run: Any, home: Path) -> None:
    model = next(home.glob("p.index/*/model.likewise"))
    assert run("check", model).stdout == f"{model} is sound\n"
    _change(model)
    assert run("check", model).exit_code == 1
    done = run("check", "photos/1/1.png")
    assert (done.exit_code, done.stderr) == (
        2, "likewise: error: photos/1/1.png is something else: expected an index, features or a model\n",
    )  # fmt: skip
    done = run("check", model, "--place", "a", "b")
    assert done.stderr == f"likewise: error: --place is for an index, and {model} is not one\n"
    (home / "plain").mkdir()
    np.save(home / "plain" / "features.npy", np.eye(3))
    assert "expected features that likewise features wrote" in run("check", "plain").stderr


def test_a_backup_is_written_and_restored(run: Any, home: Path) -> None:
    assert run("backup", "p.index", "-o", "b.zip").stdout == "b.zip: 1 mark or label, 0 lessons\n"
    shutil.rmtree(home / "p.index")
    assert run("index", "p.features", "-o", "p.index").exit_code == 0
    done = run("restore", "b.zip", "p.index")
    assert done.stdout == "p.index: 1 mark or label, 0 lessons\n"
    assert f"settings of the index before: root={home / 'photos'}" in done.stderr
    assert run("check", "p.index").stdout == "p.index is sound: 6 items, 1 mark or label, 0 lessons\n"
