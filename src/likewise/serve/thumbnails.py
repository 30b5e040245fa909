"""Pictures of items: always decoded, shrunk and encoded again, so that only pixels leave the machine."""

import threading
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from likewise.pictures.decoding import Decoded, DecoderLimits, Decoders
from likewise.pictures.images import ImageError, encode_jpeg
from likewise.serve.settings import Limits

SIZES = {"small": 288, "large": 1280}
# One process more than uploads may keep busy: thumbnails never wait for uploads.
_PROCESSES, _UPLOADS = 3, 2
Picture = tuple[bytes, str]  # bytes and media type


class PictureDecoders:
    """Decodes thumbnails and uploads in processes with limits of memory and time."""

    def __init__(self, limits: Limits) -> None:
        self._max_pixels = limits.pixels
        self._decoders = Decoders(_PROCESSES, DecoderLimits(limits.picture_bytes, limits.picture_seconds))
        self._uploading = threading.Semaphore(_UPLOADS)

    def picture_of_file(self, path: Path, size: str) -> Picture | None:
        """The picture in a file, or None if it cannot be read."""
        try:
            return self._decoders.thumbnail(path, SIZES[size], self._max_pixels), "image/jpeg"
        except ImageError:
            return None

    def upload(self, data: bytes, at_least: int) -> Decoded:
        """Pixels of an uploaded picture; an `ImageError` says what is wrong with it."""
        try:
            with self._uploading:
                return self._decoders.pixels(data, at_least, self._max_pixels, reduced=True)
        except ImageError as error:
            raise type(error)(f"the picture {error}") from error

    def start(self) -> None:
        """Start the processes: a page of pictures comes first."""
        self._decoders.start()

    def close(self) -> None:
        """End the processes."""
        self._decoders.close()


def to_jpeg(pixels: np.ndarray, longest: int) -> Picture:
    """An RGB array as JPEG, its longest side at most `longest` pixels."""
    return encode_jpeg(pixels, longest), "image/jpeg"


def placeholder(name: Any) -> Picture:
    """A grey tile with the name of an item that has no picture."""
    text = escape(str(name)[-16:])
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 288 288"><rect width="288" height="288" fill="#8a93a3"'
        ' fill-opacity=".18"/><text x="144" y="152" font-family="system-ui,sans-serif" font-size="28" fill="#8a93a3"'
        f' text-anchor="middle">{text}</text></svg>'
    )
    return svg.encode(), "image/svg+xml"
