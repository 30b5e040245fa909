"""The map of the gallery: similar items lie close to each other; drawn again after each lesson.

Of very many items the page gets tiles that count how many lie where, instead of points.
"""

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from cachetools import LRUCache
from sklearn.preprocessing import normalize

from likewise.learn.maths.scatter import leading_directions
from likewise.search.rank import Exact
from likewise.serve.jobs import Job
from likewise.serve.session import Session
from likewise.utils.threads import row_blocks

SIDE = 65535  # the far end of either axis
CELLS = 64  # cells of a tile on either side
DEEPEST = 8  # a tile of level z is a 2^z-th of the side
FEW = 1_500  # items of a tile that are shown as points
MOST_NAMES = 200
POINTS = 50_000  # items that a browser draws smoothly; of more there are tiles
_LANDMARKS = 2000  # points placed by t-SNE, a few seconds of work; all others are placed close to their nearest ones
_NEAREST = 3  # landmarks that place an item
_SAMPLE = 20_000  # rows that the principal components are of
_FEWEST = 30  # below, there are no neighbourhoods to preserve
_BLOCK = 1 << 15  # rows placed at a time
Gallery = Callable[[Any], np.ndarray]  # vectors of some rows


class GalleryMap:
    """Computed on first use: PCA at once, then t-SNE in the background."""

    def __init__(self, session: Session, side: str = "learned") -> None:
        self.session, self.side = session, side
        self.job = Job(f"{side} map")
        self._lock = threading.Lock()
        self._version: int | None = None
        self._method = "quick"
        self._places = np.zeros((0, 2), dtype=np.float32)
        self._grid = np.zeros((0, 2), dtype=np.int32)
        self._codes = np.zeros(0, dtype=np.int32)  # of the labels in the tiles
        self._tiles: LRUCache[Any, dict[str, Any]] = LRUCache(256)

    def current(self) -> dict[str, Any]:
        """The map as it is; if it is out of date, a new one is begun."""
        with self._lock:
            self._begin()
            labels, codes = self.session.label_facet.names, self.session.label_facet.codes
            is_tiled = len(self._grid) > POINTS
            x, y = ([], []) if is_tiled else self._grid.T.tolist()
            return {
                "version": self._version or 0,
                "side": self.side,
                "method": self._method,
                "total": len(self._grid),
                "tiles": f"{self._version}-{self._method}" if is_tiled else None,
                "x": x,
                "y": y,
                "codes": [] if is_tiled else codes.tolist(),
                "labels": labels,
                "names": label_places(self._grid, codes, labels) if is_tiled else None,
            }

    def _begin(self) -> None:
        """Begin a new map if the space is another one; from the present places, so that items stay about there."""
        space, n = self.session.space(self.side), len(self.session)
        if self._version is None:
            self._take(quick_map(space.gallery, n))
        if self._version == space.version:
            return
        start = self._places

        def work() -> None:
            places = neighbour_map(space.gallery, start)
            with self._lock:
                self._method = "neighbours"
                self._take(places)

        if self.job.start(work):
            self._version = space.version

    def _take(self, places: np.ndarray) -> None:
        self._places, self._grid = places, np.rint(SIDE * places).astype(np.int32)
        self._tiles.clear()

    def tile(self, z: int, x: int, y: int) -> dict[str, Any]:
        """A square of the map; cached until the map or a label changes."""
        with self._lock:
            self._begin()
            codes = self.session.label_facet.codes
            if codes is not self._codes:
                self._codes = codes
                self._tiles.clear()
            if (z, x, y) not in self._tiles:
                self._tiles[z, x, y] = density_tile(self._grid, codes, z, x, y)
            return self._tiles[z, x, y]

    def inside(self, line: list[tuple[int, int]]) -> np.ndarray:
        """Rows inside a closed line."""
        with self._lock:
            self._begin()
            return rows_inside(self._grid, np.array(line))


