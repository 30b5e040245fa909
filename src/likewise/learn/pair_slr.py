"""PairSLR: the bilinear similarity of SLR from relevance, partial or several labels, towards a prior if wanted."""

from numbers import Real
from typing import Any, ClassVar, Self

from likewise.learn.base import finite_fit
from likewise.learn.maths.labels import LabelTarget
from likewise.learn.slr import COUNT, SHARE, BilinearModel
from likewise.learn.supervision.fitting import fit_pairs
from likewise.utils.validation import Interval, StrOptions


class PairSLR(BilinearModel):
    """SLR from what is known of pairs: a relevance between queries and a gallery, or labels that some rows lack.

    Parameters
    ----------
    rank : int or None, default=100
        Rank of M, at most that of X. None learns the whole matrix.
    adaptive : bool, default=True
        Clamp the current scores; False regresses once on δ1 and δ2 themselves.
    max_iter : int, default=10
        Iterations.
    margins : tuple of float, default=(1.0, 0.0)
        δ1 and δ2, for pairs of one label and of two.
    alpha : float, default=0.0
        Ridge, in units of the mean eigenvalue of XᵀX. With a prior it is `prior_strength`.
    tol : float, default=0.0
        Stop when an iteration lowers the objective by no more than this share; 0 runs all of `max_iter`.
    sides : {"both", "query", "gallery"}, default="both"
        Which side is mapped. "query" leaves the gallery as it is, so that an existing index of raw rows can be
        searched by q @ M; "gallery" leaves the queries as they are.
    prior : {"identity"} or None, default=None
        "identity" learns M = I + a correction, so that pairs far from the supervision keep the ranking of the cosine;
        rows are scaled to unit length. With one side left as it is, rows are not scaled and M = c I + a correction.
    prior_strength : float or None, default=None
        Ridge towards the prior, in units of `alpha`, up to infinity; None chooses it on held-out classes or queries.
    random_state : int, RandomState or None, default=None
        Seed of random starts and of what is held out.
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
    >>> from likewise import PairSLR
    >>> X, y = load_digits(return_X_y=True)
    >>> y[::2] = -1  # half of the labels are unknown
    >>> PairSLR(rank=9, max_iter=2, alpha=0.1).fit(X[:400], y[:400]).n_iter_
    2
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "rank": [COUNT, None],
        "adaptive": ["boolean"],
        "max_iter": [COUNT],
        "margins": ["array-like"],
        "alpha": [SHARE],
        "tol": [SHARE],
        "sides": [StrOptions({"both", "query", "gallery"})],
        "prior": [StrOptions({"identity"}), None],
        "prior_strength": [Interval(Real, 0, None, closed="both"), None],
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
        alpha: float = 0.0,
        tol: float = 0.0,
        sides: str = "both",
        prior: str | None = None,
        prior_strength: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.rank, self.adaptive, self.max_iter, self.margins = rank, adaptive, max_iter, margins
        self.alpha, self.tol, self.sides = alpha, tol, sides
        self.prior, self.prior_strength = prior, prior_strength
        self.random_state, self.verbose = random_state, verbose

    @finite_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None, gallery: Any = None) -> Self:
        """Learn M from rows X in memory and what is known of their pairs; a row of weight w counts as w rows.

        Parameters
        ----------
        X : (n, d) rows; the queries, if there is a gallery
        y : one label per row, -1 among integers or None among objects where it is unknown; an indicator (n, c) of
            several labels per row, or `SharedLabels`; or a `Relevance` of X and the gallery
        sample_weight : (n,) weights of the rows of X
        gallery : (n_g, d_g) rows that the queries are compared with; X itself if None
        """
        self._validate_params()
        target = LabelTarget.of_margins(self.margins, adaptive=self.adaptive)
        result = fit_pairs(self, X, y, sample_weight, gallery, target)
        for name, value in result.attributes.items():
            setattr(self, name, value)
        self.unit_rows_ = result.unit_rows
        return self._keep(result.solution, result.dtype, result.gallery_width, self.sides)
