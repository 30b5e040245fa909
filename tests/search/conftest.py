"""Small galleries and models of every kind to search them by."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from likewise import SLR, SimilarityLearner
from likewise.rivals import LDA, Cosine, Euclid
from likewise.search import Index

Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

MODELS: dict[str, Callable[[], Any]] = {
    "bilinear": lambda: SLR(rank=9, max_iter=1),
    "anchored": lambda: SimilarityLearner(
        kernel="linear", settings={"ridge": 0.1, "adaptation": 0.0, "geometry": "one-hot"}
    ),
    "kernel": lambda: SimilarityLearner(
        kernel="rbf", settings={"gamma": 1.0, "ridge": 0.1, "adaptation": 0.0, "geometry": "one-hot"}
    ),
    "posterior": lambda: SimilarityLearner(
        settings={"gamma": 0.0, "ridge": 0.1, "adaptation": 0.0, "temperature": 0.05}
    ),
    "cosine": lambda: Cosine(centre=True),
    "euclid": lambda: Euclid(),
    "lda": lambda: LDA(shrinkage=0.1),
}


@pytest.fixture(scope="session")
def fitted(digits: Digits) -> dict[str, Any]:
    """A model of each kind, learned from the first half of the digits."""
    X, y, _, _ = digits
    return {name: make().fit(X[:400].astype(np.float32), y[:400]) for name, make in MODELS.items()}


@pytest.fixture
def index(fitted: dict[str, Any], digits: Digits) -> Index:
    """The second half of the digits, labelled, under a linear model."""
    _, _, G, y = digits
    return Index.build(fitted["anchored"], G.astype(np.float32), {"label": y})


def killed_while(work: Callable[[], object], seconds: float) -> None:
    """Run `work` in a fork of this process and kill it with -9 some seconds after it has begun."""
    begun, begin = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(begin, b"!")
            work()
        finally:
            os._exit(0)
    os.read(begun, 1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(begun)
    os.close(begin)
