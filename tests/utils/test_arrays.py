"""Arrays of other libraries, and dense ones."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise.errors import LikewiseError
from likewise.utils.arrays import check_magnitude, dense, in_memory, is_foreign, is_torch, to_host, top_k, unit_rows

X = np.arange(6.0).reshape(2, 3)


def test_sparse_matrices_become_dense_and_arrays_stay():
    np.testing.assert_array_equal(dense(sp.csr_array(X)), X)
    assert dense(X) is X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unit_rows_are_those_of_scikit_learn_bit_by_bit(dtype: type):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 33)).astype(dtype) * dtype(10) ** rng.integers(-20, 9, (200, 1)).astype(dtype)
    rows[3] = 0
    assert unit_rows(rows).dtype == dtype
    np.testing.assert_array_equal(unit_rows(rows), normalize(rows))


def test_what_is_on_the_host_already_stays_as_it_is():
    for passed in (X, [1, 2], None, sp.csr_array(X)):
        assert to_host(passed) is passed
        assert not is_foreign(passed)


def test_a_memmap_and_a_tensor_come_into_memory(tmp_path: Path):
    np.save(tmp_path / "x.npy", X)
    loaded = in_memory(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert type(loaded) is np.ndarray
    np.testing.assert_array_equal(loaded, X)
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(X)
    assert is_torch(tensor)
    assert is_foreign(tensor)
    np.testing.assert_array_equal(in_memory(tensor), X)


@pytest.mark.parametrize("scale", [1e160, 1e-160])
def test_values_whose_squares_leave_floating_point_are_refused(scale: float):
    with pytest.raises(LikewiseError, match=r"X has a largest absolute value of 1.0e[+-]160.*float64: multiply it"):
        check_magnitude(np.eye(2) * scale)
    check_magnitude(np.eye(2) * 1e90)
    check_magnitude(np.zeros((2, 2)))
    with pytest.raises(LikewiseError, match="float32"):
        check_magnitude(np.full((1, 1), 1e18, dtype=np.float32))


# -- Top-k equals a full sort, whatever k is


@pytest.mark.parametrize("k", [0, 1, 3, 19, 20, 50])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_the_full_sort(k, dtype):
    S = np.random.default_rng(0).permutation(200).reshape(10, 20).astype(dtype)
    np.testing.assert_array_equal(top_k(S, k), np.argsort(-S, axis=1)[:, :k])
    np.testing.assert_array_equal(np.sort(top_k(S, k, ordered=False)), np.sort(top_k(S, k)))


def test_equal_scores_are_ordered_by_column():
    S = np.array([[1.0, 2.0, 2.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(top_k(S, 5), [[1, 2, 4, 0, 3], [0, 1, 2, 3, 4]])


def test_one_row_of_scores_is_enough():
    np.testing.assert_array_equal(top_k(np.array([0.1, 0.9, -np.inf, 0.5]), 2), [1, 3])


def test_minus_infinity_comes_last():
    np.testing.assert_array_equal(top_k(np.array([[-np.inf, 0.0, -np.inf, 1.0]]), 3)[:, :2], [[3, 1]])


def _columns_of_vectors(X: np.ndarray) -> dict[str, Any]:
    columns: dict[str, Any] = {"objects": np.array([*X, None], dtype=object)[:-1]}
    if find_spec("pyarrow") is not None:
        import pyarrow as pa

        fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
        columns |= {"fixed": fixed, "list": pa.array(list(X)), "chunked": pa.chunked_array([fixed])}
    if find_spec("pandas") is not None:
        import pandas as pd

        columns["pandas"] = pd.Series(list(X), index=[f"a{row}" for row in range(len(X))])
    if find_spec("polars") is not None:
        import polars as pl

        columns |= {"polars": pl.Series(list(X)), "polars array": pl.Series(X, dtype=pl.Array(pl.Float32, X.shape[1]))}
    return columns


def test_a_column_of_vectors_is_a_matrix_everywhere() -> None:
    from likewise.rivals import LDA
    from likewise.search import Index

    y = np.arange(60) % 3
    X = (np.random.default_rng(0).normal(size=(60, 4)) + y[:, None]).astype(np.float32)
    model = LDA().fit(X, y)
    index = Index.build(model, X)
    for name, column in _columns_of_vectors(X).items():
        np.testing.assert_array_equal(to_host(column), X, err_msg=name)
        assert LDA().fit(column, y).identity == model.identity
        np.testing.assert_array_equal(model.transform_query(column), model.transform_query(X))
        assert (Index.build(model, column).vectors == index.vectors).all()
        assert (index.search(column, k=3).rows == index.search(X, k=3).rows).all()


@pytest.mark.parametrize(
    ("value", "what"), [(np.ones(3), "3 numbers"), (None, "None"), ("text", "'text'"), (np.ones((1, 2)), "array")]
)
def test_a_vector_that_differs_from_the_others_is_named(value: Any, what: str) -> None:
    column = np.empty(3, dtype=object)
    column[:] = [np.ones(2), value, np.ones(2)]
    with pytest.raises(LikewiseError, match=f"row 1 of a column of vectors has {what}.*; expected 2 numbers"):
        to_host(column)


def test_other_columns_stay_as_they_are() -> None:
    labels = np.array(["a", None, "b"], dtype=object)
    assert to_host(labels) is labels
    assert to_host(numbers := np.arange(3)) is numbers