def quick_map(gallery: Gallery, n: int) -> np.ndarray:
    """The first two principal components: fast, but everything in the middle overlaps."""
    sample = gallery(slice(0, n, max(1, n // _SAMPLE)))
    centre = sample.mean(axis=0)
    axes = leading_directions(sample - centre, None, 2)[1]
    P = np.concatenate([(gallery(part) - centre) @ axes for part in row_blocks(n, _BLOCK)])
    return rescaled(P if P.shape[1] == 2 else np.column_stack([P, np.zeros(len(P), dtype=np.float32)]))


def neighbour_map(gallery: Gallery, start: np.ndarray, seed: int = 0) -> np.ndarray:
    """t-SNE of a sample, initialised from `start`; every other item is placed close to its nearest sampled ones."""
    from sklearn.manifold import TSNE

    n = len(start)
    if n < _FEWEST:
        return start
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(n, min(n, _LANDMARKS), replace=False))
    landmarks = np.ascontiguousarray(normalize(gallery(chosen)), np.float32)
    initial = start[chosen] - start[chosen].mean(axis=0)
    initial = (1e-2 * initial / max(float(initial[:, 0].std()), 1e-6)).astype(np.float32)
    perplexity = min(30.0, (len(chosen) - 1) / 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        placed = TSNE(2, perplexity=perplexity, init=initial, random_state=seed, max_iter=500).fit_transform(landmarks)
    engine, P = Exact(landmarks), np.empty((n, 2), np.float32)
    for part in row_blocks(n, _BLOCK):  # each item at the weighted mean of its nearest landmarks
        V = np.ascontiguousarray(normalize(gallery(part)), np.float32)
        top = engine.candidates(V, min(_NEAREST, len(landmarks)))
        S = np.einsum("nkr,nr->nk", landmarks[top], V)
        weights = np.exp(20 * (S - S.max(axis=1, keepdims=True)))
        weights /= weights.sum(axis=1, keepdims=True)
        P[part] = np.einsum("nk,nkc->nc", weights, placed[top])
    jitter = (0.004 * np.ptp(placed, axis=0)).astype(np.float32)  # so that points do not coincide
    return rescaled(P + rng.normal(size=P.shape).astype(np.float32) * jitter)


def rescaled(P: np.ndarray) -> np.ndarray:
    """Both axes in 0..1 at the same scale, centred."""
    low, high = np.quantile(P, 0.002, axis=0), np.quantile(P, 0.998, axis=0)
    span = max(float((high - low).max()), 1e-12)
    return np.clip((P - (low + high) / 2) / span + 0.5, 0, 1).astype(np.float32)


# -- tiles ------------------------------------------------------------------------------------------------------------


def density_tile(places: np.ndarray, codes: np.ndarray, z: int, x: int, y: int) -> dict[str, Any]:
    """The cells of a tile of level z in column x and row y, for places (n, 2) in 0..SIDE and label codes (n,)."""
    shift = 16 - z
    rows = np.flatnonzero((places[:, 0] >> shift == x) & (places[:, 1] >> shift == y))
    inner = (places[rows] - np.array([x, y], places.dtype) * (1 << shift)) * CELLS >> shift
    cell = inner[:, 1].astype(np.int64) * CELLS + inner[:, 0]
    counts = np.bincount(cell, minlength=CELLS**2)
    full, few = np.flatnonzero(counts), rows[:FEW]
    px, py = places[few].T.tolist()
    points = {"rows": few.tolist(), "x": px, "y": py, "codes": codes[few].tolist()}
    return {
        "cells": full.tolist(),
        "counts": counts[full].tolist(),
        "codes": usual_codes(cell, codes[rows])[full].tolist(),
        "points": points if len(rows) <= FEW or z == DEEPEST else None,
    }


def usual_codes(cell: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The most frequent label of each cell, -1 without one."""
    usual = np.full(CELLS**2, -1)
    labelled = codes >= 0
    if labelled.any():
        width = int(codes.max()) + 1
        pairs, times = np.unique(cell[labelled] * width + codes[labelled], return_counts=True)
        order = np.argsort(times, kind="stable")  # the last one written is the most frequent
        usual[pairs[order] // width] = pairs[order] % width
    return usual


def label_places(places: np.ndarray, codes: np.ndarray, labels: list[str]) -> list[dict[str, Any]]:
    """The labels of most items, and the medians of their places."""
    counts = np.bincount(codes[codes >= 0], minlength=len(labels))
    largest = np.argsort(-counts, kind="stable")[:MOST_NAMES]
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], largest)
    medians = []
    for code, start in zip(largest.tolist(), starts.tolist(), strict=True):
        if counts[code]:
            x, y = np.median(places[order[start : start + counts[code]]], axis=0).astype(int).tolist()
            medians.append({"text": labels[code], "count": int(counts[code]), "x": x, "y": y})
    return medians


def rows_inside(places: np.ndarray, line: np.ndarray) -> np.ndarray:
    """Rows whose place is inside a closed line (m, 2): a ray to the right crosses it an odd number of times."""
    low, high = line.min(axis=0), line.max(axis=0)
    rows = np.flatnonzero(((places >= low) & (places <= high)).all(axis=1))
    px, py = places[rows].astype(np.float64).T
    odd = np.zeros(len(rows), bool)
    for (x1, y1), (x2, y2) in zip(line.astype(float), np.roll(line, 1, axis=0).astype(float), strict=True):
        if y1 != y2:
            odd ^= ((y1 > py) != (y2 > py)) & (px < (x2 - x1) * (py - y1) / (y2 - y1) + x1)
    return rows[odd]
