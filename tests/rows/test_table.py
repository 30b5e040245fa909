"""A table: which labels are missing, and labels as numbers or text."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.rows import Table
from likewise.rows.table import tidy_labels

X = np.array([[1.5, -2.0, 0.25], [3.0, 4.0, 5.0], [6.0, 7.5, 8.0], [0.0, 1.0, 2.0]])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2", "10"], [1, 2, 10]),
        (["007", "8"], ["007", "8"]),
        (["1", ""], ["1", ""]),
        ([1.0, 2.0], [1, 2]),
        (np.array([1.0, np.nan]), ["1", ""]),
        ([1, "a", None], ["1", "a", ""]),
        (["1" * 30], ["1" * 30]),
        ([True, False], ["True", "False"]),
        (["1", "1"], [1, 1]),
    ],
)
def test_labels_are_whole_numbers_or_text(values: list, expected: list) -> None:
    y = tidy_labels(values)
    assert y.tolist() == expected
    assert y.dtype.kind in "iU"


def test_only_labelled_rows_are_kept() -> None:
    table = Table(X, tidy_labels(["3", "", "4", " "]), ["a", "b", "c", "d"], "data")
    kept = table.labelled()
    assert kept.y is not None
    assert kept.y.tolist() == [3, 4]
    assert kept.names == ["a", "c"]
    assert kept.notes == ["data: 2 of 4 rows have no label and are left out"]
    with pytest.raises(LikewiseError, match="not one of them has a label"):
        Table(X, np.array([""] * 4), source="data").labelled()
    with pytest.raises(LikewiseError, match="data has no labels: name a file"):
        Table(X, source="data").labelled()
