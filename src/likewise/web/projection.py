"""A map of the gallery: every item a point, so that what is similar lies together."""

from __future__ import annotations

import warnings

import numpy as np

__all__ = ["neighbour_map", "quick_map", "scaled"]

_LANDMARKS = 2000  # points that t-SNE places itself, some seconds of work; all others join their nearest ones
_FEWEST = 30  # below, there are no neighbourhoods to preserve


def quick_map(V: np.ndarray) -> np.ndarray:
    """The two directions of largest spread (PCA): at once, but everything in the middle overlaps."""
    V = np.asarray(V, dtype=np.float32)
    centre = V.mean(axis=0)
    some = V[:: max(1, len(V) // 20_000)] - centre
    _, vectors = np.linalg.eigh((some.T @ some).astype(np.float64))
    axes = vectors[:, ::-1][:, :2].astype(np.float32)
    P = (V - centre) @ axes
    return scaled(P if P.shape[1] == 2 else np.column_stack([P, np.zeros(len(P), dtype=np.float32)]))


def neighbour_map(V: np.ndarray, start: np.ndarray, seed: int = 0) -> np.ndarray:
    """t-SNE of a sample that begins at `start`, every other item beside its nearest ones in the sample."""
    from sklearn.manifold import TSNE

    if len(V) < _FEWEST:
        return start
    V = _unit(np.asarray(V, dtype=np.float32))
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(V), min(len(V), _LANDMARKS), replace=False))
    begin = start[chosen] - start[chosen].mean(axis=0)
    begin = (1e-2 * begin / max(float(begin[:, 0].std()), 1e-6)).astype(np.float32)
    perplexity = min(30.0, (len(chosen) - 1) / 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        placed = TSNE(2, perplexity=perplexity, init=begin, random_state=seed, max_iter=500).fit_transform(V[chosen])
    return scaled(_joined(V, V[chosen], placed, rng))


def _joined(
    V: np.ndarray, landmarks: np.ndarray, placed: np.ndarray, rng: np.random.Generator, k: int = 3
) -> np.ndarray:
    """Each item at the weighted mean of its k nearest landmarks, a little aside so that points stay apart."""
    P = np.empty((len(V), 2), dtype=np.float32)
    aside = 0.004 * np.ptp(placed, axis=0)
    for i in range(0, len(V), 4096):
        S = V[i : i + 4096] @ landmarks.T
        top = np.argpartition(-S, k, axis=1)[:, :k]
        weights = np.exp(20 * (np.take_along_axis(S, top, axis=1) - S.max(axis=1, keepdims=True)))
        weights /= weights.sum(axis=1, keepdims=True)
        P[i : i + 4096] = np.einsum("nk,nkc->nc", weights, placed[top])
    return P + rng.normal(size=P.shape).astype(np.float32) * aside.astype(np.float32)


def scaled(P: np.ndarray) -> np.ndarray:
    """Both axes in 0..1 with one scale for both, the middle in the middle."""
    low, high = np.quantile(P, 0.002, axis=0), np.quantile(P, 0.998, axis=0)
    span = max(float((high - low).max()), 1e-12)
    return np.clip((P - (low + high) / 2) / span + 0.5, 0, 1).astype(np.float32)


def _unit(V: np.ndarray) -> np.ndarray:
    return V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), np.finfo(np.float32).tiny)
