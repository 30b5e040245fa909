"""What a path is, the rows of a verb, and `likewise fit --relevance`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.preprocessing import normalize
from tests.planted import planted

from likewise import SLR, RelevanceLearner, load
from likewise.cli.fit import training_rows
from likewise.cli.options import kind_of, load_table
from likewise.errors import LikewiseError
from likewise.learn.engines import Rows
from likewise.learn.model_file import read_tensors
from likewise.rivals import LDA, Cosine
from likewise.rows import FeatureStore
from likewise.rows.relevance import Relevance
from likewise.search import Index

X, Y = planted(60, 5, 3)


@pytest.fixture
def store(tmp_path: Path) -> str:
    labels = np.where(np.arange(60) % 6 == 0, "", Y.astype(str))
    return str(FeatureStore.write(tmp_path / "x.features", X, labels).path)


def test_a_store_is_opened_on_disk_and_its_unlabelled_rows_are_noted(store: str, capsys: pytest.CaptureFixture) -> None:
    table = load_table(store)
    rows = training_rows(SLR(), table, "1MB")
    (opened,) = rows.arguments.values()
    assert isinstance(opened, Rows)
    assert (opened.where, opened.memory_limit, rows.shape, rows.n_classes) == ("disk", 1_000_000, (50, 5), 3)
    assert "10 of 60 rows have no label and are left out" in capsys.readouterr().err


def test_a_gaussian_sketch_has_its_rows_in_memory(store: str) -> None:
    rows = training_rows(SLR(compress="gaussian", compress_size=20), load_table(store))
    assert rows.arguments["X"].where == "memory"


def test_other_methods_get_arrays(store: str) -> None:
    rows = training_rows(LDA(), load_table(store))
    assert (*(np.shape(part) for part in rows.arguments.values()), rows.n_classes) == ((50, 5), (50,), 3)
    with pytest.raises(LikewiseError, match=r"--dask is for a \.npy file or a folder of features"):
        training_rows(LDA(), load_table(store), dask="tcp://127.0.0.1:1")


@pytest.fixture
def sides(tmp_path: Path) -> Path:
    """Named queries and items of different widths, and grades of a third of their pairs."""
    rng = np.random.default_rng(0)
    Q, G = rng.standard_normal((30, 5)), rng.standard_normal((40, 4))
    S = Q @ rng.standard_normal((5, 2)) @ rng.standard_normal((2, 4)) @ G.T
    np.savez(tmp_path / "queries.npz", X=Q, names=[f"q{i}" for i in range(30)])
    np.savez(tmp_path / "items.npz", X=G, names=[f"item {i}" for i in range(40)])
    judged = rng.random(S.shape) < 0.3
    lines = [f"q{i},item {j},{float(S[i, j])!r}" for i, j in zip(*np.nonzero(judged), strict=True)]
    (tmp_path / "grades.csv").write_text("\n".join(["query,item,grade", *lines]) + "\n")
    np.savez(tmp_path / "truth.npz", Q=Q, G=G, S=S, known=judged)
    return tmp_path


def test_two_sides_from_files(run: Any, sides: Path) -> None:
    out = sides / "m.likewise"
    words = ("fit", sides / "queries.npz", "--relevance", sides / "grades.csv", "--gallery", sides / "items.npz")
    result = run(*words, "-o", out, "--json")
    assert result.exit_code == 0, result.stderr
    truth = np.load(sides / "truth.npz")
    judged = truth["known"]
    relevance = Relevance.from_triples(*np.nonzero(judged), truth["S"][judged], shape=judged.shape)
    direct = RelevanceLearner().fit(truth["Q"], relevance, gallery=truth["G"])
    scores = load(out).similarity(truth["Q"], truth["G"])
    np.testing.assert_allclose(scores, direct.similarity(truth["Q"], truth["G"]), atol=1e-8)
    summary = json.loads(result.stdout)
    assert (summary["method"], summary["pairs"], summary["classes"]) == ("relevance", int(judged.sum()), None)
    text = run(*words, "-o", out)
    assert f"relevance on 30 rows, 5 columns, {int(judged.sum()):,} known pairs" in text.stdout


def test_links_teach_one_set_and_the_index_stays(run: Any, files: Path, tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text("a,b,link\n0,1,must\n0,2,cannot\n")
    options = ("--relevance", tmp_path / "links.csv", "--side", "query")
    result = run("fit", files / "train.npz", *options, "-o", tmp_path / "m")
    assert result.exit_code == 0, result.stderr
    assert "no column of names: ids are row numbers" in result.stderr
    X = np.load(files / "train.npz")["X"]
    np.testing.assert_allclose(load(tmp_path / "m").transform(X), normalize(X))
    assert read_tensors(tmp_path / "m")[1]["parameters"]["side"] == "query"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--gallery", "items.npz"), "--gallery has a meaning only with --relevance"),
        (("--relevance", "grades.csv"), "item ids of the relevance match no row: 'item"),
        (("--relevance", "grades.csv", "--method", "anchored"), "--method anchored learns from labels: leave it out"),
        (("--method", "relevance"), "--method relevance needs --relevance: it learns from judgements"),
        (("--relevance", "none.csv"), "none.csv does not exist"),
        (("--half-life", 3), "--half-life has a meaning only with --relevance"),
        (("--relevance", "grades.csv", "--gallery", "items.npz", "--half-life", 3), "half_life=3.0 is for clicks"),
        (("--relevance", "grades.csv", "--gallery", "items.npz", "--rank", 3), "--rank has no meaning for the method"),
    ],
)
def test_bad_wishes_get_a_sentence(run: Any, sides: Path, words: tuple[str, ...], message: str) -> None:
    placed = [sides / word if "." in str(word) else word for word in words]
    result = run("fit", sides / "queries.npz", *placed, "-o", sides / "m")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


# ---------------------------------------------------------------------------------------------------------------------
# Kinds of paths


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each kind."""
    folder = tmp_path_factory.mktemp("kinds")
    X = np.random.default_rng(0).normal(size=(20, 4))
    (folder / "photos" / "2023").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(folder / "photos" / "2023" / "a.JPG", "JPEG")
    (folder / "empty").mkdir()
    FeatureStore.write(folder / "f.features", X, ["a", "b"] * 10)
    np.savez(folder / "t.npz", X=X, y=["a", "b"] * 10)
    Cosine().fit(X).save(folder / "m.likewise")
    Index.build(Cosine().fit(X), X).save(folder / "i.index")
    return folder


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("photos", "pictures"),
        ("f.features", "features"),
        ("t.npz", "table"),
        ("m.likewise", "model"),
        ("i.index", "index"),
        ("empty", None),
        ("photos/2023/a.JPG", None),
        ("missing.csv", None),
    ],
)
def test_the_kind_of_a_path_is_that_of_its_content(places: Path, name: str, kind: str | None) -> None:
    assert kind_of(places / name) == kind


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "photos", "-o", "x"],
        ["doctor", "photos"],
        ["compare", "photos"],
        ["evaluate", "m.likewise", "photos"],
        ["index", "photos", "-o", "x.index"],
        ["index", "m.likewise", "photos", "-o", "x.index"],
    ],
)
def test_pictures_in_place_of_rows_say_which_command_comes_first(
    run: Any, places: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(places)
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "likewise: error: photos is a folder of pictures, and a folder of features is expected: likewise features "
        "photos -o photos.features comes first; likewise photos/ does all of it\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["search", "m.likewise", "--row", "1"],
            "m.likewise is a model, and an index is expected: likewise index m.likewise FEATURES -o m.index makes one "
            "from it and features",
        ),
        (
            ["search", "f.features", "--row", "1"],
            "f.features is a folder of features, and an index is expected: likewise index f.features -o f.index makes "
            "one from it",
        ),
        (
            ["serve", "t.npz", "--no-browser"],
            "t.npz is a table, and an index is expected: likewise index t.npz -o t.index makes one from it",
        ),
        (
            ["fit", "i.index", "-o", "x"],
            "i.index is an index, and a folder of features is expected: likewise search i.index and likewise serve "
            "i.index open it",
        ),
        (
            ["evaluate", "f.features", "t.npz"],
            "f.features is a folder of features, and a model is expected: likewise fit f.features -o f.likewise makes "
            "one from it",
        ),
        (
            ["doctor", "m.likewise"],
            "m.likewise is a model, and a folder of features is expected: it was learned from features; give those, or "
            "a table",
        ),
    ],
)
def test_another_kind_than_expected_is_named_with_what_to_do(
    run: Any, places: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    monkeypatch.chdir(places)
    result = run(*words)
    assert (result.exit_code, result.stderr) == (2, f"likewise: error: {sentence}\n")
