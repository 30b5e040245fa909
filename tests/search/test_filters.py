"""Ids and metadata from a file to the index and back, and searches that rank only what passes a condition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.documents import N, columns, embeddings, write_parquet

from likewise.errors import LikewiseError
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.search.exports import export
from likewise.search.filters import rows_where
from likewise.search.items import ItemColumns, as_items
from likewise.teach import Feedback, Teacher, load_index

pytest.importorskip("pyarrow")
X = embeddings()
WHERE = 'price < 60 and topic in ["space", "cars"]'
PASS = [row for row in range(40) if row % 7 != 3 and row % 3 < 2]  # 1.5 · row is below 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documents, indexed from their Parquet file."""
    made = tmp_path_factory.mktemp("documents")
    index = Index.build(Cosine().fit(X), write_parquet(made / "docs.parquet"))
    return index.save(made / "docs.index")


def expected(scores: np.ndarray, rows: list[int], k: int) -> list[int]:
    return sorted(rows, key=lambda row: (-scores[row], row))[:k]


def test_ids_labels_and_metadata_come_back_from_the_folder(folder: Path) -> None:
    index = load_index(folder)
    assert index.ids.tolist() == columns()["id"]
    assert list(index.labels) == columns()["topic"]
    assert index.paths is None
    assert index.metadata.table.to_pydict() == {name: c for name, c in columns().items() if name != "id"}
    assert index.identities.keys[8] == "doc-7108"


def test_an_index_saved_over_itself_keeps_its_metadata(tmp_path: Path) -> None:
    index = Index.build(Cosine().fit(X), X[:2], {"price": [1, 2]})
    index = load_index(index.save(tmp_path / "i"))  # its metadata is mapped from the version that is replaced
    index.save(tmp_path / "i")
    assert index.metadata.rows([1]) == load_index(tmp_path / "i").metadata.rows([1]) == [{"price": 2}]


def test_rows_that_come_and_go_take_their_metadata_along(folder: Path) -> None:
    index = load_index(folder)
    index = index.minus(["doc-7100", "doc-7102"])
    index = index.plus(X[:1], {"id": ["new"], "price": [3.5], "colour": ["red"]})
    assert index.metadata.rows([0], ["title"]) == [{"title": "Title 1"}]
    last = index.metadata.rows([len(index) - 1])[0]
    assert (last["price"], last["colour"], last["title"]) == (3.5, "red", None)
    assert index.search(X[:1], k=5, where="colour == 'red'").ids.tolist() == [["new"]]


@pytest.mark.parametrize("kind", ["exact", "hnsw", "numpy", "smoothed", "taught"])
def test_the_filter_is_applied_before_ranking(folder: Path, kind: str, monkeypatch: Any) -> None:
    if kind == "numpy":
        monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    if kind == "hnsw":
        pytest.importorskip("faiss")
    index = load_index(folder)
    if kind in ("hnsw", "smoothed"):
        options: dict[str, Any] = {"approximate": "hnsw"} if kind == "hnsw" else {"n_neighbors": 5}
        index = Index.build(index.model, X, index.items, **options)
    if kind == "taught":
        teacher = Teacher(index)
        teacher.mark("doc-7108", ["doc-7111", "doc-7114"], True)
        teacher.mark("doc-7108", ["doc-7109"], False)
        index = teacher.learn().index
    Q = index.space().embed(X[:4] + 0.1)
    for k in (1, 5, N):
        rows, scores = index.space().rank(Q, k, rows_where(index.items, WHERE))
        S = Q.astype(np.float64) @ index.vectors.T.astype(np.float64)
        assert rows.tolist() == [expected(s, PASS, k) for s in S]
        np.testing.assert_allclose(scores, np.take_along_axis(S, rows, axis=1), atol=1e-6)


