"""Exact search is brute force, ties and all, with faiss and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.search.conftest import MODELS, Digits

from likewise.search import Index
from likewise.search.rank import Exact, best_rows, without


def brute_force(Q: np.ndarray, V: np.ndarray, k: int) -> np.ndarray:
    """All scores in float64, sorted: highest first, equal ones by row number."""
    return np.argsort(-(Q.astype(np.float64) @ V.astype(np.float64).T), axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("name", MODELS)
def test_search_is_brute_force_under_every_model(fitted: dict[str, Any], digits: Digits, name: str) -> None:
    X, _, G, _ = digits
    index = Index.build(fitted[name], G.astype(np.float32))
    Q = X[:50].astype(np.float32)
    expected = brute_force(index.model.transform_query(Q).astype(np.float32), index.vectors, 10)
    hits = index.search(Q, k=10)
    ids, scores = hits.ids, hits.scores
    np.testing.assert_array_equal(ids, expected)
    assert (np.diff(scores, axis=1) <= 0).all()


@given(
    n=st.integers(1, 60),
    r=st.integers(1, 6),
    k=st.integers(1, 60),
    levels=st.integers(1, 4),
    seed=st.integers(0, 2**31),
    with_faiss=st.booleans(),
)
def test_ties_go_by_row_number_however_many_there_are(
    n: int, r: int, k: int, levels: int, seed: int, with_faiss: bool
) -> None:
    rng = np.random.default_rng(seed)
    V = rng.integers(-levels, levels + 1, (n, r)).astype(np.float32)
    Q = rng.integers(-levels, levels + 1, (3, r)).astype(np.float32)
    engine = Exact(V)
    if not with_faiss:
        engine._knn = None
    k = min(k, n)
    rows, scores = best_rows(engine, Q, k)
    np.testing.assert_array_equal(rows, brute_force(Q, V, k))
    np.testing.assert_array_equal(scores, np.take_along_axis(Q @ V.T, rows, axis=1))


def test_a_thousand_copies_of_one_item_come_in_order() -> None:
    V = np.ones((1000, 3), np.float32)
    V[500:] *= 2
    rows, _ = best_rows(Exact(V), np.ones((1, 3), np.float32), 700)
    assert rows[0].tolist() == [*range(500, 1000), *range(200)]


@given(seed=st.integers(0, 2**31), k=st.integers(1, 30))
def test_the_cosine_of_raw_rows_is_brute_force_too(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    X, Q = rng.standard_normal((40, 5)).astype(np.float32), rng.standard_normal((4, 5)).astype(np.float32)
    norms = np.linalg.norm(X, axis=1)
    rows, scores = best_rows(Exact(X, norms=norms), Q / np.linalg.norm(Q, axis=1, keepdims=True), k)
    unit_q, unit_x = (A.astype(float) / np.linalg.norm(A.astype(float), axis=1, keepdims=True) for A in (Q, X))
    np.testing.assert_allclose(scores, -np.sort(-(unit_q @ unit_x.T), axis=1)[:, :k], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(unit_q @ unit_x.T, rows, axis=1), scores, atol=1e-6)


def test_a_query_is_left_out_of_its_own_results_or_the_last_place_is() -> None:
    rows, scores = without(
        np.array([[7], [9]]), np.array([[1, 7, 2], [3, 4, 5]]), np.array([[3.0, 2, 1], [3, 2, 1]]), 2
    )
    assert rows.tolist() == [[1, 2], [3, 4]]
    assert scores.tolist() == [[3, 1], [3, 2]]


def test_a_small_search_takes_one_thread_and_leaves_their_number_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    faiss = pytest.importorskip("faiss")
    before, knn, seen = faiss.omp_get_max_threads(), faiss.knn, list[int]()
    monkeypatch.setattr(faiss, "knn", lambda *a, **b: (seen.append(faiss.omp_get_max_threads()), knn(*a, **b))[1])
    faiss.omp_set_num_threads(3)
    try:
        Exact(np.eye(300, 8, dtype=np.float32)).candidates(np.ones((1, 8), np.float32), 2)
        assert (seen, faiss.omp_get_max_threads()) == ([1], 3)
    finally:
        faiss.omp_set_num_threads(before)
