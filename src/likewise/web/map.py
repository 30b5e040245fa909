"""The map of the gallery: items as points, similar ones close to each other; redrawn after each lesson."""

import threading
import warnings
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from likewise.web.session import Session
from likewise.web.space import Space
from likewise.web.workers import Job

_MOST = 60_000  # points a browser draws smoothly
_LANDMARKS = 2000  # points placed by t-SNE, a few seconds of work; all others are placed beside their nearest ones
_FEWEST = 30  # below, there are no neighbourhoods to preserve


class GalleryMap:
    """Computed on first use: PCA at once, then t-SNE in the background."""

    def __init__(self, session: Session, side: str = "learned") -> None:
        self.session, self.side = session, side
        self.job = Job(f"{side} map")
        self._lock = threading.Lock()
        self._version: int | None = None
        self._method = "quick"
        self._rows = np.arange(0)
        self._places = np.zeros((0, 2), dtype=np.float32)

    def current(self) -> dict[str, Any]:
        """The map as it is; if it is out of date, a new one is begun."""
        space, n = self.session.space(self.side), len(self.session)
        with self._lock:
            if self._version is None:
                self._rows = np.sort(np.random.default_rng(0).choice(n, min(n, _MOST), replace=False))
                self._places = quick_map(space.gallery(self._rows))
            if self._version != space.version:
                self._redraw(space)
            names, codes = self.session.codes()
            x, y = np.rint(65535 * self._places).astype(int).T.tolist()
            return {
                "version": self._version or 0,
                "side": self.side,
                "method": self._method,
                "x": x,
                "y": y,
                "rows": None if len(self._rows) == n else self._rows.tolist(),
                "codes": codes[self._rows].tolist(),
                "labels": names,
            }

    def _redraw(self, space: Space) -> None:
        """Start from the present map, so that items stay about where they were."""
        start, rows = self._places, self._rows

        def work() -> None:
            places = neighbour_map(space.gallery(rows), start)
            with self._lock:
                self._places, self._method = places, "neighbours"

        if self.job.start(work):
            self._version = space.version


def quick_map(V: np.ndarray) -> np.ndarray:
    """The first two principal components: fast, but everything in the middle overlaps."""
    V = np.asarray(V, dtype=np.float32)
    centre = V.mean(axis=0)
    sample = V[:: max(1, len(V) // 20_000)] - centre
    _, vectors = np.linalg.eigh((sample.T @ sample).astype(np.float64))
    axes = vectors[:, ::-1][:, :2].astype(np.float32)
    P = (V - centre) @ axes
    return rescaled(P if P.shape[1] == 2 else np.column_stack([P, np.zeros(len(P), dtype=np.float32)]))


def neighbour_map(V: np.ndarray, start: np.ndarray, seed: int = 0) -> np.ndarray:
    """t-SNE of a sample, initialised from `start`; every other item beside its nearest ones in the sample."""
    from sklearn.manifold import TSNE

    if len(V) < _FEWEST:
        return start
    V = normalize(np.asarray(V, dtype=np.float32))
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(V), min(len(V), _LANDMARKS), replace=False))
    initial = start[chosen] - start[chosen].mean(axis=0)
    initial = (1e-2 * initial / max(float(initial[:, 0].std()), 1e-6)).astype(np.float32)
    perplexity = min(30.0, (len(chosen) - 1) / 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        placed = TSNE(2, perplexity=perplexity, init=initial, random_state=seed, max_iter=500).fit_transform(V[chosen])
    return rescaled(_beside_landmarks(V, V[chosen], placed, rng))


def _beside_landmarks(
    V: np.ndarray, landmarks: np.ndarray, placed: np.ndarray, rng: np.random.Generator, k: int = 3
) -> np.ndarray:
    """Each item at the weighted mean of its k nearest landmarks, jittered so that points do not coincide."""
    P = np.empty((len(V), 2), dtype=np.float32)
    jitter = 0.004 * np.ptp(placed, axis=0)
    for i in range(0, len(V), 4096):
        S = V[i : i + 4096] @ landmarks.T
        top = np.argpartition(-S, k, axis=1)[:, :k]
        weights = np.exp(20 * (np.take_along_axis(S, top, axis=1) - S.max(axis=1, keepdims=True)))
        weights /= weights.sum(axis=1, keepdims=True)
        P[i : i + 4096] = np.einsum("nk,nkc->nc", weights, placed[top])
    return P + rng.normal(size=P.shape).astype(np.float32) * jitter.astype(np.float32)


def rescaled(P: np.ndarray) -> np.ndarray:
    """Both axes in 0..1 at the same scale, centred."""
    low, high = np.quantile(P, 0.002, axis=0), np.quantile(P, 0.998, axis=0)
    span = max(float((high - low).max()), 1e-12)
    return np.clip((P - (low + high) / 2) / span + 0.5, 0, 1).astype(np.float32)
