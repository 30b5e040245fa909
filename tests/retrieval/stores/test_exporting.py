"""An index into a store: the same first ten, resumed after kill -9, replaced by another model's rows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.retrieval.conftest import Digits

import likewise
from likewise.retrieval import Index
from likewise.retrieval.stores import Store, export_to, open_store
from likewise.retrieval.stores.exporting import fingerprint

Opened = Callable[[], Store]


def words(n: int) -> list[str]:
    return [f"doc-{row}'s" for row in range(n)]


def all_ids(store: Store) -> list[Any]:
    return sorted(name for rows in store.scan() for name in rows.ids)


@pytest.fixture
def named(fitted: dict[str, Any], digits: Digits) -> Index:
    """400 digits with words for ids, under a model whose vectors have any length."""
    _, _, G, y = digits
    return Index.build(fitted["bilinear"], G[:400].astype(np.float32), {"id": words(400), "label": y[:400]})


@pytest.mark.parametrize("model", ["bilinear", "anchored", "kernel"])
def test_the_first_ten_are_those_of_the_index(
    opened: Opened, fitted: dict[str, Any], digits: Digits, model: str
) -> None:
    X, _, G, y = digits
    index = Index.build(fitted[model], G[:300].astype(np.float32), {"id": words(300), "label": y[:300]})
    store = opened()
    export_to(index, store)
    ids, scores = store.search(index.query_vectors(X[:40]), 10)
    expected, exact = index.search(X[:40], 10)
    np.testing.assert_allclose(scores, exact, rtol=1e-4, atol=1e-5)
    gaps = np.diff(exact, axis=1, append=-np.inf) < -1e-5  # ties may come in any order
    clear = gaps & np.roll(gaps, 1, axis=1)
    assert (ids == expected)[clear].all()
    assert clear.mean() > 0.8


def test_a_second_run_writes_nothing(opened: Opened, named: Index) -> None:
    first, second = export_to(named, opened()), export_to(named, opened())
    assert (first.written, first.kept, first.removed) == (400, 0, 0)
    assert (second.written, second.kept, second.removed) == (0, 400, 0)


def test_rows_of_another_model_are_replaced_and_those_that_left_are_removed(
    opened: Opened, named: Index, fitted: dict[str, Any]
) -> None:
    export_to(named, opened())
    smaller = Index.build(fitted["lda"], named.raw[:300], {"id": words(300), "label": named.labels[:300]})
    assert smaller.vectors.shape[1] == named.vectors.shape[1]
    done = export_to(smaller, opened())
    assert (done.written, done.removed) == (300, 100)
    store = opened()
    assert all_ids(store) == sorted(words(300))
    found = store.fetch(words(300)[:1])
    np.testing.assert_allclose(found.vectors[0], smaller.vectors[0], rtol=1e-6)


def test_other_labels_are_another_export(named: Index) -> None:
    labels = named.labels.copy()
    labels[3] = "another"
    assert fingerprint(named) != fingerprint(named.with_labels(labels))
    assert fingerprint(named) == fingerprint(named.with_labels(named.labels))


RUN = """
import sys
from likewise.retrieval import Index
from likewise.retrieval.stores import export_to, open_store
index = Index.load(sys.argv[1])
with open_store(sys.argv[2], sys.argv[3]) as store:
    type(store).batch = 10
    print("begun", flush=True)
    export_to(index, store)
"""


@pytest.mark.slow
def test_an_export_that_was_killed_goes_on(address: str, table: str, named: Index, tmp_path: Path) -> None:
    """Killed at other moments; then each row is there, once."""
    named.save(tmp_path / "named.index")
    command = [sys.executable, "-c", RUN, str(tmp_path / "named.index"), address, table]
    environment = {**os.environ, "PYTHONPATH": str(Path(likewise.__file__).parents[1])}
    for seconds in (0.05, 0.2):
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            assert run.stdout.readline() == "begun\n"
            time.sleep(seconds)
            run.send_signal(signal.SIGKILL)
    with open_store(address, table) as store:
        done = export_to(named, store)
        assert done.written + done.kept == 400
        assert all_ids(store) == sorted(words(400))
        assert export_to(named, store).kept == 400
