"""An index under a lesson: the same gallery, searched by what was learned from marks and labels."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from zlib import crc32

import numpy as np

from likewise.errors import LikewiseError
from likewise.learn.model_file import save_model
from likewise.search.gallery import GalleryRows
from likewise.search.index import BaseIndex, Index
from likewise.search.items import Identities
from likewise.search.rank import Engine
from likewise.search.storage import LESSONS, MODEL, RAW, QueryExtractor
from likewise.teach.feedback import NAME, Event, Feedback
from likewise.teach.taught import ChangedRows, Taught, beyond
from likewise.utils.arrays import top_k
from likewise.utils.files import os_errors

if TYPE_CHECKING:
    from likewise.search.index import Index


class TaughtIndex(BaseIndex):
    """An index and a lesson about its model; the lesson may consist of labels alone.

    The rows are not transformed again, and their neighbours stay those before the lesson.

    Parameters
    ----------
    index : Index
        The gallery before any lesson.
    lesson : Taught or None
        The model after the lesson; None if only labels were given.
    part : ChangedRows or None
        The coordinates of the rows that the lesson reached; None computes them by the model.
    labels : labels of all rows; those of the index if None
    """

    def __init__(
        self, index: Index, lesson: Taught | None, part: ChangedRows | None = None, labels: Any = None
    ) -> None:
        plain, vectors = index.plain_vectors, index.vectors
        if lesson is not None:
            part = _reached(lesson, plain) if part is None else part
            plain = vectors = LessonVectors.of(lesson, plain, part)
            if index._smoothed is not None:
                vectors = plain.with_base(index._smoothed.vectors)
            if len(index) <= DENSE_UP_TO:
                plain, vectors = np.asarray(plain), np.asarray(vectors)
        gallery = index.gallery(index.items.with_labels(labels))
        super().__init__(index.model if lesson is None else lesson, gallery, plain, index.source)
        self.index, self.lesson, self.part, self.vectors = index, lesson, part, vectors
        self.known: np.ndarray | None = None  # checksums of the ids that the lesson was learned with
        self.approximate, self.neighbors, self.folder = index.approximate, index.neighbors, index.folder
        if lesson is None or isinstance(vectors, LessonVectors):
            self.recall = index.recall

    @cached_property
    def identities(self) -> Identities:
        """What names the items in journals and addresses, whatever row they are in."""
        return self.index.identities

    @cached_property
    def norms(self) -> np.ndarray:
        """Euclidean norms of the raw rows, (n,)."""
        return self.index.norms

    def learned_from(self, rows: np.ndarray) -> np.ndarray:
        """Whether the model before any lesson learned from each of these rows."""
        return self.index.learned_from(rows)

    def image_extractor(self, trust: bool = False) -> QueryExtractor:
        """The extractor saved with the index, ready to use."""
        return self.index.image_extractor(trust)

    def _smoothed_queries(self, Q: np.ndarray) -> np.ndarray:
        return self.index.smoothed_queries(Q, self.model)

    def _new_engine(self) -> Engine:
        if self.lesson is None:
            return self.index.engine
        if isinstance(self.vectors, LessonVectors):
            return LessonEngine(self.vectors, self.index.engine)
        return super()._new_engine()

    def plus(self, rows: Any, items: Any = None) -> TaughtIndex:
        """The index with raw rows appended, under the same lesson."""
        return self._about(self.index.plus(rows, items))

    def minus(self, ids: Any) -> TaughtIndex:
        """The index without the items with these ids, under the same lesson."""
        return self._about(self.index.minus(ids))

    def _about(self, index: Index) -> TaughtIndex:
        return TaughtIndex(index, self.lesson, labels=index.items.labels_from(self.items))

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Save the gallery; in a folder that does not have the lesson in its journal, it becomes part of the model."""
        if self.index.folder == Path(folder):
            return save_index(self.index, folder)
        return save_index(self._merged, folder)

    @cached_property
    def _merged(self) -> Index:
        """An index whose model is the one after the lesson."""
        options: dict[str, Any] = {"approximate": self.approximate, "smoothed": self.index._smoothed}
        vectors = np.asarray(self.plain_vectors)
        return Index(self.model, self.gallery(self.items), vectors, source=self.source, **options)


def untaught(index: BaseIndex) -> Index:
    """The gallery before any lesson."""
    if isinstance(index, TaughtIndex):
        return index.index
    assert isinstance(index, Index)
    return index


