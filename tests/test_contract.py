"""The contract every model keeps: two sides whose inner product is the similarity, and scikit-learn's manners."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from likewise import SLR, SimilarityModel, load
from likewise.errors import LikewiseError
from likewise.evaluate import mean_average_precision
from likewise.rivals import (
    FRML,
    LDA,
    LMNN,
    NCA,
    OASIS,
    RCA,
    Cosine,
    Euclid,
    Kernelised,
    KernelRidge,
    LDAPosterior,
    LogisticPosterior,
    NeuralHead,
    RidgeOneHot,
    SVMPosterior,
    Whitening,
    WithInput,
)
from likewise.rivals.common import Baseline
from tests.planted import planted

# Each with as little work as can tell right from wrong.
MODELS: list[SimilarityModel] = [
    SLR(rank=3, max_iter=2),
    Euclid(),
    Cosine(),
    Cosine(centre=True),
    Whitening(grid=(0.1, 0.9)),
    RCA(grid=(0.1, 0.9)),
    RCA(metric="distance", shrinkage=0.1, normalize=False),
    LDA(grid=(0.1, 0.5)),
    RidgeOneHot(grid=(0.1, 1.0)),
    LogisticPosterior(grid=(0.1,), temperatures=(0.5, 1.0), max_iter=20),
    LDA(grid=(0.1, 0.5), holdout="classes"),
    LDAPosterior(grid=(0.1, 0.5), temperatures=(1.0, 2.0)),
    Kernelised("lda", n_landmarks=30, grid=(0.01, 0.1)),
    Kernelised("ridge", n_landmarks=30, grid=(0.01, 0.1)),
    Kernelised("logistic", n_landmarks=30, grid=(0.1,), widths=(1.0,)),
    SVMPosterior(grid=(10.0,), widths=(1.0,), temperatures=(0.1, 0.2)),
    KernelRidge(grid=(0.01, 0.1), widths=(1.0,), scalings=("unit", "standard")),
    KernelRidge("posterior", grid=(0.01, 0.1), widths=(1.0,), scaling="roots", max_rows=60),
    WithInput("ridge", weights=(0.5,), holdout="rows"),
    NCA(grid=(0.3, 1.0), max_iter=3),
    OASIS(n_steps=500),
    FRML(rank=3, n_iter=20, grid=(0.1, 1.0)),
    LMNN(rank=3, n_rounds=2, n_iter=4, k=2),
]
if find_spec("torch"):
    MODELS.append(NeuralHead(n_hidden=20, scale=8.0, steps=(5, 10)))
    MODELS.append(NeuralHead("posterior", n_hidden=20, scale=8.0, n_steps=20, temperatures=(0.5, 1.0)))
LEARNED = [model for model in MODELS if not isinstance(model, Euclid | Cosine)]
SEEDED = [model for model in LEARNED if "random_state" in model.get_params()]
SEARCHED = [model for model in LEARNED if isinstance(model, Baseline)]

every_model = pytest.mark.parametrize("model", MODELS, ids=repr)
every_learned_model = pytest.mark.parametrize("model", LEARNED, ids=repr)


FITTED: dict[str, SimilarityModel] = {}


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    return planted(90, 8, 4)


@pytest.fixture
def fitted(model, rows) -> SimilarityModel:
    """The model learned from the rows, once for all tests that only ask it."""
    if repr(model) not in FITTED:
        FITTED[repr(model)] = clone(model).fit(*rows)
    return FITTED[repr(model)]


@every_model
def test_fit_returns_the_model_and_leaves_its_parameters_alone(model, rows):
    model = clone(model)
    before = model.get_params()
    assert model.fit(*rows) is model
    assert model.get_params() == before
    assert model.n_features_in_ == 8


@every_model
def test_similarity_is_the_inner_product_of_two_sides_of_one_width(fitted, rows):
    X, _ = rows
    Q, G = fitted.transform_query(X[:5]), fitted.transform(X[5:12])
    assert Q.shape[1] == G.shape[1] == len(fitted.get_feature_names_out())
    np.testing.assert_allclose(fitted.similarity(X[:5], X[5:12]), Q @ G.T, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fitted.similarity(X), fitted.similarity(X, X), rtol=1e-6, atol=1e-9)


@every_model
def test_a_model_knows_whether_its_two_sides_are_equal(fitted, rows):
    X, _ = rows
    assert fitted.symmetric == np.array_equal(fitted.transform_query(X), fitted.transform(X))


@every_model
def test_score_is_the_mean_average_precision_of_rows_among_themselves(fitted, rows):
    X, y = rows
    expected = mean_average_precision(fitted.transform_query(X), fitted.transform(X), y)
    assert fitted.score(X, y) == pytest.approx(expected, abs=1e-12)
    assert 0 < fitted.score(X, y) <= 1


@pytest.mark.parametrize("model", SEARCHED, ids=repr)
def test_the_settings_tried_are_listed_in_the_schema_of_scikit_learn(fitted):
    tried = fitted.cv_results_
    assert {"params", "mean_test_score", "std_test_score", "rank_test_score"} <= set(tried)
    assert len({len(column) for column in tried.values()}) == 1
    best = tried["params"][int(np.argmin(tried["rank_test_score"]))]
    chosen = {**vars(getattr(fitted, "base_", fitted)), **vars(fitted)}
    assert all(chosen[f"{name}_"] == value for name, value in best.items() if f"{name}_" in chosen)
    assert len(tried["params"]) == 1 or "split0_test_score" in tried


@every_model
def test_a_fit_can_be_repeated(model, fitted, rows):
    X, y = rows
    np.testing.assert_array_equal(clone(model).fit(X, y).similarity(X), fitted.similarity(X))


@pytest.mark.parametrize("model", SEEDED, ids=repr)
def test_a_random_state_object_is_taken_as_a_seed(model, rows):
    X, y = rows
    seeds = (np.random.RandomState(3), np.random.RandomState(3))
    first, second = (clone(model).set_params(random_state=seed).fit(X, y).similarity(X) for seed in seeds)
    np.testing.assert_array_equal(first, second)


@every_model
def test_a_saved_model_ranks_bit_for_bit_as_before(fitted, rows, tmp_path):
    X, _ = rows
    path = fitted.save(tmp_path / "model.likewise")
    for again in (load(path), type(fitted).load(path)):
        assert type(again) is type(fitted)
        np.testing.assert_array_equal(again.similarity(X), fitted.similarity(X))


@every_model
def test_float32_stays_float32(model, rows):
    X, y = rows
    X = X.astype(np.float32)
    model = clone(model).fit(X, y)
    assert model.transform(X).dtype == np.float32
    assert model.similarity(X).dtype == np.float32
    assert np.isfinite(model.similarity(X)).all()


@every_model
def test_labels_may_be_strings(model, fitted, rows):
    X, y = rows
    names = np.array(["ant", "bee", "cat", "dog"])[y]
    words = clone(model).fit(X, names)
    np.testing.assert_array_equal(fitted.similarity(X), words.similarity(X))
    assert words.score(X, names) == fitted.score(X, y)


@every_model
def test_sparse_rows_are_as_good_as_dense_ones(model, fitted, rows):
    X, y = rows
    sparse = clone(model).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.similarity(sp.csr_array(X)), fitted.similarity(X), rtol=1e-3, atol=1e-3)


@every_model
def test_it_works_at_the_end_of_a_pipeline(model, rows):
    X, y = rows
    pipeline = make_pipeline(StandardScaler(), clone(model)).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    assert pipeline.score(X, y) == pytest.approx(clone(model).fit(scaled, y).score(scaled, y), abs=1e-9)


@every_model
def test_an_unfitted_model_says_so(model, rows):
    with pytest.raises(NotFittedError):
        clone(model).transform(rows[0])


@every_model
def test_rows_of_another_width_are_refused(fitted, rows):
    with pytest.raises(ValueError, match=r"X has 7 features, but .* is expecting 8 features"):
        fitted.similarity(rows[0][:, :7])


@every_learned_model
def test_one_class_is_refused(model, rows):
    X, _ = rows
    with pytest.raises(LikewiseError, match=r"y has one class only, .*: a similarity is learned from at least two"):
        clone(model).fit(X, np.zeros(len(X), dtype=int))


@every_learned_model
def test_two_classes_are_ranked(model):
    X, y = planted(80, 5, 2)
    model = clone(model).fit(X, y)
    assert np.isfinite(model.similarity(X)).all()
    assert model.score(X, y) > 0.55


@every_learned_model
def test_classes_of_one_and_rows_fewer_than_columns_are_no_obstacle(model):
    X, y = planted(20, 40, 3)
    y[:2] = [7, 8]
    similarity = clone(model).fit(X, y).similarity(X)
    assert similarity.shape == (20, 20)
    assert np.isfinite(similarity).all()


@pytest.mark.parametrize(
    "model",
    [
        model if isinstance(model, Cosine) or type(model) is LDA else pytest.param(model, marks=pytest.mark.second)
        for model in {type(model): model for model in reversed(MODELS[1:])}.values()
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass(model):
    check_estimator(model)
