"""Threads keep the order, hold a bounded number of tasks and pass errors on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from likewise.errors import LikewiseError
from likewise.features.workers import map_groups, n_workers


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_come_in_the_order_of_the_tasks(n_jobs: int) -> None:
    def work(number: int) -> int:
        time.sleep(0.002 * (number % 3))
        return number * number

    assert list(map_groups(work, range(30), n_jobs)) == [n * n for n in range(30)]


def test_no_more_tasks_are_taken_than_needed() -> None:
    taken = []

    def tasks() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    results = map_groups(lambda number: number, tasks(), n_jobs=2)
    next(results)
    assert len(taken) <= 2 * 3 + 1
    results.close()  # type: ignore[attr-defined]


def test_several_threads_work_at_once() -> None:
    barrier = threading.Barrier(3, timeout=10)
    assert len(list(map_groups(lambda _: barrier.wait(), range(3), n_jobs=3))) == 3


def test_an_error_in_a_worker_reaches_the_caller() -> None:
    def work(number: int) -> int:
        if number == 4:
            raise LikewiseError("four")
        return number

    with pytest.raises(LikewiseError, match="four"):
        list(map_groups(work, range(100), n_jobs=2))


def test_the_number_of_threads_is_checked() -> None:
    assert n_workers(3) == 3
    assert n_workers(None) >= 1
    with pytest.raises(LikewiseError, match="n_jobs=0 is not a number of threads"):
        n_workers(0)
