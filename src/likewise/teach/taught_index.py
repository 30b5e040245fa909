"""An index under a lesson: the same gallery, searched by what was learned from marks and labels."""

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from likewise.search.identity import Identities, ItemRef, edited
from likewise.search.index import BaseIndex, Index
from likewise.search.rank import Engine
from likewise.search.smoothed_gallery import with_base_part
from likewise.teach.feedback import NAME, Event, Feedback
from likewise.teach.lifted import LiftedEngine, LiftedVectors, Reached, after_lesson
from likewise.teach.taught import Taught


class TaughtIndex(BaseIndex):
    """An index and a lesson about its model; the lesson may consist of labels alone.

    The rows are not transformed again, and their neighbours stay those before the lesson.

    Parameters
    ----------
    index : Index
        The gallery before any lesson.
    lesson : Taught or None
        The model after the lesson; None if only labels were given.
    part : array, Reached or None
        What the lesson adds to all rows, or to those it reached, if it has been computed already.
    labels : labels of all rows; those of the index if None
    """

    def __init__(
        self, index: Index, lesson: Taught | None, part: np.ndarray | Reached | None = None, labels: Any = None
    ) -> None:
        vectors = index.plain_vectors if lesson is None else after_lesson(lesson, index.plain_vectors, part)
        items = index.items.with_labels(labels)
        shared: dict[str, Any] = {"root": index.root, "extractor": index.extractor, "source": index.source}
        super().__init__(index.model if lesson is None else lesson, index.raw, vectors, items, **shared)
        self.index, self.lesson = index, lesson
        self.approximate, self.neighbours, self.folder = index.approximate, index.neighbours, index.folder
        if lesson is None or isinstance(vectors, LiftedVectors):
            self.recall = index.recall
        directions = None if lesson is None or index._smoothed is None else index._smoothed.vectors
        if directions is None:
            self.vectors = index.vectors if lesson is None else vectors
        elif isinstance(vectors, LiftedVectors):
            self.vectors = vectors.with_base(directions)
        else:
            self.vectors = with_base_part(vectors, directions)

    @property
    def identities(self) -> Identities:
        """What names the items in journals and addresses, whatever row they are in."""
        return self.index.identities

    @property
    def norms(self) -> np.ndarray:
        """Euclidean norms of the raw rows, (n,)."""
        return self.index.norms

    def learned_from(self, rows: np.ndarray) -> np.ndarray:
        """Whether the model before any lesson learned from each of these rows."""
        return self.index.learned_from(rows)

    def image_extractor(self) -> Any:
        """The extractor saved with the index, ready to use."""
        return self.index.image_extractor()

    def _smoothed_queries(self, Q: np.ndarray) -> np.ndarray:
        return self.index.smoothed_queries(Q, self.model)

    def _new_engine(self) -> Engine:
        if self.lesson is None:
            return self.index.engine
        if isinstance(self.vectors, LiftedVectors):
            return LiftedEngine(self.vectors, self.index.engine)
        return super()._new_engine()

    def plus(self, rows: Any, items: Any = None) -> "TaughtIndex":
        """The index with raw rows appended, under the same lesson."""
        return self._about(self.index.plus(rows, items))

    def minus(self, ids: Any) -> "TaughtIndex":
        """The index without the items with these ids, under the same lesson."""
        return self._about(self.index.minus(ids))

    def _about(self, index: Index) -> "TaughtIndex":
        return TaughtIndex(index, self.lesson, labels=index.items.labels_from(self.items))

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Save the gallery; in a folder that does not have the lesson in its journal, it becomes part of the model."""
        if self.index.folder == Path(folder):
            return save_index(self.index, folder)
        return save_index(self._merged, folder)

    @cached_property
    def _merged(self) -> Index:
        """An index whose model is the one after the lesson."""
        return Index(
            self.model,
            self.raw,
            np.asarray(self.plain_vectors),
            self.items,
            root=self.root,
            extractor=self.extractor,
            extractor_file=self.index.extractor_file,
            approximate=self.approximate,
            smoothed=self.index._smoothed,
            source=self.source,
        )


def untaught(index: BaseIndex) -> Index:
    """The gallery before any lesson."""
    if isinstance(index, TaughtIndex):
        return index.index
    assert isinstance(index, Index)
    return index


def save_index(index: Index | TaughtIndex, folder: str | os.PathLike[str]) -> Path:
    """Save an index; if the folder has a journal, note in it which pictures were edited since the version before."""
    if isinstance(index, TaughtIndex):
        return index.save(folder)

    def note_edits(place: Path, before: dict[str, Any]) -> None:
        if not has_feedback(place):
            return
        old, feedback = Identities(before["items"], before["raw"]), Feedback(place)
        named = {ref for event in feedback.events() for ref in (*event.items, *event.queries)}
        refs = (ref for ref in named if isinstance(ref, ItemRef))
        for pair in edited(refs, old, index.identities, feedback.aliases):
            feedback.append(Event("edited", items=pair))

    return index.save(folder, on_replace=note_edits)


def has_feedback(folder: Path) -> bool:
    """Whether the index in a folder has a journal."""
    return (folder / NAME).exists()
