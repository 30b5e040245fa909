"""The index of a gallery: its model, its vectors and its items, searched by raw rows and saved in one folder."""

import copy
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel
from likewise.rows import Table
from likewise.rows.columns import Columns
from likewise.rows.store import FeatureStore
from likewise.search.approximate import Approximate, sampled_recall, suited_kind
from likewise.search.confidence import Confidence
from likewise.search.filters import Where, rows_where
from likewise.search.gallery import EXTRACTOR, GalleryRows, ResumableBuild, as_gallery, embedded, lengths
from likewise.search.items import Identities, Items, as_items
from likewise.search.neighbors import Neighbors, SmoothedGallery, smoothed_gallery, with_base_part
from likewise.search.rank import Engine, Exact, Space, SpaceName, query_rows, result_count, row_numbers
from likewise.search.storage import QueryExtractor, live_extractor, read_index, write_index
from likewise.utils.versions import Hold
from likewise.utils.wording import html_table

log = logging.getLogger("likewise")

_SHOWN = 5  # queries and results in a repr
MOVED = 0.1  # of the share of taught items, or of their number: then the gate is learned again
_FEW_ROWS = 1_000  # of more it is found out once for all rows whether the model learned from them


class QueryResults(NamedTuple):
    """The results of one query, best first; there may be none."""

    ids: np.ndarray
    rows: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray | None


class Results:
    """The results of a search, best first: one row of each array per query; `results[i]` are those of one query.

    Where one query has fewer results than another, its rows end with -1, its ids with None and its scores with -inf.

    Attributes
    ----------
    ids, rows, scores : arrays (n_q, k) of ids, of row numbers in the gallery, and of scores
    probabilities : array (n_q, k) or None
        How likely each result matches; None if the model has no calibration, or for raw features.
    novelty : array (n_q,) or None
        Above 1, a query is unlike anything the model learned from; None if the model has no novelty.
    """

    def __init__(
        self, ids: np.ndarray, rows: np.ndarray, scores: np.ndarray, confidence: Confidence | None = None
    ) -> None:
        self.rows, self.scores, self.confidence, self._names = rows, scores, confidence, ids

    @property
    def ids(self) -> np.ndarray:
        """Ids of the items; None where there is none."""
        names = self._names[self.rows]
        if (self.rows < 0).any():
            names = names.astype(object)
            names[self.rows < 0] = None
        return np.asarray(names)

    @cached_property
    def probabilities(self) -> np.ndarray | None:
        """How likely each result matches, computed on first use."""
        sure = self.confidence
        return None if sure is None or not sure.calibrated else sure.probabilities(self.rows)

    @property
    def novelty(self) -> np.ndarray | None:
        """How new each query is."""
        return None if self.confidence is None else self.confidence.novelty

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, query: int) -> QueryResults:
        n, P = int((self.rows[query] >= 0).sum()), self.probabilities
        likely = None if P is None else P[query, :n]
        return QueryResults(self._names[self.rows[query, :n]], self.rows[query, :n], self.scores[query, :n], likely)

    def __iter__(self) -> Iterator[QueryResults]:
        return map(self.__getitem__, range(len(self)))

    def __repr__(self) -> str:
        shown = [
            ", ".join(
                f"{name} ({score:.3f})" for name, score in zip(one.ids[:_SHOWN], one.scores[:_SHOWN], strict=True)
            )
            + (", …" if len(one.ids) > _SHOWN else "")
            for one in map(self.__getitem__, range(min(len(self), _SHOWN)))
        ]
        more = ["…"] if len(self) > _SHOWN else []
        return "\n  ".join([f"Results of {len(self)} queries, up to {self.rows.shape[1]} each:", *shown, *more])

    def _repr_html_(self) -> str:
        rows: list[list[Any]] = []
        for query, one in enumerate(map(self.__getitem__, range(min(len(self), _SHOWN)))):
            likely = [""] * len(one.ids) if one.probabilities is None else one.probabilities.tolist()
            hits = zip(one.ids.tolist(), one.scores.tolist(), likely, strict=True)
            rows += [[query, place, *hit] for place, hit in enumerate(list(hits)[:_SHOWN], 1)]
        return html_table(("query", "place", "id", "score", "probability"), rows)


