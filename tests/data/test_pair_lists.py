"""Lists of pairs: ids to row numbers, and one entry per pair."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.data.pair_lists import assembled, places
from likewise.errors import LikewiseError


def test_ids_are_found_by_name_and_numbers_are_themselves():
    assert places(np.array([7.0, 8.0, 7.0]), ["8", "7"], "query").tolist() == [1, 0, 1]
    assert places([2.0, 0], None, "query").tolist() == [2, 0]


@pytest.mark.parametrize(
    ("ids", "known", "message"),
    [
        (["x", "y"], ["x"], "1 query ids of the relevance match no row: 'y'"),
        (["x"], ["x", "x"], "query id 'x' names rows 0 and 1: expected one row per id"),
        (["x"], None, "query ids of the relevance are <U1: expected row numbers, or give query_ids"),
        ([-1], None, "query id -1 of the relevance is negative: expected row numbers from 0"),
    ],
)
def test_ids_that_name_no_row_are_refused(ids, known, message):
    with pytest.raises(LikewiseError, match=message):
        places(ids, known, "query")


def test_a_pair_has_one_entry_and_two_values_are_a_conflict():
    rows, columns = np.array([0, 0, 1]), np.array([1, 1, 0])
    assert assembled(rows, columns, [1, 1, 0], (2, 2)).nnz == 2
    assert assembled(rows, columns, [1, 0, 0], (2, 2), conflicts="drop").nnz == 1
    with pytest.raises(LikewiseError, match=r"relevance has 1 conflicting pair: \(0, 1\) is 1 and 0"):
        assembled(rows, columns, [1, 0, 0], (2, 2))
