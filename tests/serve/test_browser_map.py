"""The map on the page: every item, raw or learned, and the lasso."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from likewise.teach import load_index
from tests.serve.conftest import searched, serving, until, visiting

SMALL_PICTURE = r"/\/api\/items\/[^\/]+\/picture.*size=small/"


def _drawn(page: Any, app: Any, side: str = "learned") -> None:
    until(page, "document.getElementById('map-note').textContent.includes('points')")
    app.state.maps[side].job.wait(60)
    until(page, "document.getElementById('map-note').textContent.includes('lie together')")


def test_the_map_shows_every_item_and_leads_to_a_search(visit: Any, site: Any) -> None:
    page = visit("/#map")
    _drawn(page, site[1])
    assert "400 points" in page.inner_text("#map-note")
    page.focus("#canvas")
    page.keyboard.press("+")
    page.keyboard.press("Enter")
    page.wait_for_selector("#map-side .card")
    page.click("#map-side .card:nth-child(2) .pic")
    page.wait_for_selector("#map-side h2")
    page.click("#map-side .primary")
    searched(page)


def test_the_raw_map_is_another_one(visit: Any, site: Any) -> None:
    page = visit("/#map")
    _drawn(page, site[1])
    learned = page.evaluate("document.getElementById('canvas').toDataURL()")
    page.click("#map-raw")
    until(page, "document.getElementById('map-raw').getAttribute('aria-pressed') === 'true'")
    _drawn(page, site[1], "raw")
    page.wait_for_timeout(100)
    assert page.evaluate("document.getElementById('canvas').toDataURL()") != learned


def _lasso_all(page: Any) -> None:
    page.click("#lasso")
    box = page.locator("#canvas").bounding_box()
    corners = [(0.01, 0.01), (0.99, 0.01), (0.99, 0.99), (0.01, 0.99)]
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=3)
    page.mouse.up()


def test_the_lasso_selects_what_it_encloses(visit: Any, site: Any) -> None:
    page = visit("/#map")
    _drawn(page, site[1])
    _lasso_all(page)
    until(page, "document.getElementById('selected-count').textContent === '400 pictures selected'")
    assert page.get_attribute("#lasso", "aria-pressed") == "false"


def test_a_small_map_is_drawn_as_pictures(browser: Any, index_folder: Path) -> None:
    index = load_index(index_folder)
    index = index.minus(index.ids[40:])
    index.save(index_folder)
    with serving(index_folder) as (address, _), visiting(browser, address) as go:
        page = go("/#map")
        until(page, "document.getElementById('map-note').textContent.includes('40 points')")
        until(page, f"performance.getEntriesByType('resource').some(({{name}}) => {SMALL_PICTURE}.test(name))")


def test_a_large_map_is_drawn_in_tiles_down_to_points(browser: Any, index_folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("likewise.serve.map.POINTS", 100)
    monkeypatch.setattr("likewise.serve.map.FEW", 40)
    with serving(index_folder) as (address, app), visiting(browser, address) as go:
        page = go("/#map")
        _drawn(page, app)
        assert "400 points" in page.inner_text("#map-note")
        page.focus("#canvas")
        shown = "performance.getEntriesByType('resource').filter(({name}) => name.includes('/api/map/tile')).length"
        until(page, f"{shown} > 0")
        for _ in range(12):
            page.keyboard.press("+")
        until(page, f"{shown} > 2")
        page.click("#zoom-all")
        _lasso_all(page)
        until(page, "/^(39|400).* pictures selected/.test(document.getElementById('selected-count').textContent)")