def save_index(index: Index | TaughtIndex, folder: str | os.PathLike[str]) -> Path:
    """Save an index; if the folder has a journal, note in it which pictures were edited or renamed meanwhile."""
    if isinstance(index, TaughtIndex):
        return index.save(folder)

    def note_edits(place: Path, before: GalleryRows) -> None:
        if not has_feedback(place):
            return
        feedback = Feedback(place)
        both = Identities(before.items, before.raw), index.identities
        old, new = (feedback.places(identities) for identities in both)
        feedback.extend([Event("became", items=pair) for pair in new.became(old)])

    return index.save(folder, on_replace=note_edits)


def id_sums(index: BaseIndex) -> np.ndarray:
    """A checksum of each id: four bytes tell nearly all new items from known ones."""
    return np.fromiter((crc32(str(name).encode()) for name in index.ids.tolist()), np.uint32, len(index))


def new_since_lesson(index: BaseIndex) -> np.ndarray:
    """The rows of the items that came after the lesson in force; none without a lesson in a folder."""
    known = index.known if isinstance(index, TaughtIndex) else None
    return np.empty(0, np.int64) if known is None else np.flatnonzero(~np.isin(id_sums(index), known))


def has_feedback(folder: Path) -> bool:
    """Whether the index in a folder has a journal."""
    return (folder / NAME).exists()


# ---------------------------------------------------------------------------------------------------------------------
# Vectors after a lesson: those before it, and taught coordinates of the rows it reached

DENSE_UP_TO = 20_000  # rows; smaller galleries have one array of all coordinates
_BLOCK = 1 << 16  # rows at a time
_MORE = 64  # candidates beyond twice k from the engine of the vectors before the lesson


class LessonVectors:
    """Vectors [s_i v_i, f_i] of n rows: v the vectors before a lesson, f the taught coordinates of some rows.

    It can be indexed by rows, multiplied and turned into an array as an array can.
    """

    dtype, ndim = np.dtype(np.float32), 2

    def __init__(self, base: np.ndarray, rows: np.ndarray, part: np.ndarray, shrink: np.ndarray) -> None:
        self.base, self.rows, self.part, self.shrink = base, rows, part, shrink
        self.shape = (len(base), base.shape[1] + part.shape[1])
        self.size = self.shape[0] * self.shape[1]

    @classmethod
    def of(cls, model: Taught, V: np.ndarray, part: ChangedRows) -> Self:
        """The gallery side of a taught model from that of its base."""
        width, before = V.shape[1], np.asarray(V[part.rows], np.float32)
        joined = model.joined(before, part.values)
        lengths = np.linalg.norm(before, axis=1)
        shrink = np.linalg.norm(joined[:, :width], axis=1) / np.where(lengths > 0, lengths, 1)
        return cls(V, part.rows, np.ascontiguousarray(joined[:, width:]), shrink)

    def with_base(self, base: np.ndarray) -> Self:
        """The same coordinates with other directions."""
        return type(self)(base, self.rows, self.part, self.shrink)

    def __len__(self) -> int:
        return len(self.base)

    def __getitem__(self, key: Any) -> np.ndarray:
        if isinstance(key, int | np.integer):
            return np.asarray(self[[key]][0])
        rows = _row_numbers(key, len(self))
        if rows.ndim > 1:
            return self[rows.ravel()].reshape(*rows.shape, -1)
        V = np.zeros((len(rows), self.shape[1]), np.float32)
        V[:, : self.base.shape[1]] = self.base[rows]
        places = np.minimum(np.searchsorted(self.rows, rows), max(0, len(self.rows) - 1))
        hit = self.rows[places] == rows if len(self.rows) else np.zeros(len(rows), bool)
        V[hit, : self.base.shape[1]] *= self.shrink[places[hit], None]
        V[hit, self.base.shape[1] :] = self.part[places[hit]]
        return V

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)

    def __matmul__(self, q: np.ndarray) -> np.ndarray:
        return self.scores(q[None])[0] if q.ndim == 1 else self.scores(q.T).T

    def scores(self, Q: np.ndarray) -> np.ndarray:
        """Q Vᵀ, (n_q, n)."""
        r = self.base.shape[1]
        plain = np.ascontiguousarray(Q[:, :r], dtype=np.float32)
        S = np.empty((len(Q), len(self)), np.float32)
        for start in range(0, len(self), _BLOCK):
            np.matmul(plain, self.base[start : start + _BLOCK].T, out=S[:, start : start + _BLOCK])
        S[:, self.rows] = S[:, self.rows] * self.shrink + Q[:, r:] @ self.part.T
        return S

    @cached_property
    def reached(self) -> np.ndarray:
        """The vectors of the rows that were reached."""
        return self[self.rows]


