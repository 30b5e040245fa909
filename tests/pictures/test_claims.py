"""Claims of a picture's head: sizes and scans, without decoding."""

from __future__ import annotations

import io

import pytest
from PIL import Image
from tests.hostile.bombs import jpeg_of_many_scans, webp_of_a_few_bytes

from likewise.pictures.claims import jpeg_scans, jpeg_size, png_size, unreasonable, webp_size


def _saved(kind: str, size: tuple[int, int] = (300, 200), mode: str = "RGB", **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size, "red").save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        _saved("WEBP", lossless=True),
        _saved("WEBP", lossless=False),
        _saved("WEBP", mode="RGBA", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0"),
        _saved("WEBP", save_all=True, append_images=[Image.new("RGB", (300, 200))]),
    ],
)
def test_each_kind_of_webp_tells_its_size(data: bytes) -> None:
    assert webp_size(data) == (300, 200)


def test_what_is_no_webp_has_no_such_size() -> None:
    assert webp_size(b"") is None
    assert webp_size(b"RIFF\0\0\0\0WEBP") is None
    assert webp_size(_saved("PNG")) is None
    assert webp_size(b"RIFF\0\0\0\0WEBPVP9 " + bytes(40)) is None


def test_png_and_jpeg_tell_their_size_and_others_do_not() -> None:
    assert png_size(_saved("PNG")) == (300, 200)
    assert jpeg_size(_saved("JPEG")) == jpeg_size(_saved("JPEG", progressive=True)) == (300, 200)
    for data in (b"", b"\xff\xd8", b"\xff\xd8\xff\xc0\0", b"\x89PNG\r\n\x1a\n", _saved("GIF"), _saved("WEBP")):
        assert png_size(data) is None
        assert jpeg_size(data) is None


def test_the_largest_frame_of_a_jpeg_counts() -> None:
    data = _saved("JPEG")
    larger = b"\xff\xc1\0\x0b\x08" + (60_000).to_bytes(2, "big") * 2 + b"\x01\x01\x11\0"
    assert jpeg_size(data[:2] + larger + data[2:]) == (60_000, 60_000)


def test_the_scans_of_a_jpeg_are_counted() -> None:
    assert jpeg_scans(_saved("JPEG")) == 1
    assert jpeg_scans(_saved("JPEG", progressive=True)) == 10
    assert jpeg_scans(jpeg_of_many_scans(100, 64)) == 100


def test_a_film_behind_a_jpeg_is_not_counted() -> None:
    assert jpeg_scans(_saved("JPEG", progressive=True) + b"\xff\xda" * 1000) == 10
    assert jpeg_scans(_saved("JPEG", comment=b"\xff\xda" * 1000)) == 1


def test_every_honest_picture_is_reasonable() -> None:
    for kind, options in (("PNG", {}), ("WEBP", {"lossless": True}), ("JPEG", {"progressive": True}), ("TIFF", {})):
        data = _saved(kind, (2000, 1900), **options)
        assert unreasonable(data, 2000, 1900, kind == "JPEG") == ""
    fax = _saved("TIFF", (5000, 7000), "1", compression="group4")
    assert unreasonable(fax, 5000, 7000, False) == ""


def test_a_bomb_is_named_for_what_it_claims() -> None:
    assert unreasonable(webp_of_a_few_bytes(), 7000, 7000, False) == "claims 7000 × 7000 pixels in 34 bytes"
    many = unreasonable(jpeg_of_many_scans(1000, 64), 64, 64, True)
    assert many == "is a JPEG of 1000 scans, above the limit of 64"
    large = unreasonable(jpeg_of_many_scans(40, 64) + bytes(9999), 7000, 7000, True)
    assert large == "is a JPEG of 40 scans, above the limit of 20"
