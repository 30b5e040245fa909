"""The application: declared, enforced, and never a 5xx."""

from __future__ import annotations

import json
import re
import unittest
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.serve.conftest import talking


def test_the_interface_is_described_without_outside_hosts(client: Any) -> None:
    whole = client.get("/api/openapi.json").json()
    assert {"/api/search", "/api/uploads", "/api/marks", "/api/learn", "/healthz", "/metrics"} <= whole["paths"].keys()
    assert "://" not in json.dumps(whole["paths"])
    page = Path(__file__).parents[2] / "src" / "likewise" / "serve" / "page"
    for file in page.rglob("*.*"):
        outside = re.findall(r"https?://[^\s\"']+", file.read_text())
        assert [link for link in outside if link != "http://www.w3.org/2000/svg"] == []


@pytest.mark.parametrize("path", ["/api/search?row=3", "/api/items/3", "/api/map"])
def test_what_does_not_fit_the_declared_response_is_not_sent(application: Callable[..., Any], path: str) -> None:
    app = application()
    app.state.session.labels = [5.5] * len(app.state.session)  # not a text
    with talking(app) as client:
        assert client.get(path).status_code == 500


@pytest.mark.parametrize("path", ["/api/search", "/api/items", "/api/items/{row}", "/api/map"])
def test_parameters_and_responses_are_declared(client: Any, path: str) -> None:
    declared = client.get("/api/openapi.json").json()["paths"][path]["get"]
    names = {"/api/search": ["row", "k", "side", "at_most_wrong"], "/api/items/{row}": ["row"]}
    if path in names:
        assert [parameter["name"] for parameter in declared["parameters"]] == names[path]
    assert "$ref" in declared["responses"]["200"]["content"]["application/json"]["schema"]


@pytest.mark.second
def test_schemathesis_finds_no_5xx(application: Callable[..., Any]) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    app = application()
    app.state.stopping = lambda: True  # a stream of events ends at once
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", app, headers={"Host": "127.0.0.1"})
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) >= 15
    n_requests = sum(_attacked(operation, mode) for operation in operations for mode in schemathesis.GenerationMode)
    assert n_requests > 15 * 7


def _attacked(operation: Any, mode: Any) -> int:
    """Ask an operation some things that fit its description, or do not; how many were asked."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis.errors import Unsatisfiable
    from schemathesis.checks import not_a_server_error

    codes = []

    @settings(max_examples=7, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(operation.as_strategy(generation_mode=mode))
    def attack(case: Any) -> None:
        answer = case.call(headers={"Host": "127.0.0.1"})
        case.validate_response(answer, checks=[not_a_server_error])
        codes.append(answer.status_code)

    with suppress(Unsatisfiable, pytest.skip.Exception, unittest.SkipTest):  # nothing about it could be wrong
        attack()
    return len(codes)


def test_the_interface_says_that_it_needs_a_token(application: Callable[..., Any]) -> None:
    secret = "a long secret"
    schema = application(token=secret).openapi()
    assert schema["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    assert schema["security"] == [{"token": []}]
    assert "security" not in application().openapi()