def test_search_by_rows_by_raw_features_and_with_a_mask(folder: Path) -> None:
    index = load_index(folder)
    ids = index.search(X[:2], k=3, where=WHERE).ids
    mask = np.zeros(N, bool)
    mask[PASS] = True
    np.testing.assert_array_equal(ids, index.search(X[:2], k=3, where=mask).ids)
    np.testing.assert_array_equal(ids, index.ids[index.search(X[:2], k=3, space="raw", where=WHERE).rows])
    own = PASS[0]
    rows = index.search(rows=[own], k=N, where=WHERE).rows
    assert sorted(rows[0].tolist()) == [row for row in PASS if row != own]
    outside = next(row for row in range(N) if row not in PASS)
    assert sorted(index.search(rows=[outside], k=N, where=WHERE).rows[0].tolist()) == PASS
    hits = index.search(rows=[own, outside], k=N, where=WHERE)
    both, scores = hits.rows, hits.scores  # one list is shorter by the query itself
    assert both[0, -1] == -1
    assert np.isneginf(scores[0, -1])
    assert index.search(X[:2], k=3, where="price < 0").ids.shape == (2, 0)
    assert index.search(rows=[0], k=3, space="raw", where="price < 0").rows.shape == (1, 0)


def test_id_label_and_path_are_columns_and_labels_those_of_today(folder: Path) -> None:
    index = load_index(folder)
    labels = [None] * N
    labels[4], labels[5] = "new", 3
    index = index.with_labels(labels)
    assert list(ItemColumns(index.items))[:3] == ["id", "label", "title"]
    for where, rows in (
        ("label == 'new'", [4]),
        ("label == 3", [5]),
        ("id endswith '08'", [8]),
        ("label is null", None),
    ):
        assert rows_where(index.items, where).tolist() == (rows or [row for row in range(N) if row not in (4, 5)])
    items = as_items({"id": [1, 2], "path": ["a.png", "\udcff.png"]}, 2)
    assert rows_where(items, "id >= 2 and path endswith 'png'").tolist() == [1]


def test_wrong_conditions_get_a_sentence(folder: Path) -> None:
    index = load_index(folder)
    with pytest.raises(LikewiseError, match="no column 'prize'; the columns are id, label, title, text, topic, price"):
        index.search(X[:1], where="prize < 3")
    with pytest.raises(LikewiseError, match=rf"where has shape \(3,\) and type bool; expected {N} booleans"):
        index.search(X[:1], where=np.ones(3, bool))


def test_the_journal_names_the_ids(folder: Path) -> None:
    teacher = Teacher(load_index(folder), Feedback(folder))
    teacher.mark("doc-7108", "doc-7111", True)
    event = Feedback(folder).events()[-1]
    assert (event.queries[0].id, event.items[0].id) == ("doc-7108", "doc-7111")  # type: ignore[union-attr]
    teacher.undo()


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_an_export_has_the_ids_and_all_metadata_in_their_types(folder: Path, tmp_path: Path, ending: str) -> None:
    index = load_index(folder)
    path = export(index, tmp_path / f"out.{ending}")
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(path) if ending == "parquet" else pa.ipc.open_file(path).read_all()
    found = table.to_pydict()
    assert found["id"] == columns()["id"]
    assert {name: found[name] for name in index.metadata.names} == index.metadata.table.to_pydict()
    if ending == "parquet":  # and back again
        again = Index.build(index.model, path)
        assert again.metadata.table.to_pydict() == index.metadata.table.to_pydict()
        assert again.ids.tolist() == index.ids.tolist()


def test_items_of_a_data_frame_keep_their_other_columns() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"id": ["a", "b"], "label": ["x", "y"], "price": [1.0, float("nan")]})
    index = Index.build(Cosine().fit(X), X[:2], frame)
    assert index.metadata.rows([0, 1]) == [{"price": 1.0}, {"price": None}]
    with pytest.raises(LikewiseError, match="items has 3 rows of metadata; expected 2, one per row of the gallery"):
        Index.build(Cosine().fit(X), X[:2], {"price": [1, 2, 3]})
