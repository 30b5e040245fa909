"""Any stored picture as upright 8-bit RGB, or an error that says why not."""

import io
import os
import re
import stat
import struct
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from likewise.errors import LikewiseError

# Formats by the name people use: their extensions, and Pillow's readers. No other format is tried: some readers of
# Pillow start external programs. JPEG includes MPO, which many cameras write as .jpg.
_FORMATS = {
    "jpg": ((".jpg", ".jpeg", ".jpe", ".jfif"), ("JPEG",)),
    "png": ((".png",), ("PNG",)),
    "webp": ((".webp",), ("WEBP",)),
    "gif": ((".gif",), ("GIF",)),
    "bmp": ((".bmp", ".dib"), ("BMP", "DIB")),
    "tiff": ((".tif", ".tiff"), ("TIFF",)),
    "heic": ((".heic", ".heif", ".hif"), ("HEIF",)),
    "avif": ((".avif",), ("AVIF",)),
}
FORMAT_NAMES = ", ".join(_FORMATS)
EXTENSIONS = frozenset(extension for extensions, _ in _FORMATS.values() for extension in extensions)
# The reason, and its kind to count by.
UNSUPPORTED = f"is not a supported image format ({FORMAT_NAMES})", "not a supported image format"
# 100 megapixels: more than any common camera, and 300 MB when decoded.
MAX_PIXELS = 100_000_000
_SMALLEST = 96  # a picture of a few pixels is enlarged to this as JPEG, without smoothing
_LARGE = 4_000_000  # pixels; below, a copy or two are no concern
_CHEAP, _CHEAP_SCANS = 16_000_000, 16  # pixels and passes over them: under two seconds and 200 MB
_ORIENTATION = 0x0112
_TURNS = dict(zip(range(2, 9), (
    Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.ROTATE_180, Image.Transpose.FLIP_TOP_BOTTOM,
    Image.Transpose.TRANSPOSE, Image.Transpose.ROTATE_270, Image.Transpose.TRANSVERSE, Image.Transpose.ROTATE_90,
), strict=True))  # fmt: skip
# Progressive JPEGs have some ten scans, each a pass over all pixels; a thousand fit into a small file.
MAX_SCANS = 64
# Passes × pixels: ten scans of 100 megapixels, 64 of 15.
MAX_SCANNED_PIXELS = 1_000_000_000
# A blank page has a thousand pixels per byte as PNG and some thousands as fax; a bomb a million.
_MAX_PIXELS_PER_BYTE = 20_000
_START_OF_SCAN = 0xDA
_END_OF_IMAGE = 0xD9
_LONE = frozenset(range(0xD0, 0xD9)) | {0x01}  # markers without a length: restarts, start of image, TEM
_NEXT_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])")  # in compressed data, where 0xFF is written as 0xFF00
# Brightness of R, G and B (ITU-R BT.601), as in JPEG and Pillow.
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"BM", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
# Brands of HEIC and AVIF; a film begins with "ftyp" too, but has others.
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"hevm", b"hevs", b"mif1", b"msf1")
_AVIF_BRANDS = (b"avif", b"avis")


