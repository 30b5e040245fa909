"""The benchmark of click logs, on digits."""

from __future__ import annotations

import pytest
from benchmarks.clicks import measured
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize


@pytest.mark.second
def test_a_row_has_what_was_decided_and_used() -> None:
    X, y = load_digits(return_X_y=True)
    row = measured("digits", normalize(X), y, "clicks", 0)
    assert (row["decision"], row["used"]) == ("learned", row["learned"])
    assert row["learned"] > row["raw"]
