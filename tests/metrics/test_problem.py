"""Embeddings and labels of every kind pose the same problem."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.metrics.conftest import DTYPES, clustered

from likewise.metrics import evaluate, mean_average_precision


@pytest.mark.parametrize(
    "relabel", [str, float, lambda label: f"class {label}", lambda label: np.datetime64("2020-01-01") + label]
)
def test_labels_may_be_of_any_sortable_type(relabel):
    X, y = clustered()
    expected = mean_average_precision(X, X, y)
    assert mean_average_precision(X, X, [relabel(label) for label in y]) == expected
    objects = np.array([relabel(label) for label in y], dtype=object)
    assert mean_average_precision(X, X, objects, objects[:]) == mean_average_precision(X, X, y, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layout_of_the_embeddings_does_not_matter(dtype, tmp_path):
    X, y = clustered(dtype=dtype)
    X = np.rint(4 * X).astype(dtype)
    expected = evaluate(X, X, y).average_precision
    np.save(tmp_path / "X.npy", X)
    wide = np.repeat(X, 2, axis=1)
    layouts = {
        "F order": np.asfortranarray(X),
        "strided columns": wide[:, ::2],
        "reversed twice": X[::-1].copy()[::-1],
        "big-endian": X.astype(X.dtype.newbyteorder(">")),
        "memory-mapped": np.load(tmp_path / "X.npy", mmap_mode="r"),
        "read-only": np.frombuffer(X.tobytes(), dtype=dtype).reshape(X.shape),
        "sparse": sp.csr_array(X),
        "sparse matrix": sp.csc_matrix(X),
        "list": X.tolist(),
    }
    for name, rows in layouts.items():
        np.testing.assert_allclose(evaluate(rows, rows, y).average_precision, expected, rtol=1e-13, err_msg=name)
        np.testing.assert_allclose(evaluate(X, rows, y).average_precision, expected, rtol=1e-13, err_msg=name)
        np.testing.assert_allclose(evaluate(rows, X, y).average_precision, expected, rtol=1e-13, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint8, bool])
def test_other_number_types_are_scored_as_floats(dtype):
    X, y = clustered()
    X = np.abs(X).astype(dtype)
    found = mean_average_precision(X, X, y)
    assert found == pytest.approx(mean_average_precision(X.astype(float), X.astype(float), y), abs=1e-3)


def test_arguments_are_left_as_they_were():
    X, y = clustered()
    kept = X.copy()
    evaluate(X, X, y)
    np.testing.assert_array_equal(X, kept)
