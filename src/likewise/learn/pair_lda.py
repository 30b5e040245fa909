"""PairLDA: discriminant analysis from relevant pairs such as clicks, used only if held-out queries gain by it."""

from dataclasses import asdict
from itertools import product
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel, finite_fit
from likewise.learn.maths.kernels import Features
from likewise.learn.maths.labels import generator
from likewise.learn.supervision.choosing import RelatedRows
from likewise.learn.supervision.discriminant import PairSetting, Reduction
from likewise.learn.supervision.reading import Supervision, read_related
from likewise.rows.relevance import Relevance
from likewise.utils.arrays import dense, to_host
from likewise.utils.onnx_graph import Graph
from likewise.utils.validation import Interval, StrOptions

# The first of each is used where nothing can be held out.
_GRIDS: dict[str, tuple[Any, ...]] = {
    "kernel": ("linear", "rbf"),
    "shrinkage": (0.3, 0.1, 0.6, 0.9),
    "power": (1.0, 0.5, 2.0),
}
_AUTO = StrOptions({"auto"})


class PairLDA(SimilarityModel):
    """Discriminant analysis from relevant pairs, such as the clicks of a search log.

    Over relevant pairs the covariance of query and item is that between classes, and the rest is that within: whatever
    the classes are, they need no names. The similarity is the cosine after the discriminant map, or the raw cosine
    where the map does not rank held-out queries better. Rows are scaled to unit length.

    Parameters
    ----------
    kernel : {"auto", "linear", "rbf"}, default="auto"
        Learn on the rows, or on their RBF kernel with 500 landmarks. "auto" chooses on held-out queries.
    shrinkage : float or "auto", default="auto"
        Shrinkage of the covariance within classes to its mean, from 0 to 1.
    power : float or "auto", default="auto"
        Weight of directions: 0 keeps all alike, 1 weighs them as LDA does, more prefers the most discriminative.
    fallback : bool, default=True
        Use the raw cosine unless held-out queries gain by more than three standard errors.
    random_state : int, RandomState or None, default=None
        Seed of the held-out queries and of the landmarks.

    Attributes
    ----------
    learned_ : bool
        False if the similarity is the raw cosine.
    held_out_ : dict or None
        "mAP" of the held-out queries by the learned map, "raw" by the cosine, how many "rows" they are, and whether
        they gain ("accepted"); None if there were too few to judge.
    setting_, cv_results_ : dict
        Kernel, shrinkage and power used (None for the raw cosine), and all that were tried, in the schema of
        scikit-learn.
    projection_, offset_, landmarks_, gamma_, reduction_ : the map, where there is one.
    n_samples_, n_pairs_, n_features_in_ : int
        Queries and relevant pairs learned from, and columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from likewise import PairLDA
    >>> from likewise.rows import Relevance
    >>> X, y = load_digits(return_X_y=True)
    >>> Q, G = X[:300], X[300:1300]
    >>> shown = np.argsort(-(Q @ G.T), axis=1)[:, :20]
    >>> queries, places = np.nonzero(y[300:1300][shown] == y[:300, None])
    >>> clicks = Relevance.from_clicks(queries, shown[queries, places], shape=(300, 1000))
    >>> PairLDA().fit(Q, clicks, gallery=G).learned_
    True
    """

    projection_: Any
    offset_: Any

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions({"auto", "linear", "rbf"})],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), _AUTO],
        "power": [Interval(Real, 0, None, closed="left"), _AUTO],
        "fallback": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        kernel: str = "auto",
        *,
        shrinkage: float | str = "auto",
        power: float | str = "auto",
        fallback: bool = True,
        random_state: Any = None,
    ) -> None:
        self.kernel, self.shrinkage, self.power = kernel, shrinkage, power
        self.fallback, self.random_state = fallback, random_state

    @finite_fit
    def fit(self, X: Any, y: Any, gallery: Any = None) -> Self:
        """Learn from the relevance y of the items of a gallery (X itself if None) to queries X.

        Parameters
        ----------
        X : (n, d) rows of the queries, an array or a sparse matrix
        y : a `Relevance` of X and the gallery, or such a matrix; relevant pairs alone are enough
        gallery : (n_g, d) rows of the items
        """
        self._validate_params()
        related = RelatedRows(self._read(X, y, gallery), generator(self.random_state))
        setting, verdict, results = related.choose(self._settings())
        self.held_out_ = None if verdict is None else asdict(verdict)
        self.learned_ = not self.fallback or (verdict is not None and verdict.accepted)
        self.setting_, self.cv_results_ = asdict(setting) if self.learned_ else None, results.as_dict()
        self.n_samples_, self.n_pairs_ = related.Q.shape[0], int((related.relevance.R.data > 0).sum())
        self._keep(related, setting)
        return self

    def _read(self, X: Any, y: Any, gallery: Any) -> Supervision:
        if not isinstance(y, Relevance) and not (sp.issparse(y) or (np.ndim(y) == 2 and np.shape(y)[1] > 1)):
            raise LikewiseError(
                f"y is of type {type(y).__name__}: expected a Relevance; for labels use SimilarityLearner"
            )
        given = read_related(self, to_host(X), y, None, to_host(gallery))
        if given.X.shape[1] != given.gallery.shape[1]:
            raise LikewiseError(
                f"X has {given.X.shape[1]} columns and gallery {given.gallery.shape[1]}: expected as many; "
                "SLR learns between sides of different widths"
            )
        return given

    def _settings(self) -> list[PairSetting]:
        """The settings to try; the first is used if nothing can be held out."""
        asked = {"kernel": self.kernel, "shrinkage": self.shrinkage, "power": self.power}
        values = [_GRIDS[name] if value == "auto" else (value,) for name, value in asked.items()]
        return [PairSetting(*chosen) for chosen in product(*values)]

    def _keep(self, related: RelatedRows, setting: PairSetting) -> None:
        """What the sides need, as arrays and plain values."""
        self.projection_ = self.offset_ = self.landmarks_ = self.reduction_ = None
        self.gamma_ = 0.0
        if self.learned_:
            space, L = related.space(setting.kernel), related.learned(setting)
            self.projection_, self.offset_ = np.ascontiguousarray(space.basis.V @ L), space.basis.offset @ L
            self.landmarks_, self.gamma_ = space.features.landmarks, float(space.features.gamma)
            self.reduction_ = related.reduction.V

    def _gallery_side(self, X: Any) -> np.ndarray:
        if self.projection_ is None:
            return np.asarray(dense(normalize(X)))
        U = Reduction(self.reduction_)(X)
        features = Features(self.landmarks_, self.gamma_)(U)
        return np.asarray(normalize(features @ self.projection_.astype(U.dtype) - self.offset_.astype(U.dtype)))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learned_")

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        u = graph.unit(rows)
        if self.projection_ is None:
            return u, u
        u = u if self.reduction_ is None else graph.unit(graph.mapped(u, self.reduction_))
        features = graph.kernel(u, self.landmarks_, self.gamma_)
        z = graph.unit(graph.plus(graph.mapped(features, self.projection_), -self.offset_))
        return z, z
