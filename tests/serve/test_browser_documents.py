"""The page on documents: cards instead of pictures, filters by column, search by id and by pasted numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from likewise.rivals import Cosine
from likewise.search import Index
from tests.documents import N, columns, embeddings, write_parquet
from tests.serve.conftest import rows_in, says, searched, serving, until, visiting
from tests.serve.test_browser_accessible import violations

pytest.importorskip("pyarrow")
X = embeddings()
EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server of documents, of which the first tries to be a program, and one is sound."""
    folder = tmp_path_factory.mktemp("documents")
    changed = {name: list(columns()[name]) for name in ("title", "text", "url")}
    changed["title"][0] = changed["text"][0] = EVIL
    changed["url"][0], changed["url"][1] = "javascript:document.title='owned'", "https://example.org/one"
    sound = [None] * N
    sound[2] = "tone.wav"
    index = Index.build(Cosine().fit(X), write_parquet(folder / "docs.parquet", path=sound, **changed))
    (folder / "tone.wav").write_bytes(_wav())
    index.root = folder
    with serving(index.save(folder / "docs.index")) as opened:
        yield opened


def _wav() -> bytes:
    import io
    import wave

    file = io.BytesIO()
    with wave.open(file, "wb") as tone:
        tone.setnchannels(1)
        tone.setsampwidth(2)
        tone.setframerate(8000)
        tone.writeframes(np.int16(8000 * np.sin(np.arange(4000) / 4)).tobytes())
    return file.getvalue()


@pytest.fixture
def visit(browser: Any, site: Any) -> Iterator[Callable[..., Any]]:
    with visiting(browser, site[0]) as go:
        yield go


def test_cards_show_words_and_the_page_speaks_of_items(visit: Callable[..., Any]) -> None:
    page = visit("/#search?like=doc-7108")
    searched(page)
    card = page.locator("#grid-right .card").first
    row = int(card.get_attribute("data-row"))
    assert card.locator(".words-title").inner_text() == columns()["title"][row]
    assert columns()["text"][row] in card.locator(".words-text").inner_text()
    assert card.locator("a.url").get_attribute("href") == columns()["url"][row]
    assert card.locator("a.url").get_attribute("rel") == "noopener noreferrer"
    assert page.locator(".card img").count() == 0
    box, whole = card.locator(".pic").bounding_box(), card.bounding_box()
    assert box["width"] == whole["width"] > box["height"] > 150  # a card, wider than high
    assert "59 items ranked" in page.inner_text("#status")
    spoken = "[...document.querySelectorAll('[aria-label]')].map(one => one.ariaLabel).join()"
    assert "picture" not in page.evaluate(f"document.body.innerText + {spoken}").lower()
    card.locator(".pic").click()
    until(page, "[...document.querySelectorAll('#viewer-fields dt')].some((name) => name.textContent === 'topic')")
    assert columns()["text"][row] in page.inner_text("#viewer-words")


def test_text_is_never_a_program_and_no_link_leads_to_one(visit: Callable[..., Any]) -> None:
    page = visit("/#search?like=doc-7100")
    searched(page)
    page.goto(page.url.split("#")[0] + "#browse")
    until(page, "document.querySelector('#browse-grid .card[data-row=\"0\"]') !== null")
    card = page.locator("#browse-grid .card[data-row='0']")
    assert card.locator(".words-title").inner_text() == EVIL
    assert card.locator("a").count() == 0
    assert page.locator("#browse-grid .card[data-row='1'] a").get_attribute("href") == "https://example.org/one"
    card.locator(".pic").click()
    until(page, "document.querySelector('#viewer-fields dd') !== null")
    assert page.locator("#viewer-link a").count() == 0
    assert page.title() != "owned"
    assert page.locator("main img[src='x'], dialog img[src='x']").count() == 0


