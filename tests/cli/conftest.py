"""Files that the verbs read, and a way to run them in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from likewise.cli import app

Run = Callable[..., Any]


@pytest.fixture
def run() -> Run:
    """Run the command line with the given words; `input` is its standard input."""

    def call(*words: object, **options: Any) -> Any:
        return CliRunner().invoke(app, [str(word) for word in words], **options)

    return call


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with some digits to learn from and some to test, in several formats."""
    folder = tmp_path_factory.mktemp("digits")
    X, y = load_digits(return_X_y=True)
    names = np.array([f"digit {label}" for label in y])
    for name, rows in (("train", slice(0, 500)), ("test", slice(500, 700))):
        np.savez(folder / f"{name}.npz", X=X[rows], y=names[rows])
        np.save(folder / f"{name}.npy", X[rows])
        (folder / f"{name}.txt").write_text("\n".join(names[rows]) + "\n")
        _write_csv(folder / f"{name}.csv", X[rows], names[rows])
    return folder


def _write_csv(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    header = ",".join([*(f"pixel{i}" for i in range(X.shape[1])), "label"])
    lines = [",".join([*(f"{value:g}" for value in row), label]) for row, label in zip(X, y, strict=True)]
    path.write_text("\n".join([header, *lines]) + "\n")
