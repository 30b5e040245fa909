"""Evaluation of rows on disk: that of the rows in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.data.agreement import N, rows

from likewise import SLR, AnchoredSLR
from likewise.errors import LikewiseError
from likewise.features import FeatureStore
from likewise.metrics import evaluate
from likewise.metrics.out_of_core import evaluate_rows


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.metrics.out_of_core._LARGEST_BLOCK", 10_000)


@pytest.mark.parametrize("kind", ["slr", "anchored", "cosine"])
def test_a_store_gives_the_measures_of_its_labelled_rows(tmp_path: Path, kind: str) -> None:
    X, y = rows()
    store = FeatureStore.write(tmp_path / "x.features", X, ["" if i % 10 == 0 else str(c) for i, c in enumerate(y)])
    kept = np.arange(N) % 10 != 0
    X, y = X[kept], y[kept]
    model = {
        "slr": SLR(rank=5, n_iter=1).fit(X, y),
        "anchored": AnchoredSLR("linear", ridge=0.1, pull=0.0, geometry="lda").fit(X, y),
        "cosine": None,
    }[kind]
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    sides = (unit, unit) if model is None else (model.transform_query(X), model.transform(X))
    whole = evaluate(*sides, y, n_queries=100, random_state=4)
    parts = evaluate_rows(model, store.path, n_queries=100, random_state=4)
    np.testing.assert_array_equal(parts.queries, whole.queries)
    np.testing.assert_allclose(parts.average_precision, whole.average_precision, atol=1e-4)
    assert parts.interval == pytest.approx(whole.interval, abs=1e-4)


def test_all_queries_and_those_without_a_relevant_row(tmp_path: Path) -> None:
    X, y = rows(np.float64)
    y = np.where(np.arange(N) < 3, np.arange(N) + 100, y)
    np.save(tmp_path / "rows.npy", X)
    whole, parts = evaluate(X, X, y), evaluate_rows(SLR(rank=None, n_iter=1).fit(X, y), tmp_path / "rows.npy", y,
                                                     n_queries=None, memory_limit="1MB")  # fmt: skip
    assert parts.n_excluded == whole.n_excluded == 3
    assert parts.n_queries == whole.n_queries
    with pytest.raises(LikewiseError, match="all 700 labels in y are distinct"):
        evaluate_rows(None, tmp_path / "rows.npy", np.arange(N))
