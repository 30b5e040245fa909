"""Evaluation of rows on disk and of a gallery in blocks: that of the rows in memory."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.learn.engines.agreement import N, rows

from likewise import SLR, SimilarityLearner
from likewise.errors import LikewiseError
from likewise.evaluate import evaluate, evaluate_blocks
from likewise.learn.evaluation import evaluate_rows
from likewise.rows import FeatureStore


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.learn.evaluation._LARGEST_BLOCK", 10_000)


@pytest.mark.parametrize("kind", ["slr", "anchored", "cosine"])
@pytest.mark.usefixtures("small_blocks")
def test_a_store_gives_the_measures_of_its_labelled_rows(tmp_path: Path, kind: str) -> None:
    X, y = rows()
    store = FeatureStore.write(tmp_path / "x.features", X, ["" if i % 10 == 0 else str(c) for i, c in enumerate(y)])
    labelled = np.arange(N) % 10 != 0
    X, y = X[labelled], y[labelled]
    model = {
        "slr": SLR(rank=5, max_iter=1).fit(X, y),
        "anchored": SimilarityLearner("linear", settings={"ridge": 0.1, "adaptation": 0.0, "geometry": "lda"}).fit(
            X, y
        ),
        "cosine": None,
    }[kind]
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    sides = (unit, unit) if model is None else (model.transform_query(X), model.transform(X))
    whole = evaluate(*sides, y, n_queries=100, random_state=4)
    parts = evaluate_rows(model, store.path, n_queries=100, random_state=4)
    np.testing.assert_array_equal(parts.queries, whole.queries)
    np.testing.assert_allclose(parts.average_precision, whole.average_precision, atol=1e-4)
    assert parts.interval == pytest.approx(whole.interval, abs=1e-4)


@pytest.mark.usefixtures("small_blocks")
def test_all_queries_and_those_without_a_relevant_row(tmp_path: Path) -> None:
    X, y = rows(np.float64)
    y = np.where(np.arange(N) < 3, np.arange(N) + 100, y)
    np.save(tmp_path / "rows.npy", X)
    whole, parts = evaluate(X, X, y), evaluate_rows(SLR(rank=None, max_iter=1).fit(X, y), tmp_path / "rows.npy", y,
                                                     n_queries=None, memory_limit="1MB")  # fmt: skip
    assert parts.n_excluded == whole.n_excluded == 3
    assert parts.n_queries == whole.n_queries
    with pytest.raises(LikewiseError, match="all 700 labels in y are distinct"):
        evaluate_rows(None, tmp_path / "rows.npy", np.arange(N))


def in_blocks(G: np.ndarray, size: int) -> list[np.ndarray]:
    return [G[first : first + size] for first in range(0, len(G), size)]


@given(seed=st.integers(0, 1000), size=st.integers(1, 60))
def test_blocks_give_the_measures_of_the_whole_with_ties_and_all(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    G, y = rng.integers(-2, 3, (50, 3)).astype(float), rng.integers(0, 6, 50)
    whole = evaluate(G, G, y, ks=(1, 4), n_queries=20, random_state=seed)
    chosen = whole.queries
    parts = evaluate_blocks(G[chosen], lambda: in_blocks(G, size), y[chosen], y, chosen, ks=(1, 4))
    assert whole.per_query.keys() == parts.per_query.keys()
    for name, values in whole.per_query.items():
        np.testing.assert_allclose(parts.per_query[name], values, atol=1e-12)
    assert parts.interval == pytest.approx(whole.interval)
    assert parts.n_queries == whole.n_queries
    np.testing.assert_array_equal(parts.queries, whole.queries)


def test_queries_that_are_no_part_of_the_gallery(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    Q, G = rng.standard_normal((30, 4)), rng.standard_normal((70, 4))
    y_q, y_g = np.arange(30) % 5, np.arange(70) % 5
    monkeypatch.setattr("likewise.evaluate.out_of_core._MOST_RELEVANT", 40)  # two or three queries at a time
    monkeypatch.setattr("likewise.evaluate.out_of_core._QUERIES", 1)
    parts = evaluate_blocks(Q, lambda: in_blocks(G, 16), y_q, y_g)
    np.testing.assert_allclose(parts.average_precision, evaluate(Q, G, y_q, y_g).average_precision)


def test_a_gallery_that_is_not_as_its_labels_say_is_refused() -> None:
    Q, y = np.eye(3), np.array([0, 1, 0])
    for blocks, message in [
        ([np.eye(3)[:2]], "the gallery has 2 rows and y_g 3 labels"),
        ([np.eye(3), np.eye(3)], "the gallery has more than the 3 rows"),
        ([np.full((3, 3), np.nan)], "the scores of Q with the gallery are not finite"),
    ]:
        with pytest.raises(LikewiseError, match=message):
            evaluate_blocks(Q, lambda blocks=blocks: blocks, y, y)  # type: ignore[misc]
    with pytest.raises(LikewiseError, match="query 1 of Q has no relevant item"):
        evaluate_blocks(Q, lambda: [np.eye(3)], y, y, np.arange(3))
