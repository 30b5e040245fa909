"""One version of an index being searched and taught: its spaces, labels and uploads, and the results of queries."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from cachetools import LRUCache, cachedmethod

from likewise.errors import LikewiseError
from likewise.evaluate import average_precision
from likewise.learn.cosine import Cosine
from likewise.pictures.images import encode_jpeg
from likewise.search.confidence import Confidence
from likewise.search.filters import Condition, where_mask
from likewise.search.index import BaseIndex
from likewise.search.rank import NotFoundError, Space, check_row, mean_query, query_vector, rank_scores
from likewise.serve.catalogue import SIZES, Catalogue, Facet, Filters, Picture, PictureDecoders, placeholder, shown_file
from likewise.serve.settings import Limits
from likewise.teach.learning import Scored
from likewise.teach.taught_index import untaught
from likewise.words import TextSide
from likewise.words.search import Phrase, Wording, Words, has_words

_CACHE_BYTES = 128 * 2**20
_UPLOAD_SIDE = 1024  # pixels that an upload keeps on its shorter side if the extractor does not say what it needs
_RANKINGS = 64  # queries whose order is cached, for the next page
_AHEAD = 1_000  # results ranked at a time; then twice as many as were requested
_LONGEST = 50_000  # results that are cached for the next page


@dataclass(frozen=True)
class Upload:
    """An uploaded picture: its raw features, a thumbnail, and its width and height; or features alone."""

    features: np.ndarray
    picture: Picture | None = None
    size: tuple[int, int] = (0, 0)


Reference = int | str | Upload | Phrase  # the row of an item, the name of an upload, an upload, or words
Value = TypeVar("Value")


class Recent(Generic[Value]):
    """The last values that were added, by names that cannot be guessed; `gone` is the error for other names."""

    def __init__(self, most: int, gone: str) -> None:
        self._values: LRUCache[str, Value] = LRUCache(most)
        self._gone, self._lock = gone, threading.Lock()

    def add(self, value: Value, prefix: str = "") -> str:
        name = f"{prefix}{secrets.token_urlsafe(9)}"
        with self._lock:
            self._values[name] = value
        return name

    def __getitem__(self, name: str) -> Value:
        with self._lock:
            if name not in self._values:
                raise NotFoundError(self._gone)
            return self._values[name]

    def update(self, other: Recent[Value]) -> None:
        """Add the values of another, with their names."""
        with self._lock, other._lock:
            self._values.update(other._values)


@dataclass(frozen=True)
class SearchQuery:
    """Examples that results should be like or unlike, and the filters that they have to pass."""

    like: Sequence[Reference]
    unlike: Sequence[Reference] = ()
    filters: Filters = field(default_factory=Filters)
    precision: bool = False  # whether to compute the average precision, where the label of the query is known

    @property
    def rows(self) -> list[int]:
        """The examples that are items: results do not include them."""
        return [ref for ref in (*self.like, *self.unlike) if isinstance(ref, int)]

    @property
    def has_words(self) -> bool:
        return any(isinstance(ref, Phrase) for ref in (*self.like, *self.unlike))

    @property
    def is_single(self) -> bool:
        """Whether one item or one row of features is all there is to it."""
        is_one = len(self.like) == 1 and not self.unlike and not self.precision and self.filters == Filters()
        return is_one and isinstance(self.like[0], int | Upload)


@dataclass(frozen=True)
class SearchResult:
    """A page of results, best first, and what is known of all of them."""

    space: Space
    rows: np.ndarray
    scores: np.ndarray
    label: str | None  # of the query, where known
    average_precision: float | None
    total: int  # items that were ranked, or that are above the cut-off
    learned_from_query: bool = False  # the average precision then says nothing about other queries
    probabilities: np.ndarray | None = None  # of the rows; None without a calibration
    about_wrong: float | None = None  # how many of `total`, with a cut-off
    novelty: float | None = None  # above 1, the query is unlike anything known
    by_name: np.ndarray | None = None  # for each row, whether the words of the query are in its label or name
    calibrated: bool = False  # whether this query has a cut-off


class Ranking:
    """The order of the items for a query vector q, page by page: all but the examples, or only rows `among` these.

    The first page may come from an approximate index; rows that it has missed come on the next, so that pages never
    overlap. `scores` are those of all items, if they are known.
    """

    def __init__(
        self,
        space: Space,
        q: np.ndarray,
        examples: list[int],
        among: np.ndarray | None = None,
        scores: np.ndarray | None = None,
    ) -> None:
        self.total = len(space) - len(set(examples)) if among is None else len(among)
        self.rows, self.scores = np.empty(0, np.int64), np.empty(0, np.float32)
        self._space, self._query, self._examples, self._among, self._known = space, q[None], examples, among, scores
        self._lock = threading.Lock()

    def page(self, offset: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        """k results after the first `offset`."""
        end = min(offset + k, self.total)
        with self._lock:
            if end > len(self.rows):
                self._extend(end)
            return self.rows[offset:end], self.scores[offset:end]

    def _extend(self, end: int) -> None:
        if self._space.approximate and self._among is None and not len(self.rows) and end <= _AHEAD // 2:
            self.rows, self.scores = self._best(end)
            if len(self.rows) >= end:
                return
        rows, scores = self._best(min(self.total, max(_AHEAD, 2 * end)), exact=True)
        new = ~np.isin(rows, self.rows)
        self.rows = np.concatenate([self.rows, rows[new]])
        self.scores = np.concatenate([self.scores, scores[new]])

    def _best(self, k: int, exact: bool = False) -> tuple[np.ndarray, np.ndarray]:
        examples = np.array([self._examples]) if self._examples else None
        known, self._known = self._known, None  # megabytes, that are not kept
        S = None if known is None else known[None]
        (rows,), (scores,) = self._space.rank(self._query, k, self._among, examples, exact=exact, scores=S)
        return rows[rows >= 0], scores[rows >= 0]


class Marked(NamedTuple):
    """What was marked for a query: its concept, and a function that gives the scores of all items by it."""

    concept: Scored
    scores: Callable[[], np.ndarray]


class Session:
    """One index being searched and taught; `marked_for` gives what was marked for a query, if anything was."""

    marked_for: Callable[[SearchQuery], Marked | None]

    def __init__(
        self, index: BaseIndex, limits: Limits, side: TextSide | None = None, show: Sequence[str] = ()
    ) -> None:
        self.index = index
        self._side, self.has_words = side, side is not None or has_words(index)
        self._words: Words | None = None
        self._renamed = False  # labels have changed since the last search by words
        self.limits, self.marked_for = limits, lambda query: None
        self.boot = secrets.token_hex(4)  # part of picture addresses, so that a browser does not cache across restarts
        self.raw, self.learned = index.space("raw"), index.space()
        self.previous: Space | None = None
        labels = [None] * len(index) if index.labels is None else index.labels
        self.labels = [None if label is None else str(label) for label in labels]
        self.catalogue = Catalogue(index, show)
        self.has_pictures = self.catalogue.has_pictures
        self._passing: LRUCache[str, np.ndarray] = LRUCache(32)
        self._rankings: LRUCache[Any, tuple[Space, Ranking, float | None]] = LRUCache(_RANKINGS)
        self._label_facet: Facet | None = None
        self.decoders = PictureDecoders(limits)
        self._lock = threading.Lock()
        self.uploads: Recent[Upload] = Recent(limits.uploads, "this picture is no longer available; upload it again")
        self._pictures: LRUCache[Any, Picture] = LRUCache(_CACHE_BYTES, getsizeof=lambda picture: len(picture[0]))

    def __len__(self) -> int:
        return len(self.labels)

    def continue_from(self, before: Session) -> None:
        """Take over the decoders and the uploads of the version of the index before."""
        self.decoders.close()
        self.decoders = before.decoders
        if before.index.raw.shape[1] == self.index.raw.shape[1]:
            self.uploads.update(before.uploads)

    def check_row(self, row: int) -> int:
        """The row itself, or a `NotFoundError`."""
        return check_row(row, len(self))

    def set_labels(self, labels: Mapping[int, str | None]) -> None:
        """Change the labels of some rows; None removes one."""
        for row, label in labels.items():
            self.labels[row] = label
        self._label_facet, self._renamed = None, True
        self._passing.clear()
        with self._lock:
            self._rankings.clear()

    @property
    def compares(self) -> bool:
        """Whether the learned ranking differs from that of the raw features."""
        return self.learned.version > 0 or not isinstance(untaught(self.index).model, Cosine)

    @property
    def label_facet(self) -> Facet:
        if (facet := self._label_facet) is None:
            facet = self._label_facet = Facet("label", self.labels)
        return facet

    def facets(self) -> dict[str, Facet]:
        """What items can be filtered by."""
        return {
            "labels": self.label_facet,
            "folders": self.catalogue.folder_facet,
            "months": self.catalogue.month_facet,
        }

    def passing(self, filters: Filters) -> np.ndarray:
        """Whether each item passes the filters, as booleans."""
        masks = [facet.mask(wanted) for name, facet in self.facets().items() if (wanted := getattr(filters, name))]
        masks += map(self._passes, filters.where)
        return np.logical_and.reduce([np.ones(len(self), dtype=bool), *masks])

    def _passes(self, condition: str) -> np.ndarray:
        """Whether each item passes a condition; `label` is its present label."""
        mask = self._passing.get(condition)
        if mask is None:
            items = self.index.items
            if "label" in Condition(condition).columns:
                labels = np.array([*self.labels, None], dtype=object)[:-1]  # None keeps it one-dimensional, of objects
                items = replace(items, labels=labels)
            mask = self._passing[condition] = where_mask(items, [condition])
        return mask

    def row_of(self, name: str) -> int:
        """The row of an id, as typed."""
        try:
            return self.index.items.row_of_text(name)
        except LikewiseError as error:
            raise NotFoundError(str(error)) from error

    def vector(self, values: list[float]) -> Upload:
        """Raw features to search by, checked."""
        return Upload(query_vector(values, self.index.model.n_features_in_))

    @cachedmethod(lambda self: self._pictures, lock=lambda self: self._lock)
    def picture(self, row: int, size: str) -> Picture:
        """The picture of an item, or a tile with its name."""
        path = shown_file(self.index, row)  # from the index, never from the client
        picture = None if path is None else self.decoders.picture_of_file(path, size)
        return picture or placeholder(self.index.ids[row])

    def add_upload(self, data: bytes) -> tuple[str, Upload]:
        """Keep a picture to search by."""
        at_least = self.index.image_extractor().at_least() or _UPLOAD_SIDE
        decoded = self.decoders.upload(data, max(at_least, SIZES["small"]))
        features = self.index.embed([decoded.content])
        upload = Upload(features[0], (encode_jpeg(decoded.content, SIZES["small"]), "image/jpeg"), decoded.size)
        return self.uploads.add(upload), upload

    def space(self, side: str) -> Space:
        """The space of a side; before the first lesson "previous" is the learned one."""
        return {"raw": self.raw, "learned": self.learned, "previous": self.previous or self.learned}[side]

    # -- search -------------------------------------------------------------------------------------------------------

    def search(
        self, query: SearchQuery, k: int, side: str = "learned", offset: int = 0, at_most_wrong: float | None = None
    ) -> SearchResult:
        """k items that fit a query after the first `offset`, best first; with a cut-off, only those above it."""
        marked = self.marked_for(query) if side == "learned" else None
        if marked is not None and (at_most_wrong is None or marked.concept.calibration is not None):
            return self._search_by_marks(marked, query, k, offset, at_most_wrong)
        if at_most_wrong is not None:
            result = self.above(query, side, at_most_wrong)
            page = slice(offset, offset + k)
            assert result.probabilities is not None
            P = result.probabilities[page]
            return replace(result, rows=result.rows[page], scores=result.scores[page], probabilities=P)
        if query.has_words:
            return self._search_by_words(self.space(side), query, k, offset)
        return self.with_confidence(self._search(self.space(side), query, k, offset), query)

    def _search_by_marks(
        self, marked: Marked, query: SearchQuery, k: int, offset: int, at_most_wrong: float | None
    ) -> SearchResult:
        """Results in the order of what was marked for the query; above a cut-off, only those that nobody marked."""
        concept, S, allowed, page = marked.concept, marked.scores(), self._allowed(query), slice(offset, offset + k)
        label, P, wrong = self.common_label(query), None, None
        precision = self._precision(S, query, label) if query.precision else None
        if at_most_wrong is not None:
            rows, P = concept.above(at_most_wrong)
            passes = np.isin(rows, allowed)
            rows, P = rows[passes], P[passes]
            total, wrong, scores = len(rows), float((1 - P).sum()), S[rows]
            rows, P, scores = rows[page], P[page], scores[page]
        else:
            rows, scores = (part[offset:] for part in rank_scores(S, offset + k, allowed))
            total = len(allowed)
            P = None if concept.calibration is None else concept.probabilities(rows)
        is_sure = concept.calibration is not None
        return SearchResult(
            self.learned, rows, scores, label, precision, total, probabilities=P, about_wrong=wrong, calibrated=is_sure
        )

    def above(self, query: SearchQuery, side: str, at_most_wrong: float) -> SearchResult:
        """All results above a cut-off."""
        space = self.space(side)
        if query.has_words:
            raise LikewiseError("words have no cut-off: what their scores mean was not measured")
        if space.kind == "raw":
            raise LikewiseError("the raw features have no cut-off: what their scores mean was not measured")
        if not space.calibrated:
            why = "this index has no calibration, which a fit by labels or some 16 marks bring"
            raise LikewiseError(f"there is no cut-off: {why}")
        if not query.like:
            raise LikewiseError("a cut-off needs an example to be like")
        result = self._search(space, query, len(self))
        n = int(self._confidence(space, query).n_kept(result.rows[None], at_most_wrong)[0])
        result = replace(result, rows=result.rows[:n], scores=result.scores[:n], total=n)
        result = self.with_confidence(result, query)
        assert result.probabilities is not None
        return replace(result, about_wrong=float((1 - result.probabilities).sum()))

    def with_confidence(self, result: SearchResult, query: SearchQuery) -> SearchResult:
        """Results with their probabilities, and the novelty of the query, where these are known."""
        space = result.space
        if not query.like or not space.has_confidence or query.has_words:
            return result
        confidence = self._confidence(space, query)
        P = confidence.probabilities(result.rows[None])[0] if space.calibrated else None
        novelty = None if confidence.novelty is None else float(confidence.novelty[0])
        return replace(result, probabilities=P, novelty=novelty, calibrated=space.calibrated)

    def _confidence(self, space: Space, query: SearchQuery) -> Confidence:
        return Confidence.of_set(space.index, self._features(query.like), self._features(query.unlike))

    def _search(self, space: Space, query: SearchQuery, k: int, offset: int = 0) -> SearchResult:
        ranking, precision = self._ranking(space, query)
        rows, scores = ranking.page(offset, k)
        if len(ranking.rows) > _LONGEST:
            with self._lock:
                self._rankings.clear()
        like = [ref for ref in query.like if isinstance(ref, int)]
        trained = precision is not None and space is not self.raw and bool(like)
        trained = trained and bool(self.index.learned_from(np.array(like)).any())
        return SearchResult(space, rows, scores, self.common_label(query), precision, ranking.total, trained)

    def _ranking(self, space: Space, query: SearchQuery) -> tuple[Ranking, float | None]:
        """The order of the items for a query, cached for its next page, and its average precision over all of them.

        An approximate index has no average precision: that needs the scores of all items.
        """
        q, filtered = self._query_vector(space, query), query.filters != Filters()
        label = self.common_label(query) if query.precision else None
        key = (id(space), q.tobytes(), tuple(query.rows), repr(query.filters) if filtered else None, label)
        with self._lock:
            cached = self._rankings.get(key)
        if cached is not None and cached[0] is space:
            return cached[1:]
        allowed = self._allowed(query) if filtered else None
        S = space.scores(q[None])[0] if label is not None and not space.approximate else None
        precision = None if S is None else self._precision(S, query, label)
        ranking = Ranking(space, q, query.rows, allowed, S)
        with self._lock:
            self._rankings[key] = (space, ranking, precision)
        return ranking, precision

    def _search_by_words(self, space: Space, query: SearchQuery, k: int, offset: int) -> SearchResult:
        """Results by the words of a query, together with its other examples."""
        examples = (query.like, query.unlike)
        like, unlike = ([ref for ref in refs if not isinstance(ref, Phrase)] for refs in examples)
        wanted, unwanted = (tuple(ref for ref in refs if isinstance(ref, Phrase)) for refs in examples)
        by_examples = SearchQuery(like, unlike)
        E = space.scores(self._query_vector(space, by_examples)[None])[0] if like or unlike else None
        worded = self.words.scores(Wording(wanted, unwanted), E)
        label, allowed, S = self.common_label(query), self._allowed(query), worded.scores
        rows, scores = (part[offset:] for part in rank_scores(S, offset + k, allowed))
        by_name, precision = worded.by_name[rows], self._precision(S, query, label) if query.precision else None
        return SearchResult(space, rows, scores, label, precision, len(allowed), by_name=by_name)

    def _allowed(self, query: SearchQuery) -> np.ndarray:
        """The rows that pass the filters, without the examples."""
        mask = self.passing(query.filters)
        mask[query.rows] = False
        return np.flatnonzero(mask)

    def _query_vector(self, space: Space, query: SearchQuery) -> np.ndarray:
        like, unlike = (self._vectors(space, refs) if refs else np.empty((0, 0)) for refs in (query.like, query.unlike))
        return mean_query(like, unlike)

    def _vectors(self, space: Space, refs: Sequence[Reference]) -> np.ndarray:
        rows = [self.check_row(ref) for ref in refs if isinstance(ref, int)]
        uploaded = [self._features([ref])[0] for ref in refs if isinstance(ref, str | Upload)]
        of_rows = [space.queries(rows)] if rows else []
        return np.concatenate([*of_rows, *([space.embed(np.array(uploaded))] if uploaded else [])])

    def _features(self, refs: Sequence[Reference]) -> np.ndarray:
        """Raw features of examples, (n, d)."""
        raw, rows = self.index.raw, []
        for ref in refs:
            if isinstance(ref, int):
                rows.append(raw[self.check_row(ref)])
            elif not isinstance(ref, Phrase):
                rows.append((self.uploads[ref] if isinstance(ref, str) else ref).features)
        return np.array(rows).reshape(-1, raw.shape[1])

    def common_label(self, query: SearchQuery) -> str | None:
        """The label that all wanted examples share; None if they differ or one is unknown."""
        labels = {self.labels[ref] if isinstance(ref, int) else None for ref in query.like}
        return labels.pop() if len(labels) == 1 else None

    def _precision(self, scores: np.ndarray, query: SearchQuery, label: str | None) -> float | None:
        if label is None:
            return None
        relevant = self.label_facet.mask([label])
        others = np.ones(len(scores), dtype=bool)
        others[query.rows] = False
        return average_precision(scores[others], relevant[others]) if relevant[others].any() else None

    # -- words --------------------------------------------------------------------------------------------------------

    @property
    def words(self) -> Words:
        """Words of the index in force, with the present labels; the encoder is read on first use."""
        with self._lock:
            if self._words is None:
                self._words = Words(self.learned.index, self._side)
            words, is_renamed, self._renamed = self._words, self._renamed, False
        if is_renamed:
            words.relabel(list(self.labels))
        return words

    def relearn_words(self) -> None:
        """Learn the words of the index in force, after a lesson, if there was a search by words before.

        Until then words search as before the lesson.
        """
        if self._words is None or self._words.index is self.learned.index:
            return
        words = Words(self.learned.index, self._words.side)
        words.similarity("a picture")
        self._words, self._renamed = words, True
