"""Acceleration is quicker and safe."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from tests.planted import hinge, planted

from likewise import SLR


@given(st.integers(12, 60), st.integers(2, 12), st.integers(2, 6), st.integers(0, 10**6), st.integers(1, 8))
def test_the_accelerated_solver_never_ends_above_the_plain_one(n, d, c, seed, n_iter):
    X, y = planted(n, d, c, seed)
    plain, quick = (SLR(None, n_iter=n_iter, acceleration=a).fit(X, y).query_map() for a in (None, "anderson"))
    assert hinge(quick, X, y) <= hinge(plain, X, y) * (1 + 1e-9) + 1e-12


def test_anderson_reaches_in_five_passes_what_takes_ten(digits):
    X, y, _, _ = digits
    plain = SLR(None, n_iter=10).fit(X, y).query_map()
    quick = SLR(None, n_iter=5, acceleration="anderson").fit(X, y).query_map()
    assert hinge(quick, X, y) <= hinge(plain, X, y)


def test_a_mixture_that_is_worse_is_thrown_away():
    """Far from the solution, on unscaled data, mixtures overshoot: the objective still never rises."""
    X, y = load_digits(return_X_y=True)
    losses = [h["loss"] for h in SLR(None, init="paper", acceleration="anderson", n_iter=15).fit(X, y).history_]
    assert np.all(np.diff(losses) <= 1e-9 * np.array(losses[:-1]))