class LessonEngine:
    """Search after a lesson: what the engine before it finds, and the best of the rows that the lesson reached."""

    def __init__(self, V: LessonVectors, before: Engine) -> None:
        self.V, self.before, self.exact = V, before, before.exact

    @property
    def kind(self) -> Any:
        """The kind of the engine before the lesson."""
        return getattr(self.before, "kind", False)

    def __len__(self) -> int:
        return len(self.V)

    def candidates(self, Q: np.ndarray, k: int) -> np.ndarray:
        """Rows of at least k high scores, in no particular order; -1 where there are fewer."""
        if self.exact:
            return top_k(self.V.scores(Q), k, ordered=False)
        plain = np.ascontiguousarray(Q[:, : self.V.base.shape[1]], dtype=np.float32)
        near = self.before.candidates(plain, min(len(self), 2 * k + _MORE))
        near = np.where(np.isin(near, self.V.rows), -1, near)
        reached = self.V.rows[top_k(Q @ self.V.reached.T, k, ordered=False)]
        return np.hstack([near, reached])


def _reached(model: Taught, V: np.ndarray) -> ChangedRows:
    """The rows that a lesson reaches by its model alone, block by block."""
    rows, values = [], []
    for start in range(0, len(V), _BLOCK):
        f = beyond(model.coordinates(np.asarray(V[start : start + _BLOCK], np.float32)))
        reached = np.flatnonzero(f.any(axis=1))
        rows.append(reached + start)
        values.append(f[reached])
    return ChangedRows(np.concatenate(rows), np.concatenate(values))


def _row_numbers(key: Any, n: int) -> np.ndarray:
    if isinstance(key, slice):
        return np.arange(*key.indices(n))
    rows = np.asarray(key)
    rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64, copy=False)
    return np.where(rows < 0, rows + n, rows)


# ---------------------------------------------------------------------------------------------------------------------
# Files of lessons

_LARGEST = 1e15  # a lesson's numbers are of the size of one; larger ones overflow
_KEPT = 8  # files, the last ones: for undo
_LESSON = re.compile(r"[0-9a-z]+-[0-9a-f]*\.likewise")


def write_lesson(index: Index, lesson: str, model: Taught, part: ChangedRows, earlier: Sequence[str] = ()) -> None:
    """Save what a lesson added to the model of an index that was not taught, and the coordinates of its rows.

    Of the `earlier` lessons, in the order of the journal, the files of the last ones are left for undo.
    """
    assert index.folder is not None
    facts: Any = copy(model)
    del facts.base_, facts.calibration_
    facts.lesson_rows_, (facts.lesson_places_, facts.lesson_part_) = index.checksums.get(RAW, ""), part
    facts.lesson_items_ = id_sums(index)
    path = _lesson_path(index, lesson)
    with os_errors(f"cannot create the folder {path.parent}"):
        path.parent.mkdir(exist_ok=True)  # not its parents: the disk of the index may have been taken away
    save_model(facts, path)
    kept = {_lesson_path(index, one).name for one in (*earlier[1 - _KEPT :], lesson)}
    for other in path.parent.iterdir():
        if _LESSON.fullmatch(other.name) and other.name not in kept:
            other.unlink(missing_ok=True)


class SavedLesson(NamedTuple):
    """A lesson from its file: the model, the coordinates of the rows if they are those, and the items it knew."""

    model: Taught
    part: ChangedRows | None
    known: np.ndarray | None = None


def read_lesson(index: Index, lesson: str) -> SavedLesson | None:
    """A lesson from its file; None if there is none for the model of this index."""
    try:
        model: Any = Taught.load(_lesson_path(index, lesson))
    except LikewiseError:
        return None
    model.base_, model.calibration_ = index.model, index.model.calibration_
    rows, part, places = (vars(model).pop(f"lesson_{name}_", None) for name in ("rows", "part", "places"))
    known = vars(model).pop("lesson_items_", None)
    try:
        model._check_loaded()
        wide = model.transform(np.zeros((1, index.raw.shape[1]), np.float32)).shape[1] - index.plain_vectors.shape[1]
        if not all(_is_sane(value) for value in vars(model).values() if isinstance(value, float | np.ndarray)):
            return None
    except Exception:  # a file that somebody changed: the lesson is learned again from its marks
        return None
    shape = _n_places(places, len(index)), wide
    fits = isinstance(part, np.ndarray) and part.shape == shape and part.dtype.kind == "f" and _is_sane(part)
    is_of_these = isinstance(rows, str) and rows == index.checksums.get(RAW, "") != ""
    is_known = isinstance(known, np.ndarray) and known.dtype == np.uint32
    return SavedLesson(model, ChangedRows(places, part) if fits and is_of_these else None, known if is_known else None)


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
