"""Fits that every engine must agree on, and how far they may differ."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.planted import planted

from likewise import SLR, SimilarityLearner, open_rows

N, D, CLASSES = 700, 24, 9

WAYS: dict[str, dict[str, Any]] = {
    "all pairs": {"rank": 12, "max_iter": 2},
    "the whole matrix": {"rank": None, "max_iter": 2},
    "ridge": {"rank": 5, "max_iter": 2, "alpha": 0.1},
    "landmarks": {"rank": 8, "max_iter": 2, "compress": "landmarks", "compress_size": 150},
    "landmarks, whole": {"rank": None, "max_iter": 2, "compress": "landmarks", "compress_size": 150},
    "sample": {"rank": 8, "max_iter": 2, "compress": "sample", "compress_size": 300, "random_state": 3},
    "sample, whole": {"rank": None, "max_iter": 2, "compress": "sample", "compress_size": 300, "random_state": 3},
    "fixed": {"rank": 8, "adaptive": False},
    "fixed, iterated": {"rank": 8, "adaptive": False, "init": "paper", "max_iter": 3},
    "margins": {"rank": 8, "margins": (0.9, 0.3), "max_iter": 2},
    "the paper's start": {"rank": 8, "init": "paper", "max_iter": 2},
}


def torch_array(X: np.ndarray) -> Any:
    return pytest.importorskip("torch").from_numpy(X)


def strict_array(X: np.ndarray) -> Any:
    return pytest.importorskip("array_api_strict").asarray(X)


libraries = pytest.mark.parametrize("make", [pytest.param(torch_array, marks=pytest.mark.second), strict_array])


def rows(dtype: type = np.float32, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows in no order of their labels."""
    return planted(N, D, CLASSES, seed=seed, dtype=dtype)


def assert_same(one: Any, other: Any, X: np.ndarray, tolerance: float = 1e-5) -> None:
    """Two models give the same similarities, to `tolerance` of the largest."""
    S, S_other = (np.asarray(model.similarity(X), dtype=np.float64) for model in (one, other))
    assert np.abs(S - S_other).max() <= tolerance * np.abs(S).max()


@cache
def slr_of_the_array(way: str, dtype: type = np.float32) -> SLR:
    """What NumPy's rows give: learned once, and compared with what other places give."""
    return SLR(**WAYS[way]).fit(*rows(dtype))


@cache
def anchored_of_the_array(way: str, dtype: type = np.float32, **options: Any) -> SimilarityLearner:
    """The same for the anchored model."""
    return SimilarityLearner(**ANCHORED[way], **options).fit(opened(way, *rows(dtype)))


def opened(way: str, X: Any, y: Any, **options: Any) -> Any:
    """Rows with the memory limit of this way."""
    return open_rows(X, y, memory_limit=LIMITS.get(way), **options)


LIMITS = {"as many landmarks as fit": "1500kB"}  # 193 of the 700


ANCHORED: dict[str, dict[str, Any]] = {
    "chosen": {"kernel": "linear"},
    "kernel": {
        "n_landmarks": 60,
        "settings": {"gamma": 0.7, "ridge": 0.1, "adaptation": 1.0, "geometry": "lda", "trust": 0.5},
    },
    "all pairs": {
        "kernel": "linear",
        "settings": {"n_anchors": None, "ridge": 0.1, "adaptation": 3.0, "geometry": "one-hot"},
    },
    "few landmarks": {
        "kernel": "linear",
        "settings": {"n_anchors": 100, "ridge": 0.1, "adaptation": 1.0, "trust": 0.0},
    },
    "posterior": {"kernel": "linear", "settings": {"ridge": 0.1, "adaptation": 1.0, "temperature": 0.05}},
    "standardised": {
        "n_landmarks": 60,
        "scaling": "standard",
        "settings": {"gamma": 0.7, "ridge": 0.1, "adaptation": 1.0},
    },
    "unseen classes": {"settings": {"share": 0.0}},
    "exact kernel": {"kernel": "rbf", "scaling": "unit", "settings": {"gamma": 2.0, "ridge": 0.1, "share": 0.9}},
    "exact posterior": {
        "kernel": "rbf",
        "scaling": "roots",
        "settings": {"gamma": 1.0, "ridge": 0.3, "temperature": 0.05},
    },
    "as many landmarks as fit": {
        "kernel": "rbf",
        "scaling": "unit",
        "settings": {"gamma": 2.0, "ridge": 0.1, "share": 0.9},
    },
}
