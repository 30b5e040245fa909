"""The index of a gallery: its model, its vectors and its items, searched by raw rows and saved in one folder."""

import copy
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from likewise.learn.base import SimilarityModel
from likewise.rows.columns import Columns
from likewise.search import changing, confidence
from likewise.search import rank as search
from likewise.search.approximate import Approximate, sampled_recall, suited_kind
from likewise.search.building import Workspace
from likewise.search.filters import rows_where
from likewise.search.gallery import EXTRACTOR, as_gallery, embedded, in_float, lengths
from likewise.search.identity import Identities
from likewise.search.items import Items, as_items
from likewise.search.neighbors import Neighbours
from likewise.search.rank import Engine, Exact, query_rows, result_count
from likewise.search.smoothed_gallery import (
    SmoothedGallery,
    base_part,
    plain_engine,
    smoothed_as,
    smoothed_gallery,
    with_base_part,
)
from likewise.search.storage import has_feedback, live_extractor, read_index, write_index
from likewise.teach.lifted import LiftedEngine, LiftedVectors, Reached, after_lesson
from likewise.teach.taught import Taught, innermost


class Index:
    """A gallery that can be searched: a model, the raw rows, their vectors and their items.

    Attributes
    ----------
    model : SimilarityModel
    raw : (n, d) array of raw features, memory-mapped after `load`
    vectors : (n, r) float32 array that is searched: the gallery side of the rows, smoothed if `neighbours` says so;
        memory-mapped after `load`; `LiftedVectors` of a large gallery that was taught
    plain_vectors : the same before smoothing, as the model gives it
    neighbours : Neighbours or None
        The number of neighbours that smooth each vector, and their weighting; None if vectors are plain.
    ids : (n,) array: row numbers, unless the items carry ids of their own
    metadata : Columns or None, the other columns that the items came with
    labels : (n,) array of objects, None where a label is unknown; None if no label is known
    paths : (n,) array of picture paths relative to `root`, or None
    extractor : dict or None, the description of the extractor that made the raw features; `extractor_file` is its file
    untaught : Index or None
        Of an index that was taught, the same gallery before any lesson.
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
    >>> ids, scores = index.search(X[:2], k=5)
    >>> ids.shape
    (2, 5)
    """

    def __init__(
        self,
        model: SimilarityModel,
        raw: np.ndarray,
        vectors: Any,
        items: Items,
        *,
        root: Path | None = None,
        extractor: dict[str, Any] | None = None,
        extractor_file: Path | None = None,
        approximate: bool | str = False,
        smoothed: SmoothedGallery | None = None,
        source: dict[str, Any] | None = None,
    ) -> None:
        self.source = source
        self.model, self.items = model, items
        self.raw, self.plain_vectors, self._smoothed = raw, vectors, smoothed
        self.root, self.extractor, self.extractor_file = root, extractor, extractor_file
        self.approximate = approximate
        self.recall: float | None = None
        self.untaught: Index | None = None
        self.folder: Path | None = None  # where it was loaded from or saved to; `checksums` are of its files there
        self.checksums: dict[str, str] = {}
        self._live_extractor: Any = None
        self._engine: Engine | None
        self._known: Identities | None
        self._reset()

    @classmethod
    def build(
        cls,
        model: SimilarityModel,
        gallery: Any,
        items: Any = None,
        *,
        approximate: bool | str = False,
        neighbours: str | int | Neighbours = 0,
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

        `neighbours` smooths each vector and each query by its k nearest in the gallery, which usually ranks better; the
        build then searches the gallery by each of its rows. It is 0 for none, k, a `Neighbours` that sets the power of
        the weights too, or "auto": k chosen by the labels of the gallery; without labels 10, or none for fewer than 500
        rows; always none for a model that is not a cosine.
        """
        found = as_gallery(gallery, model.transform)
        if items is not None:
            found = replace(found, items=as_items(items, len(found.raw)))
        steps = None if workspace is None else Workspace.of(Path(workspace), model, found.raw, approximate)
        V = embedded(model, found.raw, verbose) if steps is None else steps.vectors(model, found.raw, verbose)
        labels = found.items.labels
        if labels is not None and neighbours == "auto":  # what a model knows by heart cannot choose
            labels = labels.copy()
            labels[innermost(model).learned_from(found.raw)] = None
        smoothed = smoothed_gallery(model, V, neighbours, labels, verbose)
        kind = suited_kind(approximate, V)
        index = cls(model, vectors=V, approximate=kind, smoothed=smoothed, **vars(found))
        if steps is not None and kind in ("ivf", "ivfpq") and smoothed is None:
            index._engine = Approximate(V, kind, steps.lists(V, str(kind), verbose))
        if kind:  # if queries have another width, no row of the gallery can be one
            is_query = model.n_features_in_ == index.raw.shape[1]
            index.recall = sampled_recall(index.engine, index._query_vectors if is_query else index.vectors.__getitem__)
        return index

    # -- contents -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        kind = "exact" if not self.approximate else self.approximate
        return f"Index({len(self)} items, {self.raw.shape[1]} features → {self.vectors.shape[1]}, {kind})"

    @property
    def neighbours(self) -> Neighbours | None:
        """How vectors are smoothed; None if they are not."""
        return None if self._smoothed is None else self._smoothed.choice

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

    def rows_of(self, ids: Any) -> np.ndarray:
        """Rows of the given ids."""
        return self.items.rows_of(ids)

    def image_path(self, row: int) -> Path | None:
        """Path of the picture a row was extracted from."""
        if self.paths is None or self.paths[row] is None:
            return None
        return (self.root or Path()) / self.paths[row]

    # -- searching ----------------------------------------------------------------------------------------------------

    def search(self, queries: Any, k: int = 10, *, probability: bool = False, where: Any = None) -> tuple[Any, ...]:
        """Ids and scores, both (n, k), best first, for raw query rows; `probability` adds how likely each matches.

        `where` ranks only the items that pass a condition on their columns, such as 'price < 20'.
        """
        rows, scores = self.search_vectors(self.query_vectors(queries), k, where=where)
        found = (self.ids[rows], scores)
        return (*found, confidence.probabilities(self, queries, rows)) if probability else found

    def matches(
        self, queries: Any, at_most_wrong: float = 0.1, k: int | None = None, *, where: Any = None
    ) -> list[confidence.Matches]:
        """The first k results of each raw query row, cut so that on average no more are wrong; there may be none."""
        rows, scores = self.search_vectors(self.query_vectors(queries), len(self) if k is None else k, where=where)
        return confidence.matches(self, queries, rows, scores, at_most_wrong)

    def query_vectors(self, queries: Any) -> np.ndarray:
        """Query vectors of raw rows: the query side of the model, smoothed as the gallery is."""
        Q = self.model.transform_query(query_rows(queries, self.model.n_features_in_))
        if self._smoothed is None:
            return Q
        near = plain_engine(self.untaught or self)
        return with_base_part(Q, self._smoothed.queries(base_part(self.model, Q), near))

    def search_vectors(self, Q: Any, k: int = 10, *, where: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Rows and scores for query vectors from `query_vectors`; with `where`, exact also if the index is not."""
        Q, among = search.query_vectors(Q, self.vectors.shape[1]), rows_where(self.items, where)
        k = result_count(k, len(self) if among is None else len(among))
        engine = self.engine if among is None else search.Among(self.vectors, among)
        return search.best_rows(engine, Q, k) if k else search.nothing(len(Q))

    def search_raw(self, queries: Any, k: int = 10, *, where: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Rows and scores for raw query rows by the cosine of raw features, without the model."""
        Q, among = query_rows(queries, self.raw.shape[1]), rows_where(self.items, where)
        k = result_count(k, len(self) if among is None else len(among))
        return search.cosine_rows(Q, self.raw, self.norms, k, among) if k else search.nothing(len(Q))

    def search_rows(
        self, rows: Any, k: int = 10, *, raw: bool = False, own: bool = False, where: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows and scores for rows of the gallery as queries; `own` includes the query itself in its results.

        `raw` ranks by the cosine of raw features, without the model.
        """
        rows = search.row_numbers(rows, len(self))
        k = result_count(k, len(self)) + (not own)
        if raw:
            found = self.search_raw(self.raw[rows], k, where=where)
        else:
            found = self.search_vectors(self._query_vectors(rows), k, where=where)
        return found if own else search.others(rows, *found, k - 1)

    def _query_vectors(self, rows: np.ndarray) -> np.ndarray:
        """Query side of gallery rows, which are valid row numbers."""
        if self.model.symmetric:
            return self.vectors[rows]
        search.check_one_width(self.model.n_features_in_, self.raw.shape[1])
        return self.model._query_side(in_float(self.raw[rows]))

    @property
    def engine(self) -> Engine:
        """The exact or approximate search engine, built on first use."""
        with self._lock:
            if self._engine is None:
                self._engine = self._new_engine()
                self.approximate = getattr(self._engine, "kind", False)
        return self._engine

    def _new_engine(self) -> Engine:
        if self.untaught is not None and isinstance(self.vectors, LiftedVectors):
            return LiftedEngine(self.vectors, self.untaught.engine)
        return Approximate(self.vectors, self.approximate) if self.approximate else Exact(self.vectors)

    def embed(self, images: Sequence[Any]) -> np.ndarray:
        """Raw rows of pictures (paths, bytes, arrays), from the extractor saved with the index."""
        return np.asarray(self.image_extractor().transform(images))

    def image_extractor(self) -> Any:
        """The extractor saved with the index, ready to use."""
        with self._lock:
            if self._live_extractor is None:
                self._live_extractor = live_extractor(self)
        return self._live_extractor

    # -- changing -----------------------------------------------------------------------------------------------------

    def add(self, rows: Any, items: Any = None) -> None:
        """Append raw rows; without ids of their own they continue the numbering.

        With `neighbours`, the rows that get a new neighbour are smoothed again: the index is as if built with all rows.
        """
        if self.untaught is not None:
            self.untaught.add(rows, items)
            return self._teach_again()
        self._replace(changing.plus(self, rows, items))
        return None

    def remove(self, ids: Any) -> None:
        """Remove the items with these ids; the rows they were neighbours of are smoothed again."""
        if self.untaught is not None:
            self.untaught.remove(ids)
            return self._teach_again()
        self._replace(changing.minus(self, ids))
        return None

    def _replace(self, rows: changing.IndexRows) -> None:
        self.raw, self.plain_vectors, self.items, self._smoothed = rows
        self._reset()

    def with_model(self, model: SimilarityModel) -> Self:
        """The same gallery under another model; neighbours are found anew, and dropped if it is not a cosine."""
        other = copy.copy(self)
        other.model, other.plain_vectors = model, embedded(model, self.raw)
        other._smoothed = smoothed_as(self.neighbours, model, other.plain_vectors)
        other.untaught = other.recall = None
        other._forget_vectors()
        return other

    def taught(self, model: Taught | None, part: np.ndarray | Reached | None = None, labels: Any = None) -> Self:
        """The gallery of this index, which was not taught, under a lesson about its own model, and with these labels.

        The rows are not transformed again, and their neighbours stay those before the lesson. `part` is the taught
        part of the rows, if the teacher has computed it already. Without a model only the labels are new.
        """
        other = self.with_labels(labels)
        other.untaught = self
        if model is not None:
            other.model, other.plain_vectors = model, after_lesson(model, self.plain_vectors, part)
            other.recall = self.recall if isinstance(other.plain_vectors, LiftedVectors) else None
            other._forget_vectors()
        return other

    def _teach_again(self) -> None:
        """Take over the rows of the untaught index."""
        base = self.untaught
        assert base is not None
        model = self.model if self.model is not base.model else None
        vars(self).update(vars(base.taught(model, labels=base.items.labels_from(self.items))))

    def with_labels(self, labels: Any) -> Self:
        """The same gallery with other labels."""
        other = copy.copy(self)
        if labels is not self.items.labels:
            known = None if labels is None else as_items({"label": labels}, len(self)).labels
            other.items = replace(self.items, labels=known)
        return other

    @property
    def identities(self) -> Identities:
        """What names the items in journals and addresses, whatever row they are in."""
        if self._known is None:
            self._known = Identities(self.items, self.raw)
        return self._known

    # -- on disk ------------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Save the index to a folder; readers, and a crash, always find the old index or the new one.

        Marks and lessons that the folder already has stay, and go on speaking of the same items. A lesson that was
        learned elsewhere becomes part of the model.
        """
        if self.untaught is not None and self.folder == Path(folder):  # which has the lesson already
            return self.untaught.save(folder)
        version, self.checksums = write_index(self, Path(folder))
        self.folder = Path(folder)
        if self.extractor_file is not None:
            self.extractor_file = version / EXTRACTOR  # the original may be deleted later
        return Path(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, verify: bool = True, taught: bool = True) -> Self:
        """Read an index under its last lesson; `verify` compares every file with its checksum.

        With `taught=False` it is as it was before any lesson.
        """
        parts, facts, approximate = read_index(Path(folder), verify)
        index = cls(**parts)
        index.recall, index.folder, index.checksums = facts["recall"], Path(folder), facts["files"]
        if index.approximate:
            index._engine = Approximate(index.vectors, index.approximate, approximate)
        if not taught or not has_feedback(Path(folder)):
            return index
        from likewise.teach.teacher import in_force  # which learns a lesson again where its file does not fit

        return in_force(index)  # type: ignore[return-value]

    # -- derived from the rows ----------------------------------------------------------------------------------------

    def _reset(self) -> None:
        """Drop what was derived from the rows."""
        self._forget_vectors()
        self._lengths: np.ndarray | None = None
        self._known = None

    def _forget_vectors(self) -> None:
        """Drop what was derived from the plain vectors, and smooth them."""
        self._lock = threading.Lock()
        self._engine = None
        smoothed = self._smoothed
        self.vectors = self.plain_vectors if smoothed is None else with_base_part(self.plain_vectors, smoothed.vectors)

    @property
    def norms(self) -> np.ndarray:
        """Euclidean norms of the raw rows, (n,), computed on first use."""
        if self._lengths is None:
            self._lengths = lengths(self.raw)
        return self._lengths
