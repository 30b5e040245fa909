"""The protocol: who learns from what."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.paper.datasets import Dataset, load_dataset
from likewise.paper.protocol import Protocol, ProtocolSettings, TrainingBudget


def _dataset(n: int = 120, d: int = 20, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    X = (rng.standard_normal((4, d))[y] + rng.standard_normal((n, d))).astype(np.float32)
    return Dataset("made", X, y, list("abcd"), "made")


def test_splits_are_70_to_30_and_differ_by_number_and_seed() -> None:
    protocol = Protocol(_dataset(), ProtocolSettings(), TrainingBudget())
    train, test = protocol.rows(0)
    assert (len(train), len(test)) == (84, 36)
    assert sorted([*train, *test]) == list(range(120))
    assert not np.array_equal(train, protocol.rows(1)[0])
    assert not np.array_equal(train, Protocol(_dataset(), ProtocolSettings(seed=1), TrainingBudget()).rows(0)[0])
    np.testing.assert_array_equal(train, Protocol(_dataset(), ProtocolSettings(), TrainingBudget()).rows(0)[0])


def test_rows_have_length_1_unless_asked_otherwise() -> None:
    protocol = Protocol(_dataset(), ProtocolSettings(), TrainingBudget())
    np.testing.assert_allclose(np.linalg.norm(protocol.split(0).Q, axis=1), 1, rtol=1e-6)
    plain = protocol.split(0, normalize=False)
    np.testing.assert_array_equal(plain.Q, _dataset().X[plain.test])


@pytest.mark.parametrize("d", [20, 200])  # fewer and more columns than training rows
def test_what_is_learned_from_does_not_depend_on_the_test_rows(d: int) -> None:
    data = _dataset(d=d)
    protocol = Protocol(data, ProtocolSettings(components=5), TrainingBudget())
    _, test = protocol.rows(0)
    X = data.X.copy()
    X[test] *= 100
    other = Protocol(replace(data, X=X), ProtocolSettings(components=5), TrainingBudget())
    np.testing.assert_array_equal(protocol.split(0).X, other.split(0).X)
    assert protocol.split(0).X.shape == (84, 5)
    everything = protocol.split(0, pca_on="all").X
    assert not np.allclose(everything, other.split(0, pca_on="all").X)


def test_both_ways_to_the_principal_components_agree() -> None:
    """Through the covariance of the columns, and, for wide rows, through the Gram matrix of the rows."""
    data = _dataset(d=80)
    narrow = Protocol(data, ProtocolSettings(components=5, normalize=False), TrainingBudget()).split(0)
    wide = replace(data, X=np.hstack([data.X, np.zeros((120, 20), np.float32)]))
    dual = Protocol(wide, ProtocolSettings(components=5, normalize=False), TrainingBudget()).split(0)
    signs = np.sign(np.sum(narrow.X * dual.X, axis=0))
    np.testing.assert_allclose(narrow.Q, dual.Q * signs, atol=2e-2)  # the dual keeps components as float16


def test_sparse_rows_are_reduced_by_truncated_svd() -> None:
    data = replace(_dataset(), X=sp.csr_array(np.maximum(_dataset().X, 0)))
    split = Protocol(data, ProtocolSettings(components=6), TrainingBudget()).split(0)
    assert split.X.shape == (84, 6)
    assert split.X.dtype == np.float32


def test_a_quick_run_draws_rows_of_every_class() -> None:
    protocol = Protocol(load_dataset("digits"), ProtocolSettings(), TrainingBudget(rows=100))
    assert 95 <= len(protocol.data.y) <= 105
    assert np.bincount(protocol.data.y).min() >= 4


def test_one_class_is_refused() -> None:
    data = replace(_dataset(), y=np.zeros(120, dtype=int))
    with pytest.raises(LikewiseError, match="made has one class: expected at least two"):
        Protocol(data, ProtocolSettings(), TrainingBudget())
