"""The scorer of a concept: what marks say about every row of a gallery, and about rows from elsewhere."""

import numpy as np
import pytest
from benchmarks.teaching_photos import average_precision
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from likewise.teach import scorers as module
from likewise.teach.scorers import Examples, Scorers

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)


@pytest.fixture(scope="module")
def scorers() -> Scorers:
    return Scorers(X[:900])


LINES = np.isin(y, [1, 4, 7])  # what a simulated user looks for: digits of straight lines
QUERIES = np.flatnonzero(LINES[:900])[:100:10]


def marked(query: int, n: int) -> tuple[list[int], list[int]]:
    """The first results of a query by the raw cosine, judged."""
    Z = normalize(X[:900])
    first = np.argsort(-(Z @ Z[query]), kind="stable")[1 : n + 1]
    return [query, *first[LINES[first]].tolist()], first[~LINES[first]].tolist()


def ap(scores: np.ndarray, known: list[int]) -> float:
    free = np.setdiff1d(np.arange(900), known)
    return average_precision(scores[free], LINES[free])


def test_marks_rank_rows_that_nobody_marked_better_than_the_mean_of_the_right_ones(scorers: Scorers) -> None:
    gains = []
    for query in QUERIES:
        right, wrong = marked(int(query), 20)
        Z = normalize(X[:900])
        before = ap(Z @ Z[right].mean(axis=0), right + wrong)
        gains.append(ap(scorers.scores(scorers.examples(right, wrong)), right + wrong) - before)
    assert np.mean(gains) > 0.05


def test_only_wrong_marks_rank_no_worse_than_the_query_alone(scorers: Scorers) -> None:
    gains = []
    for query in QUERIES:
        wrong = marked(int(query), 60)[1][:10]
        Z = normalize(X[:900])
        scores = scorers.scores(scorers.examples([int(query)], wrong))
        gains.append(ap(scores, [int(query), *wrong]) - ap(Z @ Z[query], [int(query), *wrong]))
    assert np.mean(gains) > 0


def test_an_example_from_elsewhere_counts_like_a_row_of_the_gallery() -> None:
    alone = Scorers(X[:900][np.arange(900) != 1])
    right, wrong = marked(1, 20)
    inside = [row - (row > 1) for row in (*right[1:], *wrong)]
    U = np.vstack([alone.space(X[1:2]), alone.U[inside]])
    is_right = np.arange(len(U)) < len(right)
    outside = alone.scores(Examples(U, is_right, np.array([-1, *inside]), np.zeros(len(U), bool)))
    whole = Scorers(X[:900])
    within = whole.scores(whole.examples(right, wrong))[np.arange(900) != 1]
    assert np.corrcoef(outside, within)[0, 1] > 0.97


def test_each_part_of_the_examples_is_learned_as_if_alone(scorers: Scorers) -> None:
    examples = scorers.examples(*marked(4, 20))
    part = np.arange(len(examples)) != 3
    one = scorers.scores(examples, [np.ones(len(examples), bool), part])[1]
    alone = scorers.scores(examples.take(part))
    assert np.corrcoef(one, alone)[0, 1] > 0.999  # a left-out row is not part of the background either


def test_the_dual_is_logistic_regression(scorers: Scorers) -> None:
    U, target = scorers.U[:60].astype(float), y[:60] % 2 == 1
    alpha = module._logistic(U @ U.T, target.astype(float), np.full(60, module.C))
    machine = LogisticRegression(C=module.C, fit_intercept=False, tol=1e-10, max_iter=5000).fit(U, target)
    np.testing.assert_allclose(U.T @ alpha, machine.coef_[0], atol=1e-3)


def test_scores_are_the_same_whatever_the_order_of_the_marks(scorers: Scorers) -> None:
    right, wrong = marked(4, 20)
    one = scorers.scores(scorers.examples(right, wrong))
    other = scorers.scores(scorers.examples(right[::-1], wrong[::-1]))
    np.testing.assert_allclose(one, other, atol=1e-3)
