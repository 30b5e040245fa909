"""The page in a real browser: search, teach, keyboard, small screen, dark, nothing from elsewhere, no error."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from likewise.retrieval import Index
from likewise.web import ServerSettings, create_app
from tests.web.conftest import doubtful, running

playwright = pytest.importorskip("playwright.sync_api", reason="the page is tested with playwright (extra 'dev')")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or "/usr/bin/chromium"
if not Path(CHROMIUM).exists():
    pytest.skip("Chromium is not installed (apt-get install chromium)", allow_module_level=True)

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as engine:
        started = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@contextmanager
def _served(folder: Path) -> Iterator[Any]:
    app = create_app(Index.load(folder), ServerSettings(rate_limited=False), folder)
    with running(app) as port:
        yield f"http://127.0.0.1:{port}", app


@pytest.fixture(scope="module")
def site(made_index: Path) -> Iterator[Any]:
    """The address of a running server and its application, shared by tests that teach nothing."""
    with _served(made_index) as made:
        yield made
        assert made[1].state.teaching.count == 0


@pytest.fixture
def own_site(index_folder: Path) -> Iterator[Any]:
    """The address of a running server and its application, for a test that teaches."""
    with _served(index_folder) as made:
        yield made


@pytest.fixture
def visit(browser: Any, site: Any) -> Iterator[Callable[..., Any]]:
    """Open the shared page; afterwards there was no error on the console and no request to another host."""
    with _visited(browser, site[0]) as go:
        yield go


@pytest.fixture
def own_visit(browser: Any, own_site: Any) -> Iterator[Callable[..., Any]]:
    """Open the page of a test that teaches, as `visit` does."""
    with _visited(browser, own_site[0]) as go:
        yield go


@contextmanager
def _visited(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    problems: list[str] = []
    contexts = []

    def watch(page: Any) -> None:
        page.on(
            "console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: None if _ours(request.url, address) else problems.append(request.url))
        page.on(
            "response",
            lambda answer: problems.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None,
        )

    def go(path: str = "/", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        watch(page)
        page.goto(address + path, wait_until="domcontentloaded")
        page.wait_for_selector(".card >> visible=true")
        return page

    yield go
    for context in contexts:
        context.close()
    assert problems == []


def _ours(url: str, address: str) -> bool:
    return url.startswith((address + "/", "blob:", "data:"))


def _rows(page: Any, grid: str) -> list[str]:
    return page.eval_on_selector_all(f"#{grid} .card", "cards => cards.map(card => card.dataset.row)")


def _until(page: Any, expression: str, seconds: float = 10) -> None:
    """Wait for something to be so; playwright's own way of waiting needs eval, which our policy forbids."""
    until = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < until, f"{expression}; status: {page.inner_text('#status')}"
        page.wait_for_timeout(20)


def _searched(page: Any) -> None:
    _until(page, "!document.querySelector('.grid.waiting') && document.querySelector('#grid-right .card') !== null")


def _said(page: Any, words: str) -> None:
    _until(page, f"document.getElementById('status').textContent.includes({json.dumps(words)})")


def test_the_page_loads_with_pictures_and_says_what_it_holds(visit: Any) -> None:
    page = visit()
    assert "400 pictures · 10 labels" in page.inner_text("#about")
    _until(page, "[...document.images].slice(0, 12).every(image => image.complete && image.naturalWidth > 0)")
    _said(page, "Ready")
    assert page.is_disabled("#learn")
    assert page.is_disabled("#undo")


def test_a_click_searches_and_both_sides_differ(visit: Any) -> None:
    page = visit()
    page.click("#start-grid .card:nth-child(3) .pic")
    _searched(page)
    left, right = _rows(page, "grid-left"), _rows(page, "grid-right")
    assert len(left) == len(right) == 24
    assert left != right
    assert page.locator("#grid-right .card.hit").count() > 0
    assert page.locator("#grid-right .card.hit, #grid-right .card.miss").count() == 24
    assert 0 < float(page.inner_text("#ap-right b")) <= 1
    assert float(page.inner_text("#grid-right .card:first-child .score")) > 0
    page.go_back()
    page.wait_for_selector("#start-grid .card >> visible=true")


