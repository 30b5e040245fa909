"""Measures from embeddings: against other libraries, and against the definition."""

import json

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from tests.evaluate.conftest import DTYPES, clustered

from likewise.errors import LikewiseError
from likewise.evaluate import (
    average_precision,
    average_precisions,
    bootstrap_interval,
    evaluate,
    mean_average_precision,
)


def embedded(S):
    """Q and G whose inner products are exactly S."""
    return np.eye(len(S), dtype=S.dtype), np.ascontiguousarray(S.T)


def by_definition(Q, G, y_q, y_g=None, ap=average_precision):
    """Average precision query by query; queries without a relevant item left out."""
    values = []
    for i, q in enumerate(Q):
        others = np.arange(len(G)) != i if y_g is None else np.full(len(G), True)
        relevant = ((y_q if y_g is None else y_g) == y_q[i])[others]
        if relevant.any():
            values.append(ap((G @ q)[others], relevant))
    return np.array(values)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("one_set", [True, False])
def test_tie_free_average_precision_equals_scikit_learn(dtype, one_set):
    rng = np.random.default_rng(0)
    S = np.array([rng.permutation(90) for _ in range(90)]).astype(dtype) / 90
    y_q, y_g = rng.integers(7, size=90), None if one_set else rng.integers(7, size=90)
    Q, G = embedded(S)
    expected = by_definition(Q, G, y_q, y_g, lambda scores, relevant: average_precision_score(relevant, scores))
    evaluation = evaluate(Q, G, y_q, y_g)
    np.testing.assert_allclose(evaluation.average_precision, expected, atol=1e-12, rtol=0)
    assert mean_average_precision(Q, G, y_q, y_g) == pytest.approx(expected.mean(), abs=1e-12)


@pytest.mark.parametrize("one_set", [True, False])
def test_every_measure_equals_pytrec_eval_on_integer_ranks(one_set):
    rng = np.random.default_rng(1)
    n_q, n_g = (60, 60) if one_set else (25, 200)
    S = np.array([rng.permutation(n_g) for _ in range(n_q)]).astype(np.float64)
    y_q = rng.integers(4, size=n_q)
    y_g = y_q if one_set else rng.integers(4, size=n_g)
    shown = [[j for j in range(n_g) if not (one_set and i == j)] for i in range(n_q)]
    qrel = {str(i): {str(j): int(y_g[j] == y_q[i]) for j in shown[i]} for i in range(n_q)}
    run = {str(i): {str(j): float(S[i, j]) for j in shown[i]} for i in range(n_q)}
    names = {"map": "mAP", "Rprec": "R-precision", "ndcg": "nDCG"}
    names |= {f"{ours}_{k}": f"{theirs}@{k}" for ours, theirs in (("P", "P"), ("recall", "R")) for k in (5, 10)}
    names |= {f"ndcg_cut_{k}": f"nDCG@{k}" for k in (5, 10)}
    theirs = pytrec_eval.RelevanceEvaluator(qrel, {"map", "Rprec", "ndcg", "P", "recall", "ndcg_cut"}).evaluate(run)
    ours = evaluate(*embedded(S), y_q, None if one_set else y_g, ks=(5, 10))
    for name, our_name in names.items():
        expected = [theirs[str(i)][name] for i in ours.queries]
        np.testing.assert_allclose(ours.per_query[our_name], expected, atol=1e-12, rtol=0, err_msg=name)


@settings(deadline=None)
@given(
    S=st.lists(st.lists(st.integers(0, 3), min_size=7, max_size=7), min_size=7, max_size=7),
    y=st.lists(st.integers(0, 2), min_size=7, max_size=7),
    y_g=st.none() | st.lists(st.integers(0, 2), min_size=7, max_size=7),
)
def test_batches_have_the_mathematics_of_the_one_query_kernel(S, y, y_g):
    Q, G = embedded(np.array(S, dtype=float))
    y, y_g = np.array(y), None if y_g is None else np.array(y_g)
    expected = by_definition(Q, G, y, y_g, average_precision)
    if expected.size:
        assert mean_average_precision(Q, G, y, y_g) == pytest.approx(expected.mean(), abs=1e-12)
    else:
        with pytest.raises(LikewiseError, match="no query has a relevant item"):
            mean_average_precision(Q, G, y, y_g)


