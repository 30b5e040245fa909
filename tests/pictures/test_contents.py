"""The hash that finds a file again, and the date that its EXIF gives."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pytest
from PIL import Image

from likewise.pictures.contents import content_hash, date_taken

SMALL = Image.fromarray(np.full((16, 24, 3), 90, np.uint8))


def encoded(kind: str, original: object = None, changed: object = None) -> bytes:
    exif = Image.Exif()
    if original is not None:
        exif.get_ifd(0x8769)[0x9003] = original
    if changed is not None:
        exif[0x0132] = changed
    data = io.BytesIO()
    SMALL.save(data, kind, exif=exif)
    return data.getvalue()


def test_the_hash_is_blake2b_of_sixteen_bytes() -> None:
    assert content_hash(b"abc") == hashlib.blake2b(b"abc", digest_size=16).hexdigest()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF"])
def test_the_date_of_the_exposure_is_preferred(kind: str) -> None:
    assert date_taken(encoded(kind, "2023:05:01 10:20:30", "2024:01:01 00:00:00")) == "2023-05-01T10:20:30"


def test_the_date_of_a_heic_picture_is_read() -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    pillow_heif.register_heif_opener()
    assert date_taken(encoded("HEIF", "2023:05:01 10:20:30")) == "2023-05-01T10:20:30"


@pytest.mark.parametrize("original", [None, "0000:00:00 00:00:00", "    :  :     :  :  ", "2023:13:01 00:00:00"])
def test_a_missing_or_impossible_exposure_falls_back_to_the_date_of_the_file(original: str | None) -> None:
    assert date_taken(encoded("JPEG", original, "2024:01:02 03:04:05")) == "2024-01-02T03:04:05"


@pytest.mark.parametrize(
    "date", [None, "0000:00:00 00:00:00", "0001:01:01 00:00:00", "yesterday", "2023:02:30 00:00:00"]
)
def test_an_unknown_or_impossible_date_is_empty(date: str | None) -> None:
    assert date_taken(encoded("JPEG", date, date)) == ""


@pytest.mark.parametrize("data", [b"", b"plain text", encoded("JPEG", "2023:05:01 10:20:30")[:40]])
def test_damaged_files_have_no_date(data: bytes) -> None:
    assert date_taken(data) == ""
