"""Accessibility: axe finds nothing in any state, and everything works by keyboard."""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable
from typing import Any

import pytest

from tests.web.conftest import doubtful, searched, until


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
    ("search", _nothing), ("search?like={key}", searched), ("search?like={key}&label=digit+3", searched),
    ("search?like={key}", _viewer), ("search?like={key}", _selected), ("browse", _nothing),
    ("browse?folder=digit+3", _asked_for_a_label), ("map", _on_the_map), ("duplicates", _nothing), ("search", _help),
    ("search", _next), ("search?like={key}", _next), ("browse?label=digit+3", _apply),
]  # fmt: skip


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_axe_finds_nothing_in_any_state(visit: Any, site: Any, width: int, scheme: str) -> None:
    key = site[1].state.session.catalogue.key(doubtful(site[1]))
    for path, change in STATES:
        screen = {"viewport": {"width": width, "height": 800}, "reduced_motion": "reduce"}
        page = visit("/#" + path.format(key=key), color_scheme=scheme, bypass_csp=True, **screen)
        page.wait_for_selector(":is(.card, .board) >> visible=true") if path != "duplicates" else None
        change(page)
        assert violations(page) == [], path
        page.close()


def violations(page: Any) -> list[str]:
    """What axe-core has to say against the page as it is, with the elements concerned."""
    page.evaluate((importlib.resources.files("axe_playwright_python") / "axe.min.js").read_text())
    # Cards are alike: eight of them speak for the rest.
    page.evaluate("document.querySelectorAll('.card:nth-child(n+9)').forEach((card) => card.remove())")
    found = page.evaluate("axe.run().then(result => result.violations)")
    return [f"{rule['id']}: {node['html'][:150]} {node['failureSummary']}" for rule in found for node in rule["nodes"]]
