"""Any stored picture as upright 8-bit RGB, or an error that says why not."""

import io
import os
import stat
import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from likewise.errors import LikewiseError

EXTENSIONS = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".dib", ".tif", ".tiff"})
# No other format is tried: some readers of Pillow start external programs. JPEG includes MPO, which many cameras write
# as .jpg.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF")
# 100 megapixels: more than any common camera, and 300 MB when decoded.
MAX_PIXELS = 100_000_000
# Brightness of R, G and B (ITU-R BT.601), as in JPEG and Pillow.
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"BM", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


class ImageError(LikewiseError):
    """A file or array that cannot be used as a picture; the message is the reason, without the name."""


class ImageTooLargeError(ImageError):
    """A picture with more pixels than allowed."""


def load_image(source: Any, at_least: int | None = None, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """Decode a path, bytes, a Pillow image or an array to upright RGB, uint8, shape (height, width, 3).

    With `at_least`, a JPEG may be decoded at a half, a quarter or an eighth of its size, as long as both sides keep
    that many pixels: several times faster for a large photograph.
    """
    if isinstance(source, np.ndarray):
        return _from_array(source)
    if isinstance(source, Image.Image):
        return _to_rgb(source)
    data = source if isinstance(source, bytes | bytearray | memoryview) else _read(source)
    if len(data) == 0:
        raise ImageError("the file is empty")
    return _decode(bytes(data), at_least, max_pixels)


def looks_like_image(path: str | os.PathLike[str]) -> bool:
    """Whether the file has a known extension or starts with the bytes of a known format."""
    if os.path.splitext(os.fspath(path))[1].lower() in EXTENSIONS:
        return True
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb") as file:
            head = file.read(16)
    except OSError:
        return False
    return head.startswith(_MAGIC) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")


def as_sources(X: Any) -> list[Any]:
    """The images of X as a list; X lists paths, arrays or Pillow images, or is one array (n, height, width[, 3])."""
    if isinstance(X, str | bytes | os.PathLike):
        raise LikewiseError(f"X is one path ({X!r}); expected a list of paths")
    if isinstance(X, np.ndarray) and X.dtype.kind in "biuf" and X.ndim not in (3, 4):
        raise LikewiseError(
            f"X has shape {X.shape}; expected images, shape (n, height, width) or (n, height, width, channels)"
        )
    if not isinstance(X, Iterable):
        raise LikewiseError(f"X is {type(X).__name__}; expected a list of paths or an array of images")
    sources = [str(item) if isinstance(item, np.str_) else item for item in X]
    if not sources:
        raise LikewiseError("X is empty; expected at least one image")
    return sources


def shrink(image: np.ndarray, longest: int) -> np.ndarray:
    """The image reduced to `longest` pixels on its longer side; a smaller one is not changed."""
    height, width = image.shape[:2]
    scale = longest / max(height, width)
    if scale >= 1:
        return image
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BILINEAR, reducing_gap=3.0))


def centre_crop(image: np.ndarray, size: tuple[int, int], share: float = 1.0, stretch: bool = False) -> np.ndarray:
    """The centre of the image with the aspect ratio of `size` (height, width), `share` of its shorter side, resized.

    With `stretch` the crop keeps `share` of both sides instead, and the aspect ratio changes. Cropping before resizing
    keeps a 1 × 10,000 image as cheap as any other.
    """
    height, width = image.shape[:2]
    scale = min(height / size[0], width / size[1])
    h, w = (height * share, width * share) if stretch else (size[0] * scale * share, size[1] * scale * share)
    left, top = (width - w) / 2, (height - h) / 2
    resized = Image.fromarray(image).resize(
        (size[1], size[0]), Image.Resampling.BICUBIC, box=(left, top, left + w, top + h), reducing_gap=3.0
    )
    return np.asarray(resized)


@cache
def _load_readers() -> None:
    """Load all readers, since `open` with a list of formats finds no others, and silence their remarks on odd files."""
    Image.init()
    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


def _read(path: Any) -> bytes:
    if not isinstance(path, str | os.PathLike):
        raise ImageError(f"{type(path).__name__} is not an image; expected a path, bytes, a Pillow image or an array")
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ImageError("not a file")
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ImageError(f"cannot be read: {error.strerror or error}") from error


def _decode(data: bytes, at_least: int | None, max_pixels: int) -> np.ndarray:
    _load_readers()
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise ImageTooLargeError(f"is {width} × {height} pixels, above the limit of {max_pixels:,} pixels")
            if at_least is not None:
                image.draft("RGB", (at_least, at_least))
            return _to_rgb(image)
    except ImageError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageTooLargeError(f"is above the limit of {max_pixels:,} pixels") from error
    except UnidentifiedImageError as error:
        raise ImageError("is not a supported image format (jpg, png, webp, gif, bmp, tiff)") from error
    except MemoryError as error:
        raise ImageError("does not fit in memory") from error
    except Exception as error:  # on damaged files, Pillow raises anything from SyntaxError to struct.error
        reason = str(error).strip() or type(error).__name__
        raise ImageError(f"is damaged or truncated: {reason.splitlines()[0][:200]}") from error


def _to_rgb(image: Any) -> np.ndarray:
    """Upright RGB from any mode: alpha over white, 16 and 32 bits to 8, CMYK and palettes by Pillow."""
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I") or image.mode == "F":
        return _from_array(np.asarray(image))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    pixels = np.asarray(image.convert("RGB"))
    if 0 in pixels.shape:
        raise ImageError(f"is {pixels.shape[1]} × {pixels.shape[0]} pixels: expected at least one")
    return pixels


def _from_array(pixels: np.ndarray) -> np.ndarray:
    """An array (height, width[, 1 to 4 channels]) as RGB; 16 bits and floats in [0, 1] are scaled to 0..255."""
    if pixels.ndim not in (2, 3) or 0 in pixels.shape or (pixels.ndim == 3 and pixels.shape[2] > 4):
        raise ImageError(f"has shape {pixels.shape}; expected (height, width) or (height, width, 1 to 4 channels)")
    pixels = _to_bytes(pixels)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    if pixels.shape[2] in (2, 4):
        alpha = pixels[:, :, -1:].astype(np.float32) / 255
        colour = pixels[:, :, :-1] * alpha + 255 * (1 - alpha)
        pixels = np.rint(colour).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))


def _to_bytes(pixels: np.ndarray) -> np.ndarray:
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype == bool:
        return pixels.astype(np.uint8) * np.uint8(255)
    if pixels.dtype.kind == "u" and pixels.dtype.itemsize == 2:  # in either byte order
        return np.rint(pixels / 257).astype(np.uint8)
    if pixels.dtype.kind not in "iuf":
        raise ImageError(f"has dtype {pixels.dtype}; expected numbers")
    if not np.isfinite(pixels).all():
        raise ImageError("contains NaN or infinity")
    return _stretched(pixels.astype(np.float64))


def _stretched(values: np.ndarray) -> np.ndarray:
    """Numbers without a fixed range: 0..1, 0..255 and 0..65535 are recognised, others stretched from min to max."""
    low, high = values.min(), values.max()
    if low < 0 or high > 65535:
        scale = max(-low, high)  # first: the difference of very large numbers would overflow
        low, high, values = low / scale, high / scale, values / scale
        values = (values - low) * (255 / max(high - low, np.finfo(np.float64).tiny))
    else:
        values = values * (255 if high <= 1 else 1 if high <= 255 else 255 / 65535)
    return np.rint(values).astype(np.uint8)
