"""The rows of a verb: what a method takes, and what is said of rows left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.planted import planted

from likewise import SLR
from likewise.baselines import LDA
from likewise.cli.rows import load_rows, training_rows
from likewise.data import Rows
from likewise.errors import LikewiseError
from likewise.features import FeatureStore

X, Y = planted(60, 5, 3)


@pytest.fixture
def store(tmp_path: Path) -> str:
    labels = np.where(np.arange(60) % 6 == 0, "", Y.astype(str))
    return str(FeatureStore.write(tmp_path / "x.features", X, labels).path)


def test_a_store_is_opened_on_disk_and_its_unlabelled_rows_are_noted(store: str, capsys: pytest.CaptureFixture) -> None:
    table = load_rows(store)
    assert table.names is None  # which take memory, and are not needed
    rows = training_rows(SLR(), table, "1MB", None)
    assert isinstance(rows.X, Rows)
    assert (rows.X.where, rows.X.memory_limit, rows.shape, rows.n_classes) == ("disk", 1_000_000, (50, 5), 3)
    assert set(rows.arguments) == {"X"}
    assert "10 of 60 rows have no label and are left out" in capsys.readouterr().err


def test_a_gaussian_sketch_has_its_rows_in_memory(store: str) -> None:
    rows = training_rows(SLR(compress="gaussian", compress_size=20), load_rows(store), None, None)
    assert rows.X.where == "memory"


def test_other_methods_get_arrays(store: str) -> None:
    rows = training_rows(LDA(), load_rows(store), None, None)
    assert (np.shape(rows.X), rows.y.shape, rows.n_classes) == ((50, 5), (50,), 3)
    with pytest.raises(LikewiseError, match=r"--dask is for a \.npy file or a folder of features"):
        training_rows(LDA(), load_rows(store), None, "tcp://127.0.0.1:1")
