"""Leading directions, shrunk covariances and whitening."""

import logging

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from tests.planted import planted

from likewise import SLR, SimilarityLearner, load
from likewise.errors import LikewiseError
from likewise.learn.maths import scatter
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.scatter import (
    gram,
    half_whitened,
    leading_directions,
    reduced_rows,
    shrunk,
    shrunk_whitener,
    truncated_whitening,
    whiten,
    width_for,
)


@pytest.mark.parametrize("sparse", [False, True])
def test_subspace_iteration_and_the_gram_matrix_give_the_same_directions(monkeypatch, sparse):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 40)) * np.logspace(0, -3, 40)
    weights = rng.integers(1, 4, 200).astype(float)
    values, V = leading_directions(X, weights, 5)
    monkeypatch.setattr(scatter, "EXACT_DIRECTIONS", 0)
    others, W = leading_directions(sp.csr_array(X) if sparse else X, weights, 5)
    np.testing.assert_allclose(others, values, rtol=1e-4)
    np.testing.assert_allclose(np.abs(np.sum(V * W, axis=0)), 1, atol=1e-3)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(X.T @ (weights[:, None] * X))[::-1][:5])


@pytest.mark.parametrize("shrink", [0.1, 0.5, 1.0])
def test_the_shrunk_covariance_becomes_the_identity(shrink):
    R = np.random.default_rng(0).standard_normal((60, 6)) * np.arange(1, 7)
    values, vectors = np.linalg.eigh(R.T @ R / 60)
    S = (vectors * shrunk(values, 6, shrink)[0]) @ vectors.T
    W = shrunk_whitener(R, shrink)
    np.testing.assert_allclose(W.T @ S @ W, np.eye(6), atol=1e-10)


def test_directions_that_hardly_vary_are_left_out_of_half_whitening():
    V = half_whitened(np.array([4.0, 1.0, 1e-9]), np.eye(3))
    np.testing.assert_allclose(V, np.eye(3)[:, :2] / np.sqrt([1.0, 0.5]))


@given(st.integers(2, 40), st.integers(1, 40), st.integers(0, 10**6))
def test_whitened_rows_are_orthonormal_and_span_the_rows(n, d, seed):
    X = np.random.default_rng(seed).standard_normal((n, d))
    w = whiten(X)
    U = X @ w.W
    assert w.rank == min(n, d)
    np.testing.assert_allclose(U.T @ U, np.eye(w.rank), atol=1e-9)
    np.testing.assert_allclose(U @ w.inverse, X, atol=1e-8 * np.abs(X).max())


