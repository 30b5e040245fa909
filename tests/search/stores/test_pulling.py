"""Rows of a store in a file that `likewise fit` reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.rows import read_table
from likewise.search.stores import Layout, Store, pull

Opened = Callable[[], Store]
N = 50
LAYOUT = Layout(3, "text", {"label": "text", "price": "int"})


@pytest.fixture
def filled(opened: Opened) -> Store:
    store = opened()
    store.create(LAYOUT)
    V = np.arange(N * 3, dtype=np.float32).reshape(N, 3)
    labels = [None if row % 9 == 0 else f"topic {row % 4}" for row in range(N)]
    store.upsert([f"doc {row}" for row in range(N)], V, {"label": labels, "price": list(range(N))})
    return store


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_a_table_is_read_as_it_was_written(filled: Store, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    assert pull(filled, path) == N
    table = read_table(path, label_column="label", features="vector" if suffix == ".parquet" else "X")
    order = np.argsort(np.asarray(table.X)[:, 0])
    np.testing.assert_array_equal(np.asarray(table.X)[order].ravel(), np.arange(N * 3))
    labels = np.asarray(table.y, dtype=object)[order]
    assert labels[1] == "topic 1"
    assert not labels[9]


def test_other_columns_keep_their_kind(filled: Store, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pull(filled, tmp_path / "rows.parquet")
    result = parquet.read_table(tmp_path / "rows.parquet").sort_by("price")
    assert result.column_names == ["id", "vector", "label", "price"]
    assert result["id"].to_pylist() == [f"doc {row}" for row in range(N)]
    assert result["price"].to_pylist() == list(range(N))


def test_what_cannot_be_pulled_is_said(opened: Opened, tmp_path: Path) -> None:
    store = opened()
    with pytest.raises(LikewiseError, match=r"rows\.csv ends with \.csv; expected \.parquet or \.npz"):
        pull(store, tmp_path / "rows.csv")
    with pytest.raises(LikewiseError, match="there is no table"):
        pull(store, tmp_path / "rows.npz")
    store.create(LAYOUT)
    with pytest.raises(LikewiseError, match="is empty"):
        pull(store, tmp_path / "rows.npz")
    assert not list(tmp_path.glob("rows*"))
