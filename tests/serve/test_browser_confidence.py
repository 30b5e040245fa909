"""How sure it is, on the page: probabilities, the slider, sets applied and taken back, what to mark next."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from likewise.teach import load_index
from tests.serve.conftest import focused_row, query, rows_in, says, searched, serving, take_back, until, visiting
from tests.serve.test_browser_accessible import SCREEN, violations_at_desk_and_on_a_phone

DONE = "document.getElementById('apply-progress').textContent"


@pytest.fixture(scope="module")
def shared_site(sure_index: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server of calibrated digits with pictures of its own."""
    index, folder = load_index(sure_index), tmp_path_factory.mktemp("sure")
    assert index.root is not None
    shutil.copytree(index.root, folder / "digits")
    index.root = folder / "digits"
    with serving(index.save(folder / "sure.index")) as opened:
        yield opened


@pytest.fixture
def sure_site(shared_site: Any) -> Iterator[Any]:
    """That server; afterwards what was taught is taken back."""
    yield shared_site
    take_back(shared_site[1])


@pytest.fixture
def sure_visit(browser: Any, sure_site: Any) -> Iterator[Callable[..., Any]]:
    with visiting(browser, sure_site[0]) as go:
        yield go


def previewed(page: Any) -> tuple[int, int]:
    """How many pictures the preview has, and how many of them are new."""
    counts = re.match(r"(\d+) pictures, about \d+ wrong: (\d+) are new", page.inner_text("#apply-found"))
    assert counts
    return int(counts[1]), int(counts[2])


def test_each_result_says_how_likely_it_matches(sure_visit: Any, sure_site: Any) -> None:
    page = sure_visit(query(sure_site, 5))
    searched(page)
    assert page.inner_text("#grid-right .card:first-child .score").endswith(" %")
    assert "%" not in page.inner_text("#grid-left .card:first-child .score")
    page.click("#grid-right .card:first-child .pic")
    assert "matches with" in page.inner_text("#viewer-score")


def test_without_a_calibration_there_is_no_slider_and_no_percentage(visit: Any, site: Any) -> None:
    page = visit(query(site, 5, "&sure=10"))
    searched(page)
    assert page.is_hidden("#sure")
    assert "%" not in page.inner_text("#grid-right")
    says(page, "399 pictures ranked")


def test_without_labels_nothing_can_be_applied(plain_visit: Any, plain_site: Any) -> None:
    page = plain_visit(query(plain_site, 5))
    searched(page)
    assert page.is_hidden("#apply-open")


def test_the_slider_ends_the_results_and_is_in_the_address(sure_visit: Any, sure_site: Any) -> None:
    page = sure_visit(query(sure_site, 5))
    searched(page)
    page.focus("#sure-slider")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    says(page, "wrong")
    assert page.inner_text("#sure-value") == "At most 1 in 10 wrong"
    assert page.get_attribute("#sure-slider", "aria-valuetext") == "At most 1 in 10 wrong"
    assert page.evaluate("location.hash").endswith("&sure=10")
    assert page.evaluate("document.activeElement.id") == "sure-slider"
    index = load_index(sure_site[1].state.session.index.folder)
    (certain,) = index.search(index.raw[5:6], k=None, at_most_wrong=0.1)
    says(page, f"{len(certain.ids) - 1} pictures, about ")  # the query itself is not among them
    assert page.evaluate("document.getElementById('grid-right').grid.total") == len(certain.ids) - 1
    page.reload()
    searched(page)
    assert page.inner_text("#sure-value") == "At most 1 in 10 wrong"
    page.focus("#sure-slider")
    page.keyboard.press("Home")
    says(page, "399 pictures ranked")
    assert "sure" not in page.evaluate("location.hash")


def test_nothing_is_shown_where_nothing_is_sure_enough(sure_visit: Any, sure_site: Any) -> None:
    page = sure_visit(query(sure_site, 5, "&label=digit+8&sure=20"))  # noughts among eights
    says(page, "Nothing is sure enough at 1 in 20.")
    assert rows_in(page, "grid-right") == []
    assert page.is_hidden("#sure-label")


def test_a_query_unlike_anything_known_is_said_to_be(sure_visit: Any, sure_site: Any) -> None:
    index = sure_site[1].state.session.index
    novelty = index.model.novelty(index.raw)
    page = sure_visit(query(sure_site, int(novelty.argmax())))
    searched(page)
    assert "unlike anything the model learned from" in page.inner_text("#unknown")
    page = sure_visit(query(sure_site, int(novelty.argmin())))
    searched(page)
    assert page.is_hidden("#unknown")


def test_a_label_is_previewed_applied_and_taken_back(sure_visit: Any, sure_site: Any) -> None:
    app = sure_site[1]
    before = list(app.state.session.labels)
    page = sure_visit("/#browse?label=digit+3")
    page.click("#apply-open")
    until(page, "document.querySelectorAll('.take').length === 20")
    assert page.input_value("#apply-label") == "digit 3"
    n_found, n_new = previewed(page)
    assert n_found == n_new + before.count("digit 3")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # the least sure is taken out
    assert page.get_attribute(".take >> nth=0", "aria-pressed") == "true"
    with page.expect_download() as saved:
        page.click("#apply-csv")
    assert len(saved.value.path().read_text().splitlines()) == n_found  # one less, and the names of the columns
    page.click("#apply-save")
    says(page, f"Saved: {n_found - 1} pictures are labelled digit 3.")
    assert app.state.session.labels.count("digit 3") == n_found - 1
    assert page.evaluate("document.activeElement !== document.body")
    page.click("#undo")
    says(page, "Undone: label digit 3")
    assert app.state.session.labels == before


