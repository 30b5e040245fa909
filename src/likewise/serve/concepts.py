"""Named sets on the page: previewed at a cut-off, saved as labels, listed, written as keywords next to the pictures."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from likewise.errors import LikewiseError
from likewise.pictures.sidecars import apply_keyword, default_undo_list, n_writes, undo_keyword
from likewise.search.rank import NotFoundError
from likewise.serve.jobs import Job
from likewise.serve.session import Recent, SearchQuery, Session
from likewise.serve.teaching import TeachingSession
from likewise.teach.concepts import Concept, csv_of, pictures_of

LEAST_SURE = 20


class RefusedError(LikewiseError):
    """Something that only the person at this machine may do."""


class Preview(NamedTuple):
    """A set, the name it can be requested by, and the number of its items that have the label already."""

    name: str
    concept: Concept
    n_known: int


class Concepts:
    """The last sets that were previewed, by name; keywords are written one set at a time, in the background."""

    def __init__(self, session: Session, teaching: TeachingSession, folder: Path | None, is_local: bool) -> None:
        self.session, self.teaching, self.folder = session, teaching, folder
        self.writes = is_local and folder is not None and session.index.paths is not None
        self.job = Job("keywords", folder)
        self.progress, self.total = 0, 0
        self.outcome: dict[str, Any] | None = None
        self._previews: Recent[Concept] = Recent(32, "this preview is no longer available; make it again")

    # -- previews -----------------------------------------------------------------------------------------------------

    def of_label(self, label: str, at_most_wrong: float | None) -> Preview:
        """The items with a label, and those that belong to it above a cut-off."""
        concept = self.teaching.grown(label, at_most_wrong)
        known = len(concept) if concept.probabilities is None else int((concept.probabilities == 1).sum())
        return Preview(self._previews.add(concept), concept, known)

    def of_query(self, query: SearchQuery, at_most_wrong: float) -> Preview:
        """The examples of a query that are items, and its results above a cut-off."""
        hits = self.session.above(query, "learned", at_most_wrong)
        examples = np.array([ref for ref in query.like if isinstance(ref, int)], dtype=np.int64)
        assert hits.probabilities is not None
        P = np.concatenate([np.ones(len(examples)), hits.probabilities])
        concept = Concept("", np.concatenate([examples, hits.rows]), P)
        return Preview(self._previews.add(concept), concept, len(examples))

    def take(self, name: str, label: str, without: list[int]) -> Concept:
        """A set that was previewed, under a label, and without some of its rows."""
        concept = self._previews[name]
        stays = ~np.isin(concept.rows, without)
        P = None if concept.probabilities is None else concept.probabilities[stays]
        return replace(concept, name=label, rows=concept.rows[stays], probabilities=P)

    def csv(self, concept: Concept) -> str:
        return csv_of(self.session.index, concept)

    # -- keywords -----------------------------------------------------------------------------------------------------

    def write(self, concept: Concept) -> bool:
        """Write a set as keywords into XMP sidecars, in the background; False if that is running."""
        undo = self.undo_list(concept.name)
        pictures = pictures_of(self.session.index, concept)
        self.teaching.feedback.check_folder()  # the undo list is next to it
        return self._start(len(pictures), lambda: apply_keyword(pictures, concept.name, undo, self._advance))

    def take_back(self, label: str) -> bool:
        """Take back the keywords of a label that were written from here or by `likewise apply`."""
        undo = self.undo_list(label)
        if not self.is_written(label):
            raise NotFoundError(f"no keyword {label!r} was written from this index")
        return self._start(n_writes(undo), lambda: undo_keyword(undo, self._advance))

    def undo_list(self, label: str) -> Path:
        """Where the undo list of a label is; raises where keywords may not be written."""
        if not self.writes or self.folder is None:
            raise RefusedError("keywords are written only for the person at the machine with the pictures")
        return default_undo_list(self.folder, label)

    def is_written(self, label: str) -> bool:
        """Whether keywords of a label can be taken back."""
        if not self.writes or not label:
            return False
        undo = self.undo_list(label)
        return undo.is_file() and n_writes(undo) > 0

    def _start(self, total: int, work: Callable[[], Any]) -> bool:
        def run() -> None:
            self.outcome, self.progress, self.total = None, 0, total
            self.outcome = work().facts()

        return self.job.start(run)

    def _advance(self, steps: int) -> None:
        self.progress += steps

    def describe(self) -> dict[str, Any]:
        """Progress of the keywords, and the outcome."""
        return {
            "state": self.job.state,
            "error": self.job.error,
            "done": self.progress,
            "total": self.total,
            "outcome": self.outcome if self.job.state == "done" else None,
        }