class ImageError(LikewiseError):
    """A file or array that cannot be used as a picture; the message is the reason, without the name.

    `kind` is the reason in a word or two, to count by.
    """

    kind = "unusable"

    def __init__(self, message: str, kind: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind or self.kind


class ImageTooLargeError(ImageError):
    """A picture with more pixels than allowed."""

    kind = "above the limit of pixels"


class ImageTooCostlyError(ImageError):
    """A picture that takes far more memory or time to decode than its file lets expect."""

    kind = "too costly to decode"


def load_image(source: Any, at_least: int | None = None, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """Decode a path, bytes, a Pillow image or an array to upright RGB, uint8, shape (height, width, 3).

    With `at_least`, a JPEG may be decoded at a half, a quarter or an eighth of its size, as long as both sides keep
    that many pixels: several times faster for a large photograph.
    """
    if isinstance(source, np.ndarray):
        return _from_array(source)
    if isinstance(source, Image.Image):
        return _to_rgb(source)
    data = source if isinstance(source, bytes | bytearray | memoryview) else read_file(source)
    if len(data) == 0:
        raise ImageError("the file is empty", "empty")

    def drafted(image: Any) -> np.ndarray:
        if at_least is not None:
            image.draft("RGB", (at_least, at_least))
        return _to_rgb(image)

    return _guarded(bytes(data), max_pixels, drafted)


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
    return _begins_like_image(head)


def _begins_like_image(head: bytes) -> bool:
    if head[4:8] == b"ftyp":
        return head[8:12] in _HEIF_BRANDS + _AVIF_BRANDS
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


def encode_jpeg(pixels: np.ndarray, longest: int) -> bytes:
    """An RGB array as JPEG, its longest side at most `longest` pixels."""
    pixels = shrink(pixels, longest)
    times = -(-_SMALLEST // max(pixels.shape[:2]))
    buffer = io.BytesIO()
    enlarged = pixels.repeat(times, axis=0).repeat(times, axis=1)
    Image.fromarray(enlarged).save(buffer, "JPEG", quality=84, optimize=False)
    return buffer.getvalue()


def centre_crop(
    image: np.ndarray,
    size: tuple[int, int],
    share: float = 1.0,
    stretch: bool = False,
    resample: Image.Resampling = Image.Resampling.BICUBIC,
) -> np.ndarray:
    """The centre of the image with the aspect ratio of `size` (height, width), `share` of its shorter side, resized.

    With `stretch` the crop keeps `share` of both sides instead, and the aspect ratio changes. Cropping before resizing
    keeps a 1 × 10,000 image as cheap as any other.
    """
    height, width = image.shape[:2]
    scale = min(height / size[0], width / size[1])
    h, w = (height, width) if stretch else (size[0] * scale, size[1] * scale)
    # Rounding must not move the box beyond the image, which Pillow refuses: 225 / 224 * 224 is above 225.
    h, w = min(h * share, height), min(w * share, width)
    left, top = (width - w) / 2, (height - h) / 2
    box = (left, top, min(left + w, width), min(top + h, height))
    resized = Image.fromarray(image).resize((size[1], size[0]), resample, box=box, reducing_gap=3.0)
    return np.asarray(resized)


def open_image(data: bytes, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """A picture whose head is read, but not its pixels."""
    claimed = webp_size(data)
    if claimed is not None:
        check_size(data, *claimed, max_pixels)
    image = Image.open(io.BytesIO(data), formats=_load_readers())
    check_size(data, *image.size, max_pixels, image.format in ("JPEG", "MPO"))
    return image


def check_size(data: bytes, width: int, height: int, max_pixels: int, is_jpeg: bool = False) -> None:
    """Refuse a picture of too many pixels, or one that is made to be costly."""
    if width * height > max_pixels:
        raise ImageTooLargeError(f"is {width} × {height} pixels, above the limit of {max_pixels:,} pixels")
    reason = unreasonable(data, width, height, is_jpeg)
    if reason:
        raise ImageTooCostlyError(reason)


def load_reduced(data: bytes, at_least: int, max_pixels: int) -> tuple[np.ndarray, tuple[int, int]]:
    """Pixels as by `load_image`, of a large picture averaged to `at_least` on its shorter side; and its own size."""
    size: list[int] = []

    def averaged(image: Any) -> np.ndarray:
        size.extend(image.size)  # its own, before a JPEG is decoded at a fraction of it
        image.draft("RGB", (at_least, at_least))
        return _to_rgb(image, at_least)

    return _guarded(data, max_pixels, averaged), (size[0], size[1])


def is_cheap(data: bytes) -> bool:
    """Whether decoding certainly takes little time and memory, judged by the header."""
    if not _begins_like_image(data[:16]):
        return True  # is refused unread
    if not data.startswith((b"\xff\xd8", b"\x89PNG")):
        return False
    try:
        with open_image(data) as image:
            return image.width * image.height <= _CHEAP and jpeg_scans(data) <= _CHEAP_SCANS
    except Exception:  # on damaged files, Pillow raises anything; they are refused at once
        return False


@cache
def _load_readers() -> tuple[str, ...]:
    """Load all readers, since `open` with a list of formats finds no others, and silence their remarks on odd files."""
    Image.init()
    with suppress(ImportError):  # its absence is said when a picture needs it
        import_module("pillow_heif").register_heif_opener()
    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
    return tuple(name for _, names in _FORMATS.values() for name in names if name in Image.OPEN)


def read_file(path: Any) -> bytes:
    """The bytes of a regular file."""
    if not isinstance(path, str | os.PathLike):
        raise ImageError(f"{type(path).__name__} is not an image; expected a path, bytes, a Pillow image or an array")
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ImageError("not a file", "unreadable")
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ImageError(f"cannot be read: {error.strerror or error}", "unreadable") from error


def _guarded(data: bytes, max_pixels: int, use: Callable[[Any], np.ndarray]) -> np.ndarray:
    """What `use` makes of a picture, or an `ImageError` with the reason why it cannot be decoded."""
    try:
        with open_image(data, max_pixels) as image:
            return use(image)
    except ImageError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageTooLargeError(f"is above the limit of {max_pixels:,} pixels") from error
    except UnidentifiedImageError as error:  # another format, or one whose reader is not installed
        brand = data[8:12] if data[4:8] == b"ftyp" else b""
        for name, reader, brands in (("heic", "HEIF", _HEIF_BRANDS), ("avif", "AVIF", _AVIF_BRANDS)):
            if brand in brands and reader not in _load_readers():
                needs = f"{name} needs the extra 'images': pip install 'likewise[images]'"
                kind = f"in a format that needs likewise[images] ({name})"
                raise ImageError(f"cannot be read: {needs}", kind) from error
        raise ImageError(*UNSUPPORTED) from error
    except MemoryError as error:
        raise ImageError("does not fit in memory", "too large for the memory") from error
    except Exception as error:  # on damaged files, Pillow raises anything from SyntaxError to struct.error
        reason = str(error).strip() or type(error).__name__
        raise ImageError(f"is damaged or truncated: {reason.splitlines()[0][:200]}", "damaged") from error


def _to_rgb(image: Any, at_least: int | None = None) -> np.ndarray:
    """Upright RGB from any mode: alpha over white, 16 and 32 bits to 8, CMYK and palettes by Pillow."""
    if at_least is None:
        image = ImageOps.exif_transpose(image)
    else:
        turn = _TURNS.get(image.getexif().get(_ORIENTATION))
        image = _reduced(image, at_least)
        image = image if turn is None else image.transpose(turn)
    if image.mode.startswith("I") or image.mode == "F":
        return _from_array(np.asarray(image))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    pixels = np.asarray(image.convert("RGB"))
    if 0 in pixels.shape:
        raise ImageError(f"is {pixels.shape[1]} × {pixels.shape[0]} pixels: expected at least one", "damaged")
    return pixels


def _reduced(image: Any, at_least: int) -> Any:
    """A large picture averaged to at least so many pixels on its shorter side, before anything copies it."""
    factor = min(image.size) // at_least
    if factor < 2 or image.width * image.height <= _LARGE:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(np.asarray(image)[::factor, ::factor])
    if image.mode in ("P", "PA", "1") or "transparency" in image.info:
        image = image.convert("RGBA")
    return image.reduce(factor)


def _from_array(pixels: np.ndarray) -> np.ndarray:
    """An array (height, width[, 1 to 4 channels]) as RGB; 16 bits and floats in [0, 1] are scaled to 0..255."""
    if pixels.ndim not in (2, 3) or 0 in pixels.shape or (pixels.ndim == 3 and pixels.shape[2] > 4):
        raise ImageError(f"has shape {pixels.shape}; expected (height, width) or (height, width, 1 to 4 channels)")
    if pixels.dtype == bool:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    elif pixels.dtype.kind == "u" and pixels.dtype.itemsize == 2:  # in either byte order
        pixels = np.rint(pixels / 257).astype(np.uint8)
    elif pixels.dtype != np.uint8:
        pixels = _stretched(pixels)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    if pixels.shape[2] in (2, 4):
        alpha = pixels[:, :, -1:].astype(np.float32) / 255
        colour = pixels[:, :, :-1] * alpha + 255 * (1 - alpha)
        pixels = np.rint(colour).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))


def _stretched(pixels: np.ndarray) -> np.ndarray:
    """Numbers without a fixed range: 0..1, 0..255 and 0..65535 are recognised, others stretched from min to max."""
    if pixels.dtype.kind not in "iuf":
        raise ImageError(f"has dtype {pixels.dtype}; expected numbers")
    if not np.isfinite(pixels).all():
        raise ImageError("contains NaN or infinity")
    values = pixels.astype(np.float64)
    low, high = values.min(), values.max()
    if low < 0 or high > 65535:
        scale = max(-low, high)  # first: the difference of very large numbers would overflow
        low, high, values = low / scale, high / scale, values / scale
        values = (values - low) * (255 / max(high - low, np.finfo(np.float64).tiny))
    else:
        values = values * (255 if high <= 1 else 1 if high <= 255 else 255 / 65535)
    return np.rint(values).astype(np.uint8)


# -- What the header of a file claims, checked before a decoder allocates memory or spends time ------------------------


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


def jpeg_scans(data: bytes) -> int:
    """Number of scans of the first image in a JPEG file; data after it, such as a film, is ignored."""
    if data.count(b"\xff\xda") <= 1:
        return 1
    place, scans = 2, 0
    while (match := _NEXT_MARKER.search(data, place)) is not None and match[1][0] != _END_OF_IMAGE:
        marker, place = match[1][0], match.end()
        scans += marker == _START_OF_SCAN
        if marker not in _LONE:  # the length of a segment follows
            place += max(2, int.from_bytes(data[place : place + 2], "big"))
    return scans


def unreasonable(data: bytes, width: int, height: int, is_jpeg: bool) -> str:
    """Why a picture would cost far more to decode than the size of its file suggests; "" if it would not."""
    pixels = width * height
    if pixels > _LARGE and pixels > _MAX_PIXELS_PER_BYTE * len(data):
        return f"claims {width} × {height} pixels in {len(data):,} bytes"
    scans = jpeg_scans(data) if is_jpeg else 1
    if scans > MAX_SCANS or scans * pixels > MAX_SCANNED_PIXELS:
        return f"is a JPEG of {scans} scans, above the limit of {min(MAX_SCANS, MAX_SCANNED_PIXELS // max(1, pixels))}"
    return ""
