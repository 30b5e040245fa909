"""Middleware: hosts, origins, headers, bodies."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from likewise.serve.access import bare_host, client_key
from likewise.serve.server import start_logging
from tests.serve.conftest import PNG, SEARCH, N, talking


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:8000", 200), ("localhost:9", 200), ("[::1]:8000", 200), ("LOCALHOST", 200), ("evil.example", 400),
        ("evil.example:8000", 400), ("127.0.0.1.evil.example", 400), ("192.168.1.4:8000", 400), ("", 400),
        ("[::1]evil", 400), ("[::1]:8000evil", 400), ("127.0.0.1:evil", 400),
    ],
)  # fmt: skip
def test_only_our_own_names_are_answered(client: Any, host: str, code: int) -> None:
    assert client.get("/api/status", headers={"host": host}).status_code == code


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 200),
        ({"origin": "http://127.0.0.1:8000"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:8001"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "same-origin", "origin": "null"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "https://photos.example"}, 403),  # behind an unnamed proxy
        ({"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8000"}, 200),
        ({"sec-fetch-site": "cross-site", "origin": "null"}, 403),
        ({"content-type": "text/plain"}, 403),
        ({"content-type": "application/x-www-form-urlencoded"}, 403),
    ],
)
def test_a_post_must_come_from_our_own_page(client: Any, headers: dict[str, str], code: int) -> None:
    assert client.post("/api/search", json=SEARCH, headers=headers).status_code == code


def test_every_answer_carries_the_policy(client: Any) -> None:
    for path in ("/", "/api/status", "/nothing", "/static/app.js"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert client.get(path).headers["x-frame-options"] == "DENY"
        assert client.get(path).headers["cache-control"] in ("no-store", "no-cache")
    assert client.get("/", headers={"host": "evil"}).headers["content-security-policy"]


def test_a_server_for_others_answers_to_addresses_and_to_names_it_was_given(application: Callable[..., Any]) -> None:
    names = ("10.0.0.4:80", "[2001:db8::1]:80", "photos.example", "other.example", "10.0.0.4.other.example")
    with talking(application(host="0.0.0.0", allowed_hosts=("photos.example",))) as client:
        accepted = [name for name in names if client.get("/healthz", headers={"host": name}).status_code == 200]
    assert accepted == ["10.0.0.4:80", "[2001:db8::1]:80", "photos.example"]


@pytest.mark.parametrize(
    ("host", "bare"), [("a:80", "a"), ("A", "a"), ("[::1]:80", "::1"), ("[::1]", "::1"), ("::1", "::1"), ("", "")]
)
def test_a_host_is_stripped_of_its_port(host: str, bare: str) -> None:
    assert bare_host(host) == bare


@pytest.mark.parametrize(
    ("address", "key"),
    [("192.0.2.1", "192.0.2.1"), ("2001:db8::1:2", "2001:db8::/64"), ("fe80::1%eth0", "fe80::/64"), ("a:b", "a:b")],
)
def test_requests_are_counted_by_address_or_ipv6_network(address: str, key: str) -> None:
    assert client_key({"type": "http", "client": (address, 1)}) == key


def test_an_upload_of_50_megabytes_is_refused(client: Any) -> None:
    answer = client.post("/api/uploads", content=b"\0" * 50_000_000, headers=PNG)
    assert answer.status_code == 413
    assert "larger than" in answer.json()["detail"]


def test_a_large_upload_without_a_length_is_refused_when_it_becomes_too_large(client: Any) -> None:
    answer = client.post("/api/uploads", content=(b"\0" * 2**20 for _ in range(30)), headers=PNG)
    assert answer.status_code == 413


def test_a_large_json_body_is_refused(client: Any) -> None:
    answer = client.post("/api/search", content=b" " * 600_000, headers={"content-type": "application/json"})
    assert answer.status_code == 413


# -- Metrics: what Prometheus reads; the log: what is said at which level -----------------------------------------


def test_metrics_are_what_prometheus_reads(client: Any) -> None:
    for _ in range(3):
        client.get("/api/search?row=1")
    client.get("/nothing/here")
    text = client.get("/metrics").text
    line = re.compile(r'(# (HELP|TYPE) .+|[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.e+]+)')
    assert all(line.fullmatch(each) for each in text.splitlines())
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    search = ("route", "/api/search")
    assert values["likewise_requests_total", ("method", "GET"), search, ("status", "200")] == 3
    assert values["likewise_requests_total", ("method", "ANY"), ("route", "other"), ("status", "404")] == 1
    assert values["likewise_request_seconds_bucket", ("le", "+Inf"), search] == 3
    assert 0 < values["likewise_request_seconds_sum", search] < 60
    assert values[("likewise_items",)] == N
    assert (values[("likewise_feedback",)], values[("likewise_lessons_total",)]) == (0, 0)
    assert values[("likewise_requests_in_flight",)] == 1  # this one


def test_each_request_is_logged_at_the_level_of_what_it_did(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "likewise.serve"):
        client.get("/")
        client.get("/static/app.js")
        client.get("/nothing/here")
        client.post("/api/search", json={"like": [{"row": 1}]})
    levels = {record.facts["path"]: record.levelname for record in caplog.records if record.message == "request"}
    assert levels == {"/": "DEBUG", "/static/app.js": "DEBUG", "/nothing/here": "INFO", "/api/search": "DEBUG"}


def test_the_log_of_every_module_is_json_and_the_level_is_the_one_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    ours, names = logging.getLogger("likewise"), ("likewise", "uvicorn")
    before = {name: (log.handlers, log.propagate, log.level) for name in names if (log := logging.getLogger(name))}
    try:
        start_logging("warning")
        logging.getLogger("likewise.serve").info("quiet")
        ours.warning("loud \x9b31m \x85 \u202e")
    finally:
        for name, (handlers, propagate, level) in before.items():
            log = logging.getLogger(name)
            log.handlers, log.propagate = handlers, propagate
            log.setLevel(level)
    (line,) = capsys.readouterr().err.splitlines()
    assert (json.loads(line)["level"], json.loads(line)["event"]) == ("warning", "loud \x9b31m \x85 \u202e")
    assert line.isascii()