@pytest.mark.parametrize("shape", [(60, 20), (20, 60)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_directions_without_variance_are_dropped(shape, dtype):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((shape[0], 7)) @ rng.standard_normal((7, shape[1]))).astype(dtype)
    assert whiten(X).rank == 7


def test_whitening_twice_keeps_orthonormality_where_the_gram_matrix_loses_it():
    X, _ = planted(300, 40, 5, condition=1e6)
    U = X @ whiten(X).W
    np.testing.assert_allclose(U.T @ U, np.eye(40), atol=1e-8)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_weights_count_as_repetition(make):
    X, _ = planted(50, 6, 3)
    weights = np.random.default_rng(0).integers(1, 4, 50)
    np.testing.assert_allclose(gram(make(X), weights.astype(float)), gram(X.repeat(weights, axis=0)), atol=1e-10)


@pytest.mark.parametrize("shape", [(60, 20), (20, 60)])
def test_ridge_shrinks_what_is_kept_of_each_direction(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    w = whiten(X, alpha=0.5)
    ridge = 0.5 * np.sum(X**2) / shape[1]
    s2 = np.linalg.svd(X, compute_uv=False) ** 2
    np.testing.assert_allclose(w.shrinkage, s2 / (s2 + ridge), atol=1e-10)
    np.testing.assert_allclose((X @ w.W).T @ (X @ w.W), np.diag(w.shrinkage), atol=1e-10)


def test_a_gram_matrix_beyond_memory_is_refused_in_words(monkeypatch):
    monkeypatch.setattr("likewise.learn.maths.scatter.physical_memory", lambda: 10**9)
    X = sp.csr_array((20_000, 30_000))
    with pytest.raises(LikewiseError, match=r"X is 20000 x 30000: whitening it needs a 20000 x 20000 Gram matrix"):
        whiten(X)


# -- Leading directions of sparse rows: exact in what they keep, close to the best there is, never dense


@pytest.fixture
def small_limit(monkeypatch):
    """Sparse rows count as large from 50 rows and columns on, so that the real path runs on little data."""
    monkeypatch.setattr(scatter, "EXACT_WIDTH", 50)
    monkeypatch.setattr(scatter, "AUTOMATIC_WIDTH", 40)


def documents(n=300, d=200, n_classes=5, seed=0, dtype=np.float64):
    """Counts of words, of which each class has its own few."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    liking = rng.gamma(0.3, size=(n_classes, d)) + 0.1
    counts = rng.poisson(0.1 * liking[y])
    counts[:, 0] += 1
    return sp.csr_array(counts.astype(dtype)), y


@given(st.integers(1, 12), st.integers(0, 10**6))
def test_rows_in_the_leading_directions_have_a_diagonal_gram_matrix(width, seed):
    X, _ = documents(80, 60, seed=seed)
    values, V = leading_directions(X, None, width)
    np.testing.assert_allclose(V.T @ V, np.eye(width), atol=1e-10)
    np.testing.assert_allclose((X @ V).T @ (X @ V), np.diag(values), atol=1e-9 * values[0])


def test_the_directions_are_nearly_the_best_there_are():
    X, _ = documents()
    values, _ = leading_directions(X, None, 20)
    best = scipy.linalg.svdvals(X.toarray())[:20] ** 2
    assert 0.98 * best.sum() < values.sum() <= best.sum() * (1 + 1e-12)
    np.testing.assert_allclose(values[:3], best[:3], rtol=2e-3)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_weights_count_as_repetition_in_leading_directions(make):
    X, _ = documents(60, 40)
    X, weights = X.toarray(), np.random.default_rng(0).integers(1, 4, 60)
    once, _ = leading_directions(make(X), weights.astype(float), 5)
    repeated, _ = leading_directions(make(X.repeat(weights, axis=0)), None, 5)
    np.testing.assert_allclose(once, repeated, rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_a_rank_below_the_width_leaves_as_many_directions_as_there_are(seed):
    rng = np.random.default_rng(seed)
    X = sp.csr_array(rng.standard_normal((90, 4)) @ rng.standard_normal((4, 70)))
    values, V = leading_directions(X, None, 10)
    assert V.shape == (70, 4)
    np.testing.assert_allclose(values, scipy.linalg.svdvals(X.toarray())[:4] ** 2, rtol=1e-10)


def test_reduced_whitening_makes_rows_orthonormal_with_its_left_inverse(small_limit):
    X, y = documents()
    engine = MemoryEngine(X, y, 5)
    whitening = engine.whiten(0.0)
    W = whitening.W
    U = engine.rows(slice(None)) @ W
    assert W.shape == (200, 40)
    np.testing.assert_allclose(U.T @ U, np.eye(40), atol=1e-9)
    np.testing.assert_allclose(whitening.inverse @ W, np.eye(40), atol=1e-10)
    assert whitening.condition == pytest.approx(np.linalg.cond(X @ W @ np.diag(1 / np.linalg.norm(W, axis=0))))


def test_the_ridge_is_in_the_unit_of_the_whole_gram_matrix(small_limit):
    X, _ = documents()
    whitening = truncated_whitening(X, None, 0.5, 10)
    values = 1 / np.sum(whitening.W**2, axis=0) - 0.5 * np.sum(X.toarray() ** 2) / 200
    np.testing.assert_allclose(whitening.shrinkage, values / (values + 0.5 * np.sum(X.toarray() ** 2) / 200), rtol=1e-9)


def test_moderate_rows_are_cut_to_the_exact_leading_directions():
    X, _ = planted(80, 20, 3)
    whitening = truncated_whitening(X, None, 0.0, 6)
    s = scipy.linalg.svdvals(X)
    assert whitening.W.shape == (20, 6)
    assert whitening.condition == pytest.approx(s[0] / s[5])
    np.testing.assert_allclose(np.linalg.norm(whitening.inverse, axis=1), s[:6], rtol=1e-9)


@pytest.mark.parametrize(
    "model", [SLR(5, max_iter=3), SLR(None, max_iter=2), SLR(4, adaptive=False, alpha=0.1)], ids=repr
)
def test_slr_on_sparse_rows_is_slr_on_their_reduction(model, small_limit):
    """Exact in the directions kept: learning from X or from X V is one problem."""
    X, y = documents()
    V = leading_directions(X, None, 40)[1]
    alpha = model.alpha * 40 / 200 * np.sum(X.toarray() ** 2) / np.sum((X @ V) ** 2)  # the same ridge in another unit
    reduced = SLR(**{**model.get_params(), "alpha": alpha}).fit(X @ V, y)
    whole = model.fit(X, y)
    np.testing.assert_allclose(whole.similarity(X), reduced.similarity(X @ V), atol=2e-6)


@pytest.mark.parametrize(
    "model", [SLR(5, max_iter=2), SimilarityLearner(n_landmarks=60), SimilarityLearner(settings={"share": 0.0})]
)
def test_large_sparse_rows_are_never_made_dense(model, small_limit, monkeypatch):
    X, y = documents(dtype=np.float32)

    def refuse(self, *args, **kwargs):
        raise AssertionError("a sparse matrix was made dense")

    for kind in (sp.csr_array, sp.csc_array, sp.coo_array):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)
    score = model.fit(X[:200], y[:200]).score(X[200:], y[200:])
    assert score > 0.3


def test_anchored_slr_on_large_sparse_rows_is_that_of_their_reduction(small_limit):
    X, y = documents()
    unit, V = reduced_rows(X / sp.linalg.norm(X, axis=1)[:, None], None, None)
    assert V.shape == (40, 200)
    # Settings that draw no rows: draws from reduced rows would differ.
    fixed = {"ridge": 0.1, "geometry": "one-hot", "adaptation": 1.0, "trust": 1.0, "share": 1.0, "n_anchors": None}
    plain = SimilarityLearner("linear", scaling="unit", settings=fixed)
    direct, by_hand = clone(plain).fit(X, y), clone(plain).fit(unit, y)
    np.testing.assert_allclose(direct.similarity(X), by_hand.similarity(unit), atol=1e-8)


def test_a_reduced_model_is_saved_and_loaded(small_limit, tmp_path):
    X, y = documents()
    model = SimilarityLearner("linear").fit(X, y)
    again = load(model.save(tmp_path / "documents.likewise"))
    np.testing.assert_array_equal(again.similarity(X), model.similarity(X))


def test_a_tf_idf_pipeline_learns_from_texts(small_limit):
    from sklearn.feature_extraction.text import TfidfVectorizer

    X, y = documents()
    texts = [
        " ".join(f"word{j}" for j, c in zip(row.indices, row.data, strict=True) for _ in range(int(c))) for row in X
    ]
    pipeline = make_pipeline(TfidfVectorizer(), SLR(5, max_iter=2)).fit(texts[:200], y[:200])
    assert pipeline.score(texts[200:], y[200:]) > 0.3
    assert pipeline[-1].n_samples_ == 200


def test_the_width_is_automatic_for_large_sparse_rows_alone(caplog):
    with caplog.at_level(logging.INFO, logger="likewise"):
        assert width_for((20_000, 30_000), True, None) == 1000
    assert "X is sparse, 20000 x 30000: it is reduced to its 1000 leading directions" in caplog.text
    assert width_for((20_000, 4_000), True, None) is None
    assert width_for((20_000, 30_000), False, None) is None
    assert width_for((20_000, 30_000), False, 300) == 300
    assert width_for((200, 30_000), True, 300) == 200


def test_a_very_wide_vocabulary_is_given_fewer_directions(monkeypatch):
    monkeypatch.setattr(scatter, "physical_memory", lambda: 8 * 10**9)
    assert width_for((10**6, 2**20), True, None) == 95
    with pytest.raises(
        LikewiseError, match="'whitening_width': 5000}: 5 arrays of 1048576 x 5000 do not fit in memory"
    ):
        width_for((10**6, 2**20), True, 5000)


def test_zeros_alone_are_refused(small_limit):
    with pytest.raises(LikewiseError, match="X holds zeros alone"):
        SLR().fit(sp.csr_array((60, 70)), np.arange(60) % 2)
