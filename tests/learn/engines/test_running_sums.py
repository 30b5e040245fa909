"""Blocks one after the other give what their union gives, wherever sums can tell; elsewhere a sentence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from tests.planted import planted

from likewise import SLR, load, merge
from likewise.errors import LikewiseError

FIXED = [
    SLR(None, adaptive=False),
    SLR(3, adaptive=False),
    SLR(6, adaptive=False, alpha=0.2, margins=(1.0, -0.5)),
    SLR(3, adaptive=False, whitening_width=5),
]
ADAPTIVE = [SLR(4, n_iter=3), SLR(None, n_iter=2, alpha=0.1), SLR(None, n_iter=3, acceleration="anderson")]


def _blocks(n, cuts):
    edges = [0, *sorted({c % (n - 1) + 1 for c in cuts}), n]
    return [slice(a, b) for a, b in pairwise(edges) if b > a]


def _added(model, X, y, blocks, **options):
    for block in blocks:
        model.partial_fit(X[block], y[block], **{name: value[block] for name, value in options.items()})
    return model


@pytest.mark.parametrize("model", FIXED, ids=repr)
@given(st.lists(st.integers(0, 118), max_size=6), st.integers(0, 10**6))
def test_the_fixed_solution_after_any_blocks_is_that_of_their_union(model, cuts, seed):
    X, y = planted(120, 8, 5, seed)
    partial = _added(SLR(**model.get_params()), X, y, _blocks(120, cuts))
    np.testing.assert_allclose(partial.similarity(X), model.fit(X, y).similarity(X), atol=1e-8)
    assert (partial.n_samples_, partial.n_features_in_) == (120, 8)
    np.testing.assert_array_equal(partial.classes_, model.classes_)


@pytest.mark.parametrize("model", ADAPTIVE, ids=repr)
def test_the_adaptive_solution_is_that_of_the_union_while_all_rows_are_kept(model):
    X, y = planted(150, 8, 4)
    partial = _added(SLR(**model.get_params()), X, y, _blocks(150, [40, 41, 90]))
    np.testing.assert_allclose(partial.similarity(X), model.fit(X, y).similarity(X), atol=1e-7)
    assert partial.n_iter_ == model.n_iter_


@pytest.mark.parametrize("compress", [None, "landmarks"])
def test_rows_that_were_dropped_are_stood_for_by_those_kept(compress, digits):
    X, y, Q, y_q = digits
    model = SLR(10, n_iter=3, compress=compress, compress_size=600, random_state=0)
    partial = _added(model, X, y, _blocks(len(y), [100, 400, 900]))
    assert 600 <= len(partial.kept_) < 600 + 10
    assert set(partial.kept_codes_) == set(range(10))
    whole = SLR(10, n_iter=3).fit(X, y)
    kept_alone = SLR(10, n_iter=3).fit(partial.kept_, partial.classes_[partial.kept_codes_])
    assert kept_alone.score(Q, y_q) < partial.score(Q, y_q) < whole.score(Q, y_q)
    assert partial.score(Q, y_q) > whole.score(Q, y_q) - 0.02


@pytest.mark.parametrize("model", [FIXED[1], ADAPTIVE[0]], ids=repr)
def test_weights_count_as_repetition(model):
    X, y = planted(100, 6, 3)
    weights = np.random.default_rng(0).integers(0, 4, 100)
    blocks = _blocks(100, [30, 70])
    weighted = _added(SLR(**model.get_params()), X, y, blocks, sample_weight=weights)
    repeated = SLR(**model.get_params()).fit(X.repeat(weights, axis=0), y.repeat(weights))
    np.testing.assert_allclose(weighted.similarity(X), repeated.similarity(X), atol=1e-8)


@pytest.mark.parametrize("model", [FIXED[0], ADAPTIVE[0]], ids=repr)
def test_merging_two_parts_is_learning_from_both(model):
    X, y = planted(140, 7, 4)
    y[:70] %= 3  # the second part has a class that the first does not
    a, b = (_added(SLR(**model.get_params()), X, y, [half]) for half in (slice(0, 70), slice(70, 140)))
    merged = merge(a, b)
    np.testing.assert_allclose(merged.similarity(X), model.fit(X, y).similarity(X), atol=1e-8)
    assert merged.n_samples_ == 140
    again = merged.partial_fit(X[:5], y[:5])
    assert again.n_samples_ == 145


def test_a_saved_model_goes_on_where_it_was(tmp_path):
    X, y = planted(120, 8, 4)
    names = np.array(["ant", "bee", "cat", "dog"])[y]
    first = SLR(3, n_iter=2).partial_fit(X[:60], names[:60], solve=False)
    again = load(first.save(tmp_path / "half.likewise")).partial_fit(X[60:], names[60:])
    np.testing.assert_allclose(again.similarity(X), SLR(3, n_iter=2).fit(X, names).similarity(X), atol=1e-8)
    np.testing.assert_array_equal(load(again.save(tmp_path / "all.likewise")).similarity(X), again.similarity(X))


def test_blocks_of_one_class_are_added_and_learned_from_once_there_are_two():
    X, y = planted(90, 6, 3)
    order = np.argsort(y, kind="stable")
    model = SLR(adaptive=False)
    model.partial_fit(X[y == 0], y[y == 0])
    with pytest.raises(NotFittedError):
        model.transform(X)
    for c in (1, 2):
        model.partial_fit(X[y == c], y[y == c])
    np.testing.assert_allclose(
        model.similarity(X), SLR(adaptive=False).fit(X[order], y[order]).similarity(X), atol=1e-9
    )


def test_float32_and_sparse_blocks_are_as_good():
    X, y = planted(120, 8, 4)
    dense = _added(SLR(3, adaptive=False), X, y, _blocks(120, [50]))
    sparse = _added(SLR(3, adaptive=False), sp.csr_array(X), y, _blocks(120, [50]))
    single = _added(SLR(3, adaptive=False), X.astype(np.float32), y, _blocks(120, [50]))
    np.testing.assert_allclose(sparse.similarity(X), dense.similarity(X), atol=1e-9)
    np.testing.assert_allclose(single.similarity(X), dense.similarity(X), atol=1e-4)
    assert single.components_.dtype == np.float32


def test_fit_forgets_the_blocks_before_and_a_block_after_it_begins_anew(caplog):
    X, y = planted(80, 6, 3)
    model = SLR(3).partial_fit(X[:50], y[:50]).fit(X, y)
    assert not hasattr(model, "gram_")
    assert model.partial_fit(X[:50], y[:50]).n_samples_ == 50
    assert "partial_fit after fit begins anew" in caplog.text


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"compress": "sample", "compress_size": 20}, "compress='sample' draws from all rows at each step"),
        ({"compress": "gaussian", "compress_size": 20}, "compress='gaussian' draws from all rows at each step"),
        ({"prior": "identity"}, "prior='identity': supervision of pairs does not add up, partial_fit takes one label"),
        ({"init": "paper"}, "init='paper' starts from rows that are gone: partial_fit needs init='fixed'"),
        ({"checkpoint": "x"}, "checkpoint has no meaning for partial_fit"),
    ],
)
def test_what_sums_cannot_give_is_refused_in_words(parameters, message):
    with pytest.raises(LikewiseError, match=message):
        SLR(3, **parameters).partial_fit(*planted(40, 5, 2))


def test_rows_without_a_label_are_refused_in_words():
    X, y = planted(40, 5, 3)
    with pytest.raises(LikewiseError, match="unlabelled rows, or several labels per row: supervision of pairs"):
        SLR(3).partial_fit(X, np.where(y == 2, -1, y))


def test_what_cannot_be_merged_is_refused_in_words():
    X, y = planted(60, 5, 3)
    a = SLR(2, adaptive=False).partial_fit(X, y)
    with pytest.raises(LikewiseError, match="merge: b is SLR without sums; only models built by partial_fit"):
        merge(a, SLR(2, adaptive=False).fit(X, y))
    with pytest.raises(LikewiseError, match="merge: the models differ in rank=2 and 3"):
        merge(a, SLR(3, adaptive=False).partial_fit(X, y))
    with pytest.raises(LikewiseError, match="merge: a has 5 features and b 4: expected one width"):
        merge(a, SLR(2, adaptive=False).partial_fit(X[:, :4], y))
    with pytest.raises(LikewiseError, match="y has text labels in one block and numbers in another"):
        a.partial_fit(X, y.astype(str))
    with pytest.raises(LikewiseError, match="adaptive=True needs rows, and none were kept"):
        SLR(2, adaptive=False).partial_fit(X, y).set_params(adaptive=True).solve()
    with pytest.raises(LikewiseError, match="solve: there is nothing to learn from"):
        SLR().solve()
