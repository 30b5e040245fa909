"""Anchored maps from blocks: halves merged are the whole, wherever sums can tell; elsewhere a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from tests.planted import planted

from likewise import SLR, SimilarityLearner, load, merge
from likewise.errors import LikewiseError

FIXED = {"ridge": 0.1, "geometry": "one-hot", "pull": 0.0, "raw_weight": 0.1}
LINEAR: dict[str, Any] = {"kernel": "linear", "scaling": "unit", "fixed": FIXED}
RANDOM: dict[str, Any] = {"kernel": "random", "kernel_size": 60, "scaling": "roots", "fixed": {**FIXED, "gamma": 1.0}}
LDA: dict[str, Any] = {**RANDOM, "fixed": {**RANDOM["fixed"], "geometry": "lda", "raw_weight": 0.0}}
WAYS = {"linear": LINEAR, "random": RANDOM, "lda": LDA}


def assert_same(one: SimilarityLearner, other: SimilarityLearner, X: np.ndarray, atol: float = 1e-8) -> None:
    np.testing.assert_allclose(one.similarity(X), other.similarity(X), atol=atol)


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=20)
@given(st.integers(1, 119), st.sets(st.integers(0, 4), min_size=1), st.integers(0, 10**6))
def test_halves_merged_are_the_whole(way: str, cut: int, apart: set[int], seed: int) -> None:
    """Wherever rows are cut, and whichever classes only one of the halves has."""
    X, y = planted(120, 8, 5, seed)
    first = (np.arange(120) < cut) & ~np.isin(y, list(apart)) | (y == min(apart))  # all of one class, some of others
    if first.all() or not first.any():
        first[0] = not first[0]
    a, b = (SimilarityLearner(**WAYS[way]).partial_fit(X[part], y[part]) for part in (first, ~first))
    merged = merge(a, b)
    assert_same(merged, SimilarityLearner(**WAYS[way]).partial_fit(X, y), X)
    assert (merged.n_samples_, merged.n_features_in_) == (120, 8)
    np.testing.assert_array_equal(merged.classes_, np.unique(y))


@pytest.mark.parametrize("way", WAYS)
def test_blocks_give_the_model_of_fit(way: str) -> None:
    X, y = planted(300, 12, 6)
    model = SimilarityLearner(**WAYS[way])
    for part in np.array_split(np.arange(300), 4):
        model.partial_fit(X[part], y[part], solve=False)
    fitted = SimilarityLearner(**WAYS[way]).fit(X, y)
    assert not fitted.setting_["raw"]  # else held-out rows were ranked better by the plain cosine
    assert_same(model.solve(), fitted, X)
    assert model.setting_ == pytest.approx(fitted.setting_)


def test_classes_may_arrive_later() -> None:
    X, y = planted(120, 8, 4)
    model = SimilarityLearner(**RANDOM).partial_fit(X[y == 2], y[y == 2])
    with pytest.raises(NotFittedError):
        model.transform(X)
    for classes in ([0], [1, 3]):
        part = np.isin(y, classes)
        model.partial_fit(X[part], y[part])
        seen = np.isin(y, model.classes_)
        assert_same(model, SimilarityLearner(**RANDOM).partial_fit(X[seen], y[seen]), X)  # of two classes, too


def test_weights_count_as_repetition_and_sparse_blocks_are_as_good() -> None:
    X, y = planted(100, 6, 3)
    weights = np.random.default_rng(0).integers(0, 4, 100)
    weighted = SimilarityLearner(**RANDOM).partial_fit(sp.csr_array(X[:40]), y[:40], weights[:40], solve=False)
    weighted.partial_fit(X[40:], y[40:], weights[40:])
    assert_same(weighted, SimilarityLearner(**RANDOM).partial_fit(X.repeat(weights, axis=0), y.repeat(weights)), X)
    single = SimilarityLearner(**RANDOM).partial_fit(X.astype(np.float32), y, weights)
    assert_same(weighted, single, X, 1e-4)
    assert single.transform(X.astype(np.float32)).dtype == np.float32


def test_a_saved_model_goes_on_where_it_was(tmp_path: Path) -> None:
    X, y = planted(120, 8, 4)
    names = np.array(["ant", "bee", "cat", "dog"])[y]
    first = SimilarityLearner(**RANDOM, random_state=np.random.RandomState(1)).partial_fit(
        X[:60], names[:60], solve=False
    )
    again: Any = load(first.save(tmp_path / "half.likewise"))
    again.partial_fit(X[60:], names[60:])
    assert_same(again, first.partial_fit(X[60:], names[60:]), X)
    np.testing.assert_array_equal(load(again.save(tmp_path / "all.likewise")).similarity(X), again.similarity(X))


def test_settings_chosen_by_fit_go_on_in_blocks(digits: Any) -> None:
    X, y, Q, y_q = digits
    chosen = SimilarityLearner("random", kernel_size=300).fit(X[:500], y[:500])
    blocks = chosen.for_blocks()
    for part in (slice(500), slice(500, None)):
        blocks.partial_fit(X[part], y[part])
    assert blocks.score(Q, y_q) > chosen.score(Q, y_q) + 0.01
    assert blocks.setting_["width"] == pytest.approx(chosen.setting_["width"], rel=0.1)
    assert SimilarityLearner(**{**LINEAR, "fixed": None}).fit(X[:200], y[:200]).for_blocks().kernel == "linear"
    assert not blocks.knows_classes
    with pytest.raises(LikewiseError, match="SimilarityLearner has no calibration"):
        _ = blocks.calibration
    with pytest.raises(LikewiseError, match="for_blocks: kernel='rbf', scaling='unit' and unseen_classes=False"):
        SimilarityLearner("rbf", scaling="unit").fit(X[:200], y[:200]).for_blocks()


def test_fit_forgets_the_blocks_before_and_a_block_after_it_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    X, y = planted(80, 6, 3)
    model = SimilarityLearner(**LINEAR).partial_fit(X[:50], y[:50]).fit(X, y)
    assert not hasattr(model, "gram_")
    assert model.partial_fit(X[:50], y[:50]).n_samples_ == 50
    assert "partial_fit after fit begins anew" in caplog.text


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "auto"}, "kernel='auto' is chosen on held-out rows: partial_fit needs kernel='linear' or 'random'"),
        ({"kernel": "rbf"}, "kernel='rbf' has rows as landmarks: partial_fit needs kernel="),
        ({"scaling": "auto"}, "scaling='auto' is chosen on held-out rows: partial_fit needs scaling='unit' or 'roots'"),
        ({"scaling": "standard"}, "scaling='standard' needs the moments of all rows"),
        ({"output": "posterior"}, "output='posterior' needs the images of all rows: partial_fit needs output='cosine'"),
        ({"unseen_classes": True}, "unseen_classes=True is chosen on held-out classes: .* unseen_classes=False"),
        ({"whitening_width": 3}, "whitening_width takes the leading directions of all rows"),
        ({"checkpoint": "x"}, "checkpoint has no meaning for partial_fit"),
        ({"fixed": {"ridge": 0.1}}, "holds no rows out to choose geometry and raw_weight and gamma on: set them in"),
        ({"fixed": {**RANDOM["fixed"], "pull": 1.0}}, "cannot adapt, which compares all pairs: set pull to 0 in fixed"),
    ],
)
def test_what_sums_cannot_give_is_refused_in_words(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(LikewiseError, match=message):
        SimilarityLearner(**{**RANDOM, **parameters}).partial_fit(*planted(40, 5, 2))
    assert not hasattr(SimilarityLearner(**{**RANDOM, **parameters}), "partial_fit")


def test_what_cannot_be_merged_is_refused_in_words() -> None:
    X, y = planted(60, 5, 3)
    a = SimilarityLearner(**RANDOM).partial_fit(X, y)
    with pytest.raises(LikewiseError, match="merge: b is SimilarityLearner without sums"):
        merge(a, SimilarityLearner(**RANDOM).fit(X, y))
    with pytest.raises(LikewiseError, match="merge: a and b have other random features: give both the same random_st"):
        merge(a, SimilarityLearner(**RANDOM, random_state=1).partial_fit(X, y))
    with pytest.raises(LikewiseError, match="merge: a is SimilarityLearner and b SLR: expected two of one class"):
        merge(a, SLR(2).partial_fit(X, y))  # type: ignore[misc]
    with pytest.raises(LikewiseError, match="unlabelled rows, or several labels per row: partial_fit takes one label"):
        a.partial_fit(X, np.where(y == 2, -1, y))
    with pytest.raises(LikewiseError, match="solve: there is nothing to learn from"):
        SimilarityLearner(**RANDOM).solve()
    with pytest.raises(LikewiseError, match="raw_weight in fixed was 0 while blocks were added: their raw part was"):
        SimilarityLearner(**LDA).partial_fit(X, y).set_params(fixed={**LDA["fixed"], "raw_weight": 0.1}).solve()
    with pytest.raises(LikewiseError, match="is for kernel='random', not 'linear': pass 'width'"):
        SimilarityLearner(**{**LINEAR, "fixed": RANDOM["fixed"]}).fit(X, y)
