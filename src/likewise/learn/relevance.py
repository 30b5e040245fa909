"""RelevanceLearner: a ranking from judgements, clicks, pairs or triplets between queries and items."""

from __future__ import annotations

from dataclasses import asdict
from math import ceil
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from sklearn.utils import gen_batches

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel, checked_side, finite_fit
from likewise.learn.choose.judged import FEWEST, MOST_ITEMS, MOST_LEARNED, HeldQueries, Judgements
from likewise.learn.choose.relevance import DOUBT, UNTRIED, Chosen, Metric, Ranking, chosen_and_measured, fitted
from likewise.learn.maths.rocchio import INTERCEPT, rbf_gamma
from likewise.learn.maths.scatter import leading_directions
from likewise.rows.relevance import Relevance
from likewise.utils.arrays import check_magnitude, dense, row_hashes, to_host
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import NUMERIC_ROWS, Interval, StrOptions, check_array, check_is_fitted, validate_data

WIDEST, WIDTH = 2_000, 500  # wider and sparse rows are learned from in as many leading directions
MOST_SAMPLED = 10_000  # items that those directions are taken from
_BLOCK = 8_192  # items brought to unit length at a time


class RelevanceLearner(SimilarityModel):
    """Learn to rank items for queries from judged pairs: grades, clicks, links or triplets.

    Two maps in closed form, one after the other. A metric in which relevant pairs are close: the inverse of their
    shrunk covariance, or, where clicks follow classes, the log-likelihood ratio of relevant and random pairs. Then
    kernel Rocchio: a query moves towards the items that were relevant to similar queries. Settings are chosen on
    held-out queries, and each map is shrunk towards the raw cosine as far as its gain is uncertain. No random number
    is used: equal data give equal models, whatever the order of the rows. Rows are scaled to unit length; the
    similarity is the cosine. Queries and items of different width have no raw cosine: Rocchio alone takes a query to
    the space of the items.

    Parameters
    ----------
    side : {"both", "query"}, default="both"
        "query" leaves the items as they are, so that an index of their unit rows can be searched as it is.
    n_landmarks : int, default=1500
        Queries that the kernel compares with; with as many as there are queries it is exact.

    Attributes
    ----------
    learned_ : bool
        False if the similarity is the raw cosine.
    held_out_ : dict or None
        nDCG@10 of held-out queries by the raw cosine and learned: "known" where an item is relevant to another query
        too, "new" where the items of a query were forgotten, and "all". How many "queries" they are, and how many would
        be "needed" for a gain to be clear where none is. None if there were too few to hold any out.
    setting_, cv_results_ : dict
        "metric" and "rocchio" as chosen, each with the "share" of it that is used; and all that were tried, in the
        schema of scikit-learn.
    metric_, shift_, landmarks_, coefficients_, reduction_, query_reduction_ : the maps, where there are any.
    n_samples_, n_pairs_, n_features_in_, n_gallery_features_ : int
        Queries and relevant pairs learned from, and columns of both sides.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from likewise import RelevanceLearner
    >>> from likewise.rows import Relevance
    >>> X, y = load_digits(return_X_y=True)
    >>> Q, G = X[:300], X[300:1300]
    >>> shown = np.argsort(-(Q @ G.T), axis=1)[:, :20]
    >>> queries, places = np.nonzero(y[300:1300][shown] == y[:300, None])
    >>> clicks = Relevance.from_clicks(queries, shown[queries, places], shape=(300, 1000))
    >>> RelevanceLearner().fit(Q, clicks, gallery=G).learned_
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "side": [StrOptions({"both", "query"})],
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, side: str = "both", *, n_landmarks: int = 1500) -> None:
        self.side, self.n_landmarks = side, n_landmarks

    metric_: np.ndarray | None
    shift_: np.ndarray | None
    landmarks_: np.ndarray | None
    coefficients_: np.ndarray | None
    reduction_: np.ndarray | None
    query_reduction_: np.ndarray | None

    @finite_fit
    def fit(self, X: Any, y: Any, gallery: Any = None) -> Self:
        """Learn from the relevance y of the items of a gallery (X itself if None) to queries X.

        Parameters
        ----------
        X : (n, d) rows of the queries, an array or a sparse matrix
        y : a `Relevance` of X and the gallery, or such a matrix: gains above 0, and 0 or less for what is irrelevant
        gallery : (n_g, d_g) rows of the items
        """
        self._validate_params()
        known = self._read(X, y, gallery)
        self.n_samples_, self.n_pairs_ = len(known.Q), known.gains.nnz
        held = HeldQueries(known.first(MOST_LEARNED))
        self.held_out_, self.setting_, self.cv_results_ = None, None, {}
        ranking = Ranking(Metric(self.side))
        if known.two_widths:
            ranking = fitted(known, self.side, UNTRIED, held.items, self.n_landmarks)
        if len(held) >= FEWEST:
            chosen, figures = chosen_and_measured(held, self.side, self.n_landmarks)
            ranking = fitted(known, self.side, chosen, held.items, self.n_landmarks)
            self.cv_results_ = chosen.results.as_dict()
            self.held_out_ = {**figures, "needed": _needed(len(held), chosen)}
            self.setting_ = {"metric": asdict(chosen.metric), "rocchio": asdict(chosen.rocchio)}
        self._keep(ranking)
        return self

    def _keep(self, ranking: Ranking) -> None:
        """The ranking as arrays."""
        self.metric_, self.shift_ = ranking.metric.L, ranking.metric.shift
        self.landmarks_, self.coefficients_ = ranking.landmarks, ranking.C
        self.learned_ = self.metric_ is not None or self.coefficients_ is not None
        if not self.learned_:
            self.reduction_ = self.query_reduction_ = None

    @property
    def _ranking(self) -> Ranking:
        alone = self.n_gallery_features_ != self.n_features_in_
        return Ranking(Metric(self.side, self.metric_, self.shift_), self.landmarks_, self.coefficients_, alone)

    # -- what was given -----------------------------------------------------------------------------------------------

    def _read(self, X: Any, y: Any, gallery: Any) -> Judgements:
        """Distinct queries that have a relevant item, and items, in an order of their content."""
        X, G = self._validated_sides(to_host(X), to_host(gallery))
        relevance = _relevance(y).fitted_to(X.shape[0], G.shape[0])
        if not (relevance.R.data > 0).any():
            raise LikewiseError("relevance holds no relevant pair: there is nothing to learn from")
        queries, merging = _distinct(X)
        known = _averaged(merging, relevance.R)
        judged = np.flatnonzero((known > 0).sum(axis=1))
        items, mean = _items(G, known[judged])
        known, U = known[judged][:, items], normalize(G[items])
        gains, zeros = (sp.csr_array(part) for part in ((known > 0).multiply(known), (known < 0).astype(float)))
        own = merging[judged][:, items] if gallery is None else None
        rows = normalize(X[queries[judged]]), U
        two_widths = X.shape[1] != G.shape[1]
        self.n_gallery_features_ = G.shape[1]
        self.reduction_, self.query_reduction_, raw = _reduction(U), None, None
        if two_widths:
            self.query_reduction_ = _reduction(rows[0])
        elif self.reduction_ is not None:
            self.query_reduction_, raw = self.reduction_, rows
        Q, U = _reduced(rows[0], self.query_reduction_), _reduced(U, self.reduction_)
        mean = mean if self.reduction_ is None else U.mean(axis=0)
        Q, U = (part.astype(np.float32, copy=False) for part in (Q, U))
        return Judgements(Q, U, gains, zeros, mean.astype(np.float32), own, relevance.clicked, raw, two_widths)

    def _validated_sides(self, X: Any, gallery: Any) -> tuple[Any, Any]:
        X = validate_data(self, X, ensure_min_samples=1, **NUMERIC_ROWS)
        check_magnitude(X)
        if gallery is None:
            return X, X
        G = check_array(gallery, input_name="gallery", **NUMERIC_ROWS)
        check_magnitude(G, "gallery")
        return X, G

    # -- the two sides ------------------------------------------------------------------------------------------------

    def _validated_gallery(self, X: Any) -> Any:
        check_is_fitted(self)
        if self.n_gallery_features_ == self.n_features_in_:
            return self._validated(X)
        return checked_side(X, self.n_gallery_features_, type(self).__name__, "gallery")

    def _query_side(self, X: Any) -> np.ndarray:
        return self._ranking.query(_reduced(normalize(X), self.query_reduction_))

    def _gallery_side(self, X: Any) -> np.ndarray:
        return self._ranking.gallery(_reduced(normalize(X), self.reduction_))

    @property
    def symmetric(self) -> bool:
        return self.coefficients_ is None and (self.side == "both" or self.metric_ is None)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learned_")

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        widths = self.n_features_in_, self.n_gallery_features_
        if widths[0] != widths[1]:
            raise LikewiseError(
                f"RelevanceLearner has sides of {widths[0]} and {widths[1]} columns: an ONNX graph has one input"
            )
        u = graph.unit(rows)
        u = u if self.reduction_ is None else graph.unit(graph.mapped(u, self.reduction_))
        query = gallery = u
        if self.metric_ is not None and self.shift_ is not None:
            centred = graph.plus(u, -self.shift_) if self.side == "both" else u
            query = graph.unit(graph.mapped(centred, self.metric_))
            gallery = query if self.side == "both" else u
        if self.coefficients_ is not None:
            L, C = self.landmarks_, self.coefficients_
            kernel = query if L is None else graph.kernel(query, L, rbf_gamma(L))
            intercept = INTERCEPT**0.5 * C[-1] if L is None else INTERCEPT * C.sum(axis=0)
            moved = graph.plus(graph.mapped(kernel, C[:-1] if L is None else C), intercept)
            query = graph.unit(graph.node("Add", [query, moved]))
        return query, gallery


def _needed(n: int, chosen: Chosen) -> int | None:
    """How many queries would make the gain so clear that half of it is believed; None if it is, or there is none."""
    if chosen.metric.share or chosen.rocchio.share or not chosen.clearness:
        return None
    return ceil(n * 2 * (DOUBT / chosen.clearness) ** 2)


def _reduction(U: Any) -> np.ndarray | None:
    """Leading directions of rows that are sparse or wide."""
    if not sp.issparse(U) and U.shape[1] <= WIDEST:
        return None
    return leading_directions(U[:MOST_SAMPLED], None, min(WIDTH, *U.shape))[1]


def _reduced(rows: Any, reduction: np.ndarray | None) -> np.ndarray:
    if reduction is None:
        return np.asarray(dense(rows))
    return np.asarray(normalize(dense(rows @ reduction.astype(rows.dtype))))


def _relevance(y: Any) -> Relevance:
    if isinstance(y, Relevance):
        return y
    if not sp.issparse(y) and not (np.ndim(y) == 2 and np.shape(y)[1] > 1):
        raise LikewiseError(f"y is of type {type(y).__name__}: expected a Relevance; for labels use SimilarityLearner")
    return Relevance(y)


def _distinct(X: Any) -> tuple[np.ndarray, sp.csr_array]:
    """Places of distinct rows, in an order of their content, and which rows are equal to each, as a matrix."""
    _, first, codes = np.unique(row_hashes(normalize(X)), return_index=True, return_inverse=True)
    n = X.shape[0]
    return first, sp.csr_array((np.ones(n), (codes, np.arange(n))), shape=(len(first), n))


def _averaged(merging: sp.csr_array, R: sp.csr_array) -> sp.csr_array:
    """The relevance of distinct queries: the mean of what is known of equal ones; below 0 where it is irrelevant."""
    values = np.where(R.data > 0, R.data, -1e-9)
    total = sp.csr_array(merging @ sp.csr_array((values, R.indices, R.indptr), shape=R.shape))
    times = sp.csr_array(merging @ sp.csr_array((np.ones(R.nnz), R.indices, R.indptr), shape=R.shape))
    total.sort_indices()
    times.sort_indices()
    total.data /= times.data
    return total


def _items(G: Any, known: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Items in an order of their content, of many those judged and the first of the others; and the mean of all."""
    n, hashes, mean = G.shape[0], [], np.zeros(G.shape[1])
    for block in gen_batches(n, _BLOCK):
        rows = normalize(G[block])
        hashes.append(row_hashes(rows))
        mean += np.asarray(rows.sum(axis=0)).ravel() / n
    order = np.argsort(np.concatenate(hashes), kind="stable")
    if n > MOST_ITEMS:
        needed = np.zeros(n, dtype=bool)
        needed[known.indices] = needed[order[:MOST_ITEMS]] = True
        order = order[needed[order]]
    return order, mean
