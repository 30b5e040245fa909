"""Metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

__all__ = ["Metrics"]

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts and times since the server started, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        labels = ["route", "method", "status"]
        self._requests = Counter("likewise_requests", "Requests answered.", labels, registry=registry)
        self._seconds = Histogram(
            "likewise_request_seconds", "Time to answer.", ["route"], buckets=BUCKETS, registry=registry
        )
        self.in_flight = Gauge("likewise_requests_in_flight", "Requests being answered.", registry=registry)
        started = Gauge("likewise_start_time_seconds", "Start time of the server.", registry=registry)
        started.set_to_current_time()

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(route, method, status).inc()
        self._seconds.labels(route).observe(seconds)

    def gauge(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Show a number that is read when the metrics are requested."""
        Gauge(name, help_text, registry=self.registry).set_function(value)

    def counter(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Show a count that is read when the metrics are requested."""
        self.registry.register(_CallbackCounter(name, help_text, value))

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)


class _CallbackCounter(Collector):
    def __init__(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        self.name, self.help_text, self.value = name, help_text, value

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(self.name, self.help_text, self.value())
