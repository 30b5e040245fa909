"""Small problems of every awkward kind for every estimator: `python -m tests.hostile.random_problems 5000`, or 500-900.

Each ends in a sentence or in a finite result. So do the rows in another order, under other names, and they give the
same result unless the estimator draws rows or holds some out.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise import SLR, RelevanceLearner, SimilarityLearner
from likewise import rivals as b
from likewise.learn.base import SimilarityModel
from likewise.rows import Relevance

ESTIMATORS: dict[str, Callable[[], SimilarityModel]] = {
    "slr": lambda: SLR(rank=3, max_iter=2),
    "slr whole": lambda: SLR(rank=None, max_iter=2),
    "slr fixed": lambda: SLR(rank=None, adaptive=False),
    "slr paper": lambda: SLR(rank=2, max_iter=2, init="paper"),
    "slr sample": lambda: SLR(rank=2, max_iter=2, compress="sample", compress_size=8),
    "slr gaussian": lambda: SLR(rank=2, max_iter=2, compress="gaussian", compress_size=8),
    "slr landmarks": lambda: SLR(rank=2, max_iter=2, compress="landmarks", compress_size=8),
    "anchored": SimilarityLearner,
    "anchored linear": lambda: SimilarityLearner("linear"),
    "anchored rbf": lambda: SimilarityLearner("rbf", n_landmarks=10, settings={"n_anchors": 8}),
    "anchored posterior": lambda: SimilarityLearner(settings={"temperature": "auto"}),
    "anchored unseen": lambda: SimilarityLearner(settings={"share": 0.0}),
    "anchored standard": lambda: SimilarityLearner("linear", scaling="standard"),
    "anchored roots": lambda: SimilarityLearner("linear", scaling="roots", settings={"adaptation": 1.0, "ridge": 0.1}),
    "relevance": RelevanceLearner,
    "relevance query": lambda: RelevanceLearner("query"),
    "euclid": b.Euclid,
    "cosine": lambda: b.Cosine(centre=True),
    "whitening": lambda: b.Whitening(grid=(0.1, 0.9)),
    "rca": lambda: b.RCA(grid=(0.1, 0.9)),
    "rca distance": lambda: b.RCA(metric="distance", shrinkage=0.1, normalize=False),
    "lda": lambda: b.LDA(grid=(0.1, 0.5)),
    "lda bare": lambda: b.LDA(shrinkage=0.0, normalize=False),
    "lda classes": lambda: b.LDA(grid=(0.1, 0.5), holdout="classes"),
    "ridge": lambda: b.RidgeOneHot(grid=(0.1, 1.0)),
    "logistic": lambda: b.LogisticPosterior(grid=(0.1,), temperatures=(0.5, 1.0), max_iter=20),
    "lda posterior": lambda: b.LDAPosterior(grid=(0.1, 0.5), temperatures=(1.0, 2.0)),
    "kernel lda": lambda: b.Kernelised("lda", n_landmarks=10, grid=(0.01, 0.1)),
    "svm": lambda: b.SVMPosterior(grid=(10.0,), widths=(1.0,), temperatures=(0.1, 0.2)),
    "kernel ridge": lambda: b.KernelRidge(grid=(0.01, 0.1), widths=(1.0,), scalings=("unit", "standard")),
    "kernel posterior": lambda: b.KernelRidge("posterior", grid=(0.01,), widths=(1.0,), scaling="roots", max_rows=20),
    "with input": lambda: b.WithInput("ridge", weights=(0.5,), holdout="rows"),
    "nca": lambda: b.NCA(grid=(0.3, 1.0), max_iter=3),
    "oasis": lambda: b.OASIS(n_steps=200),
    "frml": lambda: b.FRML(rank=3, n_iter=10, grid=(0.1, 1.0)),
    "lmnn": lambda: b.LMNN(rank=3, n_rounds=2, n_iter=3, k=2),
}
if find_spec("torch"):
    ESTIMATORS["neural"] = lambda: b.NeuralHead(n_hidden=8, scale=8.0, steps=(3, 6))

WEIGHTED = tuple(name for name in ESTIMATORS if name.startswith(("slr", "anchored")))
# The others draw rows or hold some out, by their place: another order is another draw.
OF_ANY_ORDER = (
    "slr", "slr whole", "slr fixed", "anchored unseen", "relevance", "relevance query", "euclid", "cosine",
    "rca distance",
)  # fmt: skip
WITHOUT_LABELS = ("euclid", "cosine")


@dataclass
class Problem:
    """Rows and labels for one estimator, weights or None, and what was done to them."""

    estimator: str
    X: Any
    y: np.ndarray
    weights: np.ndarray | None
    how: list[str] = field(default_factory=list)

    def fitted(self, X: Any, y: np.ndarray, weights: np.ndarray | None) -> SimilarityModel:
        model = ESTIMATORS[self.estimator]()
        if self.estimator.startswith("relevance"):
            return model.fit(X, Relevance((y[:, None] == y[None, :]) & ~np.eye(len(y), dtype=bool)))
        return model.fit(X, y) if weights is None else model.fit(X, y, weights)

    def similarity(self) -> np.ndarray:
        return np.asarray(self.fitted(self.X, self.y, self.weights).similarity(self.X))

    def permuted(self, rng: np.random.Generator) -> np.ndarray:
        """The similarities learned from the rows in another order, with classes of other names."""
        order, names = rng.permutation(len(self.y)), np.unique(self.y)
        renamed = rng.permutation(len(names))[np.searchsorted(names, self.y)]
        weights = None if self.weights is None else self.weights[order]
        return np.asarray(self.fitted(self.X[order], renamed[order], weights).similarity(self.X))

    @property
    def has_one_answer(self) -> bool:
        """Whether rows in another order must give the same: not of "slr", where the third of more classes, by size, is
        as large as the fourth: which leading directions of rank 3 are kept is then a choice.
        """
        sizes = -np.sort(-np.unique(self.y, return_counts=True)[1])
        tied = self.estimator == "slr" and len(sizes) > 3 and sizes[2] == sizes[3]
        return self.estimator in OF_ANY_ORDER and not tied

    @property
    def tolerance(self) -> float:
        """Of the largest entry; sums in another order differ by rounding, which float32 has more of."""
        return 1e-3 if self.X.dtype == np.float32 else 1e-6


# -- Making them ------------------------------------------------------------------------------------------------------

Rng = np.random.Generator


def _duplicates(X: np.ndarray, rng: Rng) -> None:
    X[rng.integers(len(X), size=len(X) // 2)] = X[rng.integers(len(X), size=len(X) // 2)]


def _same_within_classes(X: np.ndarray, y: np.ndarray) -> None:
    X[:] = X[np.searchsorted(np.sort(y), y)]


def _spoil(X: np.ndarray, y: np.ndarray, rng: Rng) -> list[str]:
    """Do some awkward things to rows, and say which."""
    n, d = X.shape
    kinds: dict[str, Callable[[], Any]] = {
        "duplicates": lambda: _duplicates(X, rng),
        "identical within classes": lambda: _same_within_classes(X, y),
        "constant column": lambda: X.__setitem__((slice(None), rng.integers(d)), rng.choice([0.0, 1.0, 1e6])),
        "zero rows": lambda: X.__setitem__(rng.integers(n, size=1 + n // 4), 0.0),
        "all zero": lambda: X.fill(0.0),
        "all equal": lambda: X.__setitem__(slice(None), X[0].copy()),
        "scaled": lambda: np.multiply(X, 10.0 ** rng.integers(-300, 300), out=X),
        "mildly scaled": lambda: np.multiply(X, 10.0 ** rng.integers(-12, 12), out=X),
        "scaled columns": lambda: np.multiply(X, 10.0 ** rng.integers(-12, 12, d), out=X),
        "scaled rows": lambda: np.multiply(X, 10.0 ** rng.integers(-160, 160, (n, 1)), out=X),
        "one huge": lambda: X.__setitem__((rng.integers(n), rng.integers(d)), 10.0 ** rng.integers(6, 300)),
        "whole numbers": lambda: np.rint(X, out=X),
        "nan": lambda: X.__setitem__((rng.integers(n), rng.integers(d)), rng.choice([np.nan, np.inf, -np.inf])),
        "low rank": lambda: np.copyto(X, np.outer(X[:, 0], X[0])),
    }
    chosen = [str(kind) for kind in rng.permutation(list(kinds))[: rng.choice(3, p=(0.25, 0.55, 0.2))]]
    for kind in chosen:
        kinds[kind]()
    return chosen


def _labels(n: int, rng: Rng) -> np.ndarray:
    kind = rng.choice(["few", "pairs", "many", "one", "alone"], p=(0.6, 0.15, 0.1, 0.05, 0.1))
    if kind == "few":
        return rng.integers(0, rng.integers(2, 6), n)
    if kind == "pairs":
        return rng.permutation(np.arange(n) // 2)
    if kind == "many":
        return rng.integers(0, n, n)
    return np.zeros(n, dtype=int) if kind == "one" else np.where(np.arange(n) < n // 2, 0, np.arange(n))


def _as_kind(X: np.ndarray, rng: Rng) -> Any:
    kind = rng.choice(["float64", "float32", "int", "sparse"], p=(0.55, 0.2, 0.1, 0.15))
    if kind == "sparse":
        return sp.csr_array(np.where(np.abs(X) < np.median(np.abs(X)), 0.0, X))
    if kind == "int" and np.isfinite(X).all() and np.abs(X).max() < 1e9:
        return np.rint(X * 3).astype(np.int64)
    return X.astype(np.float32) if kind == "float32" else X


def _weights(n: int, rng: Rng) -> np.ndarray | None:
    kind = rng.choice(["none", "some", "zero", "whole", "huge"], p=(0.6, 0.1, 0.1, 0.1, 0.1))
    if kind == "none":
        return None
    if kind == "huge":
        return np.where(rng.random(n) < 0.5, 10.0 ** rng.integers(-300, 301), 1.0)
    weights = rng.integers(1, 4, n).astype(float) if kind == "whole" else rng.random(n) + 0.1
    return weights if kind != "zero" else weights * (rng.random(n) < 0.6)


def problem(number: int) -> Problem:
    """The problem of this number, always the same; one after the other they go through the estimators."""
    rng = np.random.default_rng(number)
    estimator = list(ESTIMATORS)[number % len(ESTIMATORS)]
    n, d = int(rng.integers(2, 41)), int(rng.integers(1, 13))
    y = _labels(n, rng)
    X = rng.standard_normal((n, d)) + rng.standard_normal((n, d))[y % n] * rng.choice([0.0, 1.0, 5.0])
    with np.errstate(all="ignore"):
        how = _spoil(X, y, rng)
        X = _as_kind(X, rng)
    return Problem(estimator, X, y, _weights(n, rng) if estimator in WEIGHTED else None, how)


# -- Judging them -----------------------------------------------------------------------------------------------------


def outcome(number: int) -> tuple[str, str | None]:
    """ "sentence" or "finite", and what is wrong with it, None if nothing is."""
    given = problem(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            first = given.similarity()
        except ValueError as error:
            return "sentence", _fault_of(error)
        except Exception as error:
            return "sentence", f"{type(error).__name__}: {error}"
        if not np.isfinite(first).all():
            return "finite", f"{np.sum(~np.isfinite(first))} similarities are not finite"
        return "finite", _moved(given, first, number)


def _fault_of(error: ValueError) -> str | None:
    """A sentence is our own or scikit-learn's, on one line."""
    text = str(error)
    if isinstance(error, np.linalg.LinAlgError) or type(error) not in _SENTENCES:
        return f"{type(error).__name__}: {text}"
    return None if text.strip() and len(text.strip().splitlines()) == 1 else f"not one line: {text!r}"


