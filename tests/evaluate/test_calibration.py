"""Probabilities against a problem whose truth is known, and the promise of a cut-off on new data."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import norm

from likewise.errors import LikewiseError
from likewise.evaluate.calibration import (
    LIMITS,
    Calibration,
    Evidence,
    ScoredPairs,
    balanced,
    expected_wrong,
    held_out_pairs,
    likelihood_ratios,
    reliability,
)


def gaussian_pairs(rng: np.random.Generator, n: int, rate: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Scores of N(2, 1) where pairs match and N(0, 1) where not: the log likelihood ratio of s is 2s - 2."""
    same = rng.random((n, 200)) < rate
    return rng.standard_normal(same.shape) + 2 * same, same


def scored(rng: np.random.Generator, n: int = 400, rate: float = 0.1) -> ScoredPairs:
    scores, same = gaussian_pairs(rng, n, rate)
    return ScoredPairs(scores, same, np.ones(same.shape, dtype=bool))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_are_those_of_two_gaussians(dtype):
    result = Evidence.measured([scored(np.random.default_rng(0))])
    scores = np.linspace(-0.5, 2.5, 7).astype(dtype)
    truth = expit(2 * scores.astype(float) - 2 + np.log(0.1 / 0.9))
    assert np.abs(result.probability(scores) - truth).max() < 0.03
    assert abs(result.base_rate - 0.1) < 0.01


def test_another_base_rate_shifts_the_odds():
    result = Evidence.measured([scored(np.random.default_rng(0))])
    p, even = result.probability([1.0]), result.probability([1.0], base_rate=0.5)
    odds = p / (1 - p) * (1 - result.base_rate) / result.base_rate
    assert even == pytest.approx(odds / (1 + odds))


def test_new_pairs_come_true_as_often_as_stated():
    result = Evidence.measured([scored(np.random.default_rng(0))])
    scores, same = gaussian_pairs(np.random.default_rng(1), 500)
    assert reliability(result.probability(scores), same).error < 0.01


@given(st.integers(0, 2**31), st.integers(20, 200), st.floats(-5, 5))
@settings(max_examples=30, deadline=None)
def test_tables_are_small_finite_and_ascending(seed, n, shift):
    rng = np.random.default_rng(seed)
    scores, same = rng.standard_normal(2 * n).round(1), np.arange(2 * n) < n
    s, ratios = likelihood_ratios(scores + shift * same, same)
    assert len(s) == len(ratios) <= 64
    assert np.isfinite(ratios).all()
    assert (np.diff(s) >= 0).all()
    assert (np.diff(ratios) >= 0).all()


def test_the_share_of_wrong_results_stays_below_the_cut_off_on_average():
    """Twenty draws of held-out and of new queries; some of the queries are easier than others."""
    wrong = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        result = Calibration({0: Evidence.measured([scored(rng, 200)])})
        S, same = gaussian_pairs(rng, 200)
        order = np.argsort(-S, axis=1)
        S, same = np.take_along_axis(S, order, axis=1), np.take_along_axis(same, order, axis=1)
        n = result.n_results(result.probability(S), 0.1)
        right = (same & (np.arange(200) < n[:, None])).sum(axis=1)
        wrong.append(((n - right) / np.maximum(n, 1)).mean())
    assert 0.05 < np.mean(wrong) < 0.11


def test_a_larger_gallery_has_a_stricter_limit_where_the_risk_grows():
    result = Evidence.measured([scored(np.random.default_rng(0))])
    growing = replace(result, growth=np.full(len(LIMITS), 0.02))
    limits = [growing.limit(0.2, n) for n in (50, 200, 800, 3200)]
    assert limits[0] == limits[1] == growing.limit(0.2)
    assert limits[1] > limits[2] > limits[3]


def test_few_queries_promise_nothing():
    few = Evidence.measured([scored(np.random.default_rng(0), 5)])
    assert few.limit(0.1) < 0
    assert Calibration({0: few}).n_results(np.array([[0.99, 0.98]]), 0.1).tolist() == [0]


