"""The state of a server: an index, its similarity spaces, its labels, and uploaded pictures."""

import secrets
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from cachetools import LRUCache, cachedmethod

from likewise.errors import LikewiseError
from likewise.evaluate import average_precision
from likewise.learn.cosine import Cosine
from likewise.search.conditions import columns_of, parsed
from likewise.search.confidence import Confidence
from likewise.search.filters import where_mask
from likewise.search.index import BaseIndex
from likewise.search.rank import NotFoundError, Space, check_row, mean_query, query_vector, rank_scores
from likewise.serve.catalogue import Catalogue, Facet, Filters
from likewise.serve.ranking import LONGEST, Ranking
from likewise.serve.settings import Limits
from likewise.serve.thumbnails import SIZES, Picture, PictureDecoders, placeholder, to_jpeg
from likewise.teach.taught_index import untaught
from likewise.words import TextSide
from likewise.words.search import Phrase, Wording, Words, WordScores, has_words

_CACHE_BYTES = 128 * 2**20
_UPLOAD_SIDE = 1024  # pixels that an upload keeps on its shorter side if the extractor does not say what it needs
_RANKINGS = 64  # queries whose order is kept, for the next page


@dataclass(frozen=True)
class Upload:
    """An uploaded picture: its raw features, a thumbnail, and its width and height; or features alone."""

    features: np.ndarray
    picture: Picture | None = None
    size: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class ById:
    """An example by its id, as somebody types it."""

    id: str


@dataclass(frozen=True)
class ByVector:
    """An example by its raw features."""

    values: list[float]


Reference = int | str | Upload | Phrase  # the row of an item, the name of an upload, what was sent, or words
Given = Reference | ById | ByVector


@dataclass(frozen=True)
class SearchResult:
    """Rows and scores, best first; the label of the query and its average precision where known.

    `total` is the number of items that were ranked, of which `rows` may be a part.

    `probabilities` are of the rows, None where they cannot be told; with a cut-off, `total` rows are above it, of which
    about `about_wrong` are wrong. `novelty` of the query above 1 says that it is unlike anything known.

    `by_name` says of each row whether it has the words of the query in its label or name; None without words.

    `by_heart` says that the model learned from the query itself: its average precision says nothing about others.
    """

    space: Space
    rows: np.ndarray
    scores: np.ndarray
    label: str | None
    average_precision: float | None
    total: int
    by_heart: bool = False
    probabilities: np.ndarray | None = None
    about_wrong: float | None = None
    novelty: float | None = None
    by_name: np.ndarray | None = None


