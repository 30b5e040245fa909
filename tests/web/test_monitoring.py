"""Metrics: what Prometheus reads."""

from __future__ import annotations

import re
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.web.conftest import N


def test_metrics_are_what_prometheus_reads(client: Any) -> None:
    for _ in range(3):
        client.get("/api/search?row=1")
    client.get("/nothing/here")
    text = client.get("/metrics").text
    line = re.compile(r'(# (HELP|TYPE) .+|[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.e+]+)')
    assert all(line.fullmatch(each) for each in text.splitlines())
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    search = ("route", "/api/search")
    assert found["likewise_requests_total", ("method", "GET"), search, ("status", "200")] == 3
    assert found["likewise_requests_total", ("method", "ANY"), ("route", "other"), ("status", "404")] == 1
    assert found["likewise_request_seconds_bucket", ("le", "+Inf"), search] == 3
    assert 0 < found["likewise_request_seconds_sum", search] < 60
    assert found[("likewise_items",)] == N
    assert (found[("likewise_feedback",)], found[("likewise_lessons_total",)]) == (0, 0)
    assert found[("likewise_requests_in_flight",)] == 1  # this one
