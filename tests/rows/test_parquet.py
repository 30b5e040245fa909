"""Vectors in a Parquet file: the same model and index as from memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from likewise import SLR, SimilarityLearner, open_rows
from likewise.errors import FileFormatError, LikewiseError
from likewise.rows.parquet import streamed_parquet
from likewise.search import Index

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N, D, GROUP = 700, 6, 128
rng = np.random.default_rng(0)
y = rng.integers(0, 4, N)
X = (2 * rng.normal(size=(4, D))[y] + rng.normal(size=(N, D))).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six row groups, the last of them shorter."""
    path = tmp_path_factory.mktemp("parquet") / "rows.parquet"
    columns = {"id": [f"doc-{row}" for row in range(N)], "embedding": list(X), "topic": y, "price": np.arange(N) / 2}
    pq.write_table(pa.table(columns), path, row_group_size=GROUP)
    return path


def test_the_rows_are_those_of_the_file_in_their_order(path: Path) -> None:
    rows = streamed_parquet(path, "embedding").X
    assert isinstance(rows, np.memmap)
    np.testing.assert_array_equal(rows, X)


@pytest.mark.parametrize("model", [SLR(rank=3, random_state=0), SimilarityLearner(kernel="linear", random_state=0)])
def test_a_model_is_that_of_rows_in_memory(path: Path, model: SLR) -> None:
    table = streamed_parquet(path, label="topic")
    assert open_rows(table).where == open_rows(path, y).where == "disk"
    result, expected = (model.fit(*passed).transform(X) for passed in ((table,), (X, y)))
    np.testing.assert_allclose(result @ result.T, expected @ expected.T, rtol=2e-3, atol=2e-3)


def test_an_index_is_that_of_rows_in_memory(path: Path) -> None:
    model = SLR(rank=3, random_state=0).fit(X, y)
    index, expected = Index.build(model, streamed_parquet(path, label="topic")), Index.build(model, X, {"label": y})
    np.testing.assert_array_equal(index.vectors, expected.vectors)
    assert index.labels.tolist() == y.tolist()
    assert index.ids[:2].tolist() == ["doc-0", "doc-1"]
    assert index.metadata.rows([3]) == [{"price": 1.5, "topic": y[3]}]


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float16()), pa.list_(pa.float32(), D)])
def test_lists_of_any_kind_are_read(tmp_path: Path, kind: object) -> None:
    rows = pa.array([row.astype(np.float16) for row in X[:9]], kind)
    pq.write_table(pa.table({"v": rows}), tmp_path / "a.parquet")
    result = streamed_parquet(tmp_path / "a.parquet", vector="v")
    np.testing.assert_array_equal(result.X, X[:9].astype(np.float16))
    assert result.y is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, 2.0], [1.0]], r"row 2 of .*a\.parquet has 1 numbers in 'embedding': expected 2"),
        ([[1.0, 2.0], None], r"row 2 of .*a\.parquet has no embedding: expected a list of numbers"),
        (
            pa.array([[]], pa.list_(pa.float32())),
            r"row 1 of .*a\.parquet has no numbers in 'embedding': expected a list of numbers",
        ),
        (["a"], r"column 'embedding' of .*a\.parquet is string: expected lists of numbers"),
        ([["a"]], r"column 'embedding' of .*a\.parquet is list<.*string>: expected lists of numbers"),
        ([], r"a\.parquet is empty: it has columns and no rows"),
    ],
)
def test_a_column_that_holds_no_vectors_is_said(tmp_path: Path, values: object, message: str) -> None:
    pq.write_table(pa.table({"embedding": values}), tmp_path / "a.parquet")
    with pytest.raises(LikewiseError, match=message):
        streamed_parquet(tmp_path / "a.parquet", "embedding")


def test_a_file_or_a_column_that_is_not_there_is_said(tmp_path: Path, path: Path) -> None:
    (tmp_path / "text.parquet").write_text("no Parquet")
    with pytest.raises(FileFormatError, match=r"text\.parquet is not a Parquet file, or it is damaged"):
        streamed_parquet(tmp_path / "text.parquet")
    with pytest.raises(LikewiseError, match=r"none\.parquet does not exist"):
        streamed_parquet(tmp_path / "none.parquet")
    with pytest.raises(LikewiseError, match=r"has no column 'vector': its columns are id, embedding, topic, price"):
        streamed_parquet(path, vector="vector")
    with pytest.raises(LikewiseError, match="has no column 'class'"):
        streamed_parquet(path, label="class")
