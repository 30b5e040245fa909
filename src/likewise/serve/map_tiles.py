"""A map of very many items: how many there are where, tile by tile, and which ones a line encloses."""

from typing import Any

import numpy as np

SIDE = 65535  # the far end of either axis
CELLS = 64  # cells of a tile on either side
DEEPEST = 8  # a tile of level z is a 2^z-th of the side
FEW = 1_500  # items of a tile that are shown as points
MOST_NAMES = 200


def tile(places: np.ndarray, codes: np.ndarray, z: int, x: int, y: int) -> dict[str, Any]:
    """The cells of a tile of level z in column x and row y, for places (n, 2) in 0..SIDE and label codes (n,)."""
    shift = 16 - z
    rows = np.flatnonzero((places[:, 0] >> shift == x) & (places[:, 1] >> shift == y))
    inner = (places[rows] - np.array([x, y], places.dtype) * (1 << shift)) * CELLS >> shift
    cell = inner[:, 1].astype(np.int64) * CELLS + inner[:, 0]
    counts = np.bincount(cell, minlength=CELLS**2)
    full = np.flatnonzero(counts)
    return {
        "cells": full.tolist(),
        "counts": counts[full].tolist(),
        "codes": usual_codes(cell, codes[rows])[full].tolist(),
        "points": _points(rows, places[rows], codes[rows]) if len(rows) <= FEW or z == DEEPEST else None,
    }


def usual_codes(cell: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The most frequent label of each cell, -1 without one."""
    found = np.full(CELLS**2, -1)
    known = codes >= 0
    if known.any():
        width = int(codes.max()) + 1
        pairs, times = np.unique(cell[known] * width + codes[known], return_counts=True)
        order = np.argsort(times, kind="stable")  # the last one written is the most frequent
        found[pairs[order] // width] = pairs[order] % width
    return found


def _points(rows: np.ndarray, places: np.ndarray, codes: np.ndarray) -> dict[str, list[int]]:
    rows, places, codes = rows[:FEW], places[:FEW], codes[:FEW]
    return {"rows": rows.tolist(), "x": places[:, 0].tolist(), "y": places[:, 1].tolist(), "codes": codes.tolist()}


def names(places: np.ndarray, codes: np.ndarray, labels: list[str]) -> list[dict[str, Any]]:
    """The labels of most items, and the medians of their places."""
    counts = np.bincount(codes[codes >= 0], minlength=len(labels))
    largest = np.argsort(-counts, kind="stable")[:MOST_NAMES]
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], largest)
    found = []
    for code, start in zip(largest.tolist(), starts.tolist(), strict=True):
        if counts[code]:
            x, y = np.median(places[order[start : start + counts[code]]], axis=0).astype(int).tolist()
            found.append({"text": labels[code], "count": int(counts[code]), "x": x, "y": y})
    return found


def inside(places: np.ndarray, line: np.ndarray) -> np.ndarray:
    """Rows whose place is inside a closed line (m, 2): a ray to the right crosses it an odd number of times."""
    low, high = line.min(axis=0), line.max(axis=0)
    rows = np.flatnonzero(((places >= low) & (places <= high)).all(axis=1))
    px, py = places[rows].astype(np.float64).T
    odd = np.zeros(len(rows), bool)
    for (x1, y1), (x2, y2) in zip(line.astype(float), np.roll(line, 1, axis=0).astype(float), strict=True):
        if y1 != y2:
            odd ^= ((y1 > py) != (y2 > py)) & (px < (x2 - x1) * (py - y1) / (y2 - y1) + x1)
    return rows[odd]
