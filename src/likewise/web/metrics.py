"""Counts and times in the text format of Prometheus."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator

__all__ = ["Metrics"]

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What the server has done since it started."""

    def __init__(self) -> None:
        self.started = time.time()
        self.in_flight = 0
        self._requests: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        self._times: dict[str, list[int]] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._gauges: list[tuple[str, str, str, Callable[[], float]]] = []

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self._requests[route, method, status] += 1
        counts = self._times.setdefault(route, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, seconds)] += 1
        self._seconds[route] += seconds

    def watch(self, name: str, help_text: str, value: Callable[[], float], kind: str = "gauge") -> None:
        """Show a number that is read when it is asked for."""
        self._gauges.append((name, help_text, kind, value))

    def text(self) -> str:
        """Everything, one line a figure."""
        return "\n".join([*self._counters(), *self._histograms(), *self._read_gauges()]) + "\n"

    def _counters(self) -> Iterator[str]:
        yield from _head("likewise_requests_total", "Requests answered.", "counter")
        for (route, method, status), count in sorted(self._requests.items()):
            where = f'route="{_escaped(route)}",method="{_escaped(method)}",status="{status}"'
            yield f"likewise_requests_total{{{where}}} {count}"

    def _histograms(self) -> Iterator[str]:
        name = "likewise_request_seconds"
        yield from _head(name, "Time to answer.", "histogram")
        for route, counts in sorted(self._times.items()):
            where, total = f'route="{_escaped(route)}"', 0
            for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
                total += count
                yield f'{name}_bucket{{{where},le="{bound}"}} {total}'
            yield f"{name}_sum{{{where}}} {self._seconds[route]:.6f}"
            yield f"{name}_count{{{where}}} {total}"

    def _read_gauges(self) -> Iterator[str]:
        own: list[tuple[str, str, str, Callable[[], float]]] = [
            ("likewise_requests_in_flight", "Requests being answered.", "gauge", lambda: self.in_flight),
            ("likewise_start_time_seconds", "When the server started.", "gauge", lambda: self.started),
        ]
        for name, help_text, kind, value in [*own, *self._gauges]:
            yield from _head(name, help_text, kind)
            yield f"{name} {float(value()):.15g}"


def _head(name: str, help_text: str, kind: str) -> tuple[str, str]:
    return f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
