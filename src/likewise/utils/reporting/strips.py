"""Retrieval strips: queries and the results of each method, as in Figure 1 of the paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from likewise.errors import LikewiseError
from likewise.utils.reporting.pictures import FRAME, INK, Colour, above, beside, blank, fitted, line_of_text, padded
from likewise.utils.top_k import top_k

# The colours of the paper.
QUERY: Colour = (34, 160, 66)
HIT: Colour = (222, 45, 38)
MISS: Colour = (36, 102, 226)
UNKNOWN: Colour = (176, 180, 188)
_GREY: Colour = (120, 124, 134)
_RULE: Colour = (222, 224, 228)


@dataclass(frozen=True)
class Panel:
    """The results of one method: a heading, the gallery rows to show for each query, a name for each column."""

    heading: str
    found: np.ndarray
    subheading: str = ""
    columns: Sequence[str] = ()


def nearest(Q: np.ndarray, G: np.ndarray, k: int, own: np.ndarray | None = None) -> np.ndarray:
    """The k rows of G that score highest for each row of Q; row `own` of G is the query itself and is excluded."""
    scores = np.asarray(Q @ G.T, dtype=np.float64)
    if own is not None:
        scores[np.arange(len(scores)), own] = -np.inf
    most = scores.shape[1] - (own is not None)
    if not 1 <= k <= most:
        raise LikewiseError(f"k={k}: expected 1 to {most}, the number of items that can be found")
    return top_k(scores, k)


def choose_queries(hits: Sequence[np.ndarray], y: np.ndarray, n: int, seed: int = 0) -> tuple[np.ndarray, int]:
    """Draw n queries, two thirds of them among those for which the methods have different numbers of hits.

    `hits` holds one array per method. Classes are spread as evenly as possible, and which method does better plays no
    part. Returns the queries and how many of them were drawn among the differing ones.
    """
    table = np.asarray(hits)
    differs = (table != table[0]).any(axis=0)
    order = np.random.default_rng(seed).permutation(len(y))
    wanted = min(int(differs.sum()), -(-2 * n // 3))
    chosen = _spread(order[differs[order]], y, wanted, [])
    return np.array(_spread(order, y, n, chosen)), wanted


def retrieval_strips(
    queries: Sequence[Any], gallery: Sequence[Any], panels: Sequence[Panel], y_q: Any, y_g: Any, *, cell: int = 56
) -> Image.Image:
    """One picture: a row per query, framed green, and a panel per method, hits framed red and misses blue.

    None is an unknown label; results are framed grey where theirs or the query's is unknown.
    """
    if not len(queries) or not panels:
        raise LikewiseError("retrieval strips need at least one query and one panel")
    y_q, y_g = np.asarray(y_q), np.asarray(y_g)
    asked = [_framed(image, cell, QUERY) for image in queries]
    named = any(panel.columns for panel in panels)
    columns = [_column("query", "", asked, [_column_names(" ", cell)] if named else [])]
    for panel in panels:
        rows = [_row(found, gallery, label, y_g, cell) for found, label in zip(panel.found, y_q, strict=True)]
        over = [_column_names(panel.columns or " ", cell)] if named else []
        columns.append(_column(panel.heading, panel.subheading, rows, over))
    line = blank(max(column.height for column in columns), 2, _RULE)
    ruled = [part for column in columns for part in (line, column)][1:]
    body = beside(ruled, gap=cell // 4, align=1.0)
    unknown = any(label is None for label in (*y_q.tolist(), *y_g.tolist()))
    return padded(above([body, _legend(unknown)], gap=cell // 3), cell // 3)


def _framed(image: Any, cell: int, colour: Colour) -> Image.Image:
    return padded(fitted(image, cell), FRAME, colour)


def _row(found: np.ndarray, gallery: Sequence[Any], label: Any, y_g: np.ndarray, cell: int) -> Image.Image:
    colours = [UNKNOWN if label is None or y_g[j] is None else HIT if y_g[j] == label else MISS for j in found]
    return beside([_framed(gallery[j], cell, colour) for j, colour in zip(found, colours, strict=True)], gap=cell // 10)


def _column(heading: str, subheading: str, rows: Sequence[Any], over: Sequence[Any] = ()) -> Image.Image:
    """The rows under a heading of two lines."""
    head = [line_of_text(line, colour=colour) for line, colour in ((heading, INK), (subheading, _GREY))]
    return above([above(head), *over, above(rows, gap=8)], gap=8)


def _column_names(names: Sequence[str], cell: int) -> Image.Image:
    """A name centred over each column of results."""
    wide = blank(1, cell + 2 * FRAME)
    return beside([above([line_of_text(name, colour=_GREY), wide], align=0.5) for name in names], gap=cell // 10)


def _legend(unknown: bool) -> Image.Image:
    entries = [(QUERY, "query"), (HIT, "same label"), (MISS, "other label"), (UNKNOWN, "unknown label")]
    shown = entries if unknown else entries[:3]
    named = [beside([blank(14, 14, colour), line_of_text(text, colour=_GREY)], gap=8) for colour, text in shown]
    return beside(named, gap=28)


def _spread(candidates: np.ndarray, y: np.ndarray, n: int, chosen: list[int]) -> list[int]:
    """Add candidates to `chosen` until there are n: one of each class before a second of any."""
    chosen = list(chosen)
    while len(chosen) < n:
        rest = [int(i) for i in candidates if int(i) not in chosen]
        if not rest:
            break
        counts = {label: sum(y[i] == label for i in chosen) for label in {y[i] for i in rest}}
        chosen.append(min(rest, key=lambda i: counts[y[i]]))
    return chosen
