"""SLR: similarity learning via adaptive regression, the paper's method over all pairs."""

import os
import warnings
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.preprocessing import normalize

from likewise.errors import InterruptedFitWarning, LikewiseError
from likewise.learn.base import SimilarityModel, checked_side, finite_fit, project
from likewise.learn.checkpoints import Checkpoint
from likewise.learn.maths.engine import Engine
from likewise.learn.maths.labels import LabelTarget, generator, has_one_label_per_row
from likewise.learn.maths.solvers import Solution, solve
from likewise.learn.maths.steps import SavedIterations, SolverOptions
from likewise.learn.supervision.fitting import fit_pairs
from likewise.utils.arrays import in_memory
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import Interval, StrOptions, check_is_fitted

_COUNT = Interval(Integral, 1, None, closed="left")


class SLR(SimilarityModel):
    """Similarity learning via adaptive regression: the bilinear similarity qᵀ M g, learned from all pairs.

    The scores of all pairs are clamped to their targets (at least δ1 for one label, at most δ2 for two), M is
    regressed on the result in closed form, and so on. X is used as it is, neither centred nor scaled.

    Parameters
    ----------
    rank : int or None, default=100
        Rank of M, at most that of X. None learns the whole matrix (Algorithm 1).
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
        The paper's m; required with `compress`.
    alpha : float, default=0.0
        Ridge, in units of the mean eigenvalue of XᵀX.
    init : {"fixed", "paper"}, default="fixed"
        Start from the solution for the fixed target, or as in the paper: the identity, or random rows for low rank.
    tol : float, default=0.0
        Stop when an iteration lowers the objective by no more than this share; 0 runs all of `n_iter`.
    acceleration : {"anderson"} or None, default=None
        For `rank=None`: accepted only if it lowers the objective at least as much as a plain step guarantees.
    sides : {"both", "query", "gallery"}, default="both"
        Which side is mapped. "query" leaves the gallery as it is, so that an existing index of raw rows can be
        searched by q @ M; "gallery" leaves the queries as they are.
    prior : {"identity"} or None, default=None
        "identity" learns M = I + a correction, so that pairs far from the supervision keep the ranking of the cosine;
        rows are scaled to unit length. With one side left as it is, rows are not scaled and M = c I + a correction.
    prior_strength : float or None, default=None
        Ridge towards the prior, in units of `alpha`, up to infinity; None chooses it on held-out classes or queries.
    whitening_width : int or None, default=None
        Leading directions of X to learn in. None is all, but 1,000 for sparse X of more than 4,096 rows and columns.
    rows : dict or None, default=None
        How X is opened: options of `open_rows`, such as {"memory_limit": "2GB"} or {"device": "cuda"}.
    checkpoint : path or None, default=None
        Checkpoint file, written after each iteration; an existing one is resumed.
    random_state : int, RandomState or None, default=None
        Seed of the sketches and of random starts.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    components_, query_components_ : (rank_, d) arrays
        `transform` is ``X @ components_.T`` and `transform_query` is ``X @ query_components_.T``.
    rank_, n_iter_, n_samples_, n_features_in_, n_gallery_features_ : int
        Rank used, iterations done, rows learned from, and widths of the two sides.
    history_ : list of dict
        For each iteration the loss per pair it started from ("loss") and its duration ("seconds").
    classes_, condition_ : array, float
        Labels seen in `fit`, of which a relevance has none; condition number of X.
    strength_, strengths_, unit_rows_ : float, list of dict, bool
        With a prior: its strength, the strengths tried, and whether rows are scaled to unit length.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from likewise import SLR
    >>> X, y = load_digits(return_X_y=True)
    >>> SLR(rank=9, n_iter=2).fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) > 0.7
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "adaptive": ["boolean"],
        "n_iter": [_COUNT],
        "margins": ["array-like"],
        "compress": [StrOptions({"gaussian", "sample", "landmarks"}), None],
        **{name: [_COUNT, None] for name in ("rank", "compress_size", "whitening_width")},
        **{name: [Interval(Real, 0, None, closed="left")] for name in ("alpha", "tol")},
        "init": [StrOptions({"fixed", "paper"})],
        "acceleration": [StrOptions({"anderson"}), None],
        "sides": [StrOptions({"both", "query", "gallery"})],
        "prior": [StrOptions({"identity"}), None],
        "prior_strength": [Interval(Real, 0, None, closed="both"), None],
        "rows": [dict, None],
        "checkpoint": [str, os.PathLike, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

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
        self.rank, self.adaptive, self.n_iter, self.margins = rank, adaptive, n_iter, margins
        self.compress, self.compress_size, self.alpha = compress, compress_size, alpha
        self.init, self.tol, self.acceleration = init, tol, acceleration
        self.sides, self.prior, self.prior_strength = sides, prior, prior_strength
        self.whitening_width, self.rows = whitening_width, rows
        self.checkpoint, self.random_state, self.verbose = checkpoint, random_state, verbose

    @finite_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, gallery: Any = None) -> Self:
        """Learn M from rows X and labels, or other supervision; a row of weight w counts as w rows.

        Parameters
        ----------
        X : (n, d) rows, anything that `open_rows` takes or opened by it; the queries, if there is a gallery
        y : one label per row, -1 among integers or None among objects where it is unknown; an indicator (n, c) of
            several labels per row, or `SharedLabels`; or a `Relevance` of X and the gallery. None takes those of X
        sample_weight : (n,) weights of the rows of X
        gallery : (n_g, d_g) rows that the queries are compared with; X itself if None
        """
        target = self._target()
        if self.prior is not None or gallery is not None or not has_one_label_per_row(y):
            return self._fit_pairs(X, y, sample_weight, gallery, target)
        rows = self._open(in_memory(X) if self.compress == "gaussian" else X, y, sample_weight)
        self.classes_, self.n_samples_ = rows.classes, rows.n_rows
        return self._learn(rows.engine, target)

    def _target(self) -> LabelTarget:
        self._validate_params()
        return LabelTarget.of_margins(self.margins, adaptive=self.adaptive)

    def _learn(self, engine: Engine, target: LabelTarget) -> Self:
        options = SolverOptions(**{field.name: getattr(self, field.name) for field in fields(SolverOptions)})
        rng = generator(self.random_state)
        solution = solve(engine, target, options, rng, self._saved(engine, rng))
        return self._keep(solution, engine.dtype, self.n_features_in_)

    def _saved(self, engine: Engine, rng: np.random.Generator) -> SavedIterations | None:
        return None if self.checkpoint is None else Checkpoint(self.checkpoint, self, engine, rng)

    def _fit_pairs(self, X: Any, y: Any, sample_weight: Any, gallery: Any, target: LabelTarget) -> Self:
        found = fit_pairs(self, X, y, sample_weight, gallery, target)
        for name, value in found.attributes.items():
            setattr(self, name, value)
        return self._keep(found.solution, found.dtype, found.gallery_width, found.unit_rows)

    def _keep(self, solution: Solution, dtype: np.dtype, gallery_width: int, unit_rows: bool = False) -> Self:
        query, gallery = solution.components(self.sides)
        self.query_components_ = np.ascontiguousarray(query, dtype=dtype)
        self.components_ = np.ascontiguousarray(gallery, dtype=dtype)
        self.rank_, self.condition_, self.history_ = solution.rank, solution.condition, solution.result.history
        self.n_iter_, self.n_gallery_features_, self.unit_rows_ = len(self.history_), gallery_width, unit_rows
        if solution.result.interrupted:
            warnings.warn(InterruptedFitWarning(self.n_iter_), stacklevel=4)
        return self

    def query_map(self) -> np.ndarray:
        """M itself, (d_q, d_g): Q @ M searches a gallery of raw rows by inner product."""
        check_is_fitted(self)
        return self.query_components_.T @ self.components_

    def _query_side(self, X: Any) -> np.ndarray:
        return project(normalize(X) if getattr(self, "unit_rows_", False) else X, self.query_components_)

    def _gallery_side(self, X: Any) -> np.ndarray:
        return project(normalize(X) if getattr(self, "unit_rows_", False) else X, self.components_)

    def _validated_gallery(self, X: Any) -> Any:
        check_is_fitted(self)
        if getattr(self, "n_gallery_features_", self.n_features_in_) == self.n_features_in_:
            return self._validated(X)
        return checked_side(X, self.n_gallery_features_, type(self).__name__, "gallery")

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        widths = self.query_components_.shape[1], self.components_.shape[1]
        if widths[0] != widths[1]:
            raise LikewiseError(f"SLR has sides of {widths[0]} and {widths[1]} columns: an ONNX graph has one input")
        rows = graph.unit(rows) if getattr(self, "unit_rows_", False) else rows
        return graph.mapped(rows, self.query_components_.T), graph.mapped(rows, self.components_.T)
