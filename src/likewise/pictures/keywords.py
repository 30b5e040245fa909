"""Keywords of pictures, from their XMP sidecars or from inside the files, and the label that they make.

A sidecar is `photo.jpg.xmp` (digiKam, darktable, Immich) or `photo.xmp` (Lightroom); of both, the first counts, as
everywhere. Where a sidecar lists keywords these are all: programs hide those inside the picture then.
"""

import os
import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from likewise.errors import LikewiseError
from likewise.pictures.folder import Skipped
from likewise.pictures.images import ImageError, open_image, read_file
from likewise.pictures.xmp import FIELDS, MAX_BYTES, Xmp, XmpError, checked_keyword

_SEPARATORS = {"digiKam:TagsList": "/", "lr:hierarchicalSubject": "|"}
_KEYWORDS, _CHARACTER_SET = (2, 25), (1, 90)  # of IPTC IIM
_UTF8 = b"\x1b%G"
_PNG, _PNG_XMP = b"\x89PNG\r\n\x1a\n", b"XML:com.adobe.xmp\0"
_TIFF_XMP = 700
_JPEG, _HEAD = b"\xff\xd8\xff", 2**20
UNREADABLE = "sidecars that cannot be read"


class Keywords(NamedTuple):
    """Words by the short name of their XMP field; the words of IPTC count as dc:subject."""

    fields: dict[str, list[str]]

    @property
    def words(self) -> list[str]:
        """Keywords and the ends of paths, without words that another path passes through: these are less specific."""
        paths = [path.split(by) for short, by in _SEPARATORS.items() for path in self.fields.get(short, [])]
        passed = {step.strip() for path in paths for step in path[:-1]} - {path[-1].strip() for path in paths}
        ends = [path[-1].strip() for path in paths]
        return [
            word for word in dict.fromkeys([*self.fields.get("dc:subject", []), *ends]) if word and word not in passed
        ]


NONE = Keywords({})


# -- Reading -----------------------------------------------------------------------------------------------------------


def find_sidecar(picture: Path) -> Path | None:
    """The sidecar of a picture, whether the suffix is .xmp or .XMP."""
    names = (f"{stem}{suffix}" for stem in (picture.name, picture.stem) for suffix in (".xmp", ".XMP"))
    return next((place for place in map(picture.with_name, names) if os.path.lexists(place)), None)