def test_a_hit_is_framed_red_a_miss_blue_and_the_query_green(visit: Any, site: Any) -> None:
    page = visit(f"/#+{doubtful(site[1])}", color_scheme="light")
    _searched(page)
    shadow = "element => getComputedStyle(element).boxShadow"
    assert "rgb(214, 50, 43)" in page.eval_on_selector(".card.hit .pic", shadow)
    assert "rgb(36, 102, 226)" in page.eval_on_selector(".card.miss .pic", shadow)
    green = page.eval_on_selector(".chip img", "element => getComputedStyle(element).borderTopColor")
    assert green == "rgb(31, 154, 69)"


def test_an_uploaded_picture_finds_itself_first(visit: Any, site: Any) -> None:
    page = visit()
    index = site[1].state.session.index
    page.set_input_files("#file", str(index.image_path(7)))
    _searched(page)
    assert _rows(page, "grid-right")[0] == "7"
    assert _rows(page, "grid-left")[0] == "7"
    assert page.locator(".card.hit, .card.miss").count() == 0  # nobody knows the label of an upload


def test_a_picture_can_be_dropped_and_pasted(visit: Any, site: Any) -> None:
    page = visit()
    for event in ("drop", "paste"):
        data = list(site[1].state.session.index.image_path(9).read_bytes())
        page.evaluate(
            """([bytes, kind]) => {
                const transfer = new DataTransfer();
                transfer.items.add(new File([new Uint8Array(bytes)], "x.png", { type: "image/png" }));
                const options = { bubbles: true, cancelable: true };
                const event = kind === "drop" ? new DragEvent("drop", { ...options, dataTransfer: transfer })
                    : new ClipboardEvent("paste", { ...options, clipboardData: transfer });
                document.getElementById("drop").dispatchEvent(event);
            }""",
            [data, event],
        )
        _searched(page)
        assert _rows(page, "grid-right")[0] == "9"
        page.click(".brand")
        page.wait_for_selector("#start-grid .card >> visible=true")


def test_a_file_that_is_no_picture_gets_a_sentence(browser: Any, site: Any, tmp_path: Path) -> None:
    (tmp_path / "x.png").write_text("not a picture")
    page = browser.new_page()
    page.goto(site[0])
    page.wait_for_selector("#start-grid .card")
    page.set_input_files("#file", str(tmp_path / "x.png"))
    _said(page, "is not a supported image format")
    page.close()


def test_several_pictures_are_one_query_and_some_are_not_wanted(visit: Any) -> None:
    page = visit("/#+5")
    _searched(page)
    alone = _rows(page, "grid-right")
    page.hover("#grid-right .card:nth-child(2)")
    page.click("#grid-right .card:nth-child(2) .add")
    _until(page, "document.querySelectorAll('.chip').length === 2")
    _searched(page)
    together = _rows(page, "grid-right")
    page.click(".chip:last-child .sign")
    page.wait_for_selector(".chip.not")
    _searched(page)
    assert len({tuple(alone), tuple(together), tuple(_rows(page, "grid-right"))}) == 3


def test_a_label_filters_both_sides(visit: Any) -> None:
    page = visit("/#+5")
    _searched(page)
    page.fill("#filter", "digit 3")
    page.press("#filter", "Enter")
    _said(page, "labelled digit 3")
    labels = page.eval_on_selector_all("#columns .card .label", "all => all.map(one => one.textContent)")
    assert set(labels) == {"digit 3"}


def test_teaching_changes_the_ranking_and_raises_map_and_undo_takes_it_back(own_visit: Any, own_site: Any) -> None:
    page = own_visit(f"/#+{doubtful(own_site[1])}")
    _searched(page)
    before = _rows(page, "grid-right")
    for card in range(1, 13):
        place = page.locator(f"#grid-right .card:nth-child({card})")
        place.hover()
        place.locator(".right" if "hit" in (place.get_attribute("class") or "") else ".wrong").click()
        _until(page, f"document.getElementById('count').textContent.startsWith('{card} ')")
    page.click("#learn")
    _said(page, "Learned in")
    after = _rows(page, "grid-right")
    assert after != before
    assert _rows(page, "grid-left") == before  # the old ranking stands beside the new one
    old, new = (float(page.inner_text(f"#lesson b.{kind}")) for kind in ("old", "new"))
    assert new > old
    page.click("#undo")
    _said(page, "Undone: lesson 1")
    assert _rows(page, "grid-right") == before
    assert page.is_hidden("#lesson")
    page.click("#undo")
    _said(page, "Undone: item")
    _until(page, "document.getElementById('count').textContent.startsWith('11 ')")


