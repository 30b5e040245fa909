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

from likewise.errors import LikewiseError
from likewise.search import Index
from likewise.search.stores import Store, export_to, open_store
from likewise.search.stores.exporting import Exported

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
    result = {name: dict(zip(rows.ids, column, strict=True)) for name, column in rows.metadata.items()}
    expected = {**columns, "Vector_": columns["Vector"]}
    expected["sold"] = [None if day is None else day.isoformat() for day in columns["sold"]]
    expected["fresh"] = ["true", "false", None, "true", "false"]
    for name in ("price", "weight", "sold", "fresh", "text", "Vector_"):
        assert [result[name][one] for one in words(5)] == expected[name], name
    again = Index.build(index.model, index.raw, {**columns, "fresh": [True] * 5})
    assert export_to(again, opened()).written == 3


def test_a_second_run_writes_nothing(opened: Opened, named: Index) -> None:
    model = named.model.identity
    assert export_to(named, opened()) == Exported(200, 0, 0, model, swapped=False)
    assert export_to(named, opened()) == Exported(0, 200, 0, model, swapped=False)


def test_only_rows_that_differ_are_written_and_only_those_gone_removed(opened: Opened, named: Index) -> None:
    export_to(named, opened())
    labels = named.labels.copy()
    labels[3] = "another"
    other = named.with_labels(labels).minus(words(200)[190:])
    done = export_to(other, opened())
    assert (done.written, done.kept, done.removed) == (1, 189, 10)
    store = opened()
    assert all_ids(store) == sorted(words(190))
    assert store.fetch(words(4)[3:]).metadata["label"] == ["another"]


def test_the_rows_of_another_model_take_the_place_of_the_table_and_rollback_brings_it_back(
    opened: Opened, named: Index, fitted: dict[str, Any], digits: Digits
) -> None:
    export_to(named, opened())
    smaller = Index.build(fitted["lda"], named.raw[:150], {"id": words(150), "label": named.labels[:150]})
    done = export_to(smaller, opened(), approximate=True)
    assert (done.written, done.removed, done.swapped) == (150, 0, True)
    store, Q = opened(), digits[0][:3]
    assert all_ids(store) == sorted(words(150))
    assert store.existing_layout().card == smaller.model.card()
    np.testing.assert_allclose(store.fetch(words(1)).vectors[0], smaller.vectors[0], rtol=1e-6)
    assert store.search(Q, 5, model=smaller.model)[0].shape == (3, 5)
    with pytest.raises(LikewiseError, match=f"holds vectors of the model {done.model}; the queries are of "):
        store.search(Q, 5, model=named.model)
    store.rollback()
    assert all_ids(store) == sorted(words(200))
    assert export_to(named, opened()).kept == 200


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


@pytest.mark.second
def test_an_export_of_another_model_that_was_killed_leaves_the_table_as_it_was_and_goes_on(
    own_address: str, table: str, named: Index, fitted: dict[str, Any], tmp_path: Path
) -> None:
    other = Index.build(fitted["lda"], named.raw, {"id": words(200)})
    for index, batches in ((named, 20), (other, 3)):
        index.save(tmp_path / "some.index")
        killed_after(batches, tmp_path / "some.index", own_address, table)
    with open_store(own_address, table) as store:
        assert store.existing_layout().model == named.model.identity
        assert store.count() == 200
        done = export_to(other, store)
        assert done.swapped
        assert done.kept >= 30
        assert store.existing_layout().model == other.model.identity
