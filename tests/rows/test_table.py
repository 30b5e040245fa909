"""A table: which labels are missing, and labels as numbers or text."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

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
    remaining = table.labelled()
    assert remaining.y is not None
    assert remaining.y.tolist() == [3, 4]
    assert remaining.names == ["a", "c"]
    assert remaining.notes == ["data: 2 of 4 rows have no label and are left out"]
    with pytest.raises(LikewiseError, match="not one of them has a label"):
        Table(X, np.array([""] * 4), source="data").labelled()
    with pytest.raises(LikewiseError, match="data has no labels: name a file"):
        Table(X, source="data").labelled()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_invalid_rows_are_counted_with_their_first_ten_ids_or_left_out(kind: str) -> None:
    X = np.ones((20, 3))
    X[3:15, 1] = np.nan
    X[15, 0] = -np.inf
    table = Table(X if kind == "dense" else sp.csr_array(X), np.arange(20), ids=[f"a{row}" for row in range(20)])
    with pytest.raises(LikewiseError) as error:
        table.finite(drop=False)
    assert str(error.value) == (
        "X: 13 of 20 rows have NaN or infinity (a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, …); "
        "--drop-invalid leaves them out"
    )
    rest = table.finite(drop=True)
    assert rest.ids == ["a0", "a1", "a2", "a16", "a17", "a18", "a19"]
    assert rest.y.tolist() == [0, 1, 2, 16, 17, 18, 19]
    assert rest.X.shape == (7, 3)
    assert rest.notes[-1].endswith("are left out")
    assert rest.finite(drop=False) is rest
    with pytest.raises(LikewiseError, match="2 of 2 rows have NaN or infinity \\(row 1, row 2\\): no row is left"):
        Table(np.full((2, 2), np.nan)).finite(drop=True)


def test_large_finite_numbers_are_valid() -> None:
    table = Table(np.full((3, 4), 1e308))
    assert table.finite(drop=False) is table
