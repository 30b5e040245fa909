"""Corollary 1: the alternating method with a fixed target."""

from __future__ import annotations

import numpy as np

from likewise.paper.corollary import errors


def _made(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 5
    return rng.standard_normal((5, d))[y] + rng.standard_normal((n, d)), y


def test_iterates_of_the_optimum_s_rank_are_exact_after_one_iteration() -> None:
    for n, d in ((100, 20), (12, 20)):
        assert max(errors(*_made(n, d), rank=5, n_iter=3)) < 1e-10


def test_iterates_of_a_smaller_rank_approach_the_best_of_that_rank() -> None:
    found = errors(*_made(100, 20), rank=2, n_iter=60)
    assert found[-1] < 1e-3 * found[0]
