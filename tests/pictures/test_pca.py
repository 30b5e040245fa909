"""PCA through the Gram matrix agrees with scikit-learn's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

from likewise.errors import LikewiseError
from likewise.pictures import DualPCA, pca


def rows(n: int = 60, d: int = 5000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    spectrum = 1 / np.arange(1, 41)
    return (rng.normal(size=(n, 40)) * spectrum @ rng.normal(size=(40, d)) + rng.normal(size=d)).astype(np.float32)


@pytest.mark.parametrize("exact", [True, False])
def test_projections_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch, exact: bool) -> None:
    monkeypatch.setattr(pca, "_EXACT", 2000 if exact else 0)
    X, Q = rows(), rows(seed=1)
    ours, theirs = DualPCA(10).fit(X), PCA(10, svd_solver="full").fit(X)
    A, B = ours.transform(Q), theirs.transform(Q)
    signs = np.sign((A * B).sum(axis=0))
    np.testing.assert_allclose(A * signs, B, atol=2e-3 * np.abs(B).max())
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-3)


def test_rows_on_disk_in_half_precision_give_nearly_the_same(tmp_path: Path) -> None:
    X = rows()
    np.save(tmp_path / "x.npy", X.astype(np.float16))
    disk = DualPCA(5).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    memory = DualPCA(5).fit(X.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(disk.transform(X), memory.transform(X))


def test_only_the_numbered_rows_are_learned_from() -> None:
    X = rows()
    some = np.array([1, 4, 5, 9, 20, 33])
    np.testing.assert_array_equal(DualPCA(4).fit(X, numbers=some).components_, DualPCA(4).fit(X[some]).components_)


def test_more_components_than_rank_are_lowered() -> None:
    X = rows(n=8)
    assert DualPCA(100).fit(X).components_.shape[0] == 7
    repeated = np.vstack([X, X])
    assert DualPCA(100).fit(repeated).transform(X).shape == (8, 7)


def test_output_columns_have_names() -> None:
    assert DualPCA(2).fit(rows()).get_feature_names_out().tolist() == ["dualpca0", "dualpca1"]


@pytest.mark.parametrize(
    ("components", "X", "words"),
    [
        (0, rows(), "n_components=0 is not a number of components; expected 1 or more"),
        (3, rows(n=1), "PCA got 1 row; expected at least 2"),
        (3, np.ones((5, 9)), "all rows are equal; expected at least two different ones"),
        (3, np.ones(5), "expected rows of numbers"),
    ],
)
def test_what_cannot_be_reduced_is_refused(components: int, X: np.ndarray, words: str) -> None:
    with pytest.raises(LikewiseError) as caught:
        DualPCA(components).fit(X)
    assert words in str(caught.value)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(LikewiseError, match="X has 3 features; expected 5000, as in fit"):
        DualPCA(2).fit(rows()).transform(np.zeros((2, 3)))
