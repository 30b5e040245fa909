"""Work in threads: in order, and not too much at a time."""

from __future__ import annotations

import threading

import pytest

from likewise.utils.threads import in_order, n_cores


def test_results_come_in_order_and_few_items_are_taken_ahead():
    taken: list[int] = []

    def items():
        for i in range(20):
            taken.append(i)
            yield i

    for i, result in enumerate(in_order(lambda i: i * i, items(), 3, 4)):
        assert result == i * i
        assert len(taken) <= i + 6
    assert n_cores() >= 1


def test_an_error_is_raised_where_its_result_would_be():
    started = threading.Event()

    def work(i: int) -> int:
        started.set()
        if i == 2:
            raise ValueError("two")
        return i

    results = in_order(work, range(9), 2, 3)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(results)
