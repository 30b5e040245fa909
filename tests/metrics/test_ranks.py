"""The kernel: places of relevant items, and measures as expectations over the orders of ties."""

from itertools import pairwise, permutations
from math import fsum

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score

from likewise.errors import LikewiseError
from likewise.metrics import average_precision, ranks
from likewise.metrics.ranks import positions, rank


def measured(measure, scores, relevant, ties="expected"):
    """One measure of one query through the kernel."""
    negated = -np.asarray(scores, dtype=float)
    above, upto = positions(negated, np.sort(negated[np.asarray(relevant)]))
    return measure(rank(above, upto, np.array([above.size]), ties))[0]


def orders(scores, relevant):
    """Relevance, best first, in every order that the scores allow."""
    for order in permutations(range(len(scores))):
        if all(scores[i] >= scores[j] for i, j in pairwise(order)):
            yield [bool(relevant[i]) for i in order]


def naive_ap(hits, depth=None):
    total = sum(sum(hits[: k + 1]) / (k + 1) for k in range(len(hits[:depth])) if hits[k])
    return total / sum(hits)


def naive_ndcg(hits, k=None):
    ideal = sorted(hits, reverse=True)
    return np.divide(*(sum(h / np.log2(i + 2) for i, h in enumerate(one[:k])) for one in (hits, ideal)))


NAIVE = {
    "AP": (ranks.whole, naive_ap),
    "MAP@R": (ranks.at_r, lambda hits: naive_ap(hits, sum(hits))),
    "R-precision": (ranks.precision_at_r, lambda hits: sum(hits[: sum(hits)]) / sum(hits)),
    "P@1": (ranks.precision_at(1), lambda hits: float(hits[0])),
    "P@3": (ranks.precision_at(3), lambda hits: sum(hits[:3]) / 3),
    "R@2": (ranks.recall_at(2), lambda hits: sum(hits[:2]) / sum(hits)),
    "nDCG": (ranks.gain_at(None), naive_ndcg),
    "nDCG@3": (ranks.gain_at(3), lambda hits: naive_ndcg(hits, 3)),
}

tied_rankings = st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6).filter(
    lambda pairs: any(relevant for _, relevant in pairs)
)


@pytest.mark.parametrize("name", NAIVE)
@settings(deadline=None)
@given(pairs=tied_rankings)
def test_expected_measure_is_the_mean_over_all_orders_of_ties(name, pairs):
    scores, relevant = zip(*pairs, strict=True)
    measure, naive = NAIVE[name]
    mean = np.mean([naive(hits) for hits in orders(scores, relevant)])
    assert measured(measure, scores, relevant) == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize("name", NAIVE)
@settings(deadline=None)
@given(pairs=tied_rankings)
def test_optimistic_and_pessimistic_are_the_best_and_worst_order(name, pairs):
    scores, relevant = zip(*pairs, strict=True)
    measure, naive = NAIVE[name]
    values = [naive(hits) for hits in orders(scores, relevant)]
    assert measured(measure, scores, relevant, "optimistic") == pytest.approx(max(values), abs=1e-12)
    assert measured(measure, scores, relevant, "pessimistic") == pytest.approx(min(values), abs=1e-12)


def test_constant_scorer_with_one_relevant_of_ten():
    harmonic = sum(1 / k for k in range(1, 11)) / 10
    assert average_precision(np.zeros(10), np.arange(10) == 3) == pytest.approx(harmonic, abs=1e-15)
    assert harmonic == pytest.approx(0.29289682539, abs=1e-11)


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 300), dtype=st.sampled_from([np.float32, np.float64]))
def test_tie_free_average_precision_equals_scikit_learn(seed, n, dtype):
    rng = np.random.default_rng(seed)
    scores, relevant = rng.permutation(n).astype(dtype) / n, rng.random(n) < 0.3
    relevant[rng.integers(n)] = True
    assert average_precision(scores, relevant) == pytest.approx(average_precision_score(relevant, scores), abs=1e-12)


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), k=st.sampled_from([None, 1, 5, 40]))
def test_expected_ndcg_equals_scikit_learn_which_averages_ties_too(seed, k):
    rng = np.random.default_rng(seed)
    scores, relevant = rng.integers(5, size=30).astype(float), rng.random(30) < 0.3
    relevant[0] = True
    expected = ndcg_score([relevant], [scores], k=k)
    assert measured(ranks.gain_at(k), scores, relevant) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("r", [1, 5, 500])
def test_counting_and_sorting_find_the_same_positions(r):
    rng = np.random.default_rng(r)
    scores = rng.integers(3000, size=20_000).astype(np.float32)
    wanted = np.sort(scores[rng.choice(scores.size, r, replace=False)])
    below, upto = positions(scores.copy(), wanted)
    np.testing.assert_array_equal(below, [(scores < score).sum() for score in wanted])
    np.testing.assert_array_equal(upto, [(scores <= score).sum() for score in wanted])


@settings(deadline=None)
@given(t=st.integers(0, 2_000_000), n=st.integers(1, 3000))
@example(t=0, n=3000)
@example(t=63, n=1)
@example(t=64, n=1)  # where the series begins and is worst
@example(t=65, n=2)
def test_harmonic_sums_keep_their_digits_far_down_the_ranking(t, n):
    exact = fsum(1 / i for i in range(t + 1, t + n + 1))
    assert ranks._harmonic(np.array([t]), np.array([n]))[0] == pytest.approx(exact, rel=3e-14, abs=0)


def test_large_tie_blocks_equal_the_sum_of_the_definition():
    t, n, r, before = 40_000, 5_000, 700, 300
    scores = np.concatenate([np.full(t, 2.0), np.full(n, 1.0)])
    relevant = np.zeros(t + n, dtype=bool)
    relevant[:before], relevant[t : t + r] = True, True
    first = fsum(before / t * (1 + (i - 1) * (before - 1) / (t - 1)) / i for i in range(1, t + 1))
    second = fsum(r / n * (before + 1 + (i - 1) * (r - 1) / (n - 1)) / (t + i) for i in range(1, n + 1))
    assert average_precision(scores, relevant) == pytest.approx((first + second) / (before + r), abs=1e-13)


def test_average_precision_takes_lists_integers_and_booleans():
    assert average_precision([3, 2, 1], [1, 0, 1]) == pytest.approx(5 / 6)
    assert average_precision(np.array([3, 200, 1], dtype=np.uint8), [True, False, True]) == pytest.approx(
        (1 / 2 + 2 / 3) / 2
    )


@pytest.mark.parametrize(
    ("scores", "relevant", "ties", "sentence"),
    [
        (
            [1.0, np.nan],
            [True, False],
            "expected",
            "scores contains NaN or infinity: expected finite numbers",
        ),
        (
            [1.0, 2.0],
            [True],
            "expected",
            "scores has shape (2,) and relevant (1,): expected two lists of the same length",
        ),
        (
            [[1.0]],
            [[True]],
            "expected",
            "scores has shape (1, 1) and relevant (1, 1): expected two lists of the same length",
        ),
        (["a"], [True], "expected", "scores has dtype <U1: expected real numbers"),
        (
            [1.0],
            [False],
            "expected",
            "relevant is False everywhere: average precision needs at least one relevant item",
        ),
        ([1.0], [True], "random", "ties='random' is unknown: expected 'expected', 'optimistic' or 'pessimistic'"),
    ],
)
def test_bad_input_gets_a_sentence(scores, relevant, ties, sentence):
    with pytest.raises(LikewiseError) as error:
        average_precision(scores, relevant, ties)
    assert str(error.value) == sentence
