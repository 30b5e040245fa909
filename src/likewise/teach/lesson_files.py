"""The files of lessons: what they added to the model of an index.

The journal says which lesson is in force. A file that is missing, or belongs to another model, is made again from the
marks; so no crash between the two can do harm.
"""

from __future__ import annotations

import hashlib
import re
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.learn.model_file import save_model
from likewise.search.storage import LESSONS, MODEL, RAW
from likewise.teach.lifted import Reached
from likewise.teach.taught import Taught
from likewise.utils.files import make_folder

if TYPE_CHECKING:
    from likewise.search.index import Index

_LARGEST = 1e15  # a lesson's numbers are of the size of one; larger ones overflow
_KEPT = 8  # files, the last ones: for undo
_LESSON = re.compile(r"[0-9a-z]+-[0-9a-f]*\.likewise")


def write_lesson(index: Index, lesson: str, model: Taught, kernel_part: np.ndarray | Reached | None) -> None:
    """Save what a lesson added to the model of an index that was not taught, and its part for the rows."""
    assert index.folder is not None
    part: Any = copy(model)
    del part.base_
    part.lesson_rows_ = index.checksums.get(RAW, "")
    if isinstance(kernel_part, Reached):
        part.lesson_places_, part.lesson_part_ = kernel_part
    elif kernel_part is not None:
        part.lesson_part_ = kernel_part
    make_folder(index.folder / LESSONS)
    save_model(part, _lesson_path(index, lesson))
    ours = [path for path in (index.folder / LESSONS).iterdir() if _LESSON.fullmatch(path.name)]
    kept = sorted(ours, key=lambda path: path.stat().st_mtime)
    for path in kept[:-_KEPT]:
        path.unlink(missing_ok=True)


def read_lesson(index: Index, lesson: str) -> tuple[Taught, np.ndarray | Reached | None] | None:
    """The taught model and its part for the rows; None if there is no file for the model of this index."""
    try:
        model: Any = Taught.load(_lesson_path(index, lesson))
    except LikewiseError:
        return None
    model.base_ = index.model
    rows, part = vars(model).pop("lesson_rows_", ""), vars(model).pop("lesson_part_", None)
    places = vars(model).pop("lesson_places_", None)
    try:
        model._check_loaded()
        wide = model.transform(np.zeros((1, index.raw.shape[1]), np.float32)).shape[1] - index.plain_vectors.shape[1]
        if not all(_is_sane(value) for value in vars(model).values() if isinstance(value, float | np.ndarray)):
            return None
    except Exception:  # a file that somebody changed: the lesson is learned again from its marks
        return None
    n = len(index) if places is None else _n_places(places, len(index))
    fits = isinstance(part, np.ndarray) and part.shape == (n, wide) and part.dtype.kind == "f"
    right = fits and isinstance(rows, str) and rows == index.checksums.get(RAW, "") != "" and _is_sane(part)
    if not right:
        return model, None
    return model, part if places is None else Reached(places, part)


def _n_places(places: Any, n: int) -> int:
    """How many rows of an index of n these are; -1 unless they are row numbers in ascending order."""
    if not isinstance(places, np.ndarray) or places.ndim != 1 or places.dtype != np.int64:
        return -1
    inside = not len(places) or (places[0] >= 0 and places[-1] < n and bool((np.diff(places) > 0).all()))
    return len(places) if inside else -1


def _is_sane(values: Any) -> bool:
    return bool(np.all(np.abs(values) < _LARGEST))


def _lesson_path(index: Index, lesson: str) -> Path:
    assert index.folder is not None
    if not re.fullmatch(r"[0-9a-z]{1,32}", lesson):  # it comes from a file: it must not lead out of the folder
        lesson = hashlib.sha256(lesson.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return index.folder / LESSONS / f"{lesson}-{index.checksums.get(MODEL, '')[:16]}.likewise"
