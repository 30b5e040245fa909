"""Pictures of the items: always decoded, shrunk and encoded again, so that nothing but pixels leaves the machine."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Hashable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.features.images import ImageError, load_image, shrink

__all__ = ["SIZES", "Cache", "Picture", "encoded", "missing", "picture_of_file"]

SIZES = {"small": 288, "large": 1280}
_SMALLEST = 96  # a picture of a few pixels is enlarged to this, without smoothing
Picture = tuple[bytes, str]  # bytes and media type


class Cache:
    """The pictures asked for last, up to so many bytes."""

    def __init__(self, most: int = 128 * 2**20) -> None:
        self._most, self._size = most, 0
        self._kept: OrderedDict[Hashable, Picture] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Picture | None:
        """A picture, if it is there."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: Hashable, picture: Picture) -> Picture:
        """Keep a picture, and let go of the oldest ones."""
        with self._lock:
            old = self._kept.pop(key, None)
            self._size += len(picture[0]) - (0 if old is None else len(old[0]))
            self._kept[key] = picture
            while self._size > self._most and self._kept:
                self._size -= len(self._kept.popitem(last=False)[1][0])
        return picture


def picture_of_file(path: Path, size: str, max_pixels: int) -> Picture | None:
    """The picture in a file, or None where there is none that can be read."""
    try:
        return encoded(load_image(path, SIZES[size], max_pixels), SIZES[size])
    except ImageError:
        return None


def encoded(pixels: np.ndarray, longest: int) -> Picture:
    """JPEG of an RGB array, its longest side at most so many pixels."""
    from PIL import Image

    pixels = _enlarged(shrink(pixels, longest))
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=84, optimize=False)
    return buffer.getvalue(), "image/jpeg"


def _enlarged(pixels: np.ndarray) -> np.ndarray:
    times = -(-_SMALLEST // max(pixels.shape[:2]))
    return pixels if times <= 1 else pixels.repeat(times, axis=0).repeat(times, axis=1)


def missing(name: Any) -> Picture:
    """A quiet tile with the name of an item that has no picture."""
    text = escape(str(name)[-16:])
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 288 288"><rect width="288" height="288" fill="#8a93a3"'
        ' fill-opacity=".18"/><text x="144" y="152" font-family="system-ui,sans-serif" font-size="28" fill="#8a93a3"'
        f' text-anchor="middle">{text}</text></svg>'
    )
    return svg.encode(), "image/svg+xml"


def decoded(data: bytes, max_pixels: int) -> np.ndarray:
    """Pixels of an upload, or a `LikewiseError` that says what is wrong with it."""
    try:
        return load_image(data, max_pixels=max_pixels)
    except ImageError as error:
        raise LikewiseError(f"the picture {error}") from error
