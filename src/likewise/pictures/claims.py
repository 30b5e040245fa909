"""What the head of a picture claims, read before any decoder allocates memory or spends time on it."""

import re
import struct
from collections.abc import Iterator

# Progressive JPEGs have some ten scans, each a pass over all pixels; a thousand fit into a small file.
MAX_SCANS = 64
# Passes × pixels: ten scans of 100 megapixels, 64 of 15.
MAX_SCANNED_PIXELS = 1_000_000_000
# A blank page has a thousand pixels per byte as PNG and some thousands as fax; a bomb a million.
_MAX_PIXELS_PER_BYTE = 20_000
_SMALL = 4_000_000  # pixels; below, memory and time are no concern
_START_OF_SCAN = 0xDA
_END_OF_IMAGE = 0xD9
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # SOFn; the others are tables
_LONE = frozenset(range(0xD0, 0xD9)) | {0x01}  # markers without a length: restarts, start of image, TEM
_NEXT_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])")  # in compressed data, where 0xFF stands as 0xFF00


def webp_size(data: bytes) -> tuple[int, int] | None:
    """Width and height that a WebP file claims; Pillow's reader allocates them when it opens the file."""
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 25:
        return None
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 " and len(data) >= 30:
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None


def png_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG file, which its first chunk has; None for other files."""
    if data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR" or len(data) < 24:
        return None
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def jpeg_size(data: bytes) -> tuple[int, int] | None:
    """The largest width and height of the frames of a JPEG file before its first scan; None for other files."""
    if data[:2] != b"\xff\xd8":
        return None
    sizes: list[tuple[int, int]] = []
    for marker, place in _segments(data):
        if marker == _START_OF_SCAN:
            break
        if marker in _FRAMES and place + 7 <= len(data):
            height, width = struct.unpack(">HH", data[place + 3 : place + 7])
            sizes.append((width, height))
    return max(sizes, key=lambda size: size[0] * size[1], default=None)


def jpeg_scans(data: bytes) -> int:
    """Number of scans of the first image in a JPEG file; data behind it, such as a film, is not looked at."""
    if data.count(b"\xff\xda") <= 1:
        return 1
    return sum(marker == _START_OF_SCAN for marker, _ in _segments(data))


def _segments(data: bytes) -> Iterator[tuple[int, int]]:
    """The marker of each segment of a JPEG file and where its length stands, up to the end of the first image."""
    place = 2
    while (found := _NEXT_MARKER.search(data, place)) is not None:
        marker, place = found[1][0], found.end()
        if marker == _END_OF_IMAGE:
            return
        if marker not in _LONE:
            yield marker, place
            place += max(2, int.from_bytes(data[place : place + 2], "big"))


def unreasonable(data: bytes, width: int, height: int, is_jpeg: bool) -> str:
    """Why a picture would cost far more to decode than its file lets expect; "" if it would not."""
    pixels = width * height
    if pixels > _SMALL and pixels > _MAX_PIXELS_PER_BYTE * len(data):
        return f"claims {width} × {height} pixels in {len(data):,} bytes"
    scans = jpeg_scans(data) if is_jpeg else 1
    if scans > MAX_SCANS or scans * pixels > MAX_SCANNED_PIXELS:
        return f"is a JPEG of {scans} scans, above the limit of {min(MAX_SCANS, MAX_SCANNED_PIXELS // max(1, pixels))}"
    return ""
