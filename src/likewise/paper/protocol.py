"""The protocol: splits of 70/30, PCA learned from the training rows, rows of length 1; and how much to spend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from likewise.errors import LikewiseError
from likewise.paper.datasets import Dataset

__all__ = ["Budget", "Protocol", "Settings", "Split"]

TRAIN_SHARE = 0.7


@dataclass(frozen=True)
class Settings:
    """What decides the figures of a run: two runs with equal settings on equal data agree in every digit."""

    seed: int = 0
    normalise: bool = True
    components: int | None = 1000  # of PCA, or of TruncatedSVD for sparse rows; None leaves the rows as they are
    pca_on: str = "train"
    rank: int = 100
    n_iter: int = 10
    margins: tuple[float, float] = (1.0, 0.0)
    quick: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Budget:
    """How much to spend: rows, steps of the rivals, places on the curves, draws."""

    rows: int | None = None
    oasis_steps: int = 1_000_000
    frml_steps: int = 20_000  # of five queries each, which look at up to a tenth of the other classes' rows
    lmnn_rounds: int = 6
    lmnn_neighbours: tuple[int, ...] = (3, 10, 30)
    curve_splits: int = 3
    curve_points: int = 6
    draws: int = 200

    @classmethod
    def quick(cls) -> Budget:
        return cls(
            rows=1200,
            oasis_steps=30_000,
            frml_steps=3_000,
            lmnn_rounds=2,
            lmnn_neighbours=(3, 10),
            curve_splits=1,
            curve_points=4,
        )


@dataclass(frozen=True)
class Split:
    """Training rows X, y and test rows Q, y_q with their places in the data set."""

    X: np.ndarray
    y: np.ndarray
    Q: np.ndarray
    y_q: np.ndarray
    test: np.ndarray


class Protocol:
    """Splits of a data set, prepared when they are asked for; the last one is kept."""

    def __init__(self, data: Dataset, settings: Settings, budget: Budget) -> None:
        self.data = data if budget.rows is None else data.subset(_drawn(data.y, budget.rows, settings.seed))
        self.settings, self.budget = settings, budget
        self._kept: dict[tuple[int, int | None, str], Split] = {}
        if len(np.unique(self.data.y)) < 2:
            raise LikewiseError(f"{data.source} has one class: the experiments need at least two to tell apart")

    @property
    def n_train(self) -> int:
        return round(TRAIN_SHARE * len(self.data.y))

    @property
    def width(self) -> int:
        """Columns of a split's rows."""
        d, wanted = self.data.X.shape[1], self.settings.components
        return d if wanted is None else min(d, wanted)

    def rows(self, split: int) -> tuple[np.ndarray, np.ndarray]:
        """Places of the training and of the test rows: a random 70 % and the rest, as in the paper."""
        order = np.random.default_rng([self.settings.seed, split]).permutation(len(self.data.y))
        return np.sort(order[: self.n_train]), np.sort(order[self.n_train :])

    def split(self, number: int, **changes: Any) -> Split:
        """A split, prepared as the settings say; `changes` are settings to differ in."""
        settings = replace(self.settings, **changes)
        key = number, settings.components, settings.pca_on
        if key not in self._kept:  # scaling is quick, the principal components of wide rows may take minutes
            self._kept = {key: self._reduced(number, settings)}
        split = self._kept[key]
        return replace(split, X=normalize(split.X), Q=normalize(split.Q)) if settings.normalise else split

    def _reduced(self, number: int, settings: Settings) -> Split:
        train, test = self.rows(number)
        X, y = self.data.X, self.data.y
        fit_on = train if settings.pca_on == "train" else np.arange(len(y))
        reduce = _reduction(X, fit_on, settings)
        return Split(reduce(train), y[train], reduce(test), y[test], test)


def _reduction(X: Any, fit_on: np.ndarray, settings: Settings) -> Callable[[np.ndarray], np.ndarray]:
    """A function from places to float32 rows of at most so many columns, learned from the rows `fit_on`."""
    wanted = settings.components
    if wanted is None or X.shape[1] <= wanted:
        return lambda rows: _dense(X[rows])
    if sp.issparse(X):
        from sklearn.decomposition import TruncatedSVD

        svd = TruncatedSVD(wanted, random_state=settings.seed).fit(X[fit_on])
        return lambda rows: svd.transform(X[rows]).astype(np.float32)
    if X.shape[1] > len(fit_on):
        from likewise.features import DualPCA

        dual = DualPCA(wanted, random_state=settings.seed).fit(X, numbers=fit_on)
        return lambda rows: dual.transform(X[rows])
    from sklearn.decomposition import PCA

    pca = PCA(min(wanted, len(fit_on)), svd_solver="covariance_eigh").fit(_dense(X[fit_on]))
    return lambda rows: pca.transform(_dense(X[rows])).astype(np.float32)


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float32)


def _drawn(y: np.ndarray, size: int, seed: int) -> np.ndarray:
    """About `size` rows, every class in its share but with at least four, so that both sides of a split have some."""
    if len(y) <= size:
        return np.arange(len(y))
    rng = np.random.default_rng(seed)
    by_class = np.split(np.argsort(y, kind="stable"), np.cumsum(np.bincount(y))[:-1])
    share = size / len(y)
    return np.concatenate([rng.permutation(rows)[: max(4, round(share * len(rows)))] for rows in by_class])
