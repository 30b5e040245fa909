"""scikit-learn's validation, through one module."""

from __future__ import annotations

import numpy as np

from likewise.utils.validation import NUMERIC_ROWS, check_array


def test_rows_come_as_floats_in_c_order():
    rows = check_array(np.asfortranarray(np.arange(6).reshape(2, 3)), **NUMERIC_ROWS)
    assert (rows.dtype, rows.flags.c_contiguous) == (np.float64, True)
    assert check_array(rows.astype(np.float32), **NUMERIC_ROWS).dtype == np.float32