def test_columns_filter_what_is_browsed_and_searched(visit: Callable[..., Any]) -> None:
    page = visit("/#browse")
    until(page, "document.querySelector('#facets [data-name=\"column sold\"]') !== null")
    page.click("#facets [data-name='column sold'][data-value='true']")
    page.fill("#facets [data-name='column price'][data-value='high']", "30")
    page.press("#facets [data-name='column price'][data-value='high']", "Enter")
    wanted = [row for row in range(21) if columns()["sold"][row] and columns()["price"][row] is not None]
    until(page, f"document.getElementById('browse-title').textContent === '{len(wanted)} items of {N}'")
    assert rows_in(page, "browse-grid") == wanted
    page.click("#view-search")
    page.fill("#where", 'title contains "1" and `made on` < "2024-03-01"')
    page.press("#where", "Enter")
    fewer = [row for row in wanted if "1" in f"Title {row}" and columns()["made on"][row] is not None]
    says(page, f"{len(fewer)} items of {N} pass the filter.")
    assert sorted(rows_in(page, "start-grid")) == fewer
    page.reload()
    says(page, f"{len(fewer)} items of {N} pass the filter.")
    assert page.locator("#tokens .token").count() == 3
    page.fill("#ask-input", "doc-7108")
    page.press("#ask-input", "Enter")
    searched(page)
    assert sorted(rows_in(page, "grid-right")) == [row for row in fewer if row != 8]
    for _ in range(3):
        page.locator("#tokens .token").first.click()
    says(page, f"{N - 1} items ranked")


def test_a_query_by_id_or_by_pasted_numbers(visit: Callable[..., Any]) -> None:
    page = visit()
    page.fill("#ask-input", "doc-7108")
    page.press("#ask-input", "Enter")
    searched(page)
    assert page.url.endswith("#search?like=doc-7108")
    first = rows_in(page, "grid-right")[:5]
    page.evaluate(
        """text => { const data = new DataTransfer(); data.setData("text/plain", text);
        document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true })); }""",
        json.dumps(X[8].tolist()),
    )
    until(page, "document.querySelector('#chips .chip')?.textContent.includes('your numbers')")
    searched(page)
    until(page, "+document.querySelector('#grid-right .card').dataset.row === 8")
    assert rows_in(page, "grid-right")[1:6] == first


def test_an_unknown_id_and_a_wrong_condition_are_said(browser: Any, site: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(site[0], wait_until="domcontentloaded")
    says(page, "Ready")
    page.fill("#ask-input", "doc-1")
    page.press("#ask-input", "Enter")
    says(page, "The index has no item with the id 'doc-1'")
    page.fill("#where", "prize < 3")
    page.press("#where", "Enter")
    says(page, "Where: there is no column 'prize'; the columns are id, label, ")
    context.close()


def test_sound_is_played_by_the_browsers_own_element(visit: Callable[..., Any]) -> None:
    page = visit("/#browse")
    until(page, "document.querySelector('#browse-grid audio') !== null")
    page.evaluate("document.querySelector('#browse-grid audio').preload = 'metadata'")
    until(page, "document.querySelector('#browse-grid audio').readyState > 0")
    assert page.evaluate("document.querySelector('#browse-grid audio').duration") == pytest.approx(0.5, abs=0.01)
    page.click("#browse-grid .card[data-row='2'] .pic", position={"x": 20, "y": 20})
    until(page, "document.querySelector('#viewer-words audio') !== null")


@pytest.mark.parametrize(("width", "scheme"), [pytest.param(1280, "light", marks=pytest.mark.second), (360, "dark")])
def test_axe_finds_nothing_on_documents(visit: Callable[..., Any], width: int, scheme: str) -> None:
    screen = {"viewport": {"width": width, "height": 800}, "reduced_motion": "reduce", "bypass_csp": True}
    page = visit("/#search?like=doc-7108", color_scheme=scheme, **screen)
    searched(page)
    assert violations(page) == []
    page.click("#view-browse")
    until(page, "document.querySelectorAll('#browse-grid .card[data-row]').length > 0")
    page.evaluate("document.getElementById('facets-box').open = true")
    until(page, "document.querySelector('#facets input') !== null")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate("document.getElementById('facets-box').open = innerWidth > 900")
    page.locator("#browse-grid .pic").first.click()
    until(page, "document.querySelector('#viewer-fields dd') !== null")
    assert violations(page) == []
