"""Threads change nothing but the time: every row once, every result in order."""

from __future__ import annotations

import threading
import time

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


def _blas_threads() -> set[int]:
    return {library["num_threads"] for library in threads.blas_controller().info() if library["user_api"] == "blas"}


def test_limits_of_blas_that_overlap_leave_no_trace():
    with threads.blas_threads(2):
        before = _blas_threads()
        one, other = threads.single_threaded_blas(), threads.single_threaded_blas()
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert _blas_threads() == {1}
        other.__exit__(None, None, None)
        assert _blas_threads() == before


def test_the_last_who_asks_for_blas_threads_and_is_there_gets_them():
    before = _blas_threads()
    with threads.single_threaded_blas():
        with threads.blas_threads(2):
            assert _blas_threads() == {2}
        assert _blas_threads() == {1}
    assert _blas_threads() == before


def test_fits_in_many_threads_leave_blas_as_it_was():
    with threads.blas_threads(2):
        before = _blas_threads()

        def work(_: int) -> None:
            with threads.single_threaded_blas():
                time.sleep(0.01)

        workers = [threading.Thread(target=lambda: [work(i) for i in range(5)]) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert _blas_threads() == before
