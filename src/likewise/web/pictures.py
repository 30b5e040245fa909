"""Pictures of items: always decoded, shrunk and encoded again, so that only pixels leave the machine."""

import io
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from likewise.features.images import ImageError, load_image, shrink

SIZES = {"small": 288, "large": 1280}
_SMALLEST = 96  # a picture of a few pixels is enlarged to this, without smoothing
Picture = tuple[bytes, str]  # bytes and media type


def picture_of_file(path: Path, size: str, max_pixels: int) -> Picture | None:
    """The picture in a file, or None if it cannot be read."""
    try:
        return to_jpeg(load_image(path, SIZES[size], max_pixels), SIZES[size])
    except ImageError:
        return None


def to_jpeg(pixels: np.ndarray, longest: int) -> Picture:
    """An RGB array as JPEG, its longest side at most `longest` pixels."""
    from PIL import Image

    pixels = shrink(pixels, longest)
    times = -(-_SMALLEST // max(pixels.shape[:2]))
    buffer = io.BytesIO()
    enlarged = pixels.repeat(times, axis=0).repeat(times, axis=1)
    Image.fromarray(enlarged).save(buffer, "JPEG", quality=84, optimize=False)
    return buffer.getvalue(), "image/jpeg"


def placeholder(name: Any) -> Picture:
    """A grey tile with the name of an item that has no picture."""
    text = escape(str(name)[-16:])
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 288 288"><rect width="288" height="288" fill="#8a93a3"'
        ' fill-opacity=".18"/><text x="144" y="152" font-family="system-ui,sans-serif" font-size="28" fill="#8a93a3"'
        f' text-anchor="middle">{text}</text></svg>'
    )
    return svg.encode(), "image/svg+xml"


def decode_upload(data: bytes, max_pixels: int) -> np.ndarray:
    """Pixels of an uploaded picture; an `ImageError` says what is wrong with it."""
    try:
        return load_image(data, max_pixels=max_pixels)
    except ImageError as error:
        raise type(error)(f"the picture {error}") from error
