import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.evaluate.reliability import balanced, reliability


def test_the_error_of_true_probabilities_vanishes():
    rng = np.random.default_rng(0)
    P = rng.random(200_000)
    assert reliability(P, rng.random(P.shape) < P).error < 0.01


def test_the_error_is_the_mean_difference_by_bin():
    found = reliability([0.1, 0.1, 0.9, 0.9], [False, True, True, True])
    assert found.stated.tolist() == pytest.approx([0.1, 0.9])
    assert found.found.tolist() == [0.5, 1.0]
    assert found.error == pytest.approx((0.4 + 0.1) / 2)


def test_weights_balance_rare_matches():
    same = np.array([True, False, False, False])
    assert balanced(same)[same].sum() == pytest.approx(balanced(same)[~same].sum())


def test_lengths_must_agree():
    with pytest.raises(LikewiseError, match="P has 2 values, same 1 and sample_weight 2: expected as many"):
        reliability([0.1, 0.2], [True])
