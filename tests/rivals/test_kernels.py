"""The kernel rivals: linear baselines on landmarks, and ridge regression on the exact kernel."""

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from likewise.errors import LikewiseError
from likewise.learn.maths.kernels import Features, mean_square_distance
from likewise.learn.maths.setting import OutputHead, Setting
from likewise.rivals import LDA, Kernelised, KernelRidge, RidgeOneHot, kernels
from likewise.rivals.common import drawn_kernel
from tests.planted import planted
from tests.search.test_exports import assert_the_graph_agrees

Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def some(digits: Digits) -> Digits:
    X, y, Q, y_q = digits
    return X[:300], y[:300], Q[:200], y_q[:200]


@pytest.mark.parametrize("base", ["lda", "ridge"])
def test_a_kernel_in_front_beats_the_linear_method_on_digits(base: str, some: Digits) -> None:
    X, y, Q, y_q = some
    linear = {"lda": LDA, "ridge": RidgeOneHot}[base](random_state=0).fit(X, y)
    assert Kernelised(base, random_state=0).fit(X, y).score(Q, y_q) > linear.score(Q, y_q) + 0.02


def test_all_rows_as_landmarks_make_the_features_inner_products_the_kernel(some: Digits) -> None:
    X, y, *_ = some
    model = Kernelised(width=0.7, n_landmarks=10_000).fit(X, y)
    rows = normalize(X)
    F = model._features(X)
    squares = ((rows[:, None] - rows[None, :]) ** 2).sum(axis=2)
    np.testing.assert_allclose(F @ F.T, np.exp(-0.7 * squares / mean_square_distance(rows, None)), atol=1e-4)
    assert model.width_ == 0.7
    assert len(model.landmarks_) == len(X)


def test_the_width_taken_is_that_of_the_best_held_out_score(some: Digits) -> None:
    X, y, *_ = some
    model = Kernelised("ridge", widths=(30.0, 1.0), random_state=0).fit(X, y)
    best = int(np.argmax(model.cv_results_["mean_test_score"]))
    assert model.cv_results_["params"][best] == {"width": model.width_, "alpha": model.base_.alpha_}
    assert model.width_ == 1.0


def test_landmarks_of_the_search_are_rows_to_learn_from_alone(some: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, *_ = some
    drawn_from: list[int] = []

    def drawn(rows: np.ndarray, *setting: float) -> Features:
        drawn_from.append(len(rows))
        return drawn_kernel(rows, *setting)

    monkeypatch.setattr("likewise.rivals.kernels.drawn_kernel", drawn)
    Kernelised("ridge", widths=(1.0, 2.0), random_state=0).fit(X, y)
    assert drawn_from == [210, 210, 300]


@pytest.fixture(scope="module")
def rows():
    return planted(80, 6, 4)


def squares(A, B):
    return ((A[:, None] - B[None]) ** 2).sum(axis=2)


def by_hand(X, y, Q, width, alpha):
    """Images of rows Q, with every matrix written out."""
    n = len(X)
    D = squares(X, X)
    K, k = (np.exp(-width * part / D.mean()) for part in (D, squares(Q, X)))
    H = np.eye(n) - 1 / n
    P = H @ (np.eye(4)[y] / np.sqrt(np.bincount(y)))
    centred = H @ K @ H
    dual = np.linalg.solve(centred + alpha * np.trace(centred) / n * np.eye(n), P)
    return (k - K.mean(axis=0)) @ H @ dual


def test_images_are_those_of_the_centred_kernel_written_out(rows):
    X, y = rows
    model = KernelRidge(alpha=0.03, width=2.0, scaling="unit").fit(X[:60], y[:60])
    Z = by_hand(normalize(X[:60]), y[:60], normalize(X), 2.0, 0.03)
    np.testing.assert_allclose(model.similarity(X), normalize(Z) @ normalize(Z).T, atol=1e-8)
    assert model.transform(X).shape == (80, 3)  # the targets of four classes vary in three directions


def test_roots_and_standardised_columns_are_what_they_say(rows):
    X, y = rows
    roots = KernelRidge(alpha=0.03, width=2.0, scaling="roots").fit(X, y)
    same = KernelRidge(alpha=0.03, width=2.0, scaling="unit").fit(np.sign(X) * np.sqrt(np.abs(X)), y)
    np.testing.assert_allclose(roots.similarity(X), same.similarity(np.sign(X) * np.sqrt(np.abs(X))), atol=1e-8)
    units = 10.0 ** np.arange(6)
    one, other = (KernelRidge(alpha=0.03, width=2.0, scaling="standard").fit(rows, y) for rows in (X, X * units))
    np.testing.assert_allclose(one.similarity(X), other.similarity(X * units), atol=1e-6)


def test_the_class_means_of_the_posterior_are_those_of_images_made_without_each_row(rows):
    X, y = rows
    kernel = kernels._kernel(X, y, "unit", 1.0)
    means = kernel.learn(Setting(ridge=0.1)).class_means(OutputHead())
    K, codes = kernel.encode(kernel.features.landmarks), np.sort(y)  # rows in the order of their labels
    K -= K.mean(axis=1, keepdims=True)
    A = K + 0.1 * np.trace(K) / len(y) * np.eye(len(y))
    apart = []
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        apart.append(K[i, others] @ np.linalg.solve(A[np.ix_(others, others)], kernel.P[others]))
    Z = normalize(np.array(apart))
    np.testing.assert_allclose(means, [Z[codes == c].mean(axis=0) for c in range(4)], atol=1e-8)


def test_the_setting_is_the_best_of_all_tried_together(rows):
    X, y = rows
    model = KernelRidge("posterior", grid=(0.01, 0.1), widths=(1.0, 4.0), temperatures=(0.05, 0.1)).fit(X, y)
    tried = model.cv_results_
    assert len(tried["params"]) == 3 * 2 * 2 * 2
    best = tried["params"][int(np.argmax(tried["mean_test_score"]))]
    assert best == {name: getattr(model, f"{name}_") for name in ("scaling", "width", "alpha", "temperature")}
    assert "temperature" not in KernelRidge().fit(X, y).cv_results_["params"][0]


def test_too_many_rows_are_refused_in_a_sentence(rows, monkeypatch):
    monkeypatch.setattr(kernels, "KERNEL_LIMIT", 50_000)
    message = r"X has 80 rows, and KernelRidge needs their 80 × 80 kernel matrix of 0.0 GiB: expected at most 0.0 GiB"
    with pytest.raises(LikewiseError, match=message):
        KernelRidge().fit(*rows)


@pytest.mark.parametrize("setting", [{"scaling": "standard"}, {"output": "posterior", "scaling": "roots"}])
def test_the_graph_gives_the_same_rows_for_two_classes_too(rows, setting):
    pytest.importorskip("onnx")
    X, y = rows
    for labels in (y, y % 2):
        assert_the_graph_agrees(KernelRidge(width=1.0, alpha=0.1, **setting).fit(X, labels), X)
