"""The texts of items: labels, file and folder names, captions and keywords of the metadata."""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from likewise.search.index import BaseIndex
from likewise.words.base import tidy

CAPTIONS = frozenset(("caption", "title", "description", "headline", "subject", "text"))
KEYWORDS = frozenset(("keywords", "tags"))  # several in one cell
_MOST_LETTERS = 200  # of a text that is learned from
_LETTERS = re.compile(r"[^\W\d_]+")
_CAMERA = frozenset(
    ("img", "image", "dsc", "dscn", "dscf", "pict", "photo", "pic", "picture", "screenshot", "scan", "pano", "mvi")
)  # what cameras and programs call every file


def item_texts(index: BaseIndex, labels: Any = None) -> list[list[str]]:
    """All texts of each item: label, own id, file and folder names, captions and keywords."""
    ids = index.ids if index.items.own_ids else [None] * len(index)
    columns = zip(_or_nothing(labels, index), ids, _or_nothing(index.paths, index), _captions(index), strict=True)
    return [
        [str(part) for part in (label, name, *_parts(path), *captions) if part is not None]
        for label, name, path, captions in columns
    ]


def taught_texts(index: BaseIndex) -> list[list[str]]:
    """What words are learned from: label, captions and keywords of each item, and its file name if that has words."""
    columns = zip(_or_nothing(index.labels, index), _or_nothing(index.paths, index), _captions(index), strict=True)
    return [
        _phrases([*([] if label is None else [str(label)]), *_file_words(path), *captions])
        for label, path, captions in columns
    ]


def _or_nothing(values: Any, index: BaseIndex) -> Any:
    return [None] * len(index) if values is None else values


def _captions(index: BaseIndex) -> list[list[str]]:
    """Captions and keywords of each item."""
    known = index.items.metadata
    names = [] if known is None else [name for name in known.names if name.lower() in CAPTIONS | KEYWORDS]
    if known is None or not names:
        return [[] for _ in range(len(index))]
    rows = known.rows(range(len(index)), names)
    return [[text for name, value in row.items() for text in _texts(name, value)] for row in rows]


def _texts(name: str, value: Any) -> list[str]:
    if not isinstance(value, str):
        return []
    parts = re.split(r"[,;]", value) if name.lower() in KEYWORDS else [value]
    return [part.strip() for part in parts if part.strip()]


def _phrases(texts: Sequence[str]) -> list[str]:
    """Texts with words in them, in the form that they are encoded in."""
    return [tidy(text[:_MOST_LETTERS]) for text in texts if any(c.isalnum() for c in text[:_MOST_LETTERS])]


def _file_words(path: str | None) -> list[str]:
    """The words of a file name without numbers; none if they are those of a camera, or too short."""
    words = [] if path is None else _LETTERS.findall(PurePath(path).stem)
    telling = [word for word in words if len(word) > 2 and word.lower() not in _CAMERA]
    return [" ".join(words)] if telling else []


def _parts(path: str | None) -> Sequence[str]:
    """Folders and the name of a file without its ending."""
    if path is None:
        return ()
    whole = PurePath(path)
    return (*whole.parts[:-1], whole.stem)
