"""Pictures drawn with Pillow: frame them, place them side by side, write on them, save them as PNG.

A picture comes as a Pillow image or as a uint8 array, (height, width) for grey or (height, width, 3) for colour.
"""

import io
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from likewise.errors import LikewiseError
from likewise.utils.arrays import top_k
from likewise.utils.files import StrPath, atomic_write

Colour = tuple[int, int, int]
WHITE: Colour = (255, 255, 255)
INK: Colour = (45, 48, 56)
FRAME = 4  # pixels
TEXT_SIZE = 17


def as_image(picture: Any) -> Image.Image:
    """A picture as an RGB image of Pillow."""
    if isinstance(picture, Image.Image):
        return picture.convert("RGB")
    pixels = np.asarray(picture)
    if pixels.dtype != np.uint8:
        raise LikewiseError(f"an image has dtype {pixels.dtype}: expected uint8 from 0 to 255")
    if pixels.ndim not in (2, 3) or pixels.shape[2:] not in ((), (3,)):
        raise LikewiseError(f"an image has shape {pixels.shape}: expected (height, width) or (height, width, 3)")
    if 0 in pixels.shape:
        raise LikewiseError(f"an image has shape {pixels.shape}: expected at least one pixel")
    return Image.fromarray(pixels).convert("RGB")


def blank(height: int, width: int, colour: Colour = WHITE) -> Image.Image:
    return Image.new("RGB", (width, height), colour)


def fitted(picture: Any, size: int, background: Colour = WHITE) -> Image.Image:
    """The picture inside a square of `size` pixels, with its aspect ratio."""
    image = as_image(picture)
    scale = size / max(image.size)
    width, height = (max(1, round(side * scale)) for side in image.size)
    return _centred(image.resize((width, height), Image.Resampling.BILINEAR), size, background)


def padded(picture: Any, margin: int, background: Colour = WHITE) -> Image.Image:
    """The picture with a margin, or a frame, on all sides."""
    return ImageOps.expand(as_image(picture), margin, background)


def line_of_text(text: str, size: int = TEXT_SIZE, colour: Colour = INK, background: Colour = WHITE) -> Image.Image:
    """One line of text; all lines of one size have the same height and baseline."""
    # Without accents, and ? for what is not ASCII then: the font has no more.
    letters = (letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    text, font = "".join(letter if letter.isascii() else "?" for letter in letters), _font(size)
    ascent, descent = font.getmetrics()
    line = blank(ascent + descent, max(1, ceil(font.getlength(text))), background)
    ImageDraw.Draw(line).text((0, 0), text, colour, font)
    return line


def square_of_text(text: str, size: int) -> Image.Image:
    """A line of text inside a square of `size` pixels, in smaller letters if it is too long."""
    longest = line_of_text(text)
    return _centred(line_of_text(text, min(TEXT_SIZE, TEXT_SIZE * size // longest.width)), size, WHITE)


def _centred(image: Image.Image, size: int, background: Colour) -> Image.Image:
    square = blank(size, size, background)
    square.paste(image, ((size - image.width) // 2, (size - image.height) // 2))
    return square


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    """The font that Pillow carries, Aileron in ASCII: no file to ship or to find."""
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont)  # load_default(size) gives no other
    return font


def side_by_side(pictures: Sequence[Any], gap: int = 0, background: Colour = WHITE, align: float = 0.5) -> Image.Image:
    """Pictures from left to right; lower ones are placed at `align` of the height (0 top, 1 bottom)."""
    if not pictures:
        raise LikewiseError("there are no images to combine: expected at least one")
    images = [as_image(picture) for picture in pictures]
    height = max(image.height for image in images)
    row = blank(height, sum(image.width for image in images) + gap * (len(images) - 1), background)
    left = 0
    for image in images:
        row.paste(image, (left, round((height - image.height) * align)))
        left += image.width + gap
    return row


def above(pictures: Sequence[Any], gap: int = 0, background: Colour = WHITE, align: float = 0.0) -> Image.Image:
    """Pictures from top to bottom; narrower ones are placed at `align` of the width (0 left, 1 right)."""
    turned = [as_image(picture).transpose(Image.Transpose.TRANSPOSE) for picture in pictures]
    return side_by_side(turned, gap, background, align).transpose(Image.Transpose.TRANSPOSE)


def write_png(path: StrPath, picture: Any) -> Path:
    return atomic_write(path, encode_png(picture))


def encode_png(picture: Any) -> bytes:
    """The picture as the bytes of a PNG file; one without colours is stored as grey."""
    image = as_image(picture)
    pixels = np.asarray(image)
    if (pixels == pixels[:, :, :1]).all():
        image = image.convert("L")
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


# -- Retrieval strips: queries and the results of each method, as in Figure 1 of the paper -----------------------------

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
    rows: np.ndarray
    subheading: str = ""
    columns: Sequence[str] = ()


def nearest(Q: np.ndarray, G: np.ndarray, k: int, exclude: np.ndarray | None = None) -> np.ndarray:
    """The k rows of G that score highest for each row of Q, without row `exclude` of G, the query itself."""
    scores = np.asarray(Q @ G.T, dtype=np.float64)
    if exclude is not None:
        scores[np.arange(len(scores)), exclude] = -np.inf
    most = scores.shape[1] - (exclude is not None)
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
    framed = [_framed(image, cell, QUERY) for image in queries]
    has_names = any(panel.columns for panel in panels)
    columns = [_column("query", "", framed, [_column_names(" ", cell)] if has_names else [])]
    for panel in panels:
        rows = [_row(places, gallery, label, y_g, cell) for places, label in zip(panel.rows, y_q, strict=True)]
        over = [_column_names(panel.columns or " ", cell)] if has_names else []
        columns.append(_column(panel.heading, panel.subheading, rows, over))
    line = blank(max(column.height for column in columns), 2, _RULE)
    ruled = [part for column in columns for part in (line, column)][1:]
    body = side_by_side(ruled, gap=cell // 4, align=1.0)
    entries = [(QUERY, "query"), (HIT, "same label"), (MISS, "other label")]
    entries += [(UNKNOWN, "unknown label")] if any(label is None for label in (*y_q.tolist(), *y_g.tolist())) else []
    named = [side_by_side([blank(14, 14, colour), line_of_text(text, colour=_GREY)], gap=8) for colour, text in entries]
    return padded(above([body, side_by_side(named, gap=28)], gap=cell // 3), cell // 3)


def _framed(image: Any, cell: int, colour: Colour) -> Image.Image:
    return padded(fitted(image, cell), FRAME, colour)


def _row(places: np.ndarray, gallery: Sequence[Any], label: Any, y_g: np.ndarray, cell: int) -> Image.Image:
    colours = [UNKNOWN if label is None or y_g[j] is None else HIT if y_g[j] == label else MISS for j in places]
    return side_by_side(
        [_framed(gallery[j], cell, colour) for j, colour in zip(places, colours, strict=True)], gap=cell // 10
    )


def _column(heading: str, subheading: str, rows: Sequence[Any], over: Sequence[Any] = ()) -> Image.Image:
    """The rows under a heading of two lines."""
    head = [line_of_text(line, colour=colour) for line, colour in ((heading, INK), (subheading, _GREY))]
    return above([above(head), *over, above(rows, gap=8)], gap=8)


def _column_names(names: Sequence[str], cell: int) -> Image.Image:
    """A name centred over each column of results."""
    wide = blank(1, cell + 2 * FRAME)
    return side_by_side([above([line_of_text(name, colour=_GREY), wide], align=0.5) for name in names], gap=cell // 10)


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
