"""Parquet files: embeddings or numeric columns, and a sentence for everything else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.tables import read_table

X = np.array([[1.5, -2.0, 0.25], [3.0, 4.0, 5.0], [6.0, 7.5, 8.0], [0.0, 1.0, 2.0]])


def test_numeric_columns_of_parquet_are_features(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"w": [1, 2], "h": [0.5, 1.5], "label": [7, 8], "path": ["a", "b"], "remark": ["x", "y"]}
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    table = read_table(tmp_path / "d.parquet")
    assert table.X.tolist() == [[1, 0.5], [2, 1.5]]
    assert table.y is not None
    assert table.y.tolist() == [7, 8]
    assert table.names == ["a", "b"]
    assert table.notes == [f"{tmp_path / 'd.parquet'}: not used as features: remark"]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"embedding": [[1.0, 2.0], [1.0]]}, "row 2 of {} has 1 numbers in 'embedding': expected 2"),
        ({"embedding": [[1.0, 2.0], None]}, "row 2 of {} has no embedding: expected a list of numbers"),
        ({"a": [[1.0]], "b": [[2.0]]}, "{} has the embedding columns a, b: name one with --features"),
        ({"name2": ["x"]}, "{} has no embedding column and no numeric one: it has name2"),
        ({"w": []}, "{} is empty: it has columns and no rows"),
    ],
)
def test_malformed_parquet_gets_a_sentence(columns: dict[str, list], sentence: str, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(LikewiseError) as caught:
        read_table(path)
    assert str(caught.value) == sentence.format(path)


def test_a_chosen_parquet_column_is_read_in_its_own_precision(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel(), pa.float32()), 3)
    pq.write_table(pa.table({"a": X.tolist(), "b": fixed}), tmp_path / "d.parquet")
    table = read_table(tmp_path / "d.parquet", features="b")
    assert table.X.dtype == np.float32
    assert np.array_equal(table.X, X.astype(np.float32))


def test_missing_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(LikewiseError, match=r"needs the extra 'parquet': pip install 'likewise\[parquet\]'"):
        read_table(tmp_path / "d.parquet")