def sidecar_bytes(path: Path) -> bytes:
    """The bytes of a regular file of a reasonable size, or an `XmpError` with the reason."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise XmpError(f"has more than {MAX_BYTES >> 20} MB")
        return read_file(path)
    except OSError as error:
        raise XmpError(f"cannot be read: {error.strerror or error}") from error
    except ImageError as error:
        raise XmpError(str(error)) from error


def keywords_of(picture: Path) -> tuple[Keywords, str | None]:
    """Keywords of the sidecar if it has any, else of the picture; and why a sidecar could not be read."""
    sidecar, problem = find_sidecar(picture), None
    if sidecar is not None:
        try:
            keywords = in_xmp(Xmp(sidecar_bytes(sidecar)))
            return (keywords if keywords.words else embedded_keywords(picture)), None
        except XmpError as error:
            problem = str(error)
    return embedded_keywords(picture), problem


def in_xmp(xmp: Xmp) -> Keywords:
    return Keywords({short: words for short in FIELDS if (words := _tidy(xmp.words(short)))})


def embedded_keywords(picture: Path) -> Keywords:
    """Keywords inside a picture: of its XMP packet, and of IPTC; none if it cannot be read."""
    contents: tuple[bytes | None, list[str]] | None = None
    with suppress(OSError, ImageError):
        with open(picture, "rb") as file:
            head = file.read(_HEAD)
        if head.startswith(_JPEG) and len(head) == _HEAD:  # all of them may be in the head
            contents = _inside(head)
        contents = contents or _inside(read_file(picture))
    packet, iptc = contents or (None, [])
    fields = NONE.fields
    if packet:
        with suppress(XmpError):
            fields = in_xmp(Xmp(packet.rstrip(b"\0")[: MAX_BYTES + 1])).fields
    both = list(dict.fromkeys([*fields.get("dc:subject", []), *_tidy(iptc)]))
    return Keywords({**fields, "dc:subject": both} if both else fields)


def _inside(data: bytes) -> tuple[bytes | None, list[str]] | None:
    """The XMP packet and the IPTC keywords in the bytes of a picture; None if it cannot be read."""
    if data.startswith(_PNG):
        return _png_packet(data), []  # which may be behind the pixels, where Pillow does not look
    from PIL.IptcImagePlugin import getiptcinfo

    try:
        with open_image(data) as image:
            packet = image.info.get("xmp") or getattr(image, "tag_v2", {}).get(_TIFF_XMP)
            fields: dict[Any, Any] = getiptcinfo(image) or {}  # type: ignore[arg-type]
            value = fields.get(_KEYWORDS) or []
            words = [word for word in (value if isinstance(value, list) else [value]) if isinstance(word, bytes)]
            iptc = [_decoded(word, fields.get(_CHARACTER_SET) == _UTF8) for word in words]
            return (packet.encode() if isinstance(packet, str) else packet), iptc
    except Exception:  # on damaged files, Pillow raises anything from SyntaxError to struct.error
        return None


def _decoded(word: bytes, utf8: bool) -> str:
    """IPTC rarely declares its character set: UTF-8 if it can be, else that of Western Europe."""
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        return word.decode("utf-8" if utf8 else "cp1252", "replace")


def _png_packet(data: bytes) -> bytes | None:
    """The text XML:com.adobe.xmp of a PNG, wherever it is."""
    place = len(_PNG)
    while place + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        if kind == b"iTXt" and data.startswith(_PNG_XMP, place + 8):
            # Behind the keyword: two bytes about compression, two names, and the text.
            rest = data[place + 8 + len(_PNG_XMP) : place + 8 + length]
            *names, text = rest[2:].split(b"\0", 2)
            with suppress(zlib.error):
                if len(names) == 2:
                    return text if rest[:1] != b"\1" else zlib.decompressobj().decompress(text, MAX_BYTES + 1)
            return None
        place += length + 12
    return None


def _tidy(words: Iterable[str]) -> list[str]:
    """Words that can be written again, each once; a program may have left anything in them."""
    tidy: dict[str, None] = {}
    for word in words:
        with suppress(LikewiseError):
            tidy[checked_keyword(re.sub(r"\s+", " ", word))] = None
    return list(tidy)


# -- As labels ---------------------------------------------------------------------------------------------------------


class KeywordLabels(NamedTuple):
    """A label per path ("" without keywords), how many pictures had several, and sidecars that cannot be read."""

    labels: dict[str, str]
    n_several: int
    problems: list[Skipped]


def labels_from_keywords(
    folder: Path, paths: Sequence[str], progress: Callable[[str, int, int], None] = lambda *_: None
) -> KeywordLabels:
    """One label per picture from its keywords; of several, as `chosen_labels` says."""
    words, problems = dict[str, list[str]](), list[Skipped]()
    for number, path in enumerate(paths):
        progress("reading keywords", number, len(paths))
        keywords, problem = keywords_of(folder / path)
        words[path] = keywords.words
        if problem is not None:
            problems.append(Skipped(path, f"its sidecar {problem}", UNREADABLE))
    return KeywordLabels(chosen_labels(words), sum(len(keywords) > 1 for keywords in words.values()), problems)


def chosen_labels(words: dict[str, list[str]]) -> dict[str, str]:
    """Of each picture's keywords the one on most pictures, as a class needs examples, but not on all of them.

    A keyword on every picture separates nothing, so any other goes first. Ties go to the first in the alphabet.
    """
    counts = Counter(word for listed in words.values() for word in listed)

    def worth(word: str) -> tuple[bool, int, str]:
        return counts[word] == len(words), -counts[word], word

    return {path: min(listed, key=worth) if listed else "" for path, listed in words.items()}
