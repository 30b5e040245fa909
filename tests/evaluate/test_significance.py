"""Intervals and paired tests over queries."""

from itertools import product

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.evaluate import bootstrap_interval, paired_test, significance


def test_bootstrap_interval_covers_the_true_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    intervals = [bootstrap_interval(rng.beta(2, 3, size=80), 0.9, 400, rng) for _ in range(400)]
    coverage = np.mean([low <= 0.4 <= high for low, high in intervals])
    assert 0.85 <= coverage <= 0.94


def test_bootstrap_interval_has_the_width_of_the_standard_error():
    values = np.random.default_rng(1).random(2000)
    low, high = bootstrap_interval(values)
    assert high - low == pytest.approx(2 * 1.96 * values.std() / np.sqrt(2000), rel=0.1)
    assert low < values.mean() < high


def test_bootstrap_interval_is_seeded_and_does_not_depend_on_the_chunks(monkeypatch):
    values = np.random.default_rng(2).random(50)
    whole = bootstrap_interval(values, random_state=7)
    assert whole != bootstrap_interval(values, random_state=8)
    monkeypatch.setattr(significance, "_CHUNK", 170)
    assert bootstrap_interval(values, random_state=7) == whole


def test_one_query_has_an_interval_of_one_point():
    assert bootstrap_interval([0.25]) == (0.25, 0.25)


def test_paired_p_values_are_uniform_without_a_difference():
    rng = np.random.default_rng(3)
    p = np.array([paired_test(rng.random(30), rng.random(30), n_resamples=500).p_value for _ in range(400)])
    for level in (0.05, 0.2, 0.5, 0.8):
        assert np.mean(p <= level) == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / 400))


def test_paired_p_value_is_small_under_a_shift_that_the_intervals_alone_would_miss():
    rng = np.random.default_rng(4)
    b = rng.random(500)
    a = b + rng.normal(0.01, 0.05, size=500)
    test = paired_test(a, b)
    assert test.p_value < 0.001
    assert test.difference == pytest.approx(np.mean(a - b))
    assert 0 < test.interval[0] < test.difference < test.interval[1]
    assert bootstrap_interval(a)[0] < bootstrap_interval(b)[1]
    assert test.n_queries == 500


def test_paired_test_does_not_care_which_model_comes_first():
    rng = np.random.default_rng(5)
    a, b = rng.random(40), rng.random(40)
    one, other = paired_test(a, b), paired_test(b, a)
    assert one.p_value == other.p_value
    assert one.difference == -other.difference


def test_few_queries_are_tested_over_every_sign_flip():
    d = np.array([0.3, -0.1, 0.2, 0.2, 0.05])
    sums = [abs(np.dot(signs, d)) for signs in product([-1, 1], repeat=5)]
    share = np.mean([total >= abs(d.sum()) - 1e-12 for total in sums])
    assert paired_test(d, np.zeros(5)).p_value == share


def test_drawn_flips_approach_every_flip():
    d = np.random.default_rng(6).normal(0.2, 1, size=12)
    exact = significance._sign_flip(d, 2**12, 0)
    assert significance._sign_flip(d, 2**12 - 1, 0) == pytest.approx(exact, abs=0.03)


def test_equal_models_have_p_one():
    assert paired_test([0.1, 0.5] * 50, [0.1, 0.5] * 50).p_value == 1.0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: bootstrap_interval([]), "per_query has shape (0,): expected one value per query, at least one"),
        (lambda: bootstrap_interval([[0.1]]), "per_query has shape (1, 1): expected one value per query, at least one"),
        (lambda: bootstrap_interval([np.nan]), "per_query contains NaN or infinity: leave out queries without a value"),
        (lambda: bootstrap_interval([0.1], confidence=95), "confidence=95 is outside (0, 1): 0.95 is usual"),
        (lambda: bootstrap_interval([0.1], n_resamples=0), "n_resamples=0 is below 1: 2000 is usual"),
        (
            lambda: paired_test([0.1], [0.1, 0.2]),
            "per_query_a has 1 values and per_query_b 2: a paired test needs the same queries for both",
        ),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises(LikewiseError) as error:
        call()
    assert str(error.value) == sentence
