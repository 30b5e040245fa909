"""RelevanceLearner: good judgements gain on new queries, noisy ones leave the raw cosine, and no coin is tossed."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import normalize
from tests.clicked import ClickLog, clicked

from likewise import RelevanceLearner, load
from likewise.errors import LikewiseError
from likewise.evaluate import mean_average_precision
from likewise.rows import Relevance


@pytest.fixture(scope="module")
def log() -> ClickLog:
    return clicked()


@pytest.fixture(scope="module")
def both(log: ClickLog) -> RelevanceLearner:
    return RelevanceLearner().fit(log.Q, log.clicks, gallery=log.G)


@pytest.fixture(scope="module")
def query(log: ClickLog) -> RelevanceLearner:
    """From grades: every item of the same class is relevant."""
    relevant = sp.csr_array(2.0 * (log.y_q[:, None] == log.y_g))
    return RelevanceLearner("query").fit(log.Q, relevant, gallery=log.G)


def test_a_good_log_gains_on_new_queries(both: RelevanceLearner, log: ClickLog) -> None:
    assert both.learned_
    assert log.mAP(both) > log.raw_mAP + 0.05
    before, after = both.held_out_["all"]
    assert after > before + 0.03


def test_the_query_side_alone_gains_and_items_stay_as_they_are(query: RelevanceLearner, log: ClickLog) -> None:
    assert query.learned_
    np.testing.assert_array_equal(query.transform(log.G), normalize(log.G))
    assert log.mAP(query) > log.raw_mAP + 0.03


@pytest.mark.parametrize("random", [0.5, 1.0])
def test_a_noisy_log_is_refused_and_the_raw_cosine_stays(random: float) -> None:
    noisy = clicked(random)
    model = RelevanceLearner().fit(noisy.Q, noisy.clicks, gallery=noisy.G)
    assert noisy.mAP(model) > noisy.raw_mAP - 0.005


def test_equal_data_in_another_order_give_an_equal_model(log: ClickLog, both: RelevanceLearner) -> None:
    rng = np.random.default_rng(1)
    queries, items = rng.permutation(len(log.Q)), rng.permutation(len(log.G))
    clicks = Relevance.from_clicks(*log.clicks.R[queries][:, items].nonzero(), shape=log.clicks.shape)
    again = RelevanceLearner().fit(log.Q[queries], clicks, gallery=log.G[items])
    assert again.setting_ == both.setting_
    np.testing.assert_allclose(again.similarity(log.T, log.G), both.similarity(log.T, log.G), atol=1e-6)


def test_a_query_that_is_there_twice_counts_once(log: ClickLog, both: RelevanceLearner) -> None:
    twice = Relevance(sp.vstack([log.clicks.R, log.clicks.R]).tocsr())
    twice.clicked = True
    model = RelevanceLearner().fit(np.vstack([log.Q, log.Q]), twice, gallery=log.G)
    assert model.n_samples_ == both.n_samples_
    np.testing.assert_allclose(model.similarity(log.T, log.G), both.similarity(log.T, log.G), atol=1e-6)


def test_too_few_queries_leave_the_raw_cosine(log: ClickLog) -> None:
    model = RelevanceLearner().fit(log.Q[:6], Relevance(log.clicks.R[:6]), gallery=log.G)
    assert (model.learned_, model.held_out_) == (False, None)
    np.testing.assert_array_equal(model.transform_query(log.T), normalize(log.T))


def test_it_says_how_many_queries_would_be_needed() -> None:
    few = clicked(0.3)
    model = RelevanceLearner().fit(few.Q[:40], Relevance(few.clicks.R[:40]), gallery=few.G)
    assert not model.learned_
    assert model.held_out_["needed"] is None or model.held_out_["needed"] > model.held_out_["queries"]


@pytest.mark.parametrize("which", ["both", "query"])
def test_it_comes_back_from_its_file(which: str, log: ClickLog, tmp_path, request) -> None:
    model = request.getfixturevalue(which)
    again = load(model.save(tmp_path / "m.likewise"))
    np.testing.assert_array_equal(again.transform_query(log.T), model.transform_query(log.T))
    np.testing.assert_array_equal(again.transform(log.T), model.transform(log.T))
    assert (again.held_out_, again.learned_, again.identity) == (model.held_out_, True, model.identity)
    assert model.card()["held_out"]["measure"] == "nDCG@10"


@pytest.mark.parametrize("which", ["both", "query"])
def test_the_onnx_graph_agrees(which: str, log: ClickLog, request) -> None:
    runtime = pytest.importorskip("onnxruntime")
    model = request.getfixturevalue(which)
    session = runtime.InferenceSession(model.to_onnx(), providers=["CPUExecutionProvider"])
    rows = log.T.astype(np.float32)
    queries, gallery = session.run(["query", "gallery"], {"rows": rows})
    np.testing.assert_allclose(queries, model.transform_query(rows), atol=1e-4)
    np.testing.assert_allclose(gallery, model.transform(rows), atol=1e-4)


@pytest.mark.parametrize("which", ["both", "query"])
def test_both_sides_keep_the_precision_of_the_rows(which: str, log: ClickLog, request) -> None:
    model = request.getfixturevalue(which)
    assert model.transform_query(log.T.astype(np.float32)).dtype == np.float32
    assert model.transform(log.T).dtype == np.float64
    assert model.symmetric == np.array_equal(model.transform_query(log.T), model.transform(log.T))


def test_sparse_rows_rank_like_dense_ones(both: RelevanceLearner, log: ClickLog) -> None:
    sparse = RelevanceLearner().fit(sp.csr_array(log.Q), log.clicks, gallery=sp.csr_array(log.G))
    assert sparse.learned_
    assert abs(log.mAP(sparse) - log.mAP(both)) < 0.01


@pytest.fixture(scope="module")
def two_widths() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Queries of 20 columns and items of 31 that show the same 8 hidden ones; a query has its five nearest items."""
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((900, 8))
    X, G = (hidden @ rng.standard_normal((8, d)) + 0.5 * rng.standard_normal((900, d)) for d in (20, 31))
    nearest = np.argsort(-hidden[:400] @ hidden[400:].T, axis=1)[:, :5]
    return X[:300], X[300:400], G[400:], nearest[:300], nearest[300:]