def _moved(given: Problem, first: np.ndarray, number: int) -> str | None:
    try:
        second = given.permuted(np.random.default_rng(number + 10**6))
    except ValueError as error:
        if given.estimator not in OF_ANY_ORDER:
            return _fault_of(error)
        return f"in another order: {type(error).__name__}: {error}"
    except Exception as error:
        return f"in another order: {type(error).__name__}: {error}"
    if not np.isfinite(second).all():
        return f"in another order {np.sum(~np.isfinite(second))} similarities are not finite"
    if not given.has_one_answer:
        return None
    apart, largest = float(np.abs(first - second).max()), float(np.abs(first).max())
    return None if apart <= given.tolerance * largest else f"another order moves it by {apart / largest:.1e}"


def main(which: str) -> int:
    """Go through so many problems, or from one to another; print what is wrong and how they ended."""
    ended: Counter[str] = Counter()
    first, _, end = which.rpartition("-")
    for number in range(int(first or 0), int(end)):
        kind, wrong = outcome(number)
        ended[kind] += 1
        if wrong is not None:
            ended["wrong"] += 1
            given = problem(number)
            facts = f"{given.X.shape} {given.X.dtype}{' sparse' if sp.issparse(given.X) else ''}"
            weighted = "" if given.weights is None else " weighted"
            print(f"{number} {given.estimator} {facts}{weighted} {given.how}: {wrong}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in ended.items()))
    return int(ended["wrong"] > 0)


from likewise.errors import FileFormatError, LikewiseError, MissingExtraError  # noqa: E402

_SENTENCES = (ValueError, LikewiseError, FileFormatError, MissingExtraError)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "5000"))
