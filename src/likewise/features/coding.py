"""Locality-constrained linear coding (Wang et al. 2010) and max pooling over a spatial pyramid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["llc_weights", "max_pool", "nearest_words"]

_BLOCK = 256  # descriptors at a time: their scores with 2,048 words fit in the cache of a core


def nearest_words(D: np.ndarray, codebook: np.ndarray, half_norms: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest words of each descriptor, nearest first, and the inner products with them, both (n, k).

    |d − c|² is smallest where d·c − |c|²/2 is largest. For few words, k calls of `argmax` beat a partition.
    """
    words = np.empty((len(D), k), np.int64)
    dots = np.empty((len(D), k), np.float32)
    for i in range(0, len(D), _BLOCK):
        S = D[i : i + _BLOCK] @ codebook.T
        S -= half_norms
        row = np.arange(len(S))
        for j in range(k):
            best = S.argmax(axis=1)
            words[i : i + _BLOCK, j] = best
            dots[i : i + _BLOCK, j] = S[row, best] + half_norms[best]
            S[row, best] = -np.inf
    return words, dots


def llc_weights(D: np.ndarray, words: np.ndarray, dots: np.ndarray, gram: np.ndarray, beta: float) -> np.ndarray:
    """Weights (n, k) that sum to one: (C + β tr(C) I) w = 1, C being the covariance of the words around the descriptor.

    C_ij = (c_i − d)·(c_j − d), from the Gram matrix of the codebook and the inner products.
    """
    squares = np.einsum("ij,ij->i", D, D)
    C = gram[words[:, :, None], words[:, None, :]] - dots[:, :, None] - dots[:, None, :] + squares[:, None, None]
    C = np.ascontiguousarray(C.transpose(1, 2, 0), dtype=np.float64)
    k = len(C)
    ridge = beta * np.einsum("iin->n", C)
    C[np.arange(k), np.arange(k)] += np.maximum(ridge, 1e-12)  # positive even if a descriptor equals all its words
    w = _solve_ones(C)
    return (w / w.sum(axis=0)).T


def _solve_ones(C: np.ndarray) -> np.ndarray:
    """Solve C x = 1 for a stack (k, k, n) of positive definite matrices, by elimination with loops over k only."""
    k = len(C)
    x = np.ones(C.shape[1:])
    for i in range(k):
        for j in range(i + 1, k):
            factor = C[j, i] / C[i, i]
            C[j, i:] -= factor * C[i, i:]
            x[j] -= factor * x[i]
    for i in reversed(range(k)):
        for j in range(i + 1, k):
            x[i] -= C[i, j] * x[j]
        x[i] /= C[i, i]
    return x


def max_pool(
    words: np.ndarray, weights: np.ndarray, places: np.ndarray, n_words: int, levels: Sequence[int]
) -> np.ndarray:
    """The largest weight of each word in each cell of an L × L grid for each level L, concatenated.

    `places` are the centres (y, x) of the descriptors in 0..1. A word that no descriptor of a cell uses counts as 0, as
    in the code of the paper, so a pooled weight is never negative.
    """
    pooled = [_pool_level(words, weights, places, n_words, level) for level in levels]
    return np.concatenate(pooled)


def _pool_level(words: np.ndarray, weights: np.ndarray, places: np.ndarray, n_words: int, level: int) -> np.ndarray:
    cell = np.minimum((places * level).astype(np.int64), level - 1)
    at = (cell[:, :1] * level + cell[:, 1:]) * n_words + words
    out = np.zeros(level * level * n_words, np.float32)
    np.maximum.at(out, at.ravel(), weights.astype(np.float32).ravel())
    return out
