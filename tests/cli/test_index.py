"""`likewise index`: a folder that can be searched, and exports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.rivals import LDA, Cosine, Euclid
from likewise.rows import FeatureStore, read_table
from likewise.teach import load_index


@pytest.fixture
def model(files: Path, tmp_path: Path) -> Path:
    table = read_table(files / "train.npz")
    return LDA(shrinkage=0.1).fit(table.X, table.y).save(tmp_path / "m.likewise")


def test_a_table_becomes_an_index_of_the_same_rows(run: Any, files: Path, model: Path, tmp_path: Path) -> None:
    result = run("index", model, files / "test.csv", "-o", tmp_path / "t.index")
    assert result.exit_code == 0, result.stderr
    assert "200 items × 64 features → 9, 10 labels" in result.stdout
    assert "search it by --id or --row, not by picture" in result.stderr
    loaded = load_index(tmp_path / "t.index")
    np.testing.assert_allclose(loaded.raw, read_table(files / "test.npz").X, atol=1e-5)
    assert loaded.labels is not None
    assert loaded.labels[0].startswith("digit ")


def test_labels_of_their_own_file_approximate_search_and_exports(
    run: Any, files: Path, model: Path, tmp_path: Path
) -> None:
    pytest.importorskip("faiss")
    words = ["--labels", files / "test.txt", "--approximate", "hnsw", "--json"]
    exports = [word for end in ("faiss", "npz", "onnx") for word in ("--export", tmp_path / f"a.{end}")]
    result = run("index", model, files / "test.npy", "-o", tmp_path / "t.index", *words, *exports)
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert (summary["n_labels"], summary["approximate"]) == (10, "hnsw")
    assert 0.9 < summary["recall"] <= 1
    assert all((tmp_path / f"a.{end}").stat().st_size > 100 for end in ("faiss", "npz", "onnx"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--approximate", "tree"], "--approximate tree: expected hnsw, ivf, ivfpq or auto"),
        (["--neighbors", "-3"], "--neighbors -3: expected auto, a number of neighbours, or 0 for none"),
        (["--export", "a.xls"], "a.xls ends with .xls; expected .parquet, .arrow, .faiss, .npz or .onnx"),
    ],
)
def test_a_wrong_option_is_one_sentence_and_exits_with_2(
    run: Any, files: Path, model: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    result = run("index", model, files / "test.npz", "-o", tmp_path / "t.index", *words)
    assert (result.exit_code, message in result.stderr) == (2, True)


@pytest.mark.parametrize(("word", "k"), [("0", 0), ("7", 7), ("auto", None)])
def test_neighbours_are_chosen_given_or_left_out(
    run: Any, files: Path, model: Path, tmp_path: Path, word: str, k: int | None
) -> None:
    result = run("index", model, files / "test.npz", "-o", tmp_path / "t.index", "--neighbors", word, "--json")
    assert result.exit_code == 0, result.stderr
    neighbors = json.loads(result.stdout)["neighbors"]
    assert neighbors == (0 if (loaded := load_index(tmp_path / "t.index").neighbors) is None else loaded.k)
    assert neighbors in ((0, 5, 10, 20) if k is None else (k,))
    text = run("index", model, files / "test.npz", "-o", tmp_path / "t.index", "--neighbors", word).stdout
    assert ("nearest neighbours" in text) == bool(neighbors)


def test_by_default_an_index_is_that_of_python_and_is_searched_by_the_query_side_alone(
    run: Any, files: Path, model: Path, tmp_path: Path
) -> None:
    from likewise.search import Index

    assert run("index", model, files / "test.npz", "-o", tmp_path / "t.index").exit_code == 0
    index, X = load_index(tmp_path / "t.index"), read_table(files / "train.npz").X[:20]
    assert (index.vectors == Index.build(index.model, files / "test.npz").vectors).all()
    best = np.argsort(-index.model.transform_query(X) @ index.vectors.T, axis=1)[:, 0]
    assert index.search(X, k=1).rows[:, 0].tolist() == best.tolist()


def test_neighbours_of_a_model_that_is_not_a_cosine_are_one_sentence(run: Any, files: Path, tmp_path: Path) -> None:
    table = read_table(files / "train.npz")
    model = Euclid().fit(table.X, table.y).save(tmp_path / "e.likewise")
    words = ["index", model, files / "test.npz", "-o", tmp_path / "t.index"]
    result = run(*words, "--neighbors", "5")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "n_neighbors=5 needs vectors of unit length" in result.stderr
    assert run(*words).exit_code == 0


def test_a_gallery_of_another_width_is_one_sentence(run: Any, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "narrow.npy", np.ones((4, 3)))
    result = run("index", model, tmp_path / "narrow.npy", "-o", tmp_path / "t.index")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "t.index").exists()


def test_without_a_model_items_are_ranked_by_their_cosine(run: Any, files: Path, tmp_path: Path) -> None:
    result = run("index", files / "test.npz", "-o", tmp_path / "t.index", "--neighbors", 0)
    assert result.exit_code == 0, result.stderr
    assert "no model: items are ranked by the cosine of their features; teach it on the page" in result.stderr
    index = load_index(tmp_path / "t.index")
    assert type(index.model) is Cosine
    learned, raw = (index.search(rows=[3, 7], space=space) for space in ("learned", "raw"))
    np.testing.assert_array_equal(learned.rows, raw.rows)
    np.testing.assert_allclose(learned.scores, raw.scores, atol=1e-5)


def test_a_feature_store_needs_no_model_either(run: Any, files: Path, tmp_path: Path) -> None:
    table = read_table(files / "test.npz")
    FeatureStore.write(tmp_path / "t.features", table.X, table.y)
    assert run("index", tmp_path / "t.features", "-o", tmp_path / "t.index").exit_code == 0
    assert load_index(tmp_path / "t.index").labels is not None


def test_model_and_gallery_may_be_swapped(run: Any, files: Path, model: Path, tmp_path: Path) -> None:
    for name, words in (("a", (model, files / "test.npz")), ("b", (files / "test.npz", model))):
        assert run("index", *words, "-o", tmp_path / name).exit_code == 0
    a, b = (load_index(tmp_path / name) for name in "ab")
    np.testing.assert_array_equal(a.vectors, b.vectors)


def test_a_model_alone_is_one_sentence(run: Any, model: Path, tmp_path: Path) -> None:
    result = run("index", model, "-o", tmp_path / "t.index")
    assert (result.exit_code, result.stderr) == (
        2, f"likewise: error: no gallery: expected likewise index {model} GALLERY -o NAME.index\n"
    )  # fmt: skip


def test_the_steps_of_a_large_index_are_removed_when_it_is_written(
    run: Any, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likewise.cli.index.RESUMABLE_FROM", 100)
    words = ("index", files / "test.npz", "-o", tmp_path / "t.index", "--approximate", "ivf", "--neighbors", "0")
    result = run(*words)
    assert result.exit_code == 0
    assert "bytes per item" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["t.index"]


def test_an_update_says_what_is_new_changed_and_gone_and_is_taken_back(run: Any, model: Path, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    X = np.random.default_rng(0).normal(size=(60, 64)).astype(np.float32)
    frame = pd.DataFrame({"sku": [f"sku-{row}" for row in range(60)], "vector": list(X), "price": range(60)})
    rows, folder = tmp_path / "rows.parquet", tmp_path / "live.index"
    words = ("index", model, rows, "-o", folder, "--update")
    frame[:50].to_parquet(rows)
    assert run(*words, "--id", "sku").exit_code == 0  # there is nothing to update yet
    changed = frame[5:].copy()
    changed.iloc[0, 2] = 1000
    changed.to_parquet(rows)
    result = run(*words)  # the column of the ids is that of the index
    assert "10 new, 1 changed, 5 gone; 10 rows embedded" in result.stdout, result.stderr
    version = (folder / "CURRENT").read_text()
    assert json.loads(run(*words, "--json").stdout)["changes"]["embedded"] == 0
    assert (folder / "CURRENT").read_text() == version
    assert "what it was before the last write: 50 items" in run("index", folder, "--rollback").stdout
    assert len(load_index(folder)) == 50
    assert "--rollback takes an index alone" in run("index", folder, "--rollback", "-o", folder).stderr
    assert "--output is missing" in run("index", model, rows).stderr


def test_invalid_rows_are_named_or_left_out_of_a_model_and_an_index(run: Any, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    X = np.random.default_rng(0).normal(size=(60, 4)) + 3 * (np.arange(60) % 3)[:, None]
    X[[7, 9]] = np.nan
    columns = {"id": [f"a{row}" for row in range(60)], "label": np.arange(60) % 3, "vector": list(X)}
    pq.write_table(pa.table({**columns, "price": list(range(60))}), data := tmp_path / "rows.parquet")
    model, folder = tmp_path / "m.likewise", tmp_path / "t.index"
    for words in (["fit", data, "--method", "slr", "-o", model], ["index", data, "-o", folder]):
        refused = run(*words, "--features", "vector")
        assert refused.exit_code == 2
        assert f"{data}: 2 of 60 rows have NaN or infinity (a7, a9); --drop-invalid leaves them out" in refused.stderr
        done = run(*words, "--features", "vector", "--drop-invalid")
        assert done.exit_code == 0, done.stderr
        assert f"{data}: 2 of 60 rows have NaN or infinity (a7, a9) and are left out" in done.stderr
    index = load_index(folder)
    assert len(index) == 58
    assert index.metadata.rows([7]) == [{"price": 8}]
