"""Covariances from relevant pairs, and the map that they give."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.planted import planted

from likewise.errors import LikewiseError
from likewise.learn.supervision.discriminant import WIDTH, PairSetting, PairSpace, Reduction, pair_map, pair_scatter

X, Y = planted(120, 6, 4)
X = X - X.mean(axis=0)


def _same_class() -> sp.csr_array:
    """All pairs within classes, every class by its size: pairs of a class of n weigh 1/n."""
    return sp.csr_array((Y[:, None] == Y) / np.bincount(Y)[Y])


def test_all_pairs_within_classes_give_the_covariances_of_lda() -> None:
    S_w, S_b = pair_scatter(X, X, _same_class_without_zeros())
    means = np.array([X[c == Y].mean(axis=0) for c in range(4)])[Y]
    np.testing.assert_allclose(S_b, means.T @ means / len(X), atol=1e-12)
    np.testing.assert_allclose(S_w, (X - means).T @ (X - means) / len(X), atol=1e-12)


def _same_class_without_zeros() -> sp.csr_array:
    R = _same_class()
    R.eliminate_zeros()
    return R


def test_random_pairs_lower_the_covariance_between_classes_and_keep_its_directions() -> None:
    R = _same_class_without_zeros()
    everything = sp.csr_array(np.full((len(X), len(X)), 1 / len(X)))
    _, S_b = pair_scatter(X, X, R)
    _, mixed = pair_scatter(X, X, sp.csr_array(R + everything))
    np.testing.assert_allclose(mixed, S_b / 2, atol=1e-12)


def test_stored_zeros_are_kept_apart() -> None:
    R = sp.csr_array((np.array([1.0, 0.0]), (np.array([0, 0]), np.array([1, 2]))), shape=(len(X), len(X)))
    _, S_b = pair_scatter(X, X, R)
    expected = np.outer(X[0], X[1]) - 0.5 * np.outer(X[0], X[2])
    np.testing.assert_allclose(S_b, (expected + expected.T) / 2, atol=1e-12)


def test_the_map_has_as_many_directions_as_classes_tell_apart() -> None:
    L = pair_map(*pair_scatter(X, X, _same_class_without_zeros()), PairSetting(power=2.0))
    assert L.shape == (6, 3)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_space_is_about_the_mean_of_its_gallery(kernel: str) -> None:
    U = Reduction()(X)
    F = PairSpace.of(U, kernel, np.random.default_rng(0))(U)
    np.testing.assert_allclose(F.mean(axis=0), 0, atol=1e-8)
    inner = F @ F.T
    if kernel == "linear":
        centred = U - U.mean(axis=0)
        np.testing.assert_allclose(inner, centred @ centred.T, atol=1e-8)


def test_sparse_rows_are_reduced_and_of_unit_length() -> None:
    rows = sp.random_array((800, 3_000), density=0.01, format="csr", rng=np.random.default_rng(0))
    reduction = Reduction.of(rows, np.random.default_rng(0))
    assert reduction.V is not None
    U = reduction(rows)
    assert U.shape == (800, WIDTH)
    np.testing.assert_allclose(np.linalg.norm(U, axis=1), 1, atol=1e-6)


def test_rows_that_are_all_alike_get_a_sentence() -> None:
    with pytest.raises(LikewiseError, match="the rows of the gallery all point the same way"):
        PairSpace.of(np.tile([[1.0, 0.0]], (20, 1)), "linear", np.random.default_rng(0))
