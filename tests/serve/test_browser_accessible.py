"""Accessibility: axe finds nothing in any state, and everything works by keyboard."""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable
from typing import Any

import pytest

from tests.serve.conftest import doubtful, searched, until


def _nothing(page: Any) -> None:
    pass


def _viewer(page: Any) -> None:
    page.click(".card:nth-child(2) .pic >> visible=true")
    page.wait_for_selector("#viewer[open]")


def _selected(page: Any) -> None:
    for card in (1, 2):
        page.click(f".card:nth-child({card}) .pic >> visible=true", modifiers=["ControlOrMeta"])


def _asked_for_a_label(page: Any) -> None:
    _selected(page)
    page.click("#selected-label")


def _on_the_map(page: Any) -> None:
    until(page, "document.getElementById('map-note').textContent.includes('points')")
    page.focus("#canvas")
    page.keyboard.press("Enter")
    page.wait_for_selector("#map-side .card")


def _help(page: Any) -> None:
    page.keyboard.press("?")


def _next(page: Any) -> None:
    page.click("#next-open")
    page.wait_for_selector("#next .card")


def _apply(page: Any) -> None:
    page.click("#apply-open")
    until(page, "document.getElementById('apply-found').textContent !== ''")


STATES: list[tuple[str, Callable[[Any], None]]] = [
    ("search?like={key}", _viewer), ("browse?folder=digit+3", _asked_for_a_label), ("map", _on_the_map),
]  # fmt: skip
OTHERS: list[tuple[str, Callable[[Any], None]]] = [
    ("search", _nothing), ("search?like={key}", searched), ("search?like={key}&label=digit+3", searched),
    ("search?like={key}", _selected), ("browse", _nothing), ("duplicates", _nothing), ("search", _help),
    ("search", _next), ("search?like={key}", _next), ("browse?label=digit+3", _apply),
]  # fmt: skip


@pytest.mark.parametrize("states", [STATES, pytest.param(OTHERS, marks=pytest.mark.second)], ids=["three", "others"])
def test_axe_finds_nothing_in_any_state(visit: Any, site: Any, states: list[tuple[str, Callable[[Any], None]]]) -> None:
    key = site[1].state.session.index.identities.key(doubtful(site[1]))
    for path, change in states:
        page = visit("/#" + path.format(key=key), **SCREEN)
        page.wait_for_selector(":is(.card, .board) >> visible=true") if path != "duplicates" else None
        change(page)
        assert violations_at_desk_and_on_a_phone(page) == [], path
        page.close()


SCREEN = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce", "bypass_csp": True}


def violations_at_desk_and_on_a_phone(page: Any) -> list[str]:
    """What axe-core finds in a wide light window, then in a narrow dark one; or that the page is wider than that."""
    problems = violations(page)
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    page.set_viewport_size({"width": 360, "height": 800})
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    wide = page.evaluate("document.documentElement.scrollWidth")
    return [*problems, *violations(page), *([f"{wide} pixels wide"] if wide > 360 else [])]


def violations(page: Any) -> list[str]:
    """What axe-core has to say against the page as it is, with the elements concerned."""
    page.evaluate((importlib.resources.files("axe_playwright_python") / "axe.min.js").read_text())
    page.add_style_tag(content=".card:nth-child(n+9) { display: none }")  # eight speak for the rest, which are alike
    problems = page.evaluate("axe.run().then(result => result.violations)")
    return [
        f"{rule['id']}: {node['html'][:150]} {node['failureSummary']}" for rule in problems for node in rule["nodes"]
    ]
