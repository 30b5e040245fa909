"""The kernel: ranks, expectations under ties, blocks and threads, embeddings and labels of every kind."""

import tracemalloc
from itertools import pairwise, permutations
from math import fsum
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score
from tests.evaluate.conftest import DTYPES, clustered
from threadpoolctl import threadpool_info, threadpool_limits

from likewise.errors import LikewiseError
from likewise.evaluate import (
    average_precision,
    average_precisions,
    evaluate,
    evaluate_blocks,
    evaluation,
    mean_average_precision,
    ranking,
)
from likewise.evaluate.ranking import positions, rank


def measured(measure, scores, relevant):
    """One measure of one query through the kernel."""
    negated = -np.asarray(scores, dtype=float)
    above, upto = positions(negated, np.sort(negated[np.asarray(relevant)]))
    return measure(rank(above, upto, np.array([above.size])))[0]


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
    "AP": (ranking.whole, naive_ap),
    "MAP@R": (evaluation.at_r, lambda hits: naive_ap(hits, sum(hits))),
    "R-precision": (evaluation.precision_at_r, lambda hits: sum(hits[: sum(hits)]) / sum(hits)),
    "P@1": (evaluation.precision_at(1), lambda hits: float(hits[0])),
    "P@3": (evaluation.precision_at(3), lambda hits: sum(hits[:3]) / 3),
    "R@2": (evaluation.recall_at(2), lambda hits: sum(hits[:2]) / sum(hits)),
    "nDCG": (evaluation.gain_at(None), naive_ndcg),
    "nDCG@3": (evaluation.gain_at(3), lambda hits: naive_ndcg(hits, 3)),
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


def test_constant_scorer_with_one_relevant_of_ten():
    harmonic = sum(1 / k for k in range(1, 11)) / 10
    assert average_precision(np.zeros(10), np.arange(10) == 3) == pytest.approx(harmonic, abs=1e-15)
    assert harmonic == pytest.approx(0.29289682539, abs=1e-11)


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 300), dtype=st.sampled_from([np.float32, np.float64]))
def test_tie_free_average_precision_of_one_query_equals_scikit_learn(seed, n, dtype):
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
    assert measured(evaluation.gain_at(k), scores, relevant) == pytest.approx(expected, abs=1e-12)


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
    assert ranking._harmonic(np.array([t]), np.array([n]))[0] == pytest.approx(exact, rel=3e-14, abs=0)


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
    ("scores", "relevant", "sentence"),
    [
        ([1.0, np.nan], [True, False], "scores contains NaN or infinity: expected finite numbers"),
        ([1.0, 2.0], [True], "scores has shape (2,) and relevant (1,): expected two lists of the same length"),
        ([[1.0]], [[True]], "scores has shape (1, 1) and relevant (1, 1): expected two lists of the same length"),
        (["a"], [True], "scores has dtype <U1: expected real numbers"),
        ([1.0], [False], "relevant is False everywhere: average precision needs at least one relevant item"),
    ],
)
def test_bad_scores_get_a_sentence(scores, relevant, sentence):
    with pytest.raises(LikewiseError) as error:
        average_precision(scores, relevant)
    assert str(error.value) == sentence


@settings(deadline=None, max_examples=8)
@given(
    block_bytes=st.integers(1, 10**6), n_threads=st.integers(1, 4), one_set=st.booleans(), dtype=st.sampled_from(DTYPES)
)
def test_blocks_and_threads_do_not_change_the_result(block_bytes, n_threads, one_set, dtype):
    X, y = clustered(600, dtype=dtype)
    X = np.rint(4 * X).astype(dtype)  # whole numbers: products are exact, ties are many
    y_g = None if one_set else y
    with mock.patch.object(ranking, "BLOCK_BYTES", 1 << 30), threadpool_limits(1, user_api="blas"):
        whole = evaluate(X, X, y, y_g)
    with mock.patch.object(ranking, "BLOCK_BYTES", block_bytes), threadpool_limits(n_threads, user_api="blas"):
        parts = evaluate(X, X, y, y_g)
    for name, values in whole.per_query.items():
        np.testing.assert_allclose(parts.per_query[name], values, rtol=1e-13, err_msg=name)


