"""Data whose right answer is known."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from sklearn.datasets import load_digits

settings.register_profile("likewise", deadline=None, max_examples=30, print_blob=True)
settings.load_profile("likewise")


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Digits in two halves: X, y to learn from and X, y to search."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:1200], order[1200:]
    return X[train], y[train], X[test], y[test]


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of the real data sets; tests that want it are skipped without it."""
    if "LIKEWISE_DATA" not in os.environ:
        pytest.skip("LIKEWISE_DATA is not set")
    return Path(os.environ["LIKEWISE_DATA"])
