"""Retrieval strips: queries and what each method finds for them, as in the paper's Figure 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.reporting.pictures import INK, Colour, above, beside, fitted, framed, padded, words

__all__ = ["Panel", "choose_queries", "nearest", "retrieval_strips"]

# The paper's colours: the query green, a hit red, a miss blue.
QUERY: Colour = (34, 160, 66)
HIT: Colour = (222, 45, 38)
MISS: Colour = (36, 102, 226)
UNKNOWN: Colour = (176, 180, 188)
_GREY: Colour = (120, 124, 134)
_RULE: Colour = (222, 224, 228)


@dataclass(frozen=True)
class Panel:
    """What one method found: a heading, the gallery rows to show for each query, a word over each column."""

    heading: str
    found: np.ndarray
    subheading: str = ""
    columns: Sequence[str] = ()


def nearest(Q: np.ndarray, G: np.ndarray, k: int, own: np.ndarray | None = None) -> np.ndarray:
    """The k rows of G that score highest with each row of Q, without the query's own place `own`."""
    scores = np.asarray(Q @ G.T, dtype=np.float64)
    if own is not None:
        scores[np.arange(len(scores)), own] = -np.inf
    most = scores.shape[1] - (own is not None)
    if not 1 <= k <= most:
        raise LikewiseError(f"k={k}: expected 1 to {most}, the number of items that can be found")
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def choose_queries(hits: Sequence[np.ndarray], y: np.ndarray, n: int, seed: int = 0) -> tuple[np.ndarray, int]:
    """Draw n queries, two thirds of them where the methods' numbers of hits, an array a method, differ.

    Classes are spread as far as they go. Which of the methods does better plays no part. Returns the queries
    and how many of them were drawn among the differing.
    """
    table = np.asarray(hits)
    differs = (table != table[0]).any(axis=0)
    order = np.random.default_rng(seed).permutation(len(y))
    wanted = min(int(differs.sum()), -(-2 * n // 3))
    chosen = _spread(order[differs[order]], y, wanted, [])
    return np.array(_spread(order, y, n, chosen)), wanted


def retrieval_strips(
    queries: Sequence[Any],
    gallery: Sequence[Any],
    panels: Sequence[Panel],
    y_q: Any,
    y_g: Any,
    *,
    cell: int = 56,
) -> np.ndarray:
    """One picture: a row a query, framed green, then a panel a method, hits framed red and misses blue.

    A label of None is not known; what it would decide is framed grey.
    """
    if not len(queries) or not panels:
        raise LikewiseError("retrieval strips need at least one query and one panel")
    y_q, y_g = np.asarray(y_q), np.asarray(y_g)
    asked = [framed(fitted(image, cell), QUERY) for image in queries]
    named = any(panel.columns for panel in panels)
    columns = [_column("query", "", asked, [words(" ")] if named else [])]
    for panel in panels:
        rows = [_row(panel.found[i], gallery, _frames(y_q[i], y_g), cell) for i in range(len(queries))]
        over = [_column_words(panel.columns or " ", asked[0].shape[1], cell)] if named else []
        columns.append(_column(panel.heading, panel.subheading, rows, over))
    body = beside(_ruled(columns), gap=cell // 4, align=1.0)
    unknown = any(label is None for label in (*y_q.tolist(), *y_g.tolist()))
    return padded(above([body, _legend(unknown)], gap=cell // 3), cell // 3)


def _frames(label: Any, y_g: np.ndarray) -> Callable[[int], Colour]:
    """The colour of an item's frame, for a query with this label."""
    return lambda j: UNKNOWN if label is None or y_g[j] is None else HIT if y_g[j] == label else MISS


def _row(found: np.ndarray, gallery: Sequence[Any], colour: Callable[[int], Colour], cell: int) -> np.ndarray:
    return beside([framed(fitted(gallery[j], cell), colour(j)) for j in found], gap=cell // 10)


def _column(heading: str, subheading: str, rows: Sequence[np.ndarray], over: Sequence[np.ndarray] = ()) -> np.ndarray:
    """A heading of two lines over the rows."""
    head = [words(line or " ", colour=colour) for line, colour in ((heading, INK), (subheading, _GREY))]
    return above([above(head, gap=6), *over, above(rows, gap=8)], gap=12)


def _column_words(names: Sequence[str], width: int, cell: int) -> np.ndarray:
    """A word over the middle of each column."""
    blank = np.full((1, width, 3), 255, dtype=np.uint8)
    return beside([above([words(name, colour=_GREY), blank], align=0.5) for name in names], gap=cell // 10)


def _ruled(columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    """A thin line between one column and the next."""
    line = np.full((max(column.shape[0] for column in columns), 2, 3), _RULE, dtype=np.uint8)
    return [part for column in columns for part in (line, column)][1:]


def _legend(unknown: bool) -> np.ndarray:
    entries = [(QUERY, "query"), (HIT, "same label"), (MISS, "other label"), (UNKNOWN, "label not known")]
    entries = entries if unknown else entries[:3]
    swatch = [np.full((14, 14, 3), colour, dtype=np.uint8) for colour, _ in entries]
    named = [
        beside([square, words(text, colour=_GREY)], gap=8) for square, (_, text) in zip(swatch, entries, strict=True)
    ]
    return beside(named, gap=28)


def _spread(candidates: np.ndarray, y: np.ndarray, n: int, chosen: list[int]) -> list[int]:
    """Add candidates to `chosen` until there are n, one of each class before a second of any."""
    chosen = list(chosen)
    while len(chosen) < n:
        rest = [int(i) for i in candidates if int(i) not in chosen]
        if not rest:
            break
        counts = {label: sum(y[i] == label for i in chosen) for label in {y[i] for i in rest}}
        chosen.append(min(rest, key=lambda i: counts[y[i]]))
    return chosen
