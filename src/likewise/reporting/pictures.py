"""Pictures as uint8 arrays: frame them, set them side by side, write words on them, save them as PNG.

An image is (height, width) for grey or (height, width, 3) for colour. Everything here needs numpy alone.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.reporting.font import lettering
from likewise.utils.files import atomic_write

__all__ = [
    "above",
    "as_rgb",
    "beside",
    "encode_png",
    "fitted",
    "framed",
    "padded",
    "resized",
    "words",
    "write_png",
]

Colour = tuple[int, int, int]
WHITE: Colour = (255, 255, 255)
INK: Colour = (45, 48, 56)


# ------------------------------------------------------------------------------------------------------------
# One picture


def as_rgb(image: Any) -> np.ndarray:
    """A grey or colour uint8 image as (height, width, 3)."""
    image = np.asarray(image)
    if image.dtype != np.uint8:
        raise LikewiseError(f"an image has dtype {image.dtype}: expected uint8 from 0 to 255")
    if image.ndim == 2:
        return np.repeat(image[:, :, None], 3, axis=2)
    if image.ndim == 3 and image.shape[2] == 3:
        return image
    raise LikewiseError(f"an image has shape {image.shape}: expected (height, width) or (height, width, 3)")


def resized(image: Any, height: int, width: int) -> np.ndarray:
    """The image at another size, by linear interpolation up and by weighted averages down."""
    pixels = as_rgb(image).astype(np.float64)
    rows, columns = _weights(pixels.shape[0], height), _weights(pixels.shape[1], width)
    scaled = np.einsum("yh,hwc,xw->yxc", rows, pixels, columns, optimize=True)
    return np.clip(np.rint(scaled), 0, 255).astype(np.uint8)


def fitted(image: Any, size: int, background: Colour = WHITE) -> np.ndarray:
    """The image inside a square of `size`, its proportions kept."""
    image = as_rgb(image)
    scale = size / max(image.shape[:2])
    height, width = (max(1, round(side * scale)) for side in image.shape[:2])
    return _centred(resized(image, height, width), size, size, background)


def framed(image: Any, colour: Colour, width: int = 4) -> np.ndarray:
    """The image with a frame of `colour` around it."""
    return padded(image, width, colour)


def padded(image: Any, margin: int, background: Colour = WHITE) -> np.ndarray:
    """The image with room around it."""
    image = as_rgb(image)
    return _centred(image, image.shape[0] + 2 * margin, image.shape[1] + 2 * margin, background)


def words(text: str, scale: int = 2, colour: Colour = INK, background: Colour = WHITE) -> np.ndarray:
    """One line of text, in capitals."""
    dots = np.kron(lettering(text), np.ones((scale, scale), dtype=bool))
    return np.where(dots[:, :, None], np.array(colour), np.array(background)).astype(np.uint8)


# ------------------------------------------------------------------------------------------------------------
# Several pictures


def beside(images: Sequence[Any], gap: int = 0, background: Colour = WHITE, align: float = 0.5) -> np.ndarray:
    """Images from left to right; the lower ones are set at `align` of the height (0 top, 1 bottom)."""
    turned = [as_rgb(image).swapaxes(0, 1) for image in images]
    return above(turned, gap, background, align).swapaxes(0, 1)


def above(images: Sequence[Any], gap: int = 0, background: Colour = WHITE, align: float = 0.0) -> np.ndarray:
    """Images from top to bottom; the narrower ones are set at `align` of the width (0 left, 1 right)."""
    pictures = [as_rgb(image) for image in images]
    if not pictures:
        raise LikewiseError("there are no images to set together: expected at least one")
    width = max(image.shape[1] for image in pictures)
    height = sum(image.shape[0] for image in pictures) + gap * (len(pictures) - 1)
    canvas, top = _canvas(height, width, background), 0
    for image in pictures:
        left = round((width - image.shape[1]) * align)
        canvas[top : top + image.shape[0], left : left + image.shape[1]] = image
        top += image.shape[0] + gap
    return canvas


def _canvas(height: int, width: int, background: Colour) -> np.ndarray:
    return np.broadcast_to(np.array(background, dtype=np.uint8), (height, width, 3)).copy()


def _centred(image: np.ndarray, height: int, width: int, background: Colour) -> np.ndarray:
    canvas = _canvas(height, width, background)
    top, left = (height - image.shape[0]) // 2, (width - image.shape[1]) // 2
    canvas[top : top + image.shape[0], left : left + image.shape[1]] = image
    return canvas


def _weights(old: int, new: int) -> np.ndarray:
    """How much each old pixel gives to each new one, (new, old): a triangle over the coarser grid."""
    step = old / new
    centres = (np.arange(new) + 0.5) * step - 0.5
    distance = np.abs(centres[:, None] - np.arange(old)) / max(step, 1.0)
    weights = np.maximum(0.0, 1.0 - distance)
    return weights / weights.sum(axis=1, keepdims=True)


# ------------------------------------------------------------------------------------------------------------
# PNG


def write_png(path: str | os.PathLike[str], image: Any) -> Path:
    """Write the image to a PNG file."""
    return atomic_write(path, encode_png(image))


def encode_png(image: Any) -> bytes:
    """The image as a PNG file's bytes; a colour image without colour is written as grey."""
    pixels = as_rgb(image)
    if (pixels == pixels[:, :, :1]).all():
        pixels = pixels[:, :, :1]
    height, width, channels = pixels.shape
    if not height or not width:
        raise LikewiseError(f"an image of {height} x {width} pixels cannot be written")
    # Bit depth 8; colour type 0 is grey and 2 is RGB; no interlacing.
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", _compressed(pixels)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _compressed(pixels: np.ndarray) -> bytes:
    """Each row after its filter byte: 0 as it is, 2 the difference to the row above; the shorter wins."""
    rows = pixels.reshape(pixels.shape[0], -1)
    differences = np.diff(rows, axis=0, prepend=np.zeros((1, rows.shape[1]), dtype=np.uint8))
    candidates = [np.insert(rows, 0, 0, axis=1), np.insert(differences, 0, 2, axis=1)]
    return min((zlib.compress(rows.tobytes(), 9) for rows in candidates), key=len)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
