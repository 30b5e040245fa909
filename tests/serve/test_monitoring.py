"""Metrics: what Prometheus reads; the log: what is said at which level."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from likewise.serve.server import start_logging
from tests.serve.conftest import N


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


def test_each_request_is_logged_at_the_level_of_what_it_did(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "likewise.serve"):
        client.get("/")
        client.get("/static/app.js")
        client.get("/nothing/here")
        client.post("/api/search", json={"like": [{"row": 1}]})
    levels = {record.facts["path"]: record.levelname for record in caplog.records if record.message == "request"}
    assert levels == {"/": "DEBUG", "/static/app.js": "DEBUG", "/nothing/here": "INFO", "/api/search": "INFO"}


def test_the_log_of_every_module_is_json_and_the_level_is_the_one_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    ours, names = logging.getLogger("likewise"), ("likewise", "uvicorn")
    before = {name: (log.handlers, log.propagate, log.level) for name in names if (log := logging.getLogger(name))}
    try:
        start_logging("warning")
        logging.getLogger("likewise.serve").info("quiet")
        ours.warning("loud")
    finally:
        for name, (handlers, propagate, level) in before.items():
            log = logging.getLogger(name)
            log.handlers, log.propagate = handlers, propagate
            log.setLevel(level)
    (line,) = capsys.readouterr().err.splitlines()
    assert (json.loads(line)["level"], json.loads(line)["event"]) == ("warning", "loud")
