"""What the bytes of a picture say beside its pixels: which file it is, and when it was taken."""

import hashlib
import re
from datetime import datetime
from typing import Any, NamedTuple

from likewise.pictures.folder import ImageFile
from likewise.pictures.images import open_image

_EXIF, _DATE_TIME, _DATE_TIME_ORIGINAL = 0x8769, 0x0132, 0x9003
_EARLIEST = 1826  # the first photograph; a date before it is a camera that was never set


class ReadFile(NamedTuple):
    """A file that was read, the hash of its bytes, and when the picture was taken ("" if unknown)."""

    file: ImageFile
    hash: str
    taken: str


def content_hash(data: bytes) -> str:
    """The hash that finds a renamed or copied file again."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def date_taken(data: bytes) -> str:
    """EXIF DateTimeOriginal, else DateTime, as YYYY-MM-DDTHH:MM:SS; "" if unknown or nonsense."""
    try:
        with open_image(data) as image:
            if image.format == "PNG" and "exif" not in image.info:
                return ""  # Pillow would decode the whole picture to look behind it
            exif = image.getexif()
            dates = exif.get_ifd(_EXIF).get(_DATE_TIME_ORIGINAL), exif.get(_DATE_TIME)
    except Exception:  # on damaged files, Pillow raises anything from SyntaxError to struct.error
        return ""
    return next(filter(None, map(_iso, dates)), "")


def _iso(value: Any) -> str:
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    numbers = re.match(r"\s*(\d{4})[:\-/.](\d\d)[:\-/.](\d\d)[ T](\d\d):(\d\d):(\d\d)", text)
    if numbers is None:
        return ""
    try:
        date = datetime(*map(int, numbers.groups()))  # type: ignore[arg-type]
    except ValueError:
        return ""
    return date.isoformat() if date.year >= _EARLIEST else ""
