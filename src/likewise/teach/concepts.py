"""Named sets of items: those with a label, or all that are like some and unlike others; counted, saved, listed.

Which rows are in a set is an argument everywhere, with the probability of each where one is known.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np

from likewise.errors import LikewiseError
from likewise.rows.store import escape
from likewise.search.confidence import Confidence
from likewise.search.index import BaseIndex
from likewise.search.rank import mean_query, row_numbers
from likewise.teach.feedback import Event
from likewise.teach.taught_index import new_since_lesson
from likewise.teach.teacher import Teacher
from likewise.utils.files import StrPath, atomic_write
from likewise.utils.wording import csv_text


@dataclass(frozen=True)
class Concept:
    """A named set: rows of an index, and for each the probability that it belongs, None where that is not known."""

    name: str
    rows: np.ndarray
    probabilities: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.probabilities is not None and len(self.probabilities) != len(self.rows):
            raise LikewiseError(
                f"probabilities has {len(self.probabilities)} numbers; expected {len(self.rows)}, one per row"
            )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def about_wrong(self) -> float | None:
        """How many rows are expected not to belong; None if that is not known."""
        return None if self.probabilities is None else float(np.sum(1 - self.probabilities))

    def least_sure(self, n: int = 20) -> np.ndarray:
        """The rows that belong least surely, those first; none that is certain, or if probabilities are not known."""
        if self.probabilities is None:
            return self.rows[:0]
        order = np.argsort(self.probabilities, kind="stable")[:n]
        return self.rows[order[self.probabilities[order] < 1]]


def labelled(index: BaseIndex, name: str, labels: np.ndarray | None = None) -> Concept:
    """The items of an index with a label, its own ones and those given on the page, or by `labels` of all rows."""
    known = index.labels if labels is None else labels
    names = np.array([] if known is None else ["" if label is None else str(label) for label in known])
    rows = np.flatnonzero(names == name)
    if not len(rows):
        close = difflib.get_close_matches(name, sorted(set(names.tolist()) - {""}), n=3, cutoff=0.5)
        hint = f"; there is {', '.join(map(repr, close))}" if close else ""
        raise LikewiseError(f"no item of the index has the label {name!r}{hint}")
    return Concept(name, rows)


def grown(teacher: Teacher, name: str, at_most_wrong: float | None = None) -> Concept:
    """A label and what belongs to it: the items that have it, and those above a cut-off that have no label yet.

    Items marked wrong for one that has the label are left out. Without a cut-off these are the items with the label."""
    index = teacher.index
    labels = teacher.state().labels_of(teacher.untaught)  # those given since the last lesson too
    members = labelled(index, name, labels)
    if at_most_wrong is None:
        return members
    assert labels is not None
    known = np.flatnonzero([label is not None for label in labels])
    taught = teacher.concept(label=name)
    if taught is not None and taught.calibration is not None:
        rows, P = taught.above(at_most_wrong)
        free = ~np.isin(rows, known)
        hits = Concept("", rows[free], P[free])
    else:
        inside, wrong = _marked_for(teacher, members.rows)
        hits = above(index, inside.tolist(), at_most_wrong, avoided=np.union1d(wrong, known))
    rows = np.concatenate([members.rows, hits.rows])
    assert hits.probabilities is not None
    return Concept(name, rows, np.concatenate([np.ones(len(members)), hits.probabilities]))


class SavedSearch(NamedTuple):
    """A label that was given, with the items that have it, and unmarked ones that fit.

    `fitting` is None with too few marks for a cut-off; `new` are those of its rows that came after the last lesson.
    """

    name: str
    labelled: Concept
    fitting: Concept | None
    new: np.ndarray

    @property
    def parts(self) -> list[Concept]:
        """All items of the search, in one set or two."""
        return [self.labelled, *([] if self.fitting is None else [self.fitting])]

    def facts(self) -> dict[str, Any]:
        """Its name and counts."""
        fitting = None if self.fitting is None else len(self.fitting)
        return {"label": self.name, "items": len(self.labelled), "fitting": fitting, "new": len(self.new)}


def saved_searches(teacher: Teacher, at_most_wrong: float = 0.1) -> list[SavedSearch]:
    """The labels that were given on an index, by name."""
    index, labels = teacher.index, teacher.state().labels_of(teacher.untaught)
    names = sorted({label for label in teacher.state().labels.values() if label is not None}, key=str)
    came = new_since_lesson(index)
    searches = []
    for name in names:
        members = labelled(index, str(name), labels)
        try:
            whole = grown(teacher, name, at_most_wrong)
            fits = ~np.isin(whole.rows, members.rows)
            assert whole.probabilities is not None
            fitting = Concept(str(name), whole.rows[fits], whole.probabilities[fits])
        except LikewiseError:  # no calibration: too few marks
            fitting = None
        new = np.empty(0, np.int64) if fitting is None else fitting.rows[np.isin(fitting.rows, came)]
        searches.append(SavedSearch(str(name), members, fitting, new))
    return searches


def _marked_for(teacher: Teacher, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows that belong to those of a label by what was marked, these included, and rows that do not."""
    queries = set(members.tolist())
    marks = [mark for mark in teacher.state().marks if mark.query.kind == "row" and mark.query.value in queries]
    items = {right: [int(str(mark.item.value)) for mark in marks if mark.right == right] for right in (True, False)}
    wrong = np.array(items[False], dtype=np.int64)
    return np.setdiff1d(np.union1d(members, items[True]).astype(np.int64), wrong), np.setdiff1d(wrong, members)


