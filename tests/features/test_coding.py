"""Locality-constrained coding against the equations, one descriptor at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from likewise.features.coding import llc_weights, max_pool, nearest_words


def data(seed: int, n: int = 300, n_words: int = 40, d: int = 128) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    D, C = (np.abs(rng.normal(size=(rows, d))).astype(np.float32) for rows in (n, n_words))
    return D / np.linalg.norm(D, axis=1, keepdims=True), C / np.linalg.norm(C, axis=1, keepdims=True)


def test_the_nearest_words_are_the_nearest() -> None:
    D, C = data(0)
    words, dots = nearest_words(D, C, (C * C).sum(axis=1) / 2, 5)
    distances = ((D[:, None] - C[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(words, np.argsort(distances, axis=1)[:, :5])
    np.testing.assert_allclose(dots, np.take_along_axis(D @ C.T, words, axis=1), atol=1e-5)


def test_weights_solve_the_papers_equations() -> None:
    D, C = data(1)
    words, dots = nearest_words(D, C, (C * C).sum(axis=1) / 2, 5)
    weights = llc_weights(D, words, dots, C @ C.T, 1e-4)
    for d, chosen, w in zip(D.astype(float), words, weights, strict=True):
        Z = C[chosen].astype(float) - d
        cov = Z @ Z.T
        expected = np.linalg.solve(cov + 1e-4 * np.trace(cov) * np.eye(5), np.ones(5))
        np.testing.assert_allclose(w, expected / expected.sum(), atol=1e-4)


def test_weights_sum_to_one_even_for_a_descriptor_that_is_a_word() -> None:
    C = data(2)[1]
    words, dots = nearest_words(C, C, (C * C).sum(axis=1) / 2, 5)
    weights = llc_weights(C, words, dots, C @ C.T, 1e-4)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-9)
    assert (weights[:, 0] > 0.9).all()


def test_empty_descriptors_have_finite_codes() -> None:
    C = data(3)[1]
    D = np.zeros((4, 128), np.float32)
    words, dots = nearest_words(D, C, (C * C).sum(axis=1) / 2, 5)
    assert np.isfinite(llc_weights(D, words, dots, C @ C.T, 1e-4)).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 7), st.sampled_from([(1,), (1, 2, 4), (3,)]))
def test_pooling_takes_the_largest_weight_in_every_cell(
    seed: int, n: int, n_words: int, levels: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(seed)
    k = min(2, n_words)
    words = np.stack([rng.permutation(n_words)[:k] for _ in range(n)])
    weights, places = rng.normal(size=(n, k)), rng.random((n, 2))
    expected = []
    for level in levels:
        grid = np.zeros((level, level, n_words))
        for i in range(n):
            y, x = (places[i] * level).astype(int)
            for word, weight in zip(words[i], weights[i], strict=True):
                grid[y, x, word] = max(grid[y, x, word], weight)
        expected.append(grid.ravel())
    np.testing.assert_allclose(max_pool(words, weights, places, n_words, levels), np.concatenate(expected), rtol=1e-6)


def test_a_place_on_the_far_border_belongs_to_the_last_cell() -> None:
    pooled = max_pool(np.array([[0]]), np.array([[1.0]]), np.array([[1.0, 1.0]]), 1, (2,))
    assert pooled.tolist() == [0, 0, 0, 1]
