"""From one embedding model to another: the map, its two sides and its file."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise import SimilarityModel, fit_map, load
from likewise.learn.embedding_map import EmbeddingMap


def _spaces(n, d_old, d_new, noise=0.0, seed=0):
    """The same items in two spaces, both linear in what the items are."""
    rng = np.random.default_rng(seed)
    old = rng.standard_normal((n, d_old)) + 1.0
    return old, old @ rng.standard_normal((d_old, d_new)) + 2.0 + noise * rng.standard_normal((n, d_new))


@given(st.integers(30, 60), st.integers(1, 8), st.integers(1, 12), st.integers(0, 10**6))
def test_a_linear_change_of_space_is_undone(n, d_old, d_new, seed):
    old, new = _spaces(n, d_old, d_new, seed=seed)
    np.testing.assert_allclose(fit_map(old[:25], new[:25]).transform(old), new, atol=1e-6 * np.abs(new).max())


def test_the_ridge_is_that_of_the_formula():
    old, new = _spaces(50, 6, 4, noise=1.0)
    model = fit_map(old, new, alpha=0.3)
    O, N = old - old.mean(0), new - new.mean(0)
    G = O.T @ O
    T = np.linalg.solve(G + 0.3 * np.trace(G) / 6 * np.eye(6), O.T @ N)
    np.testing.assert_allclose(model.components_, T.T)


def test_noise_asks_for_a_ridge_and_its_absence_for_none():
    rng = np.random.default_rng(0)
    old = rng.standard_normal((60, 40))
    clean = old @ rng.standard_normal((40, 10))
    assert fit_map(old, clean).alpha_ == 0.0
    assert fit_map(old, clean + 20 * rng.standard_normal(clean.shape)).alpha_ > 0.01


def test_queries_of_the_new_encoder_search_an_index_of_the_old_one():
    old, new = _spaces(200, 10, 8, noise=0.3)
    model = fit_map(old[:100], new[:100])
    queries, gallery = new[100:], old[100:]
    np.testing.assert_array_equal(model.transform_query(queries), queries)
    np.testing.assert_allclose(model.similarity(queries, gallery), queries @ model.transform(gallery).T)
    distance = np.linalg.norm(queries[:, None] - model.transform(gallery)[None], axis=2)
    assert (distance.argmin(axis=1) == np.arange(100)).mean() > 0.95
    assert model.score(gallery, queries) > 0.95


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_map_is_saved_and_loaded(tmp_path, dtype):
    old, new = (part.astype(dtype) for part in _spaces(50, 6, 4, noise=0.1))
    model = fit_map(old, new)
    for back in (load(model.save(tmp_path / "m")), EmbeddingMap.load(tmp_path / "m")):
        assert isinstance(back, SimilarityModel)
        np.testing.assert_array_equal(back.transform(old), model.transform(old))
        assert back.transform(old).dtype == dtype
    assert "embeddingmap0" in model.set_output(transform="pandas").transform(old).columns


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (np.ones((3, 2)), np.ones((4, 2)), "old has 3 rows and new 4: expected the same items in both"),
        (np.ones((1, 2)), np.ones((1, 2)), "old has one row: a map is learned from at least two items"),
        (np.full((3, 2), np.nan), np.ones((3, 2)), "old contains NaN"),
    ],
)
def test_bad_spaces_get_a_sentence(old, new, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        fit_map(old, new)


def test_the_two_spaces_are_not_confused():
    model = fit_map(*_spaces(50, 6, 4))
    with pytest.raises(ValueError, match="old has 4 columns: the map was fitted with an old side of 6"):
        model.transform(np.ones((2, 4)))
