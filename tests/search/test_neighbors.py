"""Smoothing by neighbours: the formula, the choice of k and power, and what small classes lose."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import normalize
from tests.search.conftest import Digits

from likewise.errors import LikewiseError
from likewise.evaluate import mean_average_precision
from likewise.search import rank as search
from likewise.search.neighbors import Neighbors, SmoothedGallery, chosen, is_unit, nearest_others, smoothed
from likewise.search.rank import Exact


def unit_rows(n: int, r: int, seed: int) -> np.ndarray:
    return normalize(np.random.default_rng(seed).normal(size=(n, r)) + 0.3).astype(np.float32)


def naive(z: np.ndarray, others: np.ndarray, k: int, power: float) -> np.ndarray:
    """The formula of the module, for one vector, written out."""
    z, others = z.astype(float), others.astype(float)
    nearest = sorted(others, key=lambda other: -(z @ other))[:k]
    weights = [max(z @ other, 0.0) ** power if z @ other > 0 else 0.0 for other in nearest]
    if sum(weights) > 0:
        z = z + sum(w * other for w, other in zip(weights, nearest, strict=True)) / sum(weights)
    return z / np.linalg.norm(z)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 30),
    r=st.integers(3, 8),
    k=st.integers(1, 12),
    power=st.sampled_from([0.0, 1.0, 3.0, 8.0, 20.5]),
    seed=st.integers(0, 10_000),
)
def test_gallery_and_queries_follow_the_formula(n: int, r: int, k: int, power: float, seed: int) -> None:
    V, Q = unit_rows(n, r, seed), unit_rows(5, r, seed + 1)
    expected = [naive(z, np.delete(V, i, axis=0), k, power) for i, z in enumerate(V)]
    np.testing.assert_allclose(smoothed(V, k, power), expected, atol=2e-5)
    np.testing.assert_allclose(smoothed(Q, k, power, gallery=V), [naive(z, V, k, power) for z in Q], atol=2e-5)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 30), k=st.integers(1, 12), copies=st.integers(1, 3), seed=st.integers(0, 10_000))
def test_a_query_from_the_gallery_is_not_its_own_neighbour(n: int, k: int, copies: int, seed: int) -> None:
    V = np.repeat(unit_rows(n, 6, seed), copies, axis=0)
    np.testing.assert_allclose(smoothed(V, k, gallery=V), smoothed(V, k), atol=1e-5)


def test_zero_and_opposite_vectors_stay_as_they_are() -> None:
    V = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], np.float32)
    np.testing.assert_array_equal(smoothed(V, 2), V)
    assert is_unit(V)
    assert not is_unit(2 * V)


def test_it_is_the_same_without_faiss(monkeypatch: pytest.MonkeyPatch) -> None:
    V = unit_rows(300, 8, 0)
    expected = smoothed(V, 5)
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert search.Exact(V)._knn is None
    np.testing.assert_array_equal(smoothed(V, 5), expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Neighbors(0), "k=0; expected a whole number of neighbours, at least 1"),
        (lambda: Neighbors(True), "k=True; expected a whole number"),
        (lambda: Neighbors(3, -1.0), "power=-1.0; expected a number from 0 to 64"),
        (lambda: smoothed(np.eye(3), 2, float("nan")), "power=nan; expected a number"),
    ],
)
def test_impossible_settings_get_a_sentence(make, message: str) -> None:
    with pytest.raises(LikewiseError, match=message):
        make()


# ---------------------------------------------------------------------------------------------------------------------
# The choice


def choice(V: np.ndarray, labels=None) -> Neighbors | None:
    return chosen(V, nearest_others(Exact(V), 20), labels)


def unit_digits(digits: Digits, centred: bool) -> tuple[np.ndarray, np.ndarray]:
    X, y, G, y_g = digits
    rows, labels = np.concatenate([X, G]).astype(np.float32), np.concatenate([y, y_g])
    return normalize(rows - centred * rows.mean(axis=0)).astype(np.float32), labels


def test_the_power_rises_with_the_cosine_of_any_two_rows(digits: Digits) -> None:
    centred, raw = choice(unit_digits(digits, True)[0]), choice(unit_digits(digits, False)[0])
    assert centred is not None
    assert raw is not None
    assert (centred.k, round(centred.power, 1)) == (10, 8.0)
    assert raw.power > 20
    same = choice(np.tile(unit_rows(1, 4, 0), (500, 1)))
    assert same == Neighbors(10, 64.0)


def test_without_labels_fewer_than_500_rows_are_left_as_they_are() -> None:
    assert choice(unit_rows(499, 5, 0)) is None
    assert choice(unit_rows(500, 5, 0)) is not None
    assert SmoothedGallery.auto(unit_rows(499, 5, 0)) is None
    assert SmoothedGallery.auto(unit_rows(10, 5, 0), ["a", "b"] * 5) is None


def test_labels_that_neighbours_do_not_share_turn_it_off_and_others_choose_k() -> None:
    rng = np.random.default_rng(0)
    centres = normalize(rng.normal(size=(40, 5)))
    V = normalize(np.repeat(centres, 5, axis=0) + 0.05 * rng.normal(size=(200, 5))).astype(np.float32)
    one_of_each = np.tile(np.arange(5), 40)  # each label once in every cluster
    assert choice(V, one_of_each) is None
    found = choice(V, np.repeat(np.arange(40), 5))
    assert found is None or found.k == 5
    few = np.full(200, None, dtype=object)
    few[:30] = one_of_each[:30]
    assert choice(V, few) == choice(V)
    assert choice(V, np.arange(200)) == choice(V)  # no two rows share a label


@pytest.mark.parametrize("centred", [False, True])
def test_labels_of_small_classes_choose_what_loses_nothing(digits: Digits, centred: bool) -> None:
    V, y = unit_digits(digits, centred)
    gains = [_gain(*rows, rows[1]) for rows in (_subsample(V, y, 5, seed) for seed in range(8))]
    assert min(gains) >= -1e-9
    assert np.mean(gains) > 0.02


@pytest.mark.parametrize("noise", [0.3, 0.5, 0.7])  # at 0.7 the mAP is 0.7; pairs that are found more rarely may lose
@pytest.mark.parametrize("size", [2, 3, 5])
def test_classes_of_two_three_and_five_lose_nothing_without_labels(size: int, noise: float) -> None:
    gains = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        centres = np.repeat(normalize(rng.normal(size=(150, 16))), size, axis=0)
        V = normalize(centres + noise * rng.normal(size=centres.shape) / 4).astype(np.float32)
        gains.append(_gain(V, np.repeat(np.arange(150), size)))
    assert np.mean(gains) > -0.003


@pytest.mark.parametrize("centred", [False, True])
def test_small_galleries_are_left_alone_and_larger_ones_gain(digits: Digits, centred: bool) -> None:
    V, y = unit_digits(digits, centred)
    for size, least in ((60, 0.04), (100, 0.04)):
        gains = [_gain(*_subsample(V, y, size, seed)) for seed in range(8)]
        assert np.mean(gains) > least
    for size in (2, 3, 5, 20):  # too few rows to be touched
        assert _gain(*_subsample(V, y, size, 0)) == 0


def _subsample(V: np.ndarray, y: np.ndarray, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(len(y))
    rows = np.concatenate([order[y[order] == label][:size] for label in np.unique(y)])
    return V[rows], y[rows]


def _gain(V: np.ndarray, y: np.ndarray, labels: np.ndarray | None = None) -> float:
    """mAP gained, without labels unless they are given."""
    made = SmoothedGallery.auto(V, labels)
    Z = V if made is None else made.vectors
    return mean_average_precision(Z, Z, y) - mean_average_precision(V, V, y)
