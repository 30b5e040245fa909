"""Validation of rows, by scikit-learn, and of labels."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.utils.validation import NUMERIC_ROWS, check_array, is_missing


def test_rows_come_as_floats_in_c_order():
    rows = check_array(np.asfortranarray(np.arange(6).reshape(2, 3)), **NUMERIC_ROWS)
    assert (rows.dtype, rows.flags.c_contiguous) == (np.float64, True)
    assert check_array(rows.astype(np.float32), **NUMERIC_ROWS).dtype == np.float32


def test_missing_labels_are_none_nan_empty_and_minus_one() -> None:
    assert is_missing(np.array(["a", "", " ", "-1"])).tolist() == [False, True, True, True]
    assert is_missing(np.array([1.0, np.nan, -1.0])).tolist() == [False, True, True]
    assert is_missing(np.array(["a", None, float("nan"), -1, True], dtype=object)).tolist() == [0, 1, 1, 1, 0]
    assert is_missing(np.array([0, 1, -1])).tolist() == [False, False, True]
    assert is_missing(np.array([True, False])).tolist() == [False, False]
    pandas = pytest.importorskip("pandas")
    assert is_missing(pandas.Series([1, None], dtype="Int64").to_numpy()).tolist() == [False, True]
