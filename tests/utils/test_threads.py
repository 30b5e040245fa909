"""Threads change nothing but the time: every row once, every result in order."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.utils import threads
from likewise.utils.threads import ordered_map, row_blocks


@given(st.integers(1, 200))
def test_row_blocks_cover_every_row_once_and_are_small(n):
    blocks = row_blocks(n, 5)
    assert [i for block in blocks for i in range(n)[block]] == list(range(n))
    assert max(block.stop - block.start for block in blocks) <= 5


def test_results_come_in_order_and_few_wait_at_a_time():
    started = []
    results = ordered_map(lambda i: started.append(i) or i * i, range(100))
    assert next(results) == 0
    assert len(started) < 20
    assert list(results) == [i * i for i in range(1, 100)]


def test_an_error_in_a_block_reaches_the_caller():
    def fail(i):
        raise RuntimeError(f"block {i}")

    with pytest.raises(RuntimeError, match="block 0"):
        list(ordered_map(fail, range(10)))


def test_few_rows_are_one_block_and_more_are_shared_among_the_threads(monkeypatch):
    monkeypatch.setattr(threads, "n_cores", lambda: 4)
    assert row_blocks(0) == []
    for n in (1, 50, 128):
        assert row_blocks(n) == [slice(0, n)]
    assert len(row_blocks(129)) == 4
    assert len(row_blocks(4 * threads.ROWS + 1)) == 8


def test_a_single_item_is_computed_without_a_thread():
    assert list(ordered_map(lambda _: threading.current_thread(), [1])) == [threading.current_thread()]
    assert threading.current_thread() not in ordered_map(lambda _: threading.current_thread(), [1, 2])
    assert list(ordered_map(str, [])) == []