def above(
    index: BaseIndex,
    inside: Sequence[int],
    at_most_wrong: float,
    outside: Sequence[int] = (),
    *,
    avoided: np.ndarray | None = None,
) -> Concept:
    """All other rows that belong with those `inside` and not with those `outside`, above a cut-off; best first.

    None of the rows `avoided` is among them.
    """
    rows = ranked(index, inside, outside)[0]
    rows = rows if avoided is None else rows[~np.isin(rows, avoided)]
    sure = Confidence.of_set(index, index.raw[np.asarray(inside)], index.raw[np.asarray(outside, dtype=np.int64)])
    rows = rows[: sure.n_kept(rows[None], at_most_wrong)[0]]
    return Concept("", rows, sure.probabilities(rows[None])[0])


def pictures_of(index: BaseIndex, concept: Concept) -> list[Path]:
    """The pictures of a set, all below the folder of the library: an index made by others may name files elsewhere."""
    if index.paths is None:
        raise LikewiseError("keywords are for an index of pictures, and this one was built from numbers")
    if index.root is not None and not index.root.is_dir():
        raise LikewiseError(f"{index.root}, where the pictures were, is not there: --root DIR says where they are now")
    return [_inside(index, row) for row in concept.rows.tolist() if index.paths[row] is not None]


def _inside(index: BaseIndex, row: int) -> Path:
    assert index.paths is not None
    path = PurePath(index.paths[row])
    if index.root is not None and (path.is_absolute() or ".." in path.parts):
        raise LikewiseError(f"the index names {str(path)!r}, which is not below {index.root}: nothing was written")
    return (index.root or Path()) / path


def ranked(index: BaseIndex, inside: Sequence[int], outside: Sequence[int] = ()) -> tuple[np.ndarray, np.ndarray]:
    """All other rows and their scores, best first: like the rows `inside`, and unlike those `outside`.

    On an index that was taught this is the taught similarity, so that teaching a set and growing it are one.
    """
    if not len(inside):
        raise LikewiseError("inside is empty; expected at least one row that belongs to the set")
    members = row_numbers(inside, len(index))
    others = row_numbers(outside, len(index)) if len(outside) else np.empty(0, np.int64)
    if np.intersect1d(members, others).size:
        raise LikewiseError(
            f"row {np.intersect1d(members, others)[0]} is both inside and outside; expected one of them"
        )
    space = index.space()
    query = mean_query(space.embed(index.raw[members]), space.embed(index.raw[others]) if len(others) else None)
    rest = np.setdiff1d(np.arange(len(index)), np.concatenate([members, others]))
    rows, scores = space.rank(query, len(rest), rest)
    return rows[0], scores[0]


def save_as_label(teacher: Teacher, concept: Concept, who: str = "") -> tuple[Event | None, np.ndarray]:
    """Give all rows of a set its name as label, in one step that `undo` takes back.

    An item has one label: rows that have another keep it, and are returned with the event, which is None if no row is
    left.
    """
    labels = teacher.state().labels_of(teacher.untaught)
    current = np.array([None] * len(concept) if labels is None else labels[concept.rows], dtype=object)
    other = np.array([label is not None and str(label) != concept.name for label in current], dtype=bool)
    new = concept.rows[~other & np.array([label is None for label in current], dtype=bool)]
    return (teacher.label(new, concept.name, who) if len(new) else None), concept.rows[other]


def to_csv(index: BaseIndex, concepts: Concept | Sequence[Concept], path: StrPath) -> Path:
    """Write `csv_of` into a file."""
    return atomic_write(path, csv_of(index, concepts).encode())


def csv_of(index: BaseIndex, concepts: Concept | Sequence[Concept]) -> str:
    """One line per item of a set, or of several: its path or id, the label and, where known, the probability.

    The first two columns are what `--labels FILE` reads; a name that begins like a formula has a ' in front.
    """
    parts = [concepts] if isinstance(concepts, Concept) else concepts
    is_known = any(part.probabilities is not None for part in parts)
    lines = []
    for part in parts:
        P = np.ones(len(part)) if part.probabilities is None else part.probabilities
        for row, p in zip(part.rows.tolist(), P.tolist(), strict=True):
            name = index.ids[row] if index.paths is None or index.paths[row] is None else escape(index.paths[row])
            lines.append([name, part.name, *([f"{p:.4f}"] if is_known else [])])
    head = ["path" if index.paths is not None else "id", "label", *(["probability"] if is_known else [])]
    return csv_text(head, lines)
