"""SLR: similarity learning via adaptive regression, the paper's method over all pairs."""

import warnings
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from likewise.errors import InterruptedFitWarning, LikewiseError
from likewise.learn.base import SimilarityModel, finite_fit, project
from likewise.learn.checkpoints import Checkpoint
from likewise.learn.maths.labels import LabelTarget, Seed, generator, has_one_label_per_row
from likewise.learn.maths.solvers import SolverOptions, solve
from likewise.utils.arrays import Array, in_memory
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import COUNT, NOT_NEGATIVE, StrOptions, check_is_fitted


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
    max_iter : int, default=10
        Iterations, the paper's T.
    margins : tuple of float, default=(1.0, 0.0)
        δ1 and δ2.
    compress : {"gaussian", "sample", "landmarks"} or None, default=None
        None uses all pairs. "sample" is SLR-C and "gaussian" SLR-G, drawn again at each step; "landmarks" compares
        every row with the same `compress_size` rows, drawn by class. Only sampling and landmarks save time.
    compress_size : int or None, default=None
        The paper's m; required with `compress`.
    alpha : float, default=0.0
        Ridge, in units of the mean eigenvalue of XᵀX.
    init : {"fixed", "paper"}, default="fixed"
        Start from the solution for the fixed target, or as in the paper: the identity, or random rows for low rank.
    tol : float, default=0.0
        Stop when an iteration lowers the objective by no more than this share; 0 runs all of `max_iter`.
    random_state : int, RandomState or None, default=None
        Seed of the sketches and of random starts.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    components_, query_components_ : (rank_, d) arrays
        `transform` is ``X @ components_.T`` and `transform_query` is ``X @ query_components_.T``.
    rank_, n_iter_, n_samples_, n_features_in_ : int
        Rank used, iterations done, rows learned from, and columns.
    history_ : list of dict
        For each iteration the loss per pair it started from ("loss") and its duration ("seconds").
    classes_, condition_ : array, float
        Labels seen in `fit`; condition number of X.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from likewise import SLR
    >>> X, y = load_digits(return_X_y=True)
    >>> SLR(rank=9, max_iter=2).fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) > 0.7
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "rank": [COUNT, None],
        "adaptive": ["boolean"],
        "max_iter": [COUNT],
        "margins": ["array-like"],
        "compress": [StrOptions({"gaussian", "sample", "landmarks"}), None],
        "compress_size": [COUNT, None],
        "alpha": [NOT_NEGATIVE],
        "init": [StrOptions({"fixed", "paper"})],
        "tol": [NOT_NEGATIVE],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        rank: int | None = 100,
        *,
        adaptive: bool = True,
        max_iter: int = 10,
        margins: tuple[float, float] = (1.0, 0.0),
        compress: str | None = None,
        compress_size: int | None = None,
        alpha: float = 0.0,
        init: str = "fixed",
        tol: float = 0.0,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.rank, self.adaptive, self.max_iter, self.margins = rank, adaptive, max_iter, margins
        self.compress, self.compress_size, self.alpha = compress, compress_size, alpha
        self.init, self.tol, self.random_state, self.verbose = init, tol, random_state, verbose

    @finite_fit
    def fit(self, X: Array, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn M from rows X with one label each; a row of weight w counts as w rows.

        X is anything that `open_rows` takes, or opened by it: that is where the memory limit, the device and the
        checkpoint of a fit are given. y is None if X has its own labels.
        """
        self._validate_params()
        target = LabelTarget.of_margins(self.margins, adaptive=self.adaptive)
        if not has_one_label_per_row(y):
            raise LikewiseError(
                "y has several labels per row or is a relevance: SLR learns from one label per row; "
                "use RelevanceLearner"
            )
        rows = self._open(in_memory(X) if self.compress == "gaussian" else X, y, sample_weight)
        self.classes_, self.n_samples_ = rows.classes, rows.n_rows
        options = SolverOptions(**{field.name: getattr(self, field.name) for field in fields(SolverOptions)})
        rng = generator(self.random_state)
        saved = None if rows.checkpoint is None else Checkpoint(rows.checkpoint, self, rows.engine, rng)
        solution = solve(rows.engine, target, options, rng, saved)
        query, gallery = solution.components()
        self.query_components_ = np.ascontiguousarray(query, dtype=rows.engine.dtype)
        self.components_ = np.ascontiguousarray(gallery, dtype=rows.engine.dtype)
        self.rank_, self.condition_, self.history_ = solution.rank, solution.condition, solution.result.history
        in_closed_form = not self.history_ and not solution.result.interrupted
        self.n_iter_ = 1 if in_closed_form else len(self.history_)
        if solution.result.interrupted:
            warnings.warn(InterruptedFitWarning(self.n_iter_), stacklevel=3)
        return self

    def query_map(self) -> np.ndarray:
        """M itself, (d, d): Q @ M searches a gallery of raw rows by inner product."""
        check_is_fitted(self)
        return self.query_components_.T @ self.components_

    def _query_side(self, X: Array) -> np.ndarray:
        return project(X, self.query_components_)

    def _gallery_side(self, X: Array) -> np.ndarray:
        return project(X, self.components_)

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        return graph.mapped(rows, self.query_components_.T), graph.mapped(rows, self.components_.T)
