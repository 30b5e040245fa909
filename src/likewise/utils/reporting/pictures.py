"""Pictures drawn with Pillow: frame them, place them side by side, write on them, save them as PNG.

A picture comes as a Pillow image or as a uint8 array, (height, width) for grey or (height, width, 3) for colour.
"""

import io
import unicodedata
from collections.abc import Sequence
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from likewise.errors import LikewiseError
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


def resized(picture: Any, height: int, width: int) -> Image.Image:
    """The picture at another size: linear interpolation when enlarged, weighted averages when reduced."""
    return as_image(picture).resize((width, height), Image.Resampling.BILINEAR)


def fitted(picture: Any, size: int, background: Colour = WHITE) -> Image.Image:
    """The picture inside a square of `size` pixels, with its aspect ratio."""
    image = as_image(picture)
    scale = size / max(image.size)
    width, height = (max(1, round(side * scale)) for side in image.size)
    return _centred(resized(image, height, width), size, background)


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


def beside(pictures: Sequence[Any], gap: int = 0, background: Colour = WHITE, align: float = 0.5) -> Image.Image:
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
    return _transposed(beside([_transposed(as_image(picture)) for picture in pictures], gap, background, align))


def _transposed(image: Image.Image) -> Image.Image:
    return image.transpose(Image.Transpose.TRANSPOSE)


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