def test_keywords_are_written_and_undone_from_the_dialog(sure_visit: Any, sure_site: Any) -> None:
    pictures = Path(sure_site[1].state.session.index.root)
    page = sure_visit("/#browse?label=digit+3")
    page.click("#apply-open")
    until(page, "document.querySelectorAll('.take').length === 20")
    n_found, _ = previewed(page)
    page.click("#apply-keywords")
    until(page, f"{DONE}.includes('{n_found} new, 0 changed')")
    assert len(list(pictures.rglob("*.xmp"))) == n_found
    page.keyboard.press("Escape")
    page.click("#apply-open")  # what was written can still be taken back
    until(page, f"{DONE}.includes('were written before')")
    page.click("#apply-undo")
    until(page, f"{DONE}.includes('{n_found} sidecars deleted')")
    assert not list(pictures.rglob("*.xmp"))
    assert page.evaluate("document.activeElement.id") == "apply-keywords"
    assert page.is_hidden("#apply-undo")


def test_results_above_the_cut_off_become_a_named_set(sure_visit: Any, sure_site: Any) -> None:
    page = sure_visit(query(sure_site, 5, "&sure=10"))
    searched(page)
    page.click("#sure-label")
    until(page, "document.querySelectorAll('.take').length > 0")
    page.click("#apply-save")
    until(page, f"{DONE} === 'The set needs a name.'")
    assert page.evaluate("document.activeElement.id") == "apply-name"
    page.fill("#apply-name", "round")
    page.click("#apply-save")
    says(page, "are labelled round")
    assert "keep the label they have" in page.inner_text("#status")
    assert sure_site[1].state.session.labels[5] == "round"
    page.click("#undo")
    says(page, "Undone: label round")


def test_suggestions_are_marked_for_the_query_by_keyboard(sure_visit: Any, sure_site: Any) -> None:
    page = sure_visit(query(sure_site, 5))
    searched(page)
    page.keyboard.press("g")
    says(page, "10 pictures to mark next.")
    first = rows_in(page, "next-grid")[0]
    assert focused_row(page) == first
    page.keyboard.press("w")
    says(page, "Saved. 9 suggestions left.")
    assert page.get_attribute("#next-grid .card:first-child .wrong", "aria-pressed") == "true"
    assert focused_row(page) == first
    marks = sure_site[1].state.teaching.entries()
    assert [(one["queries"], one["items"], one["right"]) for one in marks] == [([5], [first], False)]
    page.keyboard.press("w")
    says(page, "Taken off.")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("r")
    says(page, "Saved. 9 suggestions left.")
    second = rows_in(page, "next-grid")[1]
    page.click("#next-more")
    says(page, "10 pictures to mark next.")
    assert second not in rows_in(page, "next-grid")  # it was marked
    page.focus("#next-close")
    page.keyboard.press("Enter")
    assert page.is_hidden("#next")
    assert page.evaluate("document.activeElement.id") == "next-open"


def test_suggestions_for_a_label_give_it_or_say_not(sure_visit: Any, sure_site: Any) -> None:
    app = sure_site[1]
    app.state.teaching.label([7, 8], "mine")
    page = sure_visit("/#search?label=mine")
    page.click("#next-open")
    says(page, "to mark next")
    yes, no = rows_in(page, "next-grid")[:2]
    assert page.get_attribute("#next-grid .card:first-child .right", "aria-label").startswith("mine: ")
    page.keyboard.press("r")
    says(page, "9 suggestions left")
    assert app.state.session.labels[yes] == "mine"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("w")
    says(page, "8 suggestions left")
    last = app.state.teaching.entries()[-1]
    assert (last["queries"], last["items"], last["right"]) == ([7], [no], False)


def test_without_any_mark_there_is_a_start(sure_visit: Any) -> None:
    page = sure_visit("/#search")
    page.click("#next-open")
    says(page, "10 pictures to mark next.")
    assert page.inner_text("#next-title") == "Search by one of these to begin"
    assert page.is_hidden("#next-grid .card:first-child .marks")
    page.keyboard.press("Enter")
    searched(page)
    assert page.is_hidden("#next")


@pytest.mark.parametrize("states", [slice(2), pytest.param(slice(2, 6), marks=pytest.mark.second)])
def test_axe_finds_nothing_in_any_state(sure_visit: Any, sure_site: Any, states: slice) -> None:
    index = sure_site[1].state.session.index
    strange = int(index.model.novelty(index.raw).argmax())
    for path, button, ready in (
        (query(sure_site, 5, "&sure=10"), "#sure-label", ".take"), (query(sure_site, strange), None, "#unknown"),
        (query(sure_site, 5, "&sure=10"), None, "#sure-label"), (query(sure_site, 5), "#next-open", "#next .card"),
        ("/#browse?label=digit+3", "#apply-open", ".take"), ("/#search", "#next-open", "#next .card"),
    )[states]:  # fmt: skip
        page = sure_visit(path, **SCREEN)
        page.wait_for_selector(".card >> visible=true")
        if button:
            page.click(button)
        page.wait_for_selector(f"{ready} >> nth=0")
        assert violations_at_desk_and_on_a_phone(page) == [], (path, button)
        page.close()
