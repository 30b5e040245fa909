"""PairLDA: a good click log gains on new queries, a noisy one leaves the raw cosine."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import normalize
from tests.clicked import ClickLog, clicked

from likewise import PairLDA, load
from likewise.errors import LikewiseError
from likewise.rows import Relevance


@pytest.fixture(scope="module")
def log() -> ClickLog:
    return clicked()


@pytest.fixture(scope="module")
def model(log: ClickLog) -> PairLDA:
    return PairLDA(random_state=0).fit(log.Q, log.clicks, gallery=log.G)


@pytest.fixture(scope="module")
def linear(log: ClickLog) -> PairLDA:
    return PairLDA("linear", shrinkage=0.3, power=1.0, random_state=0).fit(log.Q, log.clicks, gallery=log.G)


def test_a_good_log_gains_on_queries_and_is_used(model: PairLDA, log: ClickLog) -> None:
    assert model.learned_
    assert model.held_out_["mAP"] > model.held_out_["raw"] + 0.1
    assert log.mAP(model) > log.raw_mAP + 0.15
    assert model.setting_["kernel"] == "rbf"  # digits are far from linear
    assert len(model.cv_results_["params"]) == 24


@pytest.mark.parametrize("random", [0.5, 1.0])
def test_a_noisy_log_is_refused_and_the_raw_cosine_stays(random: float) -> None:
    noisy = clicked(random)
    model = PairLDA("linear", random_state=0).fit(noisy.Q, noisy.clicks, gallery=noisy.G)
    assert not model.learned_
    assert model.setting_ is None
    np.testing.assert_array_equal(model.transform(noisy.G), normalize(noisy.G))


def test_the_map_of_random_clicks_would_have_lost() -> None:
    noisy = clicked(1.0)
    forced = PairLDA("linear", fallback=False, random_state=0).fit(noisy.Q, noisy.clicks, gallery=noisy.G)
    assert forced.learned_
    assert noisy.mAP(forced) < noisy.raw_mAP


def test_items_never_seen_in_the_log_are_ranked_better_too(log: ClickLog) -> None:
    half = np.arange(len(log.G)) % 2 == 0
    known = Relevance(log.clicks.R[:, half])
    model = PairLDA("linear", shrinkage=0.3, power=1.0).fit(log.Q, known, gallery=log.G[half])
    new = log._replace(G=log.G[~half], y_g=log.y_g[~half])
    assert new.mAP(model) > new.raw_mAP + 0.05


def test_too_few_queries_to_judge_leave_the_raw_cosine(log: ClickLog) -> None:
    few = Relevance(log.clicks.R[:6])
    model = PairLDA().fit(log.Q[:6], few, gallery=log.G)
    assert (model.learned_, model.held_out_) == (False, None)
    forced = PairLDA(fallback=False).fit(log.Q[:6], few, gallery=log.G)
    assert (forced.setting_["kernel"], forced.learned_) == ("linear", True)


def test_it_comes_back_from_its_file(model: PairLDA, log: ClickLog, tmp_path) -> None:
    again = load(model.save(tmp_path / "m.likewise"))
    np.testing.assert_array_equal(again.transform(log.T), model.transform(log.T))
    assert (again.held_out_, again.learned_) == (model.held_out_, True)


def test_the_raw_cosine_comes_back_too(tmp_path) -> None:
    noisy = clicked(1.0)
    model = PairLDA("linear", shrinkage=0.3, power=1.0).fit(noisy.Q, noisy.clicks, gallery=noisy.G)
    again = load(model.save(tmp_path / "m.likewise"))
    np.testing.assert_array_equal(again.transform(noisy.T), normalize(noisy.T))


@pytest.mark.parametrize("which", ["model", "linear"])
def test_the_onnx_graph_agrees(which: str, log: ClickLog, request) -> None:
    runtime = pytest.importorskip("onnxruntime")
    fitted = request.getfixturevalue(which)
    session = runtime.InferenceSession(fitted.to_onnx(), providers=["CPUExecutionProvider"])
    rows = log.T.astype(np.float32)
    query, gallery = session.run(["query", "gallery"], {"rows": rows})
    np.testing.assert_allclose(gallery, fitted.transform(rows), atol=1e-4)
    np.testing.assert_array_equal(query, gallery)


def test_sparse_rows_rank_like_dense_ones(linear: PairLDA, log: ClickLog) -> None:
    sparse = PairLDA("linear", shrinkage=0.3, power=1.0, random_state=0)
    sparse.fit(sp.csr_array(log.Q), log.clicks, gallery=sp.csr_array(log.G))
    assert sparse.learned_
    assert abs(log.mAP(sparse) - log.mAP(linear)) < 0.01


def test_a_fit_can_be_repeated_and_float32_stays(linear: PairLDA, log: ClickLog) -> None:
    again = PairLDA("linear", shrinkage=0.3, power=1.0, random_state=0).fit(log.Q, log.clicks, gallery=log.G)
    np.testing.assert_array_equal(again.transform(log.T), linear.transform(log.T))
    assert linear.transform(log.T.astype(np.float32)).dtype == np.float32
    assert linear.symmetric


def test_links_within_one_set(log: ClickLog) -> None:
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(np.flatnonzero(log.y_g == c), 2, replace=False) for c in rng.integers(0, 10, 1500)])
    model = PairLDA("linear").fit(log.G, Relevance.from_pairs(pairs, n=len(log.G)))
    assert model.learned_
    assert log.mAP(model) > log.raw_mAP + 0.05


def test_a_complete_relevance_is_judged_on_all_items(log: ClickLog) -> None:
    R = (log.y_t[:, None] == log.y_g).astype(float)
    model = PairLDA("linear", shrinkage=0.3, power=1.0).fit(log.T, R, gallery=log.G)
    assert model.held_out_["rows"] == len(log.T)
    assert model.held_out_["raw"] == pytest.approx(log.raw_mAP)
    assert model.learned_


def test_what_it_cannot_learn_from_gets_a_sentence(log: ClickLog) -> None:
    with pytest.raises(
        LikewiseError, match="y is of type ndarray: expected a Relevance; for labels use SimilarityLearner"
    ):
        PairLDA().fit(log.G, log.y_g)
    with pytest.raises(LikewiseError, match="X has 64 columns and gallery 3: expected as many; SLR learns between"):
        PairLDA().fit(log.Q, Relevance(np.ones((250, 2))), gallery=np.ones((2, 3)))
    with pytest.raises(LikewiseError, match="relevance holds no relevant pair: there is nothing to learn from"):
        PairLDA().fit(log.Q, Relevance(np.zeros((250, 2))), gallery=log.G[:2])
    with pytest.raises(NotFittedError):
        PairLDA().transform(log.G)
