"""Arrays in files: what is mapped stays open as long as it is used."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path

import numpy as np

from likewise.rows.npy import mapped
from likewise.rows.sources import NpyFile


def test_files_that_nothing_refers_to_are_closed_without_a_warning(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        array, rows = mapped(tmp_path / "x.npy"), NpyFile.open(tmp_path / "x.npy")
        assert not array.file.closed
        del array, rows
        gc.collect()
    assert [one for one in noted if issubclass(one.category, ResourceWarning)] == []
