"""Tables from .npy, .npz and Parquet files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.rows import read_table

X = np.array([[1.5, -2.0, 0.25], [3.0, 4.0, 5.0], [6.0, 7.5, 8.0], [0.0, 1.0, 2.0]])


Y = np.array(["cat", "dog", "cat", "dog"])


def test_npy_stays_on_the_disk(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    assert isinstance(read_table(tmp_path / "X.npy").X, np.memmap)


@pytest.mark.parametrize(
    "keys", [("X", "y"), ("features", "labels"), ("embeddings", "label"), ("train", "classes"), ("x", "target")]
)
def test_npz_keys_are_found(keys: tuple[str, str], tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", **{keys[0]: X, keys[1]: Y})
    table = read_table(tmp_path / "d.npz")
    assert np.array_equal(table.X, X)
    assert table.y is not None
    assert table.y.tolist() == Y.tolist()


def test_npz_keys_can_be_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x_train=X, x_test=X[:2], y_train=Y, y_test=Y[:2])
    table = read_table(tmp_path / "d.npz", features="x_test", label_column="y_test")
    assert table.X.shape == (2, 3)
    with pytest.raises(LikewiseError) as caught:
        read_table(tmp_path / "d.npz")
    listed = "x_train (2-D), x_test (2-D), y_train (1-D), y_test (1-D)"
    assert str(caught.value) == f"{tmp_path / 'd.npz'} holds {listed}: name the key of the features with --features"
    with pytest.raises(LikewiseError, match=r"has no key 'z': it holds x_train"):
        read_table(tmp_path / "d.npz", features="z")


def test_sparse_npz_stays_sparse(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "d.npz", sp.csc_array(X))
    (tmp_path / "y.txt").write_text("\n".join(Y))
    table = read_table(tmp_path / "d.npz", labels=tmp_path / "y.txt")
    assert sp.issparse(table.X)
    assert table.X.format == "csr"
    assert np.array_equal(table.X.toarray(), X)


def test_pictures_are_flattened_with_a_remark(tmp_path: Path) -> None:
    np.save(tmp_path / "d.npy", np.zeros((5, 4, 3), dtype=np.uint8))
    table = read_table(tmp_path / "d.npy")
    assert table.X.shape == (5, 12)
    assert "(5, 4, 3): each example was flattened to one row" in table.notes[0]


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros(5), "has shape (5,): expected a matrix with one row per example"),
        (np.zeros((0, 3)), "is empty: its shape is (0, 3)"),
        (np.zeros((2, 2), dtype=complex), "has dtype complex128: expected real numbers"),
        (np.array([["a", "b"]]), "has dtype <U1: expected real numbers"),
    ],
)
def test_npy_that_is_no_matrix_gets_a_sentence(array: np.ndarray, sentence: str, tmp_path: Path) -> None:
    np.save(tmp_path / "d.npy", array)
    with pytest.raises(LikewiseError) as caught:
        read_table(tmp_path / "d.npy")
    assert str(caught.value) == f"{tmp_path / 'd.npy'} {sentence}"


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X=X, y=np.array(["a", 1, None, 2.0], dtype=object))
    with pytest.raises(LikewiseError, match="holds pickled objects, which can run code"):
        read_table(tmp_path / "d.npz")


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