def test_an_outer_limit_on_threads_is_kept_and_the_threads_of_blas_are_given_back(monkeypatch):
    X, y = clustered(700)
    threads = blas_threads()
    monkeypatch.setattr(ranking, "BLOCK_BYTES", 10**6)
    mean_average_precision(X, X, y)
    assert blas_threads() == threads
    used = []
    monkeypatch.setattr(ranking, "ordered_map", lambda work, blocks, n: used.append(n) or map(work, blocks))
    with threadpool_limits(1, user_api="blas"):
        mean_average_precision(X, X, y)
        assert blas_threads() == {1}
    assert used == [1]


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_memory_stays_within_the_block_budget(monkeypatch):
    monkeypatch.setattr(ranking, "BLOCK_BYTES", 16 << 20)
    X, y = clustered(20_000, d=4, classes=50, dtype=np.float32)
    Q, y_q = X[:2000], y[:2000]  # all scores at once would be 160 MB
    tracemalloc.start()
    evaluate(Q, X, y_q, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 36 << 20  # the blocks, and the chunks of the bootstrap


@pytest.mark.parametrize(
    "relabel", [str, float, lambda label: f"class {label}", lambda label: np.datetime64("2020-01-01") + label]
)
def test_labels_may_be_of_any_sortable_type(relabel):
    X, y = clustered()
    expected = mean_average_precision(X, X, y)
    assert mean_average_precision(X, X, [relabel(label) for label in y]) == expected
    objects = np.array([relabel(label) for label in y], dtype=object)
    assert mean_average_precision(X, X, objects, objects[:]) == mean_average_precision(X, X, y, y)


@pytest.mark.parametrize("two_sets", [False, True])
def test_rows_without_a_label_are_neither_queries_nor_in_a_gallery(two_sets):
    X, y = clustered()
    labels = np.where(np.arange(len(y)) % 5 == 0, -1, y)
    some = labels >= 0
    gallery, rest = ((labels,), (y[some],)) if two_sets else ((), ())
    result, expected = evaluate(X, X, labels, *gallery), evaluate(X[some], X[some], y[some], *rest)
    assert {**result.summary(), "n_excluded": 0} == {**expected.summary(), "n_excluded": 0}
    assert result.n_excluded == expected.n_excluded + (~some).sum()
    blocks = evaluate_blocks(
        X[some], lambda: np.split(X, 4), y[some], labels, None if two_sets else np.flatnonzero(some)
    )
    assert blocks.mean_average_precision == pytest.approx(expected.mean_average_precision, abs=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layout_of_the_embeddings_does_not_matter(dtype, tmp_path):
    X, y = clustered(dtype=dtype)
    X = np.rint(4 * X).astype(dtype)
    expected = evaluate(X, X, y).average_precision
    np.save(tmp_path / "X.npy", X)
    wide = np.repeat(X, 2, axis=1)
    layouts = {
        "F order": np.asfortranarray(X),
        "strided columns": wide[:, ::2],
        "reversed twice": X[::-1].copy()[::-1],
        "big-endian": X.astype(X.dtype.newbyteorder(">")),
        "memory-mapped": np.load(tmp_path / "X.npy", mmap_mode="r"),
        "read-only": np.frombuffer(X.tobytes(), dtype=dtype).reshape(X.shape),
        "sparse": sp.csr_array(X),
        "sparse matrix": sp.csc_matrix(X),
        "list": X.tolist(),
    }
    for name, rows in layouts.items():
        np.testing.assert_allclose(evaluate(rows, rows, y).average_precision, expected, rtol=1e-13, err_msg=name)
        np.testing.assert_allclose(evaluate(X, rows, y).average_precision, expected, rtol=1e-13, err_msg=name)
        np.testing.assert_allclose(evaluate(rows, X, y).average_precision, expected, rtol=1e-13, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint8, bool])
def test_other_number_types_are_scored_as_floats(dtype):
    X, y = clustered()
    X = np.abs(X).astype(dtype)
    mAP = mean_average_precision(X, X, y)
    assert mAP == pytest.approx(mean_average_precision(X.astype(float), X.astype(float), y), abs=1e-3)


def test_arguments_are_left_as_they_were():
    X, y = clustered()
    unchanged = X.copy()
    evaluate(X, X, y)
    np.testing.assert_array_equal(X, unchanged)


def test_average_precisions_are_those_of_each_query_and_nan_without_a_relevant_item():
    Q, y_q = clustered(30, seed=1)
    G, y_g = clustered(50, classes=4, seed=2)
    values = average_precisions(Q, G, y_q, y_g)
    for query, value in enumerate(values):
        relevant = y_g == y_q[query]
        if relevant.any():
            assert value == pytest.approx(average_precision(G @ Q[query], relevant), rel=1e-12)
        else:
            assert np.isnan(value)
    assert np.isnan(values).any()


def test_labels_of_objects_match_text_and_text_does_not_match_numbers():
    Q, y_q = clustered(20, seed=1)
    G, y_g = clustered(40, seed=2)
    expected = mean_average_precision(Q, G, y_q, y_g)
    assert mean_average_precision(Q, G, y_q.astype(str).astype(object), y_g.astype(str)) == expected
    with pytest.raises(LikewiseError, match="y_q holds numbers and y_g strings: no label can match"):
        mean_average_precision(Q, G, y_q, y_g.astype(str))
