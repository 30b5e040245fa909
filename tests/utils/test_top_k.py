"""Top-k equals a full sort, whatever k is."""

import numpy as np
import pytest

from likewise.utils.top_k import top_k


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
