"""Relevance from triples, pairs, triplets and clicks, and the matrix they are put into."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from likewise.errors import LikewiseError
from likewise.rows.relevance import Relevance, assembled, places


def test_a_stored_zero_is_known_and_an_unstored_one_is_not():
    R = sp.csr_array((np.array([1.0, 0.0]), (np.array([0, 1]), np.array([2, 1]))), shape=(3, 4))
    relevance = Relevance(R)
    assert (relevance.n_known, relevance.summary) == (2, "1 relevant pair of 2 queries, 1 irrelevant")
    assert Relevance(R.toarray()).n_known == 12


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(-3, 3)), min_size=1, unique_by=lambda t: t[:2])
)
def test_triples_come_back_in_any_order(triples):
    rows, columns, grades = map(np.array, zip(*triples, strict=True))
    relevance = Relevance.from_triples(rows, columns, grades, shape=(5, 7))
    assert relevance.n_known == len(triples)
    dense = relevance.R.toarray()
    assert all(dense[i, j] == g for i, j, g in triples)


def test_ids_are_matched_by_name_whatever_their_type():
    relevance = Relevance.from_triples(["b", "a"], [7, 9], [1, 0], query_ids=["a", "b"], item_ids=["9", "8", "7"])
    np.testing.assert_array_equal(relevance.R.toarray(), [[0, 0, 0], [0, 0, 1]])
    assert relevance.R.nnz == 2


def test_a_repeated_pair_counts_once():
    assert Relevance.from_triples([0, 0, 0], [1, 1, 2], [1, 1, 0]).n_known == 2


def test_pairs_hold_both_ways_round():
    dense = Relevance.from_pairs([(0, 1)], [(1, 2)], n=3).R
    assert dense.nnz == 4
    np.testing.assert_array_equal(dense.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_triplets_are_a_relevant_and_an_irrelevant_pair_each():
    relevance = Relevance.from_triplets([0, 1], [1, 2], [2, 0])
    np.testing.assert_array_equal(relevance.R.toarray(), [[0, 1, 0], [0, 0, 1]])
    assert relevance.R.nnz == 4


def test_conflicts_may_be_dropped():
    relevance = Relevance.from_triples([0, 0, 0], [1, 1, 2], [1, 0, 1], conflicts="drop")
    assert relevance.n_known == 1


def test_an_inferred_size_grows_and_a_given_one_does_not():
    assert Relevance.from_triples([0], [1]).fitted_to(4, 5).shape == (4, 5)
    with pytest.raises(LikewiseError, match=re.escape("relevance has shape (1, 2): expected (4, 5)")):
        Relevance.from_triples([0], [1], shape=(1, 2)).fitted_to(4, 5)


BAD = {
    "unknown ids": (
        lambda: Relevance.from_triples(["a", "x", "y", "x"], [0, 0, 0, 0], query_ids=["a", "b"]),
        "2 query ids of the relevance match no row: 'x', 'y'",
    ),
    "many unknown ids": (
        lambda: Relevance.from_triples(range(9), range(9), item_ids=["a"]),
        "9 item ids of the relevance match no row: '0', '1', '2', '3', '4' and 4 more",
    ),
    "twice the same id": (
        lambda: Relevance.from_triples(["a"], [0], query_ids=["a", "a"]),
        "query id 'a' names rows 0 and 1: expected one row per id",
    ),
    "conflict": (
        lambda: Relevance.from_triples([0, 0, 1, 1], [1, 1, 2, 2], [1, 0, 2, 3]),
        "relevance has 2 conflicting pairs: (0, 1) is 1 and 0; (1, 2) is 3 and 2",
    ),
    "must and cannot": (
        lambda: Relevance.from_pairs([(0, 1)], [(1, 0)]),
        "relevance has 2 conflicting pairs: (0, 1) is 1 and 0; (1, 0) is 1 and 0",
    ),
    "empty": (lambda: Relevance(sp.csr_array((3, 4))), "relevance is empty: it holds no pair"),
    "empty triples": (lambda: Relevance.from_triples([], []), "relevance is empty: it holds no pair"),
    "empty pairs": (lambda: Relevance.from_pairs([]), "relevance is empty: it holds no pair"),
    "nan": (
        lambda: Relevance.from_triples([0, 1], [0, 2], [1, np.nan]),
        "relevance has 1 grades that are not finite, the first nan for the pair (1, 2)",
    ),
    "infinite": (
        lambda: Relevance(np.array([[1.0, np.inf]])),
        "that are not finite, the first inf for the pair (0, 1)",
    ),
    "lengths": (
        lambda: Relevance.from_triples([0, 1], [0], [1]),
        "relevance has 2 queries, 1 items and 1 grades: expected as many of each",
    ),
    "outside": (
        lambda: Relevance.from_triples([0, 5], [0, 1], shape=(3, 4)),
        "relevance names the pair (5, 1): expected rows below 3 and items below 4",
    ),
    "text as rows": (lambda: Relevance.from_triples(["a"], ["b"]), "expected row numbers, or give query_ids"),
    "negative": (lambda: Relevance.from_triples([-1], [0]), "query id -1 of the relevance is negative"),
    "one dimension": (
        lambda: Relevance(np.ones(3)),
        "relevance has shape (3,): expected a matrix, one row per query, one column per item",
    ),
    "no click": (lambda: Relevance.from_clicks([0], [1], [0]), "clicks has no click"),
    "pairs of three": (lambda: Relevance.from_pairs([(0, 1, 2)]), "must_link has shape (1, 3): expected (m, 2)"),
    "triplets": (lambda: Relevance.from_triplets([0], [1, 2], [3]), "triplets have 1 anchors, 2 positives and 1 neg"),
    "no such rule": (lambda: Relevance.from_triples([0], [1], conflicts="mean"), "conflicts='mean': expected 'error'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_relevance_gets_a_sentence(case):
    make, message = BAD[case]
    with pytest.raises(LikewiseError, match=re.escape(message)):
        make()


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


# ---------------------------------------------------------------------------------------------------------------------
# Several labels per item


@given(st.integers(2, 12), st.integers(1, 5), st.integers(0, 10**6))
def test_the_gain_of_two_items_is_the_jaccard_index_of_their_labels(n, c, seed):
    Z = np.random.default_rng(seed).random((n, c)) < 0.4
    Z[:2, 0] = True
    sets = [set(np.flatnonzero(row)) for row in Z]
    jaccard = [[len(a & b) / len(a | b) if a is not b and a | b else 0.0 for b in sets] for a in sets]
    np.testing.assert_allclose(Relevance.from_labels(Z).R.toarray(), jaccard)


@pytest.mark.parametrize(
    ("Z", "message"),
    [
        (np.array([[0, 2], [1, 0]]), "y is a matrix with the value 2: expected an indicator of zeros and ones"),
        (np.zeros((3, 2)), "y is an indicator of zeros: no item has a label"),
        (np.array([["a", "b"]]), "expected labels, or an indicator (n, c)"),
    ],
)
def test_what_is_no_indicator_gets_a_sentence(Z, message):
    with pytest.raises(LikewiseError, match=re.escape(message)):
        Relevance.from_labels(Z)
