"""The picture view: large, with its name, and the next one an arrow away."""

from __future__ import annotations

from typing import Any

from tests.serve.conftest import query, rows_in, searched, until


def focus_returns(page: Any, row: int) -> None:
    """The dialog's close event comes a moment after it closed."""
    until(page, f"document.activeElement.closest('.card')?.dataset.row === '{row}'")


def test_a_click_and_space_open_a_picture_and_escape_returns_to_its_card(visit: Any, site: Any) -> None:
    page = visit(query(site, 5))
    searched(page)
    rows = rows_in(page, "grid-right")
    page.click("#grid-right .card:nth-child(3) .pic")
    page.wait_for_selector("#viewer[open]")
    path = site[1].state.session.index.image_path(rows[2])
    assert page.inner_text("#viewer-title") == path.name
    assert page.inner_text("#viewer-folder") == path.parent.name
    assert page.inner_text("#viewer-label") == site[1].state.session.labels[rows[2]]
    assert f"/api/items/{rows[2]}/picture?size=large" in page.get_attribute("#viewer-image", "src")
    page.keyboard.press("Escape")
    focus_returns(page, rows[2])
    page.keyboard.press("Space")
    page.wait_for_selector("#viewer[open]")
    page.keyboard.press("Space")
    until(page, "!document.getElementById('viewer').open")
    focus_returns(page, rows[2])
    assert page.evaluate("location.hash") == query(site, 5)[1:]  # looking is not searching


def test_arrows_lead_on_and_back_and_the_focus_follows(visit: Any) -> None:
    page = visit("/#browse")
    page.click("#browse-grid .card:nth-child(1) .pic")
    assert page.is_hidden("#viewer-previous")
    titles = [page.inner_text("#viewer-title")]
    for _ in range(70):  # past the first page of items
        page.keyboard.press("ArrowRight")
        until(page, f"document.getElementById('viewer-title').textContent !== '{titles[-1]}'")
        titles.append(page.inner_text("#viewer-title"))
    page.keyboard.press("Escape")
    focus_returns(page, 70)
    page.keyboard.press("Space")
    for title in titles[-2:-5:-1]:
        page.click("#viewer-previous")
        until(page, f"document.getElementById('viewer-title').textContent === '{title}'")


def test_a_swipe_shows_the_next_picture(visit: Any) -> None:
    page = visit("/#browse", viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page.tap("#browse-grid .card:nth-child(1) .pic")
    title = page.inner_text("#viewer-title")
    page.evaluate(
        """() => {
            const board = document.getElementById("viewer-board");
            const at = (kind, x) => board.dispatchEvent(
                new PointerEvent(kind, { clientX: x, clientY: 200, pointerType: "touch", bubbles: true }));
            at("pointerdown", 300); at("pointerup", 120);
        }"""
    )
    until(page, f"document.getElementById('viewer-title').textContent !== '{title}'")


def test_one_can_search_from_the_picture_view(visit: Any, site: Any) -> None:
    page = visit("/#browse")
    page.click("#browse-grid .card:nth-child(4) .pic")
    page.click("#viewer-find")
    searched(page)
    assert page.evaluate("location.hash") == query(site, 3)[1:]
    assert page.is_hidden("#viewer")


def test_the_path_is_copied_and_the_picture_opens_in_a_tab(visit: Any, site: Any) -> None:
    page = visit("/#browse", permissions=["clipboard-read", "clipboard-write"])
    page.click("#browse-grid .card:nth-child(1) .pic")
    page.click("#viewer-copy")
    until(page, "document.getElementById('viewer-copy').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == str(site[1].state.session.index.image_path(0).resolve())
    with page.context.expect_page() as opened:
        page.click("#viewer-open")
    assert opened.value.url.split("?")[0].endswith("/api/items/0/picture")
