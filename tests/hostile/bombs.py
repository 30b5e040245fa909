"""Pictures that cost far more than their bytes."""

from __future__ import annotations

import io
import re
import struct

import numpy as np
from PIL import Image


def webp_of_a_few_bytes(width: int = 7000, height: int = 7000) -> bytes:
    """One colour without loss: 34 bytes for 49 megapixels."""
    bits = (width - 1) | (height - 1) << 14
    data = b"\x2f" + struct.pack("<I", bits) + bytes.fromhex("071011fd0f4444ff03")
    return b"RIFF" + struct.pack("<I", 12 + len(data)) + b"WEBPVP8L" + struct.pack("<I", len(data)) + data


def jpeg_of_many_scans(scans: int = 1000, side: int = 2000, noise: bool = False) -> bytes:
    """A progressive JPEG whose last scan is repeated; with noise, each takes a tenth of a second for 16 megapixels."""
    buffer = io.BytesIO()
    image = Image.new("RGB", (side, side), "grey")
    if noise:
        image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8))
    image.save(buffer, "JPEG", progressive=True, quality=90)
    data = buffer.getvalue()
    starts = [found.start() for found in re.finditer(b"\xff\xda", data)]
    return data[:-2] + data[starts[-1] : -2] * (scans - len(starts)) + b"\xff\xd9"


def large_picture(kind: str, side: int = 7000, **options: object) -> bytes:
    """49 megapixels with some content."""
    small = np.random.default_rng(0).integers(0, 256, (side // 100, side // 100, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(small).resize((side, side), Image.Resampling.NEAREST).save(buffer, kind, **options)
    return buffer.getvalue()