@pytest.mark.parametrize("n", [300, 6])
def test_queries_and_items_may_have_different_widths(n: int, two_widths, tmp_path) -> None:
    Q, T, G, relevant, expected = two_widths
    R = Relevance.from_triples(np.repeat(np.arange(n), 5), relevant[:n].ravel(), shape=(n, 500))
    model = RelevanceLearner().fit(Q[:n], R, gallery=G)
    assert (model.learned_, model.n_features_in_, model.n_gallery_features_) == (True, 20, 31)
    S = model.similarity(T, G)
    ranks = (S[:, None, :] > np.take_along_axis(S, expected, axis=1)[:, :, None]).sum(axis=2)
    assert np.median(ranks) < (20 if n == 300 else 200)  # of 500
    again = load(model.save(tmp_path / "m.likewise"))
    np.testing.assert_array_equal(again.similarity(T, G), S)
    with pytest.raises(LikewiseError, match="gallery has 20 columns: RelevanceLearner was fitted with a gallery side"):
        model.transform(T)
    with pytest.raises(LikewiseError, match="RelevanceLearner has sides of 20 and 31 columns: an ONNX graph"):
        model.to_onnx()


def test_wide_rows_of_two_widths_are_reduced_each_for_itself(two_widths) -> None:
    Q, T, G, relevant, _ = two_widths
    R = Relevance.from_triples(np.repeat(np.arange(300), 5), relevant.ravel(), shape=(300, 500))
    wide = np.hstack([Q, np.zeros((300, 2_000))])
    model = RelevanceLearner().fit(wide, R, gallery=G)
    plain = RelevanceLearner().fit(Q, R, gallery=G)
    found = model.similarity(np.hstack([T, np.zeros((100, 2_000))]), G)
    np.testing.assert_allclose(found, plain.similarity(T, G), atol=1e-3)


def test_a_known_query_ranks_its_items_higher_than_a_new_one(log: ClickLog) -> None:
    model = RelevanceLearner().fit(log.Q, log.clicks, gallery=log.G)
    without = Relevance(log.clicks.R[100:])
    without.clicked = True
    other = RelevanceLearner().fit(log.Q[100:], without, gallery=log.G)
    judged = log.clicks.R[:100].toarray() > 0
    known, new = (one.similarity(log.Q[:100], log.G)[judged].mean() for one in (model, other))
    assert known > new


def test_half_precision_is_taken(log: ClickLog, both: RelevanceLearner) -> None:
    model = RelevanceLearner().fit(log.Q.astype(np.float16), log.clicks, gallery=log.G.astype(np.float16))
    assert abs(log.mAP(model) - log.mAP(both)) < 0.01