def test_the_query_is_masked_by_position_and_not_as_the_first_hit():
    S = np.array([[0.0, 3.0, 2.0], [3.0, 0.0, 2.0], [3.0, 2.0, 9.0]])  # 0 and 1 are not their own nearest
    assert mean_average_precision(*embedded(S), ["a", "b", "a"]) == pytest.approx((1 / 2 + 1) / 2)
    worst_self = -100 * np.eye(4) + np.ones((4, 4))
    assert evaluate(*embedded(worst_self), [0, 0, 0, 0]).means["P@1"] == 1.0


def test_equal_rows_in_query_and_gallery_are_not_masked_across_sets():
    X, y = clustered(20)
    X /= np.linalg.norm(X, axis=1)[:, None]
    assert evaluate(X, X, y, y).means["P@1"] == 1.0


def test_scores_keep_the_precision_of_the_embeddings():
    Q, G = np.array([[1.0]]), np.array([[1.0 + 1e-12], [1.0]])
    assert mean_average_precision(Q, G, [0], [0, 1]) == 1.0
    assert mean_average_precision(Q.astype(np.float32), G.astype(np.float32), [0], [0, 1]) == 0.75  # a tie there
    assert mean_average_precision(Q.astype(np.float32), G, [0], [0, 1]) == 1.0


def test_queries_without_a_relevant_item_are_excluded_and_counted():
    X, _ = clustered(6)
    y = np.array(["a", "a", "b", "c", "c", "d"])
    evaluation = evaluate(X, X, y)
    assert (evaluation.n_queries, evaluation.n_excluded) == (4, 2)
    np.testing.assert_array_equal(evaluation.queries, [0, 1, 3, 4])
    across = evaluate(X, X[:2], y, ["c", "z"])
    assert (across.n_queries, across.n_excluded) == (2, 4)


def test_each_query_has_a_value_and_one_without_a_relevant_item_is_nan():
    X, y = np.eye(5)[[0, 0, 1, 2, 1]] + 0.1, np.array([0, 0, 1, 2, 1])
    each = average_precisions(X, X, y)
    assert np.isnan(each[3])
    assert np.isnan(each).sum() == 1
    np.testing.assert_array_equal(each[~np.isnan(each)], evaluate(X, X, y).average_precision)
    assert np.nanmean(each) == mean_average_precision(X, X, y)


def test_macro_weighs_each_label_alike():
    Q, G = embedded(np.array([[9.0, 8, 1, 2], [9, 8, 1, 2], [9, 8, 1, 2]]))
    y_q, y_g = ["often", "often", "rare"], ["often", "often", "rare", "other"]
    rare = 1 / 4
    assert mean_average_precision(Q, G, y_q, y_g) == pytest.approx((1 + 1 + rare) / 3)
    assert mean_average_precision(Q, G, y_q, y_g, macro=True) == pytest.approx((1 + rare) / 2)
    assert evaluate(Q, G, y_q, y_g).macro_mean == pytest.approx((1 + rare) / 2)


def test_one_pass_gives_the_mean_and_its_interval():
    X, y = clustered()
    evaluation = evaluate(X, X, y, ks=(1, 7))
    assert evaluation.mean_average_precision == mean_average_precision(X, X, y)
    assert evaluation.interval == bootstrap_interval(evaluation.average_precision)


def test_summary_survives_json_and_holds_every_figure():
    X, y = clustered()
    evaluation = evaluate(X, X, y, ks=(np.int64(1), 10))
    summary = json.loads(json.dumps(evaluation.summary()))
    assert summary["mAP"] == evaluation.mean_average_precision
    assert summary["P@10"] == evaluation.per_query["P@10"].mean()
    assert summary["macro_mAP"] == evaluation.macro_mean
    assert summary["mAP_interval"] == list(evaluation.interval)
    assert (summary["n_queries"], summary["n_excluded"]) == (120, 0)


def test_a_sample_of_queries_is_seeded_and_its_interval_covers_the_whole():
    X, y = clustered(800)
    whole = evaluate(X, X, y)
    some = evaluate(X, X, y, n_queries=150, random_state=3)
    assert some.n_queries == 150
    np.testing.assert_allclose(some.average_precision, whole.average_precision[some.queries], rtol=1e-12)
    np.testing.assert_array_equal(some.queries, evaluate(X, X, y, n_queries=150, random_state=3).queries)
    assert not np.array_equal(some.queries, evaluate(X, X, y, n_queries=150, random_state=4).queries)
    assert some.interval[0] < whole.mean_average_precision < some.interval[1]
    assert evaluate(X, X, y, n_queries=10**6).n_queries == 800


