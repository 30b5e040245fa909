"""An index into a store: the same first ten, resumed after kill -9, replaced by another model's rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.search.conftest import Digits
from tests.search.stores.killing import killed_after

from likewise.search import Index
from likewise.search.stores import Store, export_to, open_store
from likewise.search.stores.exporting import fingerprint

Opened = Callable[[], Store]


def words(n: int) -> list[str]:
    return [f"doc-{row}'s" for row in range(n)]


def all_ids(store: Store) -> list[Any]:
    return sorted(name for rows in store.scan() for name in rows.ids)


@pytest.fixture
def named(fitted: dict[str, Any], digits: Digits) -> Index:
    """200 digits with words for ids, under a model whose vectors have any length."""
    _, _, G, y = digits
    return Index.build(fitted["bilinear"], G[:200].astype(np.float32), {"id": words(200), "label": y[:200]})


@pytest.mark.parametrize("model", ["bilinear", "anchored", "kernel"])
def test_the_first_ten_are_those_of_the_index(
    opened: Opened, fitted: dict[str, Any], digits: Digits, model: str
) -> None:
    X, _, G, y = digits
    index = Index.build(fitted[model], G[:150].astype(np.float32), {"id": words(150), "label": y[:150]})
    store = opened()
    export_to(index, store)
    ids, scores = store.search(index.space().embed(X[:10]), 10)
    hits = index.search(X[:10], k=10)
    expected, exact = hits.ids, hits.scores
    np.testing.assert_allclose(scores, exact, rtol=1e-4, atol=1e-5)
    gaps = np.diff(exact, axis=1, append=-np.inf) < -1e-5  # ties may come in any order
    clear = gaps & np.roll(gaps, 1, axis=1)
    assert (ids == expected)[clear].all()
    assert clear.mean() > 0.8


def test_metadata_travels_with_its_rows(opened: Opened, fitted: dict[str, Any], digits: Digits) -> None:
    """Numbers as numbers, dates and booleans as text, and what is missing as missing."""
    pytest.importorskip("pyarrow")
    columns = {
        "id": words(5),
        "price": [1, None, 3, 4, 2**40],
        "weight": [0.5, 1.5, None, 2.0, 1e-3],
        "sold": [date(2026, 1, day) for day in range(1, 5)] + [None],
        "fresh": [True, False, None, True, False],
        "text": ["it's", None, "", "x" * 5000, "líne\nbreak"],
        "Vector": ["a", "b", "c", "d", "e"],
    }
    index = Index.build(fitted["bilinear"], digits[2][:5].astype(np.float32), columns)
    store = opened()
    assert export_to(index, store).written == 5
    (rows,) = store.scan()
    found = {name: dict(zip(rows.ids, column, strict=True)) for name, column in rows.metadata.items()}
    expected = {**columns, "Vector_": columns["Vector"]}
    expected["sold"] = [None if day is None else day.isoformat() for day in columns["sold"]]
    expected["fresh"] = ["true", "false", None, "true", "false"]
    for name in ("price", "weight", "sold", "fresh", "text", "Vector_"):
        assert [found[name][one] for one in words(5)] == expected[name], name
    assert fingerprint(index) != fingerprint(Index.build(index.model, index.raw, {**columns, "fresh": [True] * 5}))


def test_a_second_run_writes_nothing(opened: Opened, named: Index) -> None:
    first, second = export_to(named, opened()), export_to(named, opened())
    assert (first.written, first.kept, first.removed) == (200, 0, 0)
    assert (second.written, second.kept, second.removed) == (0, 200, 0)


def test_rows_of_another_model_are_replaced_and_those_that_left_are_removed(
    opened: Opened, named: Index, fitted: dict[str, Any]
) -> None:
    export_to(named, opened())
    smaller = Index.build(fitted["lda"], named.raw[:150], {"id": words(150), "label": named.labels[:150]})
    assert smaller.vectors.shape[1] == named.vectors.shape[1]
    done = export_to(smaller, opened())
    assert (done.written, done.removed) == (150, 50)
    store = opened()
    assert all_ids(store) == sorted(words(150))
    found = store.fetch(words(150)[:1])
    np.testing.assert_allclose(found.vectors[0], smaller.vectors[0], rtol=1e-6)


def test_other_labels_are_another_export(named: Index) -> None:
    labels = named.labels.copy()
    labels[3] = "another"
    assert fingerprint(named) != fingerprint(named.with_labels(labels))
    assert fingerprint(named) == fingerprint(named.with_labels(named.labels))


@pytest.mark.second
def test_an_export_that_was_killed_goes_on(own_address: str, table: str, named: Index, tmp_path: Path) -> None:
    """Killed in the midst of a batch; in the end each row is there, once."""
    named.save(tmp_path / "named.index")
    killed_after(3, tmp_path / "named.index", own_address, table)
    with open_store(own_address, table) as store:
        assert 30 <= store.count() < len(named)
        done = export_to(named, store)
        assert done.kept >= 30
        assert done.written + done.kept == len(named)
        assert all_ids(store) == sorted(words(len(named)))
        assert export_to(named, store).kept == len(named)
