"""The protocol: splits of 70/30, PCA learned from the training rows, rows of unit length; and training budgets."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise.errors import LikewiseError
from likewise.learn.maths.labels import sample_by_class
from likewise.paper.datasets import Dataset
from likewise.utils.arrays import dense

TRAIN_SHARE = 0.7


@dataclass(frozen=True)
class ProtocolSettings:
    """The settings that decide the results: equal settings on equal data give the same digits."""

    seed: int = 0
    normalize: bool = True
    components: int | None = 1000  # of PCA, or of TruncatedSVD for sparse rows; None: no reduction
    pca_on: str = "train"
    rank: int = 100
    n_iter: int = 10
    margins: tuple[float, float] = (1.0, 0.0)
    quick: bool = False


@dataclass(frozen=True)
class TrainingBudget:
    """Rows, steps of the rivals, points of the curves, and random draws."""

    rows: int | None = None
    oasis_steps: int = 1_000_000
    frml_steps: int = 20_000  # of five queries, each searching up to a tenth of the rows of other classes
    lmnn_rounds: int = 6
    lmnn_neighbours: tuple[int, ...] = (3, 10, 30)
    curve_splits: int = 3
    curve_points: int = 6
    draws: int = 200

    @classmethod
    def quick(cls) -> Self:
        steps = {"oasis_steps": 30_000, "frml_steps": 3_000, "lmnn_rounds": 2}
        return cls(rows=1200, lmnn_neighbours=(3, 10), curve_splits=1, curve_points=4, **steps)


@dataclass(frozen=True)
class PaperSplit:
    """Training rows X, y and test rows Q, y_q, and the numbers of the test rows in the data set."""

    X: np.ndarray
    y: np.ndarray
    Q: np.ndarray
    y_q: np.ndarray
    test: np.ndarray


class Protocol:
    """Splits of a data set, prepared on demand; the last one is cached."""

    def __init__(self, data: Dataset, settings: ProtocolSettings, budget: TrainingBudget) -> None:
        # At least four rows of each class, so that both sides of a split have some.
        chosen = sample_by_class(data.y, budget.rows, np.random.default_rng(settings.seed), least=4)
        self.data = data if budget.rows is None else data.subset(chosen)
        self.settings, self.budget = settings, budget
        self._kept: dict[tuple[int, int | None, str], PaperSplit] = {}
        if len(np.unique(self.data.y)) < 2:
            raise LikewiseError(f"{data.source} has one class: expected at least two")

    @property
    def n_train(self) -> int:
        return round(TRAIN_SHARE * len(self.data.y))

    @property
    def width(self) -> int:
        d, wanted = self.data.X.shape[1], self.settings.components
        return d if wanted is None else min(d, wanted)

    @property
    def is_small(self) -> bool:
        """Whether the matrices are so small that several BLAS threads are slower, on a busy machine up to 17 times."""
        return self.n_train * self.width <= 200_000

    def rows(self, split: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the training and test rows: a random 70 % and the others, as in the paper."""
        order = np.random.default_rng([self.settings.seed, split]).permutation(len(self.data.y))
        return np.sort(order[: self.n_train]), np.sort(order[self.n_train :])

    def split(self, number: int, **changes: Any) -> PaperSplit:
        """A split, prepared according to the settings; `changes` override some of them."""
        settings = replace(self.settings, **changes)
        key = number, settings.components, settings.pca_on
        if key not in self._kept:  # scaling is fast, but PCA of wide rows may take minutes
            (train, test), y = self.rows(number), self.data.y
            reduce = _reduction(self.data.X, train if settings.pca_on == "train" else np.arange(len(y)), settings)
            self._kept = {key: PaperSplit(reduce(train), y[train], reduce(test), y[test], test)}
        split = self._kept[key]
        return replace(split, X=normalize(split.X), Q=normalize(split.Q)) if settings.normalize else split


def _reduction(X: Any, fit_on: np.ndarray, settings: ProtocolSettings) -> Callable[[np.ndarray], np.ndarray]:
    """A function from row numbers to reduced float32 rows, learned from the rows `fit_on`."""
    wanted = settings.components
    if wanted is None or X.shape[1] <= wanted:
        return lambda rows: np.asarray(dense(X[rows]), dtype=np.float32)
    if sp.issparse(X):
        from sklearn.decomposition import TruncatedSVD

        svd = TruncatedSVD(wanted, random_state=settings.seed).fit(X[fit_on])
        return lambda rows: svd.transform(X[rows]).astype(np.float32)
    if X.shape[1] > len(fit_on):
        from likewise.pictures import DualPCA

        dual = DualPCA(wanted, random_state=settings.seed).fit(X, numbers=fit_on)
        return lambda rows: dual.transform(X[rows])
    from sklearn.decomposition import PCA

    pca = PCA(min(wanted, len(fit_on)), svd_solver="covariance_eigh").fit(np.asarray(X[fit_on], dtype=np.float32))
    return lambda rows: pca.transform(np.asarray(X[rows], dtype=np.float32)).astype(np.float32)


def describe(protocol: Protocol) -> list[str]:
    """The protocol in words, one paragraph each for the features, our methods, the rivals and the seeds."""
    settings, budget, X = protocol.settings, protocol.budget, protocol.data.X
    features = f"Features are used as they are, {X.shape[1]:,} columns."
    if settings.components is not None and X.shape[1] > settings.components:
        method = "TruncatedSVD" if sp.issparse(X) else "PCA"
        features = (
            f"Features are reduced from {X.shape[1]:,} to {settings.components:,} columns by {method}, learned from "
            f"{'the training rows' if settings.pca_on == 'train' else 'all rows'}."
        )
    if settings.normalize:
        features += " Rows are then scaled to unit length for all methods, so Euclidean distance and cosine rank alike."
    ours = (
        f"SLR and its variants are as in the paper: its starts, no ridge, rank {settings.rank}, T = {settings.n_iter}, "
        f"δ1 = {settings.margins[0]:g} and δ2 = {settings.margins[1]:g}."
    )
    rivals = (
        "Rivals choose their sensitive parameters by mAP on held-out training rows; no method sees a test row. OASIS "
        f"takes {budget.oasis_steps:,} triplets, FRML {budget.frml_steps:,} steps of 5 queries each, and LMNN updates "
        f"its impostors {budget.lmnn_rounds} times; FRML and LMNN also have rank {settings.rank}."
    )
    seeds = (
        f"The seed of split s = 0, 1, … is ({settings.seed}, s), that of a method on it {settings.seed} + s. Standard "
        "deviations are sample standard deviations (n - 1). cells.csv has all figures of this report."
    )
    return [features, ours, rivals, seeds]