def test_a_result_more_likely_wrong_is_never_kept():
    P = np.array([[0.999] * 50 + [0.49, 0.999]])
    assert np.isinf(expected_wrong(P)[0, 50:]).all()
    assert expected_wrong(P)[0, 49] == pytest.approx(0.001)


def test_a_query_does_not_find_itself():
    Z, y = np.eye(3), np.array([0, 0, 1])
    pairs = held_out_pairs((Z, Z), y)[0]
    assert not pairs.counts.diagonal().any()
    assert pairs.same[pairs.counts].tolist() == [True, False, True, False, False, False]


def test_pairs_with_rows_learned_from_have_a_table_of_their_own():
    rng = np.random.default_rng(0)
    new, learned_from_query = scored(rng), scored(rng)
    learned_from_query = learned_from_query._replace(scores=learned_from_query.scores + 3 * learned_from_query.same)
    result = Calibration.measured([{0: new, 1: learned_from_query}])
    assert result.probability(4.0, 1) > result.probability(4.0, 0) > 0.9
    assert result.probability(3.0, 2) == result.probability(3.0, 1)
    assert result.probability(np.array([3.0, 3.0]), np.array([0, 1])).tolist() == [
        float(result.probability(3.0, 0)),
        float(result.probability(3.0, 1)),
    ]


def test_too_few_pairs_calibrate_nothing():
    Z = np.random.default_rng(0).standard_normal((5, 2))
    assert Calibration.measured([held_out_pairs((Z, Z), np.array([0, 0, 1, 1, 2]))]) is None


def test_plain_values_make_the_same_calibration_again():
    result = Calibration.measured([{0: scored(np.random.default_rng(0))}])
    again = Calibration.from_dict(result.as_dict())
    scores = norm.rvs(size=20, random_state=0)
    assert np.array_equal(again.probability(scores), result.probability(scores))
    assert again.evidence(0).limit(0.2) == result.evidence(0).limit(0.2)


@pytest.mark.parametrize(("field", "value"), [("ratios", "high"), ("base_rate", None), ("n_pairs", None)])
def test_damaged_values_are_refused(field, value):
    plain = Calibration.measured([{0: scored(np.random.default_rng(0))}]).as_dict()
    plain["0"][field] = value
    with pytest.raises(LikewiseError, match="calibration_ is damaged"):
        Calibration.from_dict(plain)


@pytest.mark.parametrize("plain", [None, {}, {"3": {}}, [1]])
def test_other_facts_than_a_calibration_are_refused(plain):
    with pytest.raises(LikewiseError, match="calibration_ is damaged"):
        Calibration.from_dict(plain)


@pytest.mark.parametrize("share", [0, 1, 1.5, "ten"])
def test_a_share_lies_between_0_and_1(share):
    result = Calibration({0: Evidence.measured([scored(np.random.default_rng(0))])})
    with pytest.raises(LikewiseError, match=r"at_most_wrong=.*: expected a number between 0 and 1"):
        result.n_results(np.ones((1, 1)), share)


def test_the_error_of_true_probabilities_vanishes():
    rng = np.random.default_rng(0)
    P = rng.random(200_000)
    assert reliability(P, rng.random(P.shape) < P).error < 0.01


def test_the_error_is_the_mean_difference_by_bin():
    curve = reliability([0.1, 0.1, 0.9, 0.9], [False, True, True, True])
    assert curve.stated.tolist() == pytest.approx([0.1, 0.9])
    assert curve.observed.tolist() == [0.5, 1.0]
    assert curve.error == pytest.approx((0.4 + 0.1) / 2)


def test_weights_balance_rare_matches():
    same = np.array([True, False, False, False])
    assert balanced(same)[same].sum() == pytest.approx(balanced(same)[~same].sum())


def test_lengths_must_agree():
    with pytest.raises(LikewiseError, match="P has 2 values, same 1 and sample_weight 2: expected as many"):
        reliability([0.1, 0.2], [True])
