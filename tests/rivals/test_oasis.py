"""OASIS against a transcription of its formula, step by step."""

import numpy as np
import pytest

from likewise.rivals import OASIS
from likewise.rivals.oasis import learn, triplets
from tests.planted import planted


def transcription(X: np.ndarray, steps: list[tuple[int, int, int]], C: float) -> list[np.ndarray]:
    """W after each step, as printed."""
    W = np.eye(X.shape[1])
    after = []
    for p, positive, negative in steps:
        difference = X[positive] - X[negative]
        loss = 1 - X[p] @ W @ difference
        size = (X[p] @ X[p]) * (difference @ difference)
        if loss > 0 and size > 0:
            W = W + min(C, loss / size) * np.outer(X[p], difference)
        after.append(W)
    return after


@pytest.fixture(scope="module")
def problem():
    X, y = planted(60, 7, 3)
    X[5] = X[6] = X[7]  # differences of length zero must not divide
    X[8] = 0
    return (
        X,
        y,
        [tuple(t) for block in triplets(y, 400, 400, np.random.default_rng(0)) for t in zip(*block, strict=True)],
    )


@pytest.mark.parametrize("C", [0.01, 0.1, 10.0])
@pytest.mark.parametrize("block", [1, 3, 64, 1000])
def test_blocks_end_where_single_steps_end(problem, C, block):
    X, _, steps = problem
    columns = np.array(steps).T
    blocks = [tuple(columns[:, at : at + block]) for at in range(0, len(steps), block)]
    expected = transcription(X, steps, C)[-1]
    np.testing.assert_allclose(learn(X, iter(blocks), C), expected, rtol=1e-8, atol=1e-8)


def test_triplets_are_of_a_row_one_of_its_class_and_one_of_another():
    y = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [2, 10, 40]))
    blocks = list(triplets(y, 30_000, 256, np.random.default_rng(1)))
    p, positive, negative = np.concatenate([np.stack(block) for block in blocks], axis=1)
    assert len(p) == 30_000
    np.testing.assert_array_equal(y[p], y[positive])
    assert (y[p] != y[negative]).all()
    for drawn in (p, positive[p == p[0]], negative[y[p] == 2]):
        counts = np.bincount(drawn, minlength=len(y))
        counts = counts[counts > 0]
        assert counts.min() > 0.5 * counts.mean()
    assert len(np.unique(p)) == len(y)
    assert len(np.unique(negative[y[p] == 2])) == 12


def test_the_settings_tried_are_listed(digits):
    X, y, *_ = digits
    model = OASIS(n_steps=5000, grid=(0.001, 1.0)).fit(X, y)
    assert model.cv_results_["params"] == [{"C": 0.001}, {"C": 1.0}]
    assert [0.001, 1.0][int(np.argmax(model.cv_results_["mean_test_score"]))] == model.C_