def test_marks_are_there_again_after_a_reload_and_in_the_csv(own_visit: Any, own_site: Any) -> None:
    page = own_visit("/#+17")
    _searched(page)
    row = _rows(page, "grid-right")[4]
    page.focus("#grid-right .card:nth-child(5) .pic")
    page.keyboard.press("w")
    _said(page, "Saved")
    page.reload()
    _searched(page)
    assert page.get_attribute(f"#grid-right .card[data-row='{row}'] .wrong", "aria-pressed") == "true"
    with page.expect_download() as saved:
        page.click("#export")
    assert f",mark,17,{row},false," in saved.value.path().read_text()


def test_a_picture_is_dragged_onto_a_label(own_visit: Any, own_site: Any) -> None:
    page = own_visit("/#+17")
    _searched(page)
    row = _rows(page, "grid-right")[0]
    page.drag_and_drop("#grid-right .card:first-child .pic", "#tray-labels li:text-is('digit 8')")
    _said(page, "labelled digit 8")
    assert own_site[1].state.session.labels[int(row)] == "digit 8"
    assert page.inner_text(f"#grid-right .card[data-row='{row}'] .label").endswith("digit 8")


def test_everything_works_by_keyboard_alone(own_visit: Any, own_site: Any) -> None:
    page = own_visit()
    for _ in range(40):  # from the top of the page to the first picture
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('pic')"):
            break
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    focused = page.evaluate("document.activeElement.closest('.card').dataset.row")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    _searched(page)
    assert page.evaluate("location.hash") == f"#+{focused}"
    page.focus("#grid-right .pic[tabindex='0']")
    page.keyboard.press("r")
    _said(page, "is right for this query")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("l")
    page.wait_for_selector("#label-dialog[open]")
    page.fill("#label-input", "my own label")
    page.keyboard.press("Enter")
    _said(page, "labelled my own label")
    assert "my own label" in own_site[1].state.session.labels
    page.keyboard.press("t")
    _said(page, "Learned in")
    page.keyboard.press("u")
    _said(page, "Undone: lesson 1")
    page.keyboard.press("?")
    page.wait_for_selector("#help[open]")
    page.keyboard.press("Escape")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_of_360_pixels_in_light_and_dark(own_visit: Any, scheme: str) -> None:
    screen = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    page = own_visit("/#+5", color_scheme=scheme, **screen)
    _searched(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    cut = page.eval_on_selector_all(
        "button, a, input, select",
        "all => all.filter(e => e.offsetParent && e.getBoundingClientRect().right > 361).map(e => e.id || e.className)",
    )
    assert cut == []
    light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert light == ("rgb(246, 246, 243)" if scheme == "light" else "rgb(14, 16, 20)")
    page.tap("#grid-right .card:first-child .right")
    _said(page, "is right for this query")


def test_the_map_shows_every_item_and_leads_to_a_search(visit: Any, site: Any) -> None:
    page = visit()
    page.click("#view-map")
    _until(page, "document.getElementById('map-note').textContent.includes('400 points')")
    site[1].state.map.job.wait(60)
    _until(page, "document.getElementById('map-note').textContent.includes('lie together')")
    page.focus("#canvas")
    page.keyboard.press("+")
    page.keyboard.press("Enter")
    page.wait_for_selector("#map-side .card")
    page.click("#map-side .card:nth-child(2) .pic")
    page.wait_for_selector("#map-side h2")
    page.click("#map-side .primary")
    _searched(page)


def test_the_interface_is_described_on_a_page_of_our_own(visit: Any) -> None:
    page = visit()
    page.goto(page.url.split("#")[0] + "docs")
    page.wait_for_selector("details")
    assert page.locator("details").count() >= 12
