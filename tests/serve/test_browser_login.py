"""Behind a token: in with it, out with a button, and out means out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.serve.conftest import running, until, visiting

LOADED = "image => image.complete && image.naturalWidth"  # or what is still being asked for would be refused


def test_who_logs_out_has_to_log_in_again(browser: Any, application: Callable[..., Any]) -> None:
    with running(application(token="secret")) as port, visiting(browser, f"http://127.0.0.1:{port}") as go:
        page = go("/login?token=secret")
        until(page, f"(cards => cards.length && cards.every({LOADED}))([...document.querySelectorAll('.card img')])")
        page.click("#help-open")
        page.click("#logout")
        page.wait_for_selector("input[name=token]")
        page.goto(f"http://127.0.0.1:{port}/")
        assert page.url.endswith("/login")
        page.fill("input[name=token]", "secret")
        page.keyboard.press("Enter")
        page.wait_for_selector("#help-open")


def test_without_a_token_there_is_nothing_to_log_out_of(visit: Any) -> None:
    page = visit("/")
    page.click("#help-open")
    until(page, "document.getElementById('help').open")
    assert page.is_hidden("#logout")