def test_links_within_one_set(log: ClickLog) -> None:
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(np.flatnonzero(log.y_g == c), 2, replace=False) for c in rng.integers(0, 10, 1500)])
    model = RelevanceLearner().fit(log.G, Relevance.from_pairs(pairs, n=len(log.G)))
    assert model.learned_
    assert log.mAP(model) > log.raw_mAP + 0.02


def test_small_and_odd_judgements_are_learned_from(log: ClickLog) -> None:
    rng = np.random.default_rng(0)
    grades = sp.csr_array((rng.integers(0, 4, 60) * 1.0, (np.arange(60), rng.integers(0, 3, 60))), shape=(250, 3))
    model = RelevanceLearner().fit(log.Q, Relevance(grades), gallery=log.G[[0, 0, 1]])  # two equal items of three
    assert np.isfinite(model.similarity(log.T, log.G)).all()


def test_what_it_cannot_learn_from_gets_a_sentence(log: ClickLog) -> None:
    with pytest.raises(
        LikewiseError, match="y is of type ndarray: expected a Relevance; for labels use SimilarityLearner"
    ):
        RelevanceLearner().fit(log.G, log.y_g)
    with pytest.raises(LikewiseError, match="relevance holds no relevant pair: there is nothing to learn from"):
        RelevanceLearner().fit(log.Q, Relevance(np.zeros((250, 2))), gallery=log.G[:2])
    with pytest.raises(NotFittedError):
        RelevanceLearner().transform(log.G)


def test_equal_rows_of_one_set_are_all_the_query_itself(log: ClickLog) -> None:
    """So that the order of equal rows does not matter."""
    rng = np.random.default_rng(0)
    X = np.sign(rng.standard_normal((120, 5)))
    y = rng.integers(0, 3, 120)
    order = rng.permutation(120)
    one, other = (
        RelevanceLearner("query").fit(
            X[rows], Relevance(sp.csr_array(1.0 * (y[rows][:, None] == y[rows]) - np.eye(120)))
        )
        for rows in (np.arange(120), order)
    )
    np.testing.assert_allclose(one.transform_query(X), other.transform_query(X), atol=1e-4)


def test_few_of_many_queries_judge_the_settings(log: ClickLog, monkeypatch) -> None:
    monkeypatch.setattr("likewise.learn.relevance.MOST_LEARNED", 150)
    model = RelevanceLearner().fit(log.Q, log.clicks, gallery=log.G)
    assert model.n_samples_ > 200
    assert model.held_out_["queries"] <= 150
    assert log.mAP(model) > log.raw_mAP + 0.03


def test_what_is_common_to_relevant_items_is_learned_from_few_queries() -> None:
    """Here items near the mean item are relevant, which moves away from the mean item cannot learn."""
    rng = np.random.default_rng(0)
    common = np.eye(1, 20).ravel()
    G = normalize(0.35 * rng.standard_normal((600, 20)) / np.sqrt(20) * 3 + common)
    Q, T = (
        normalize(G[rng.integers(0, 600, n)] - 0.9 * common + 0.2 * rng.standard_normal((n, 20))) for n in (60, 200)
    )

    def relevant(rows: np.ndarray) -> np.ndarray:
        return np.argsort(-(rows + 0.6 * common) @ G.T, axis=1)[:, :3]

    R = Relevance.from_triples(np.repeat(np.arange(60), 3), relevant(Q).ravel(), shape=(60, 600))
    model = RelevanceLearner("query").fit(Q, R, gallery=G)
    expected = relevant(T)
    raw, learned = (
        np.mean([len(set(row) & set(best)) for row, best in zip(np.argsort(-S, axis=1)[:, :3], expected, strict=True)])
        for S in (T @ G.T, model.similarity(T, G))
    )
    assert model.setting_["rocchio"]["against"] == "nothing"
    assert learned > raw + 0.5


def test_a_query_is_replaced_where_the_raw_cosine_means_nothing(log: ClickLog) -> None:
    """Queries have the left half of a digit, items the right one."""
    relevant = sp.csr_array(1.0 * (log.y_q[:, None] == log.y_g))
    left, right = np.tile(np.arange(8) < 4, 8), np.tile(np.arange(8) >= 4, 8)
    model = RelevanceLearner("query").fit(log.Q[:, left], relevant, gallery=log.G[:, right])
    raw = mean_average_precision(normalize(log.T[:, left]), normalize(log.G[:, right]), log.y_t, log.y_g)
    T, G = model.transform_query(log.T[:, left]), model.transform(log.G[:, right])
    assert model.setting_["rocchio"]["weight"] >= 5
    assert mean_average_precision(T, G, log.y_t, log.y_g) > raw + 0.4
