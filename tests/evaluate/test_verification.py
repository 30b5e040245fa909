import numpy as np
import pytest
from scipy.stats import norm

from likewise.errors import LikewiseError
from likewise.evaluate.verification import some_pairs, verification
from likewise.rivals import Cosine


def gaussians(n: int = 50_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.standard_normal(n) + 2, rng.standard_normal(n)]), np.arange(2 * n) < n


def test_area_and_equal_error_of_two_gaussians():
    result = verification(*gaussians())
    assert result.auroc == pytest.approx(norm.cdf(2 / np.sqrt(2)), abs=0.003)
    assert result.equal_error == pytest.approx(norm.cdf(-1), abs=0.003)


def test_thresholds_accept_no_more_others_than_they_say():
    scores, same = gaussians()
    result = verification(scores, same)
    assert len(result.thresholds) == 3  # 50,000 other pairs are too few for 1 in 10,000
    for threshold, rate in zip(result.thresholds, (0.1, 0.01, 0.001), strict=True):
        assert (scores[~same] >= threshold.score).mean() == pytest.approx(threshold.false_accept)
        assert threshold.false_accept <= rate
        assert (scores[same] >= threshold.score).mean() == pytest.approx(threshold.true_accept)


def test_pairs_of_one_kind_are_refused():
    with pytest.raises(LikewiseError, match="same holds 2 matching and 0 other pairs: expected some of both"):
        verification([1.0, 2.0], [True, True])


def test_a_row_is_not_paired_with_itself():
    X = np.eye(3)
    scores, same = some_pairs(Cosine().fit(X), X, np.array([0, 0, 1]))
    assert scores.tolist() == [0.0] * 6
    assert same.sum() == 2