class BaseIndex:
    """What an index and an index under a lesson have in common: items that can be searched, and their vectors."""

    vectors: Any
    neighbors: Neighbors | None
    folder: Path | None  # where it was loaded from or saved to
    approximate: bool | str

    def __init__(
        self, model: SimilarityModel, gallery: GalleryRows, vectors: Any, source: dict[str, Any] | None = None
    ) -> None:
        self.model, self.plain_vectors, self.source = model, vectors, source
        self.raw, self.items, self.root = gallery.raw, gallery.items, gallery.root
        self.extractor, self.extractor_file = gallery.extractor, gallery.extractor_file
        self.recall: float | None = None
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    # -- contents -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        shape = f"{len(self)} items, {self.raw.shape[1]} features → {self.vectors.shape[1]}"
        return f"{type(self).__name__}({shape}, {self.approximate or 'exact'})"

    @property
    def ids(self) -> np.ndarray:
        """Ids of the rows."""
        return self.items.ids

    @property
    def labels(self) -> np.ndarray | None:
        """Labels of the rows, None where unknown; None if no label is known."""
        return self.items.labels

    @property
    def paths(self) -> np.ndarray | None:
        """Paths of the pictures, relative to `root`."""
        return self.items.paths

    @property
    def metadata(self) -> Columns | None:
        """The other columns of the items."""
        return self.items.metadata

    def gallery(self, items: Items) -> GalleryRows:
        """The raw rows and where they came from, with these items."""
        return GalleryRows(self.raw, items, self.root, self.extractor, self.extractor_file)

    def rows_of(self, ids: ArrayLike) -> np.ndarray:
        """Rows of the given ids."""
        return self.items.rows_of(ids)

    def image_path(self, row: int) -> Path | None:
        """Path of the picture a row was extracted from."""
        if self.paths is None or self.paths[row] is None:
            return None
        return (self.root or Path()) / self.paths[row]

    # -- searching ----------------------------------------------------------------------------------------------------

    def search(
        self,
        queries: ArrayLike | None = None,
        *,
        rows: ArrayLike | None = None,
        k: int | None = 10,
        space: SpaceName = "learned",
        where: Where | None = None,
        at_most_wrong: float | None = None,
    ) -> Results:
        """The k most similar items for each query, best first.

        Parameters
        ----------
        queries : array of raw rows, one per query
        rows : row numbers
            Items of the gallery as queries, which are not among their own results. Either `queries` or `rows` is given.
        k : int or None
            The number of results; None for all items.
        space : "learned" or "raw"
            The similarity of the model, or the cosine of raw features.
        where : str, list of str, or array of bool
            Rank only the items that pass all conditions on their columns, such as "price < 20", or those marked True.
        at_most_wrong : float
            Cut the results of each query so that on average at most this share of them is wrong; none may be left.
        """
        if (queries is None) == (rows is None):
            raise LikewiseError("expected either queries or rows")
        similarity, among = self.space(space), rows_where(self.items, where)
        k = len(self) if k is None else result_count(k, len(self))
        if queries is not None:
            best, scores = similarity.rank(similarity.embed(queries), k, among)
        else:
            assert rows is not None
            numbers = row_numbers(rows, len(self))
            best, scores = similarity.rank(similarity.queries(numbers), k, among, numbers[:, None])
        if at_most_wrong is not None and space == "raw":
            raise LikewiseError("the raw features have no cut-off: what their scores mean was not measured")
        if at_most_wrong is None and not similarity.has_confidence:
            return Results(self.ids, best, scores)
        confidence = Confidence.of_each(self, self.raw[numbers] if queries is None else queries)
        if at_most_wrong is not None:
            cut = np.arange(best.shape[1]) >= confidence.n_kept(best, at_most_wrong)[:, None]
            best, scores = np.where(cut, -1, best), np.where(cut, np.float32(-np.inf), scores)
            filled = (best >= 0).any(axis=0)
            best, scores = best[:, filled], scores[:, filled]
        return Results(self.ids, best, scores, confidence)

    def space(self, kind: SpaceName = "learned", version: int = 0) -> Space:
        """A similarity of the items, which ranks them: "learned" by the model, or "raw", the cosine of raw features."""
        return Space(self, kind, version)

    def learned_from(self, rows: np.ndarray) -> np.ndarray:
        """Whether the model learned from each of these rows of the gallery, as booleans."""
        if len(rows) > _FEW_ROWS:
            return np.asarray(self._learned_rows[rows])
        return np.asarray(self.model.learned_from(np.asarray(self.raw[rows])))

    @cached_property
    def _learned_rows(self) -> np.ndarray:
        return np.asarray(self.model.learned_from(self.raw))

    def _embedded_queries(self, queries: ArrayLike) -> np.ndarray:
        """Query vectors of raw rows: the query side of the model, smoothed as the gallery is."""
        return self._smoothed_queries(self.model.transform_query(query_rows(queries, self.model.n_features_in_)))

    def _smoothed_queries(self, Q: np.ndarray) -> np.ndarray:
        """Query vectors of the model, smoothed as the gallery is."""
        raise NotImplementedError

    @property
    def engine(self) -> Engine:
        """The exact or approximate search engine, built on first use."""
        with self._lock:
            if self._engine is None:
                self._engine = self._new_engine()
                self.approximate = getattr(self._engine, "kind", False)
        return self._engine

    def _new_engine(self) -> Engine:
        return Approximate(self.vectors, self.approximate) if self.approximate else Exact(self.vectors)

    def embed(self, images: Sequence[object]) -> np.ndarray:
        """Raw rows of pictures (paths, bytes, arrays), from the extractor saved with the index."""
        return np.asarray(self.image_extractor().transform(images))

    def image_extractor(self, trust: bool = False) -> QueryExtractor:
        """The extractor saved with the index, ready to use.

        One that runs a model which was never used on this machine raises, unless `trust` is set: then it runs in a
        process with limits of memory and time, from now on.
        """
        raise NotImplementedError

    @cached_property
    def identities(self) -> Identities:
        """What names the items in journals and addresses, whatever row they are in."""
        return Identities(self.items, self.raw)

    @cached_property
    def norms(self) -> np.ndarray:
        """Euclidean norms of the raw rows, (n,), computed on first use."""
        return lengths(self.raw)


