"""What an operator sees: metrics for Prometheus, and a log of one JSON object per line."""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
log = logging.getLogger("likewise.serve")


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
        self._requests.labels(route, method, status).inc()
        self._seconds.labels(route).observe(seconds)

    def gauge(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Show a number that is read when the metrics are requested."""
        Gauge(name, help_text, registry=self.registry).set_function(value)

    def counter(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Show a count that is read when the metrics are requested."""
        self.registry.register(_CallbackCounter(name, help_text, value))


class _CallbackCounter(Collector):
    def __init__(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        self.name, self.help_text, self.value = name, help_text, value

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(self.name, self.help_text, self.value())


class RequestMetricsMiddleware:
    """Counts, times and logs every request, refused ones included."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self.metrics.in_flight.inc()
        try:
            await self.app(scope, receive, observed)
        finally:
            self.metrics.in_flight.dec()
            self._record(scope, status, time.perf_counter() - began)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if route != "other" else "ANY"  # a client may send any word as a method
        self.metrics.observe(route, method, status, seconds)
        # A page of pictures is a hundred successful GETs: by default only changes and failures are logged.
        level = logging.DEBUG if status < 400 and scope["method"] in ("GET", "HEAD") else logging.INFO
        level = logging.WARNING if status >= 500 else level
        if log.isEnabledFor(level):
            facts = {"method": scope["method"], "path": scope["path"], "status": status, "ms": round(seconds * 1e3, 2)}
            log.log(level, "request", extra={"facts": {**facts, "client": client_of(scope)}})


def client_of(scope: Scope) -> str:
    return str((scope.get("client") or ("", 0))[0])


class JsonFormatter(logging.Formatter):
    """Time, level, event, and whatever the record carries as `facts`."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), "event": record.getMessage()}
        line.update(getattr(record, "facts", {}))
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def start_logging(level: str = "info") -> None:
    """Send the log of likewise, and uvicorn's warnings, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name, least in (("likewise", level.upper()), ("uvicorn", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least)