class Session:
    """One index being searched and taught."""

    def __init__(
        self, index: BaseIndex, limits: Limits, side: TextSide | None = None, show: Sequence[str] = ()
    ) -> None:
        self.index = index
        self._side, self.has_words = side, side is not None or has_words(index)
        self._words: Words | None = None
        self._renamed = False  # labels were given since the words were asked last
        self.limits = limits
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
        self._uploads: LRUCache[str, Upload] = LRUCache(limits.uploads)
        self._pictures: LRUCache[Any, Picture] = LRUCache(_CACHE_BYTES, getsizeof=lambda picture: len(picture[0]))

    def __len__(self) -> int:
        return len(self.labels)

    def check_row(self, row: int) -> int:
        """The row itself, or a `NotFoundError`."""
        return check_row(row, len(self))

    def set_label(self, row: int, label: str | None) -> None:
        """Change the label of an item; None removes it."""
        self.labels[row] = label
        self._label_facet, self._renamed = None, True
        self._passing.clear()
        self._forget_rankings()

    def _forget_rankings(self) -> None:
        with self._lock:
            self._rankings.clear()

    @property
    def compares(self) -> bool:
        """Whether the learned ranking is another one than that of the raw features."""
        return self.learned.version > 0 or not isinstance(untaught(self.index).model, Cosine)

    @property
    def label_facet(self) -> Facet:
        facet = self._label_facet
        if facet is None:
            facet = self._label_facet = Facet("label", self.labels)
        return facet

    def codes(self) -> tuple[list[str], np.ndarray]:
        """The sorted labels, and for each item the position of its label, -1 without one."""
        return self.label_facet.names, self.label_facet.codes

    def facets(self) -> dict[str, Facet]:
        """What items can be filtered by."""
        return {
            "labels": self.label_facet,
            "folders": self.catalogue.folder_facet,
            "months": self.catalogue.month_facet,
        }

    def kept(self, filters: Filters) -> np.ndarray:
        """Whether each item passes the filters, as booleans."""
        masks = [facet.mask(wanted) for name, facet in self.facets().items() if (wanted := getattr(filters, name))]
        passing = [self._passes(condition) for condition in filters.where]
        return np.logical_and.reduce([np.ones(len(self), dtype=bool), *masks, *passing])

    def _passes(self, condition: str) -> np.ndarray:
        """Whether each item passes a condition; `label` is what it is labelled now."""
        known = self._passing.get(condition)
        if known is None:
            items = self.index.items
            if "label" in columns_of(parsed(condition)):
                labels = np.array([*self.labels, None], dtype=object)[:-1]  # None keeps it one-dimensional, of objects
                items = replace(items, labels=labels)
            known = where_mask(items, [condition])
            self._passing[condition] = known
        return known

    def resolved(self, like: Sequence[Given], unlike: Sequence[Given]) -> tuple[list[Reference], list[Reference]]:
        """Examples with ids as rows, and vectors checked."""
        return [self._resolved(one) for one in like], [self._resolved(one) for one in unlike]

    def _resolved(self, one: Given) -> Reference:
        if isinstance(one, ById):
            return self.row_of(one.id)
        return self._vector(one.values) if isinstance(one, ByVector) else one

    def row_of(self, name: str) -> int:
        """The row of an id as somebody types it."""
        try:
            return self.index.items.row_of_text(name)
        except LikewiseError as error:
            raise NotFoundError(str(error)) from error

    def _vector(self, values: list[float]) -> Upload:
        return Upload(query_vector(values, self.index.model.n_features_in_))

    def add_vector(self, values: list[float]) -> str:
        """Keep raw features to search by, under a new name; a picture's name has no dot."""
        upload, name = self._vector(values), f"vector.{secrets.token_urlsafe(9)}"
        with self._lock:
            self._uploads[name] = upload
        return name

    @cachedmethod(lambda self: self._pictures, lock=lambda self: self._lock)
    def picture(self, row: int, size: str) -> Picture:
        """The picture of an item, or a tile with its name."""
        path = self.index.image_path(row)  # from the index, never from the client
        found = None if path is None else self.decoders.picture_of_file(Path(path), size)
        return found or placeholder(self.index.ids[row])

    def add_upload(self, data: bytes) -> tuple[str, Upload]:
        """Keep a picture to search by, under a new name; the least recently used one may be dropped for it."""
        at_least = self.index.image_extractor().at_least() or _UPLOAD_SIDE
        decoded = self.decoders.upload(data, max(at_least, SIZES["small"]))
        features = self.index.embed([decoded.content])
        upload = Upload(features[0], to_jpeg(decoded.content, SIZES["small"]), decoded.size)
        name = secrets.token_urlsafe(9)
        with self._lock:
            self._uploads[name] = upload
        return name, upload

    def upload(self, name: str) -> Upload:
        with self._lock:
            if name not in self._uploads:
                raise NotFoundError("this picture is no longer available; upload it again")
            return self._uploads[name]

    def _sent(self, ref: str | Upload) -> Upload:
        return self.upload(ref) if isinstance(ref, str) else ref

    def space(self, side: str) -> Space:
        """The space of a side; before the first lesson "previous" is the learned one."""
        return {"raw": self.raw, "learned": self.learned, "previous": self.previous or self.learned}[side]

    def search(
        self,
        like: list[Reference],
        unlike: list[Reference],
        k: int,
        side: str,
        filters: Filters | None = None,
        offset: int = 0,
        at_most_wrong: float | None = None,
    ) -> SearchResult:
        """Items similar to some examples and dissimilar to others, best first, excluding the examples.

        The first `offset` of them are left out; they end at the cut-off.
        """
        if at_most_wrong is not None:
            result = self.above(like, unlike, side, filters, at_most_wrong)
            page = slice(offset, offset + k)
            assert result.probabilities is not None
            P = result.probabilities[page]
            return replace(result, rows=result.rows[page], scores=result.scores[page], probabilities=P)
        space = self.space(side)
        if has_phrases(like, unlike):
            return self._search_by_words(space, like, unlike, k, filters, offset)
        return self.with_confidence(self._ranked(space, like, unlike, k, filters, offset), like, unlike)

    def above(
        self, like: list[Reference], unlike: list[Reference], side: str, filters: Filters | None, at_most_wrong: float
    ) -> SearchResult:
        """All results above a cut-off."""
        space = self.space(side)
        if not space.calibrated or not like:
            raise LikewiseError(_why_no_cutoff(space))
        if has_phrases(like, unlike):
            raise LikewiseError("words have no cut-off: what their scores mean was not measured")
        result = self._ranked(space, like, unlike, len(self), filters)
        n = int(self._confidence(space, like, unlike).n_kept(result.rows[None], at_most_wrong)[0])
        result = replace(result, rows=result.rows[:n], scores=result.scores[:n], total=n)
        result = self.with_confidence(result, like, unlike)
        assert result.probabilities is not None
        return replace(result, about_wrong=float((1 - result.probabilities).sum()))

    def with_confidence(self, result: SearchResult, like: list[Reference], unlike: list[Reference]) -> SearchResult:
        """Results with their probabilities, and the novelty of the query, where these are known."""
        space = result.space
        if not like or not space.has_confidence or has_phrases(like, unlike):
            return result
        sure = self._confidence(space, like, unlike)
        P = sure.probabilities(result.rows[None])[0] if space.calibrated else None
        return replace(result, probabilities=P, novelty=None if sure.novelty is None else float(sure.novelty[0]))

    def _confidence(self, space: Space, like: list[Reference], unlike: list[Reference]) -> Confidence:
        return Confidence.of_set(space.index, self.features(like), self.features(unlike))

    def _ranked(
        self,
        space: Space,
        like: list[Reference],
        unlike: list[Reference],
        k: int,
        filters: Filters | None,
        offset: int = 0,
    ) -> SearchResult:
        ranking, precision = self._ranking(space, like, unlike, filters)
        rows, scores = ranking.page(offset, k)
        if len(ranking) > LONGEST:
            self._forget_rankings()
        known = [ref for ref in like if isinstance(ref, int)]
        learned = space is not self.raw and bool(known) and bool(self.index.learned_from(np.array(known)).any())
        return SearchResult(space, rows, scores, self._common_label(like), precision, ranking.total, learned)

    def _ranking(
        self, space: Space, like: list[Reference], unlike: list[Reference], filters: Filters | None
    ) -> tuple[Ranking, float | None]:
        """The order of the items for a query, kept for its next page, and its average precision over all of them.

        Where the index is approximate the latter is left out: it needs the scores of all items.
        """
        q, own = self._query(space, like, unlike), self._own(like, unlike)
        asked = None if filters is None or filters == Filters() else repr(filters)
        key = (id(space), q.tobytes(), tuple(own), asked)
        with self._lock:
            kept = self._rankings.get(key)
        if kept is not None and kept[0] is space:
            return kept[1:]
        allowed = np.ones(len(self), dtype=bool) if filters is None else self.kept(filters)
        allowed[own] = False
        label, S = self._common_label(like), None
        if label is not None and not space.approximate:
            S = space.scores(q[None])[0]
        precision = None if S is None else self._precision(S, own, label)
        ranking = Ranking(space, q, own, None if asked is None else np.flatnonzero(allowed), S)
        with self._lock:
            self._rankings[key] = (space, ranking, precision)
        return ranking, precision

    def _search_by_words(
        self, space: Space, like: list[Reference], unlike: list[Reference], k: int, filters: Filters | None, offset: int
    ) -> SearchResult:
        own, label = self._own(like, unlike), self._common_label(like)
        S, worded = self._scores(space, like, unlike)
        precision = self._precision(S, own, label)
        among = np.arange(len(self)) if filters is None else np.flatnonzero(self.kept(filters))
        among = np.setdiff1d(among, own)
        rows, scores = rank_scores(S, offset + k, among)
        rows, scores = rows[offset:], scores[offset:]
        return SearchResult(space, rows, scores, label, precision, len(among), by_name=worded.by_name[rows])

    @staticmethod
    def _own(like: list[Reference], unlike: list[Reference]) -> list[int]:
        return [ref for ref in (*like, *unlike) if isinstance(ref, int)]

    def _scores(self, space: Space, like: list[Reference], unlike: list[Reference]) -> tuple[np.ndarray, WordScores]:
        """Scores of all items, (n,), by words and by the examples beside them."""
        pictures = [[ref for ref in refs if not isinstance(ref, Phrase)] for refs in (like, unlike)]
        S = space.scores(self._query(space, *pictures)[None]) if any(pictures) else None
        wanted, unwanted = (tuple(ref for ref in refs if isinstance(ref, Phrase)) for refs in (like, unlike))
        worded = self.current_words().scores(Wording(wanted, unwanted), None if S is None else S[0])
        return worded.scores.copy(), worded

    @property
    def words(self) -> Words:
        """Words of the index in force; the encoder is read on first use."""
        with self._lock:
            if self._words is None:
                self._words = Words(self.learned.index, self._side)
            return self._words

    def forget_words(self) -> None:
        """Learn the words again when they are asked for: another lesson is in force."""
        self._words, self._renamed = None, True

    def relearn_words(self) -> None:
        """Learn the words of the index in force, after a lesson, if anybody has asked for words before."""
        before = self._words
        if before is not None:
            now = Words(self.learned.index, before.side)
            now.similarity("a picture")
            self._words, self._renamed = now, True

    def prepare_words(self) -> None:
        """Read the encoder and compute the rows of all pictures, so that the first phrase does not wait for it."""
        with suppress(LikewiseError):  # an altered package: a search by words will say so
            self.words.similarity("a picture")

    def current_words(self) -> Words:
        """The words, with the labels of now."""
        words = self.words
        if self._renamed:
            self._renamed = False
            words.relabel(list(self.labels))
        return words

    def _query(self, space: Space, like: Sequence[Reference], unlike: Sequence[Reference]) -> np.ndarray:
        return mean_query(*(self._vectors(space, refs) if refs else np.empty((0, 0)) for refs in (like, unlike)))

    def features(self, refs: list[Reference]) -> np.ndarray:
        """Raw features of examples, (n, d)."""
        raw = self.index.raw
        sent = [ref for ref in refs if not isinstance(ref, Phrase)]
        parts = [raw[self.check_row(ref)] if isinstance(ref, int) else self._sent(ref).features for ref in sent]
        return np.array(parts).reshape(-1, raw.shape[1])

    def _vectors(self, space: Space, refs: Sequence[Reference]) -> np.ndarray:
        rows = [self.check_row(ref) for ref in refs if isinstance(ref, int)]
        uploaded = [self._sent(ref).features for ref in refs if isinstance(ref, str | Upload)]
        of_rows = [space.queries(rows)] if rows else []
        return np.concatenate([*of_rows, *([space.embed(np.array(uploaded))] if uploaded else [])])

    def _common_label(self, like: list[Reference]) -> str | None:
        """The label that all wanted examples share; None if they differ or one is unknown."""
        found = {self.labels[ref] if isinstance(ref, int) else None for ref in like}
        return found.pop() if len(found) == 1 else None

    def _precision(self, scores: np.ndarray, own: list[int], label: str | None) -> float | None:
        if label is None:
            return None
        relevant = self.label_facet.mask([label])
        kept = np.ones(len(scores), dtype=bool)
        kept[own] = False
        return average_precision(scores[kept], relevant[kept]) if relevant[kept].any() else None


def has_phrases(like: list[Reference], unlike: list[Reference]) -> bool:
    """Whether there are words in a query."""
    return any(isinstance(ref, Phrase) for ref in (*like, *unlike))


def _why_no_cutoff(space: Space) -> str:
    if space.calibrated:
        return "a cut-off needs an example to be like"
    if space.kind == "raw":
        return "the raw features have no cut-off: what their scores mean was not measured"
    return "there is no cut-off: this index has no calibration, which a fit by labels or some 16 marks bring"