def test_one_class_is_measured_though_every_item_is_relevant():
    X, _ = clustered(50)
    evaluation = evaluate(X, X, np.zeros(50))
    assert evaluation.mean_average_precision == pytest.approx(1.0)
    assert evaluation.n_excluded == 0


def test_depths_beyond_the_gallery_count_their_empty_places_as_misses():
    Q, G = embedded(np.array([[3.0, 2.0, 1.0]]))
    means = evaluate(Q, G, [0], [0, 1, 0], ks=(10,)).means
    assert means["P@10"] == pytest.approx(0.2)
    assert means["R@10"] == 1.0


X, y = clustered(4)
BAD = {
    "Q contains NaN or infinity: every embedding must be finite": lambda: mean_average_precision(X * np.nan, X, y),
    "G contains NaN or infinity: every embedding must be finite": lambda: mean_average_precision(X, X / 0.0, y),
    "Q has dtype complex128: expected real numbers": lambda: mean_average_precision(X * 1j, X, y),
    "G has dtype object: expected real numbers": lambda: mean_average_precision(X, X.astype(object), y),
    "Q has shape (4,): expected at least one row and one column": lambda: mean_average_precision(y, X, y),
    "Q has shape (0, 8): expected at least one row and one column": lambda: mean_average_precision(X[:0], X, y),
    "Q has rows of unequal length: expected a matrix": lambda: mean_average_precision([[1.0], [1.0, 2.0]], X, y),
    "Q has 7 columns and G 8: an inner product needs the same width": lambda: mean_average_precision(X[:, 1:], X, y),
    "Q has 3 rows and G 4: without y_g they must be two embeddings of the same rows": lambda: mean_average_precision(
        X[:3], X, y[:3]
    ),
    "y_q has shape (3,) and Q 4 rows: expected one label per row": lambda: mean_average_precision(X, X, y[:3]),
    "y_g has shape (4, 1) and G 4 rows: expected one label per row": lambda: mean_average_precision(
        X, X, y, y[:, None]
    ),
    "y_q contains infinity: expected labels": lambda: mean_average_precision(X, X, y + np.inf),
    "y_q has 4 rows and not one of them has a label": lambda: mean_average_precision(X, X, y * np.nan),
    "y_q holds numbers and y_g strings: no label can match, expected labels of one type": (
        lambda: mean_average_precision(X, X, y, list("abcd"))
    ),
    "the labels mix types: expected all numbers or all strings": lambda: mean_average_precision(
        X, X, np.array([1, "a", None, 2], dtype=object)
    ),
    "no query has a relevant item: the labels in y_q are all distinct": lambda: mean_average_precision(X, X, range(4)),
    "no query has a relevant item: the labels in y_q and y_g have none in common": lambda: evaluate(X, X, y, y + 99),
    "ks=[0]: expected depths, integers of 1 or more": lambda: evaluate(X, X, y, y, ks=[0]),
    "ks=(1, 2.5): expected depths, integers of 1 or more": lambda: evaluate(X, X, y, y, ks=(1, 2.5)),
    "n_queries=0 is below 1: expected a number of queries, or None for all": lambda: evaluate(X, X, y, y, n_queries=0),
    "the scores of Q and G overflow their dtype: scale them, or use float64": lambda: evaluate(
        X.astype(np.float32) * 1e30, X.astype(np.float32) * 1e30, y, y
    ),
}


@pytest.mark.parametrize("sentence", BAD)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bad_input_gets_a_sentence(sentence):
    with pytest.raises(LikewiseError) as error:
        BAD[sentence]()
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("metric", "name"), [("map", "mAP"), ("ndcg@10", "nDCG@10"), ("precision@10", "P@10"), ("precision@1", "P@1")]
)
def test_a_metric_to_compare_by_is_there_whatever_the_depths(metric, name):
    X, y = clustered()
    result, every = evaluate(X, X, y, ks=(3,), metric=metric), evaluate(X, X, y)
    np.testing.assert_array_equal(result.values, every.per_query[name])
    assert result.interval == bootstrap_interval(every.per_query[name])
    summary = result.summary()
    assert summary[f"macro_{name}"] == result.macro_mean
    assert summary[f"{name}_interval"] == list(result.interval)


def test_an_unknown_metric_is_named():
    with pytest.raises(
        LikewiseError, match=r"^metric='recall': expected 'map', 'ndcg@10', 'precision@10' or 'precision@1'$"
    ):
        evaluate(np.eye(2), np.eye(2), [0, 0], metric="recall")