class Index(BaseIndex):
    """A gallery that can be searched: a model, the raw rows, their vectors and their items.

    Attributes
    ----------
    model : SimilarityModel
    raw : (n, d) array of raw features, memory-mapped after `load`
    vectors : (n, r) float32 array that is searched: the gallery side of the rows, smoothed if `n_neighbors` says so;
        memory-mapped after `load`
    plain_vectors : the same before smoothing, as the model gives it
    neighbors : Neighbors or None
        The number of neighbours that smooth each vector, and their weighting; None if vectors are plain.
    ids : (n,) array: row numbers, unless the items carry ids of their own
    metadata : Columns or None, the other columns that the items came with
    labels : (n,) array of objects, None where a label is unknown; None if no label is known
    paths : (n,) array of picture paths relative to `root`, or None
    extractor : dict or None, the description of the extractor that made the raw features; `extractor_file` is its file
    source : dict or None
        What a photo library remembers: its features, the choice of labels, what was learned from (`update_library`).
    recall : float or None
        Recall@10 of an approximate index against exact search, measured on rows of the gallery.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from likewise import SimilarityLearner
    >>> from likewise.search import Index
    >>> X, y = load_digits(return_X_y=True)
    >>> index = Index.build(SimilarityLearner(kernel="linear").fit(X[:500], y[:500]), X[500:], {"label": y[500:]})
    >>> results = index.search(X[:2], k=5)
    >>> results.ids.shape
    (2, 5)
    """

    def __init__(
        self,
        model: SimilarityModel,
        gallery: GalleryRows,
        vectors: Any,
        *,
        approximate: bool | str = False,
        smoothed: SmoothedGallery | None = None,
        source: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(model, gallery, vectors, source)
        self.approximate, self._smoothed, self.folder = approximate, smoothed, None
        self.checksums: dict[str, str] = {}  # of the files in `folder`
        self.hold: Hold | None = None  # on the version that it was loaded from
        self._live_extractor: QueryExtractor | None = None
        self._reset()

    def _reset(self) -> None:
        """Drop what was derived from the rows, and smooth the vectors."""
        self._lock = threading.Lock()
        self._engine = None
        for name in ("_learned_rows", "identities", "norms"):
            vars(self).pop(name, None)
        plain, smoothed = self.plain_vectors, self._smoothed
        self.vectors: Any = plain if smoothed is None else with_base_part(plain, smoothed.vectors)

    @classmethod
    def build(
        cls,
        model: SimilarityModel,
        gallery: object,
        items: object = None,
        *,
        approximate: bool | str = False,
        n_neighbors: str | int | Neighbors = 0,
        new_items: str | float = "auto",
        workspace: str | os.PathLike[str] | None = None,
        verbose: int = 0,
    ) -> Self:
        """Index a gallery: a feature store, a path to one or to any table, an array of raw rows, or blocks of them.

        The raw rows of a store, a `.npy` file, a memmap or blocks (an iterable, read once, or a function that returns
        one) stay on disk; only their vectors are held in memory. `items` names the rows: ids, or a table, data frame
        or mapping with `id`, `label` and `path`; by default the names come from the store or the table. `approximate`
        is False (exact), True, "hnsw", "ivf", "ivfpq" (codes of some bytes per vector), or "auto": True if an exact
        search takes more than 50 ms here; `verbose=1` shows a progress bar. With a folder `workspace`, a build that was
        killed goes on there, and vectors stay on disk, too; remove it after `save`.

        `n_neighbors` smooths each vector and each query by its k nearest in the gallery, which usually ranks better;
        the build then searches the gallery by each of its rows. It is 0 for none, k, a `Neighbors` that sets the power
        of the weights too, or "auto": k chosen by the labels of the gallery; without labels 10, or none for fewer than
        500 rows; always none for a model that is not a cosine.

        `new_items` is for galleries that also hold items of classes that the model was not taught, which a map of the
        taught ones would rank worse than the raw cosine. "auto" compares the gallery with labelled rows; `index.model`
        is then a copy of the model that tells both kinds apart, and `index.taught_share` their share. 0 takes all
        items for taught ones, and a number is the share of new ones. Probabilities and cut-offs are those of rows held
        out in `fit`: about right among taught items, and too sure, or not sure enough, among new ones.
        """
        parts = as_gallery(gallery, model.transform)
        model = model.for_gallery(parts.raw, new_items)
        if items is not None:
            parts = replace(parts, items=as_items(items, len(parts.raw)))
        steps = None if workspace is None else ResumableBuild.of(Path(workspace), model, parts.raw, approximate)
        V = embedded(model, parts.raw, verbose) if steps is None else steps.vectors(model, parts.raw, verbose)
        labels = parts.items.labels
        if labels is not None and n_neighbors == "auto":  # scores of training rows are optimistic
            labels = labels.copy()
            labels[model.learned_from(parts.raw)] = None
        smoothed = smoothed_gallery(model, V, n_neighbors, labels, verbose)
        kind = suited_kind(approximate, V)
        index = cls(model, parts, V, approximate=kind, smoothed=smoothed)
        if steps is not None and kind in ("ivf", "ivfpq") and smoothed is None:
            index._engine = Approximate(V, kind, steps.lists(V, str(kind), verbose))
        if kind:  # if queries have another width, no row of the gallery can be one
            is_query = model.n_features_in_ == index.raw.shape[1]
            as_query = index.space().queries if is_query else index.vectors.__getitem__
            index.recall = sampled_recall(index.engine, as_query)
        return index

    @property
    def taught_share(self) -> float:
        """The share of the gallery that is of classes that the model was taught, as far as it knows."""
        share = self.model.taught_share
        if share is None:
            return 1.0
        learned = float(self._learned_rows.mean())
        return learned + (1 - learned) * share

    @property
    def neighbors(self) -> Neighbors | None:  # type: ignore[override]
        """How vectors are smoothed; None if they are not."""
        return None if self._smoothed is None else self._smoothed.choice

    def _smoothed_queries(self, Q: np.ndarray) -> np.ndarray:
        return self.smoothed_queries(Q, self.model)

    def smoothed_queries(self, Q: np.ndarray, model: SimilarityModel) -> np.ndarray:
        """Query vectors of the model of this index, or of a lesson about it, smoothed as the gallery is.

        The neighbours come from the engine of an approximate index, whose candidates are ranked by plain vectors.
        """
        smoothed = self._smoothed
        if smoothed is None:
            return Q
        is_whole = smoothed.plain.shape[1] == self.vectors.shape[1]
        by, plain_engine = self.engine if self.approximate and is_whole else None, None
        if isinstance(by, Approximate):
            plain_engine = Approximate(self.plain_vectors, by.kind, by.index)
        return with_base_part(Q, smoothed.queries(model.base_part(Q), plain_engine))

    # -- with other rows ----------------------------------------------------------------------------------------------

    def plus(self, rows: Any, items: object = None) -> Self:
        """An index with raw rows appended: anything that `build` takes, with ids from the same column.

        Where the index numbers its rows, the new ones continue the numbering. In a smoothed index the rows that get a
        new neighbour are smoothed again, as if it were built with all rows.
        """
        is_named, column = isinstance(rows, str | os.PathLike | Table | FeatureStore), self.items.id_column
        parts = as_gallery(rows if is_named else query_rows(rows, self.raw.shape[1]), id_column=column)
        start = int(self.ids.max()) + 1 if self.ids.dtype.kind == "i" and len(self) else len(self)
        named = parts.items if items is None else as_items(items, len(parts.raw), id_column=column)
        new = query_rows(np.asarray(parts.raw), self.raw.shape[1])
        return self.changed(np.arange(len(self)), new, self.items.plus(named.numbered_from(start)))

    def minus(self, ids: ArrayLike) -> Self:
        """An index without the items with these ids; the rows they were neighbours of are smoothed again."""
        rows = np.setdiff1d(np.arange(len(self)), self.rows_of(ids))
        if not len(rows):
            raise LikewiseError(f"removing all {len(self)} items would leave an empty index")
        return self.changed(rows, self.raw[:0], self.items.take(rows))

    def changed(self, staying: np.ndarray, new: np.ndarray, items: Items) -> Self:
        """An index of the rows `staying`, in ascending order, followed by new raw rows; `items` are those of all."""
        other = copy.copy(self)
        vectors = embedded(self.model, new) if len(new) else self.plain_vectors[:0]
        other.raw = np.concatenate([self.raw[staying], new.astype(self.raw.dtype, copy=False)])
        other.plain_vectors, other.items = np.concatenate([self.plain_vectors[staying], vectors]), items
        if self._smoothed is not None:
            base = self.model.base_part(vectors) if len(new) else self._smoothed.plain[:0]
            other._smoothed = self._smoothed.changed(staying, base)
        other._reset()
        learned_rows = self.model.gate_rows_
        if learned_rows is None or abs(len(other) - learned_rows) <= MOVED * learned_rows:
            return other
        model = self.model.for_gallery(other.raw)
        if abs((model.taught_share or 1.0) - (self.model.taught_share or 1.0)) <= MOVED:
            other.model = copy.copy(self.model)
            other.model.gate_rows_ = len(other)
            return other
        log.info("the share of taught classes in the gallery has changed: all vectors are computed again")
        options: dict[str, Any] = {"approximate": self.approximate, "n_neighbors": self.neighbors or 0}
        return type(self).build(model, other.gallery(items), **options)

    def with_labels(self, labels: ArrayLike | None) -> Self:
        """The same gallery with other labels."""
        other = copy.copy(self)
        other.items = self.items.with_labels(labels)
        return other

    # -- on disk ------------------------------------------------------------------------------------------------------

    def save(
        self, folder: str | os.PathLike[str], *, on_replace: Callable[[Path, GalleryRows], None] | None = None
    ) -> Path:
        """Save the index to a folder; readers, and a crash, always find the old index or the new one.

        Marks and lessons that the folder already has stay, and apply to the same items. `on_replace` is called with the
        folder and the rows of the index that is about to be replaced: `teach.save_index` notes edited pictures.
        """
        version, self.checksums = write_index(self, Path(folder), on_replace)
        self.folder = Path(folder)
        if self.extractor_file is not None:
            self.extractor_file = version / EXTRACTOR  # the original may be deleted later
        return Path(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, verify: bool = True) -> Self:
        """Read an index as it was before any lesson; `verify` compares every file with its checksum.

        `likewise.teach.load_index` reads it under its last lesson.
        """
        saved = read_index(Path(folder), verify)
        index = cls(**saved.parts)
        index.recall, index.folder, index.hold = saved.facts["recall"], Path(folder), saved.hold
        index.checksums = saved.facts["files"]
        if index.approximate:
            index._engine = Approximate(index.vectors, index.approximate, saved.approximate)
        return index

    def image_extractor(self, trust: bool = False) -> QueryExtractor:
        """The extractor saved with the index, ready to use; `trust` as in `BaseIndex.image_extractor`."""
        with self._lock:
            if self._live_extractor is None:
                self._live_extractor = live_extractor(self, trust)
        return self._live_extractor
