"""A gallery of which half of the classes were taught: what an index finds out, and who else knows it."""

import warnings

import numpy as np
import pytest

import likewise
from likewise import SimilarityLearner
from likewise.errors import LikewiseError
from likewise.evaluate import average_precisions
from likewise.rivals import LDA
from likewise.search import Index
from likewise.utils.arrays import unit_rows


@pytest.fixture(scope="module")
def half(digits):
    """Digits below 5 are taught; a gallery of all digits, and the labelled rows."""
    X, y = np.vstack(digits[::2]).astype(np.float32), np.concatenate(digits[1::2])
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    taught = np.flatnonzero(y[:800] < 5)
    model = SimilarityLearner(scaling="unit", random_state=0).fit(X[taught], y[taught])
    return model, X[800:], y[800:], X[taught], y[taught]


@pytest.fixture(scope="module")
def index(half):
    return Index.build(half[0], half[1])


def worth(V, y):
    """mAP of taught queries and of new ones."""
    values = average_precisions(V, V, y)
    return tuple(values[part].mean() if part.any() else np.nan for part in (y < 5, y >= 5))


def test_taught_items_are_ranked_as_well_as_without_new_ones_and_new_ones_as_by_the_raw_cosine(half, index):
    model, G, y, *_ = half
    taught, new = worth(index.vectors, y)
    assert index.taught_share == pytest.approx((y < 5).mean(), abs=0.1)
    assert taught >= worth(model.transform(G), y)[0] - 0.003
    assert new >= worth(unit_rows(G), y)[1] - 0.003


def test_labelled_rows_in_the_gallery_count_as_labelled(half, index):
    model, G, _, labelled, _ = half
    both = Index.build(model, np.vstack([G, labelled]))
    assert both.model.taught_share == pytest.approx(index.model.taught_share, abs=0.02)
    assert both.taught_share > index.taught_share + 0.1


@pytest.mark.parametrize("n_neighbors", ["auto", 5])
def test_neighbours_smooth_such_vectors_too(half, n_neighbors):
    model, G, y, *_ = half
    smooth = Index.build(model, G, n_neighbors=n_neighbors)
    assert smooth.neighbors is not None
    assert min(np.subtract(worth(smooth.vectors, y), worth(unit_rows(G), y))) > 0


def test_the_gate_is_part_of_the_model_wherever_it_goes(index, half, tmp_path):
    model, G, *_ = half
    loaded = likewise.load(index.model.save(tmp_path / "m"))
    np.testing.assert_allclose(loaded.transform(G), index.vectors, atol=1e-6)
    assert loaded.identity == index.model.identity != model.identity == loaded.closed.identity
    opened = Index.load(index.save(tmp_path / "i"))
    np.testing.assert_array_equal(opened.search(G[:20]).ids, index.search(G[:20]).ids)
    session = pytest.importorskip("onnxruntime").InferenceSession(loaded.to_onnx())
    np.testing.assert_allclose(session.run(["query"], {"rows": G})[0], index.vectors, atol=1e-5)


def test_a_closed_gallery_has_about_the_vectors_of_the_model(half):
    model, G, y, *_ = half
    closed = Index.build(model, G[y < 5])
    assert closed.taught_share > 0.95
    assert model.score(G[y < 5], y[y < 5]) - closed.model.score(G[y < 5], y[y < 5]) < 0.001


def test_new_items_may_be_given(half):
    model, G, *_ = half
    np.testing.assert_allclose(Index.build(model, G, new_items=0).vectors, model.transform(G), atol=1e-6)
    assert Index.build(model, G, new_items=0.3).model.taught_share == 0.7
    for value in (1, -0.1, "many", True):
        with pytest.raises(LikewiseError, match=r"expected 'auto', or the share of new items from 0 to below 1"):
            Index.build(model, G, new_items=value)
    with pytest.raises(LikewiseError, match=r"new_items=0.5 is for SimilarityLearner; expected 'auto' or 0"):
        Index.build(LDA().fit(G, half[2]), G, new_items=0.5)


def test_a_few_rows_or_a_gallery_from_elsewhere_have_no_gate(half):
    model, G, *_ = half
    assert Index.build(model, G[:40]).model.taught_share is None
    with pytest.warns(UserWarning, match="the gallery seems to be from another source"):
        other = Index.build(model, G + 3 * (np.arange(64) % 7 == 0).astype(np.float32))
    assert other.model.identity == model.identity


def test_added_rows_keep_the_gate_until_the_share_has_moved(half):
    model, G, y, *_ = half
    closed = Index.build(model, G[y < 5])
    same = closed.plus(G[y < 5][:50] + 0.01)
    assert same.model.identity == closed.model.identity
    opened = closed.plus(G[y >= 5])
    assert opened.model.identity != closed.model.identity
    assert opened.taught_share == pytest.approx((y < 5).mean(), abs=0.12)
    assert len(opened) == len(y)


def test_the_same_gallery_gives_the_same_gate(half, index):
    assert Index.build(index.model, half[1]).model.identity == index.model.identity


def test_unlabelled_rows_of_a_fit_are_its_gallery(half, index):
    model, G, _, labelled, _ = half
    X, y = np.vstack([labelled, G]), np.concatenate([half[4], np.full(len(G), -1)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = SimilarityLearner(scaling="unit", random_state=0).fit(X, y)
    assert fitted.taught_share == pytest.approx(index.model.taught_share, abs=0.02)
    assert fitted.closed.identity == model.identity
    with pytest.warns(UserWarning, match="y: 40 of 455 rows have no label and are left out"):
        SimilarityLearner(settings=model.setting_).fit(X[: len(labelled) + 40], y[: len(labelled) + 40])


def test_a_gallery_of_new_classes_alone_is_not_taken_for_another_source(half):
    model, G, y, *_ = half
    index = Index.build(model, G[y >= 5])
    assert index.taught_share < 0.1
    assert worth(index.vectors, y[y >= 5])[1] >= worth(unit_rows(G[y >= 5]), y[y >= 5])[1] - 0.003
