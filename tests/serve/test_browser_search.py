"""Searching on the page: one column or two, uploads, several examples, filters, addresses, small screens."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.serve.conftest import doubtful, query, rows_in, says, searched, until


def test_the_page_loads_with_pictures_and_says_what_it_holds(visit: Any) -> None:
    page = visit()
    assert page.inner_text("#about") == "digits · 400 pictures · 10 labels"
    until(page, "[...document.images].filter(i => i.src).slice(0, 12).every(i => i.complete && i.naturalWidth > 0)")
    says(page, "Ready: 400 pictures")
    assert page.is_disabled("#learn")
    assert page.is_disabled("#undo")
    assert page.is_hidden("#save-model")


def test_a_card_shows_its_file_name_and_its_label(visit: Any, site: Any) -> None:
    page = visit(query(site, 5))
    searched(page)
    row = rows_in(page, "grid-right")[0]
    card = page.locator("#grid-right .card").first
    assert card.locator(".file").inner_text() == site[1].state.session.index.image_path(row).name
    assert card.locator(".label").inner_text() == site[1].state.session.labels[row]


def test_a_fitted_model_shows_two_columns_that_differ(visit: Any) -> None:
    page = visit()
    page.hover("#start-grid .card:nth-child(3)")
    page.click("#start-grid .card:nth-child(3) .find")
    searched(page)
    left, right = rows_in(page, "grid-left"), rows_in(page, "grid-right")
    assert left != right
    assert 0 < float(page.inner_text("#ap-right b")) <= 1
    assert float(page.inner_text("#grid-right .card:first-child .score")) > 0
    assert page.inner_text("#title-right") == "Learned"
    page.go_back()
    page.wait_for_selector("#start-grid .card >> visible=true")


def test_before_anything_was_learned_there_is_one_column_and_nothing_about_labels(
    plain_visit: Any, plain_site: Any
) -> None:
    page = plain_visit(query(plain_site, 5))
    searched(page)
    assert page.inner_text("#title-right") == "Most similar"
    for absent in ("#grid-left", "#filter-field", "#legend", "#ap-right b", "#side", "#lesson", "#export"):
        assert page.is_hidden(absent), absent
    assert page.locator(".card.hit").count() == 0
    page.click("#view-map")
    until(page, "document.getElementById('map-note').textContent.includes('400 points')")
    assert page.is_hidden("#map-sides")


def test_a_right_one_is_framed_green_and_others_are_quiet(visit: Any, site: Any) -> None:
    page = visit(query(site, doubtful(site[1])), color_scheme="light")
    searched(page)
    shadow = "element => getComputedStyle(element).boxShadow"
    assert "rgb(31, 154, 69)" in page.eval_on_selector(".card.hit .pic", shadow)
    others = page.eval_on_selector_all("#grid-right .card:not(.hit) .pic", f"all => all.map({shadow})")
    assert {text.split(")")[0] + ")" for text in others} == {"rgb(226, 226, 220)"}
    green = page.eval_on_selector(".chip img", "element => getComputedStyle(element).borderTopColor")
    assert green == "rgb(31, 154, 69)"


def test_results_go_on_to_the_last_item_while_few_cards_are_in_the_document(visit: Any, site: Any) -> None:
    page = visit(query(site, 5))
    searched(page)
    for _ in range(60):
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for_timeout(50)
        if page.evaluate("Math.abs(scrollY + innerHeight - document.body.scrollHeight) < 2"):
            break
    until(page, "document.querySelector('#grid-right .card[aria-posinset=\"399\"][data-row]') !== null")
    assert page.locator("#grid-right .card.blank").count() == 0
    assert page.locator(".card").count() < 250


def test_an_uploaded_picture_finds_itself_first(visit: Any, site: Any) -> None:
    page = visit()
    page.set_input_files("#file", str(site[1].state.session.index.image_path(7)))
    searched(page)
    assert rows_in(page, "grid-right")[0] == 7
    assert rows_in(page, "grid-left")[0] == 7
    assert page.locator(".card.hit").count() == 0  # an upload has no label


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
        until(page, "document.querySelector('#grid-right .card')?.dataset.row === '9'")
        page.click(".brand")
        page.wait_for_selector("#start-grid .card >> visible=true")


def test_a_file_that_is_no_picture_gets_a_sentence(browser: Any, site: Any, tmp_path: Path) -> None:
    (tmp_path / "x.png").write_text("not a picture")
    page = browser.new_page()
    page.goto(site[0])
    page.wait_for_selector("#start-grid .card")
    page.set_input_files("#file", str(tmp_path / "x.png"))
    says(page, "is not a supported image format")
    page.close()


def test_several_pictures_are_one_query_and_some_are_not_wanted(visit: Any, site: Any) -> None:
    page = visit(query(site, 5))
    searched(page)
    alone = rows_in(page, "grid-right")
    page.hover("#grid-right .card:nth-child(2)")
    page.click("#grid-right .card:nth-child(2) .add")
    until(page, "document.querySelectorAll('.chip').length === 2")
    searched(page)
    together = rows_in(page, "grid-right")
    page.click(".chip:last-child .sign")
    page.wait_for_selector(".chip.not")
    searched(page)
    assert len({tuple(alone), tuple(together), tuple(rows_in(page, "grid-right"))}) == 3
    page.click("#grid-right .card:nth-child(4) .pic", modifiers=["Shift"])
    until(page, "document.querySelectorAll('.chip').length === 3")


def test_a_label_filters_both_sides_and_only_what_was_ranked_is_counted(visit: Any, site: Any) -> None:
    page = visit(query(site, 5))
    searched(page)
    page.fill("#filter", "digit 3")
    page.press("#filter", "Enter")
    n = site[1].state.session.labels.count("digit 3")
    says(page, f"{n} pictures in this filter ranked")
    labels = page.eval_on_selector_all("#columns .card .label", "all => all.map(one => one.textContent)")
    assert set(labels) == {"digit 3"}


def test_surprise_respects_the_filter(visit: Any, site: Any) -> None:
    page = visit("/#search?label=digit+3")
    for _ in range(4):
        page.click("#surprise")
        searched(page)
        key = page.evaluate("location.hash").split("like=")[1].split("&")[0]
        session = site[1].state.session
        assert session.labels[session.index.identities.row_of_key(key)] == "digit 3"


def test_view_query_filter_and_side_are_in_the_address(visit: Any, site: Any) -> None:
    page = visit(query(site, 5, f"&not={site[1].state.session.index.identities.key(8)}&label=digit+3"))
    searched(page)
    assert page.locator(".chip").count() == 2
    assert page.input_value("#filter") == "digit 3"
    shown = rows_in(page, "grid-right")
    page.click("#view-browse")
    until(page, "location.hash.startsWith('#browse?') && location.hash.includes('label=digit+3')")
    page.go_back()
    until(page, "location.hash.startsWith('#search?')")
    searched(page)
    assert rows_in(page, "grid-right") == shown


def test_results_are_downloaded_as_csv_and_as_zip(visit: Any, site: Any) -> None:
    page = visit(query(site, 5))
    searched(page)
    with page.expect_download() as saved:
        page.click("#results-csv")
    lines = list(csv.DictReader(io.StringIO(saved.value.path().read_text())))
    shown = rows_in(page, "grid-right")
    paths = site[1].state.session.index.paths
    assert [line["path"] for line in lines] == paths[shown[: len(lines)]].tolist()
    assert lines[0].keys() == {"rank", "id", "path", "label", "score"}
    with page.expect_download() as saved:
        page.click("#results-zip")
    with zipfile.ZipFile(saved.value.path()) as archive:
        names = archive.namelist()
        first = site[1].state.session.index.image_path(shown[0])
        assert archive.read(names[0]) == first.read_bytes()
    assert len(names) == len(lines)


@pytest.mark.parametrize("view", ["results", "search", "browse", "map", "duplicates"])
def test_it_fits_a_phone_of_360_pixels_in_light_and_dark(visit: Any, site: Any, view: str) -> None:
    screen = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    page = visit(query(site, 5) if view == "results" else f"/#{view}", color_scheme="light", **screen)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    cut = page.eval_on_selector_all(
        "button, a, input, select",
        "all => all.filter(e => e.checkVisibility() && !e.closest('#tray') && e.getBoundingClientRect().right > 361)"
        ".map(e => e.id || e.className)",
    )
    assert cut == []
    background = "getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(background) == "rgb(246, 246, 243)"
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(background) == "rgb(14, 16, 20)"


def test_text_items_are_not_called_pictures(browser: Any, tmp_path: Path, digits: Any) -> None:
    from likewise.rivals import Cosine
    from likewise.search import Index
    from tests.serve.conftest import serving, visiting

    X = digits[2]
    Index.build(Cosine().fit(X), X, [f"text {i}" for i in range(len(X))]).save(tmp_path / "texts.index")
    with serving(tmp_path / "texts.index") as (address, _), visiting(browser, address) as go:
        page = go()
        says(page, f"Ready: {len(X):,} items")
        assert "picture" not in page.inner_text("#about") + page.inner_text("#status")
        assert page.is_hidden("#results-zip")


def test_a_folder_that_is_gone_is_said_in_a_sentence(browser: Any, index_folder: Path) -> None:
    from likewise.teach import load_index
    from tests.serve.conftest import serving, visiting

    index = load_index(index_folder)
    index.root = index_folder / "moved away"
    index.save(index_folder)
    with serving(index_folder) as (address, _), visiting(browser, address) as go:
        page = go()
        assert "The pictures are not where they were" in page.inner_text("#missing")
        assert "moved away" in page.inner_text("#missing-root")
        assert "--root" in page.inner_text("#missing-hint")
        assert page.is_hidden("#start")  # no wall of grey tiles


def test_the_interface_is_described_on_a_page_of_our_own(visit: Any) -> None:
    page = visit()
    page.goto(page.url.split("#")[0] + "docs")
    page.wait_for_selector("details")
    assert page.locator("details").count() >= 20
