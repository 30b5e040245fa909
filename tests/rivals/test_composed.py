"""The baselines behind a kernel, and with their input appended."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from likewise.learn.maths.kernels import Features, mean_square_distance
from likewise.rivals import LDA, Cosine, Kernelised, RidgeOneHot, WithInput
from likewise.rivals.common import drawn_kernel

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


def test_an_unknown_base_or_holdout_is_named() -> None:
    X, y = np.eye(4), [0, 0, 1, 1]
    for model, name in ((Kernelised("svm"), "base"), (WithInput("nca"), "base"), (LDA(holdout="items"), "holdout")):
        with pytest.raises(ValueError, match=f"The '{name}' parameter of {type(model).__name__} must be a str among"):
            model.fit(X, y)


def test_a_weight_of_one_is_the_centred_cosine_and_of_nothing_the_base_alone(some: Digits) -> None:
    X, y, Q, _ = some
    rows, queries = normalize(X), normalize(Q)
    S = WithInput("ridge", weight=1.0).fit(X, y).similarity(Q)
    np.testing.assert_allclose(S, Cosine(centre=True).fit(rows).similarity(queries), atol=1e-12)
    model = WithInput("ridge", weight=0.0, holdout="rows").fit(X, y)
    alpha = model.cv_results_["params"][int(np.argmax(model.cv_results_["mean_test_score"]))]["alpha"]
    np.testing.assert_allclose(model.similarity(Q), RidgeOneHot(alpha).fit(X, y).similarity(Q), atol=1e-12)


def test_fewer_than_four_classes_are_chosen_by_rows() -> None:
    X, y = np.random.default_rng(0).standard_normal((30, 3)), np.repeat(np.arange(3), 10)
    by_class, by_row = LDA(holdout="classes", random_state=0).fit(X, y), LDA(random_state=0).fit(X, y)
    for name in ("params", "split0_test_score", "mean_test_score", "rank_test_score"):
        np.testing.assert_array_equal(by_class.cv_results_[name], by_row.cv_results_[name])
    assert "split1_test_score" not in by_class.cv_results_


def test_landmarks_of_the_search_are_rows_to_learn_from_alone(some: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, *_ = some
    drawn_from: list[int] = []

    def drawn(rows: np.ndarray, *setting: float) -> Features:
        drawn_from.append(len(rows))
        return drawn_kernel(rows, *setting)

    monkeypatch.setattr("likewise.rivals.composed.drawn_kernel", drawn)
    Kernelised("ridge", widths=(1.0, 2.0), random_state=0).fit(X, y)
    assert drawn_from == [210, 210, 300]
