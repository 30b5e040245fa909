"""What every model inherits: rows opened, and parameters that moved."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from tests.planted import planted

from likewise import SLR, SimilarityLearner, SimilarityModel, load, open_rows
from likewise.errors import FileFormatError, LikewiseError
from likewise.learn.base import finite_fit
from likewise.learn.model_file import read_tensors, write_tensors
from likewise.rivals import LDA

X, Y = planted(60, 5, 3)
DIGITS, NAMES = load_digits(return_X_y=True)
SHUFFLED = np.random.default_rng(0).permutation(len(NAMES))
DIGITS, NAMES = DIGITS[SHUFFLED], NAMES[SHUFFLED]


def test_rows_may_be_opened_before_the_fit(tmp_path: Path):
    np.save(tmp_path / "x.npy", X)
    expected = SLR(rank=2).fit(X, Y)
    for rows in (open_rows(X, Y), open_rows(tmp_path / "x.npy", Y)):
        model = SLR(rank=2).fit(rows)
        np.testing.assert_allclose(model.similarity(X), expected.similarity(X), atol=1e-9)
        np.testing.assert_array_equal(model.classes_, expected.classes_)
        assert (model.n_samples_, model.n_features_in_) == (60, 5)


def some_unlabelled(kind: str) -> tuple[Any, np.ndarray]:
    """Labels of which those of ten rows are missing, and the rows that have one."""
    labelled = np.arange(60) % 6 != 0
    y: Any = np.where(labelled, Y, -1)
    if kind == "NaN":
        y = np.where(labelled, Y, np.nan)
    elif kind in ("None", "empty"):
        y = np.where(labelled, np.array([f"class {c}" for c in Y], dtype=object), None if kind == "None" else "")
    return y, labelled


@pytest.mark.parametrize("kind", ["-1", "NaN", "None", "empty"])
@pytest.mark.parametrize(
    "model", [SLR(rank=2), SimilarityLearner(kernel="linear"), LDA()], ids=lambda m: type(m).__name__
)
def test_unlabelled_rows_are_left_out_whatever_marks_them(model: SimilarityModel, kind: str):
    y, labelled = some_unlabelled(kind)
    expected = clone(model).fit(X[labelled], y[labelled].tolist())
    with pytest.warns(UserWarning, match="y: 10 of 60 rows have no label and are left out"):
        fitted = clone(model).fit(X, y)
    np.testing.assert_allclose(fitted.similarity(X), expected.similarity(X), atol=1e-9)
    assert (fitted.n_samples_, fitted.classes_.tolist()) == (50, expected.classes_.tolist())
    assert fitted.score(X, y) == pytest.approx(expected.score(X[labelled], y[labelled].tolist()), abs=1e-9)


@pytest.mark.parametrize("place", ["disk", "array"])
def test_unlabelled_rows_are_left_out_wherever_rows_are(tmp_path: Path, place: str):
    y, labelled = some_unlabelled("-1")
    np.save(tmp_path / "x.npy", X)
    rows = tmp_path / "x.npy" if place == "disk" else pytest.importorskip("torch").from_numpy(X)
    with pytest.warns(UserWarning, match="y: 10 of 60 rows have no label and are left out"):
        model = SLR(rank=2).fit(open_rows(rows, y))
    expected = SLR(rank=2).fit(X[labelled], y[labelled])
    np.testing.assert_allclose(model.similarity(X), expected.similarity(X), atol=1e-9)


def test_unlabelled_rows_take_no_part_in_a_calibration_or_the_splits_of_a_fit():
    y, labelled = some_unlabelled("-1")
    model, new = SLR(rank=2).fit(X, Y), X + 1e-3
    expected = model.calibrate(new[labelled], Y[labelled]).calibration_
    assert model.calibrate(new, y).calibration_ == expected
    held = [(np.arange(0, 40), np.arange(40, 60))]  # row numbers as given
    with pytest.warns(UserWarning, match="have no label"):
        learner = SimilarityLearner(kernel="linear", cv=held).fit(X, y)
    assert learner.held_out_["rows"] == labelled[40:].sum()


def test_names_of_columns_come_with_the_rows():
    table = pd.DataFrame(X, columns=list("abcde"))
    model = SLR(rank=2).fit(open_rows(table, Y))
    assert list(model.feature_names_in_) == list("abcde")
    assert not hasattr(model.fit(open_rows(X, Y)), "feature_names_in_")


def test_a_weighted_fit_of_opened_rows_is_refused_nothing():
    weights = np.random.default_rng(0).integers(0, 3, 60)
    model = SLR(rank=2).fit(open_rows(X, Y, weights))
    np.testing.assert_allclose(model.similarity(X), SLR(rank=2).fit(X, Y, weights).similarity(X), atol=1e-12)


def test_labels_or_weights_with_opened_rows_are_refused():
    with pytest.raises(LikewiseError, match="X is opened already, with its labels: leave y and sample_weight at None"):
        SLR(rank=2).fit(open_rows(X, Y), Y)


class Overflowing(SimilarityModel):
    """Learns NaN, infinity, or nothing at all."""

    def __init__(self, learned: Any = 1.0) -> None:
        self.learned = learned

    @finite_fit
    def fit(self, X: Any, y: Any = None) -> Any:
        self.n_features_in_ = X.shape[1]
        if self.learned is None:
            np.linalg.cholesky(np.zeros((2, 2)))
        self.factor_ = np.full(X.shape[1], self.learned)
        return self

    def _gallery_side(self, X: Any) -> np.ndarray:
        return np.asarray(X * self.factor_)


@pytest.mark.parametrize("learned", [np.nan, np.inf])
def test_what_is_not_finite_never_leaves_fit(learned: float) -> None:
    model = Overflowing(learned)
    with pytest.raises(LikewiseError, match=r"Overflowing cannot learn .* \(factor_ would not be finite\)"):
        model.fit(np.eye(3))
    assert not hasattr(model, "factor_")


def test_what_linear_algebra_cannot_do_is_said_in_a_sentence() -> None:
    with pytest.raises(LikewiseError, match=r"Overflowing cannot learn .*positive definite"):
        Overflowing(None).fit(np.eye(3))


@pytest.mark.filterwarnings("error")
def test_rows_too_large_for_a_similarity_get_a_sentence() -> None:
    model = Overflowing().fit(np.eye(2))
    assert model.similarity(np.eye(2)).tolist() == np.eye(2).tolist()
    for ask in (model.similarity, Overflowing(1e200).fit(np.eye(2)).transform):
        with pytest.raises(LikewiseError, match=r"values up to 1.0e\+200 have no finite similarity"):
            ask(np.eye(2) * 1e200)


# -- What a score means -----------------------------------------------------------------------------------------------


def test_probabilities_survive_a_file_and_another_precision(tmp_path):
    model = SimilarityLearner(random_state=0).fit(DIGITS[:600], NAMES[:600])
    P = model.predict_proba_pairs(DIGITS[600:700], DIGITS[700:800])
    assert P.shape == (100, 100)
    assert np.array_equal(load(model.save(tmp_path / "model")).predict_proba_pairs(DIGITS[600:700], DIGITS[700:800]), P)
    single = DIGITS.astype(np.float32)
    assert np.abs(model.predict_proba_pairs(single[600:700], single[700:800]) - P).max() < 0.05


def test_probabilities_at_another_base_rate():
    model = SimilarityLearner(kernel="linear", random_state=0).fit(DIGITS[:300], NAMES[:300])
    usual, even = (model.predict_proba_pairs(DIGITS[300:350], base_rate=rate) for rate in (None, 0.5))
    assert 0.05 < model.calibration.base_rate < 0.15
    assert (even >= usual).all()
    with pytest.raises(LikewiseError, match="base_rate=2: expected a number between 0 and 1"):
        model.predict_proba_pairs(DIGITS[300:310], base_rate=2)


def test_any_model_is_calibrated_by_rows_it_did_not_learn_from():
    model = LDA().fit(DIGITS[:600], NAMES[:600])
    with pytest.raises(LikewiseError, match="LDA has no calibration: its fit holds out no rows"):
        model.predict_proba_pairs(DIGITS[:2])
    with pytest.raises(LikewiseError, match="X contains training rows; calibrate on new rows"):
        model.calibrate(DIGITS[500:700], NAMES[500:700])
    P = model.calibrate(DIGITS[600:1200], NAMES[600:1200]).predict_proba_pairs(DIGITS[1200:])
    same = NAMES[1200:, None] == NAMES[1200:]
    assert abs(P.mean() - same.mean()) < 0.02
    assert model.fit(DIGITS[:600], NAMES[:600]).calibration_ is None


def test_a_few_rows_or_labels_calibrate_nothing():
    model = LDA().fit(DIGITS[:600], NAMES[:600])
    with pytest.raises(LikewiseError, match="the 4 rows of X have too few pairs"):
        model.calibrate(DIGITS[600:604], NAMES[600:604])
    with pytest.raises(LikewiseError, match=r"y has shape \(3,\): expected one label for each of the 4 rows of X"):
        model.calibrate(DIGITS[600:604], NAMES[600:603])


def test_a_model_for_unseen_classes_is_calibrated_on_held_out_ones():
    model = SimilarityLearner(settings={"share": 0.0}, random_state=0).fit(DIGITS[NAMES < 6], NAMES[NAMES < 6])
    new = np.flatnonzero(NAMES >= 6)[:300]
    P, same = model.predict_proba_pairs(DIGITS[new]), NAMES[new][:, None] == NAMES[new]
    assert list(model.calibration.of_learned) == [0]
    assert P[same].mean() > 0.4 > 0.2 > P[~same].mean()


def test_a_damaged_calibration_is_refused(tmp_path):
    path = SimilarityLearner(kernel="linear", random_state=0).fit(DIGITS[:300], NAMES[:300]).save(tmp_path / "model")
    tensors, card = read_tensors(path)
    card["state"]["calibration_"]["0"]["ratios"] = [1, "x"]
    write_tensors(path, tensors, card)
    with pytest.raises(FileFormatError, match="calibration_ is damaged"):
        load(path)
