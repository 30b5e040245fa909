"""SLR: similarity learning via adaptive regression, the paper's method over all pairs."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Iterator
from itertools import islice
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.preprocessing import normalize
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from likewise.base import SimilarityModel, checked_side, moved_parameters, project
from likewise.checkpoints import Checkpoint
from likewise.core.engine import Engine
from likewise.core.initialization import Start, fixed_start, label_factors, paper_start
from likewise.core.sampling import generator
from likewise.core.sketches import make_sketch
from likewise.core.solvers import AllPairs, FixedTarget, Iterate, Problem, accelerated, alternating, balanced, whole
from likewise.core.targets import LabelTarget
from likewise.core.truncated_whitening import whitened
from likewise.core.whitening import Whitening
from likewise.data.running_sums import PartialFits
from likewise.errors import LikewiseError
from likewise.supervision.fitting import fit_taught
from likewise.supervision.lessons import is_plain
from likewise.utils.arrays import to_host
from likewise.utils.onnx_graph import Graph
from likewise.utils.progress import progress_bar
from likewise.utils.threads import single_threaded_blas

__all__ = ["SLR"]

log = logging.getLogger("likewise")


class SLR(PartialFits, SimilarityModel):
    """Similarity learning via adaptive regression: the bilinear similarity qᵀ M g, learned from all pairs.

    The scores of all pairs are clamped to what their labels ask for (at least δ1 for one label, at most δ2 for two)
    and M is regressed on the result in closed form; then again. X is taken as it comes, neither centred nor scaled.

    Parameters
    ----------
    rank : int or None, default=100
        Rank of M; lowered to the rank of X. None learns the whole matrix (Algorithm 1).
    adaptive : bool, default=True
        Clamp the current scores (Algorithms 1 to 3); False regresses once on δ1 and δ2 themselves (Eqn. 3).
    n_iter : int, default=10
        Iterations, the paper's T.
    margins : tuple of float, default=(1.0, 0.0)
        δ1 and δ2.
    compress : {"gaussian", "sample", "landmarks"} or None, default=None
        None uses all pairs. "sample" is SLR-C and "gaussian" SLR-G, drawn anew at each step; "landmarks" compares
        every row with the same `compress_size` rows, drawn by class. Only sampling and landmarks save time.
    compress_size : int or None, default=None
        The paper's m; needed with `compress`.
    alpha : float, default=0.0
        Ridge, in units of the mean eigenvalue of XᵀX.
    init : {"fixed", "paper"}, default="fixed"
        Start from the fixed label target, or as the paper does from the identity (whole) or random rows (low rank).
    tol : float, default=0.0
        Stop when an iteration lowers the objective by less than this share; 0 runs all of `n_iter`.
    acceleration : {"anderson"} or None, default=None
        Mix the last iterates where that is at least as good as the plain iteration must be; for `rank=None`.
    sides : {"both", "query", "gallery"}, default="both"
        Which side is mapped. "query" leaves the gallery as it is, so that an existing index of raw rows stays: a
        query becomes q @ M. "gallery" leaves queries as they are.
    prior : {"identity"} or None, default=None
        "identity" learns M = I + what was taught, so that what was not taught keeps its raw ranking, that of the
        cosine: rows are brought to length one. With one side left alone they are taken as they come, M = c I + ….
    prior_strength : float or None, default=None
        Ridge towards the prior, in the units of `alpha`; infinity is the prior itself. None chooses it by holding
        out classes, or queries of a relevance.
    whitening_width : int or None, default=None
        Learn in so many leading directions of X. None is all of them, but 1,000 for sparse X of more than 4,096 rows
        and columns, whose Gram matrix is never formed.
    rows : dict or None, default=None
        How X is opened: options of `open_rows`, such as {"memory_limit": "2GB"} or {"device": "cuda"}.
    checkpoint : path or None, default=None
        A file written after each iteration; a fit that finds its own goes on from there.
    random_state : int, RandomState or None, default=None
        Seed of the sketches and of random starts.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    components_, query_components_ : (rank_, d) arrays
        `transform` is X @ components_.T and `transform_query` is X @ query_components_.T.
    rank_ : int
        Rank used.
    n_iter_ : int
        Iterations done.
    history_ : list of dict
        For each iteration the objective a pair it started from ("loss") and how long it took ("seconds").
    classes_ : array
        Labels seen in `fit`; a relevance has none.
    strength_ : float
        Strength of the prior, if there is one.
    n_gallery_features_ : int
        Width of the gallery side; `n_features_in_` is that of the queries.
    unit_rows_ : bool
        Whether rows are brought to length one first: with a prior on both sides.
    condition_ : float
        Condition number of X.
    n_samples_, n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from likewise import SLR
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SLR(rank=9, n_iter=2).fit(X[:1200], y[:1200])
    >>> model.transform(X[1200:]).shape
    (597, 9)
    >>> model.score(X[1200:], y[1200:]) > 0.7
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "adaptive": ["boolean"],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "margins": ["array-like"],
        "compress": [StrOptions({"gaussian", "sample", "landmarks"}), None],
        "compress_size": [Interval(Integral, 1, None, closed="left"), None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "init": [StrOptions({"fixed", "paper"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "acceleration": [StrOptions({"anderson"}), None],
        "sides": [StrOptions({"both", "query", "gallery"})],
        "prior": [StrOptions({"identity"}), None],
        "prior_strength": [Interval(Real, 0, None, closed="both"), None],
        "whitening_width": [Interval(Integral, 1, None, closed="left"), None],
        "rows": [dict, None],
        "checkpoint": [str, os.PathLike, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    @moved_parameters(rows=("memory_limit", "device", "tile_dtype"))
    def __init__(
        self,
        rank: int | None = 100,
        *,
        adaptive: bool = True,
        n_iter: int = 10,
        margins: tuple[float, float] = (1.0, 0.0),
        compress: str | None = None,
        compress_size: int | None = None,
        alpha: float = 0.0,
        init: str = "fixed",
        tol: float = 0.0,
        acceleration: str | None = None,
        sides: str = "both",
        prior: str | None = None,
        prior_strength: float | None = None,
        whitening_width: int | None = None,
        rows: dict[str, Any] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.adaptive = adaptive
        self.n_iter = n_iter
        self.margins = margins
        self.compress = compress
        self.compress_size = compress_size
        self.alpha = alpha
        self.init = init
        self.tol = tol
        self.acceleration = acceleration
        self.sides = sides
        self.prior = prior
        self.prior_strength = prior_strength
        self.whitening_width = whitening_width
        self.rows = rows
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, gallery: Any = None) -> Self:
        """Learn M from rows X and what is known of them; a row of weight w counts as w rows.

        Parameters
        ----------
        X : (n, d) rows; the queries, if there is a gallery. An array, dense or CSR; or a `.npy` file, a feature store
            (whose labels serve if y is None), a memmap, or blocks of rows, all of which stay where they are; or a dask
            array
        y : labels, one a row, -1 among integers or None among objects where it is unknown; or an indicator (n, c) of
            many labels, or `targets.SharedLabels`; or a `targets.Relevance` of X and the gallery
        sample_weight : (n,) weights of the rows of X
        gallery : (n_g, d_g) rows that the queries are compared with; X itself if None
        """
        self._validate_params()
        self._check_acceleration()
        target = self._target()
        self._forget_sums()
        if self.prior is not None or not is_plain(y, gallery):
            fit_taught(self, X, y, sample_weight, gallery, target)
            return self
        rows = self._open(self._in_memory(X), y, sample_weight)
        self.classes_, self.n_samples_ = rows.classes, rows.n_rows
        self._learn(rows.engine, target)
        return self

    def _in_memory(self, X: Any) -> Any:
        """X itself; for a Gaussian sketch, which mixes all rows, a memmap or tensor as an array in memory."""
        if self.compress != "gaussian":
            return X
        return np.asarray(X) if isinstance(X, np.memmap) else to_host(X)

    def _learn(self, engine: Engine, target: LabelTarget) -> None:
        """Whiten, solve, and keep the factors."""
        whitening = whitened(engine, self.alpha, self.whitening_width)
        self.rank_ = self._usable_rank(whitening)
        self._set_components(whitening.W, *self._solve(engine, whitening, target), engine.dtype)
        self.condition_ = whitening.condition
        self.n_gallery_features_, self.unit_rows_ = self.n_features_in_, False

    def query_map(self) -> np.ndarray:
        """M itself, (d_q, d_g): Q @ M searches a gallery of raw rows by inner product."""
        check_is_fitted(self)
        return self.query_components_.T @ self.components_

    def _gallery_side(self, X: Any) -> np.ndarray:
        return project(self._prepared(X), self.components_)

    def _validated_gallery(self, X: Any) -> Any:
        check_is_fitted(self)
        if getattr(self, "n_gallery_features_", self.n_features_in_) == self.n_features_in_:
            return self._validated(X)
        return checked_side(X, self.n_gallery_features_, type(self).__name__, "gallery")

    def _query_side(self, X: Any) -> np.ndarray:
        return project(self._prepared(X), self.query_components_)

    def _prepared(self, X: Any) -> Any:
        return normalize(X) if getattr(self, "unit_rows_", False) else X

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    # ----------------------------------------------------------------------------------------------------------------
    # The parts of `fit`, in their order

    def _target(self) -> LabelTarget:
        if len(self.margins) != 2 or not self.margins[0] > self.margins[1]:
            raise LikewiseError(f"margins={self.margins!r}: expected (δ1, δ2) with δ1 > δ2, such as (1.0, 0.0)")
        return LabelTarget(float(self.margins[0]), float(self.margins[1]), adaptive=self.adaptive)

    def _check_acceleration(self) -> None:
        if self.acceleration is not None and self.checkpoint is not None:
            raise LikewiseError(
                f"acceleration={self.acceleration!r} mixes several iterates and a checkpoint holds one: leave one out"
            )
        if self.acceleration is not None and (self.rank is not None or self.compress is not None):
            raise LikewiseError(
                f"acceleration={self.acceleration!r} is for the whole matrix over all pairs, a convex problem: "
                "set rank=None and compress=None"
            )

    def _usable_rank(self, whitening: Whitening) -> int:
        """The rank asked for, at most that of X, and at most what is sampled."""
        rank = whitening.rank if self.rank is None else min(self.rank, whitening.rank)
        if self.rank is not None and rank < self.rank:
            log.info("rank=%d is lowered to %d, the rank of X", self.rank, rank)
        if self.compress is not None:
            self._check_compression(rank)
        return rank

    def _check_compression(self, rank: int) -> None:
        if self.compress_size is None:
            raise LikewiseError(f"compress={self.compress!r} needs compress_size, the number of rows to compress to")
        if self.compress_size < rank:
            raise LikewiseError(
                f"compress_size={self.compress_size} is below rank={rank}: "
                "a sample must have at least as many items as the rank"
            )

    def _solve(self, engine: Engine, whitening: Whitening, target: LabelTarget) -> Start:
        """Factors of K. A fixed target on all pairs has its solution in closed form; all else iterates."""
        self.history_: list[dict[str, float]] = []
        self.n_iter_ = 0
        rank, rng = None if self.rank is None else self.rank_, generator(self.random_state)
        factors = label_factors(engine, whitening, target)
        closed_form = not self.adaptive and self.compress is None and (rank is None or self.init == "fixed")
        if closed_form or self.init == "fixed":
            start = fixed_start(*factors, whitening, rank, rng)
        else:
            start = paper_start(engine, whitening, rank, rng)
        if not closed_form:
            saved = None if self.checkpoint is None else Checkpoint(self.checkpoint, self, engine, whitening, rng)
            problem = self._problem(engine, whitening, target, factors, rng)
            start = start if saved is None else saved.resume(start)
            start = self._run(engine, self._iterations(problem, start), start, saved)
        return start if rank is None else Start(*balanced(*start))

    def _problem(
        self,
        engine: Engine,
        whitening: Whitening,
        target: LabelTarget,
        factors: tuple[np.ndarray, np.ndarray],
        rng: np.random.Generator,
    ) -> Problem:
        if self.compress is not None:
            size = min(int(self.compress_size or 0), engine.shape[0])
            return make_sketch(self.compress, engine, whitening, target, size, rng, both_sides=self.rank is None)
        if not self.adaptive:
            return FixedTarget(*factors, engine.sum_of_squares(target))
        return AllPairs(engine, whitening, target)

    def _iterations(self, problem: Problem, start: Start) -> Iterator[Iterate]:
        if self.acceleration is not None:
            return accelerated(problem, *start)
        return (whole if self.rank is None else alternating)(problem, *start)

    def _run(
        self,
        engine: Any,
        iterations: Iterator[Iterate],
        start: Start,
        saved: Checkpoint | None = None,
        pairs: float | None = None,
    ) -> Start:
        """Take up to `n_iter` iterations, keep their history, stop early by `tol` or by Ctrl-C."""
        latest, began, left = start, time.perf_counter(), self.n_iter - self.n_iter_
        left = 0 if self.n_iter_ and self._converged() else left  # of a checkpoint, where `tol` had ended it
        steps = left * engine.n_blocks * (1 if self.rank is None else 2)
        if pairs is None:
            pairs = float(engine.shape[0] if engine.weights is None else engine.weights.sum()) ** 2
        # One BLAS thread between passes too: after a threaded product its workers spin on and slow the next pass.
        with single_threaded_blas(), progress_bar("learning", steps, enabled=bool(self.verbose)) as advance:
            engine.on_block = advance
            try:
                for iterate in islice(iterations, left):
                    latest, now = Start(iterate.A, iterate.B), time.perf_counter()
                    self.history_.append({"loss": iterate.objective / pairs, "seconds": now - began})
                    self.n_iter_, began = self.n_iter_ + 1, now
                    if saved is not None:
                        saved.save(latest)
                    advance(0, f"learning, loss {self.history_[-1]['loss']:.4g}")
                    if self._converged():
                        break
            except KeyboardInterrupt:
                warnings.warn(f"stopped by Ctrl-C: the model is that of iteration {self.n_iter_}", stacklevel=4)
        return latest

    def _converged(self) -> bool:
        if not self.tol or len(self.history_) < 2:
            return False
        before, after = self.history_[-2]["loss"], self.history_[-1]["loss"]
        return before - after <= self.tol * before

    def _set_components(self, W: np.ndarray, A: np.ndarray, B: np.ndarray, dtype: np.dtype) -> None:
        self._set_factors(W @ A, W @ B, dtype)

    def _set_factors(self, L: np.ndarray, R: np.ndarray, dtype: np.dtype) -> None:
        """M = L Rᵀ, each gallery component with its largest entry positive; or M on one side alone."""
        if self.sides != "both":
            self._set_one_side(L @ R.T, dtype)
            return
        largest = np.take_along_axis(R, np.abs(R).argmax(axis=0)[None], axis=0)
        signs = np.where(largest < 0, -1.0, 1.0)
        self.query_components_ = np.ascontiguousarray((L * signs).T, dtype=dtype)
        self.components_ = np.ascontiguousarray((R * signs).T, dtype=dtype)

    def _set_one_side(self, M: np.ndarray, dtype: np.dtype) -> None:
        """M on one side, the identity on the other."""
        if self.sides == "query":
            self.query_components_ = np.ascontiguousarray(M.T, dtype=dtype)
            self.components_ = np.eye(M.shape[1], dtype=dtype)
        else:
            self.query_components_ = np.eye(M.shape[0], dtype=dtype)
            self.components_ = np.ascontiguousarray(M, dtype=dtype)

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        """Both sides of `rows` in an ONNX graph."""
        widths = self.query_components_.shape[1], self.components_.shape[1]
        if widths[0] != widths[1]:
            raise LikewiseError(f"SLR has sides of {widths[0]} and {widths[1]} columns: an ONNX graph has one input")
        rows = graph.unit(rows) if getattr(self, "unit_rows_", False) else rows
        return graph.mapped(rows, self.query_components_.T), graph.mapped(rows, self.components_.T)
