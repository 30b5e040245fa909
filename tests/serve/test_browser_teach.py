"""Teaching on the page: marks, labels, lessons, undo, two people, and a focus that stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from likewise.rivals import Cosine
from likewise.search import Index
from likewise.teach import Feedback, TaughtIndex, Teacher, load_index, save_index
from tests.serve.conftest import doubtful, focused_row, query, rows_in, says, searched, serving, until, visiting

COUNT = "document.getElementById('count').textContent"


def test_teaching_changes_the_ranking_and_undo_takes_it_back(own_visit: Any, own_site: Any) -> None:
    page = own_visit(query(own_site, doubtful(own_site[1])))
    searched(page)
    before = rows_in(page, "grid-right")
    for number in range(1, 13):
        place = page.locator("#grid-right .card:not(.right):not(.wrong)").first
        place.hover()
        place.locator(".marks .right" if "hit" in (place.get_attribute("class") or "") else ".marks .wrong").click()
        until(page, f"{COUNT}.startsWith('{number} ')")
        until(page, "document.querySelectorAll('.waiting').length === 0")
    assert rows_in(page, "grid-right") != before  # before anything is kept
    heights = page.evaluate("[...document.querySelectorAll('.top *')].map(e => e.getBoundingClientRect().width)")
    page.click("#learn")
    says(page, "Kept in")
    assert rows_in(page, "grid-right") != before
    assert rows_in(page, "grid-left")[:12] == before[:12]  # the old ranking is next to the new one
    assert "12 marks" in page.inner_text("#lesson")
    after = page.evaluate("[...document.querySelectorAll('.top *')].map(e => e.getBoundingClientRect().width)")
    assert after == heights  # nothing in the header moves
    with page.expect_download() as saved:
        page.click("#save-model")
    assert saved.value.suggested_filename == "digits-taught.likewise"
    page.click("#undo")
    says(page, "Undone: lesson 1")
    assert page.is_hidden("#lesson")
    assert page.is_hidden("#save-model")
    page.click("#undo")
    says(page, "Undone")
    until(page, f"{COUNT}.startsWith('11 ')")


def test_the_second_column_comes_with_the_first_lesson(browser: Any, plain_index: Path, tmp_path: Path) -> None:
    import shutil

    folder = Path(shutil.copytree(plain_index, tmp_path / "plain.index"))
    with serving(folder) as site, visiting(browser, site[0]) as go:
        page = go(query(site, 5))
        searched(page)
        assert page.is_hidden("#grid-left")
        page.focus("#grid-right .card:nth-child(1) .pic")
        for key in "rwrw":
            page.keyboard.press(key)
            says(page, "Saved")
            page.keyboard.press("ArrowRight")
        page.keyboard.press("t")
        says(page, "Kept in")
        until(page, "document.querySelectorAll('#grid-left .card').length > 0")
        assert page.inner_text("#title-right") == "Learned"


def test_the_same_mark_again_takes_it_off(own_visit: Any, own_site: Any) -> None:
    page = own_visit(query(own_site, 17))
    searched(page)
    row = rows_in(page, "grid-right")[4]
    page.focus("#grid-right .card:nth-child(5) .pic")
    pressed = f"#grid-right .card[data-row='{row}'] .marks .right"
    page.keyboard.press("r")
    says(page, "Saved")
    assert page.get_attribute(pressed, "aria-pressed") == "true"
    until(page, f"document.activeElement.closest('.card')?.dataset.row === '{row}'")
    page.keyboard.press("r")
    says(page, "Taken off")
    assert page.get_attribute(pressed, "aria-pressed") == "false"
    page.reload()
    searched(page)
    assert page.get_attribute(pressed, "aria-pressed") == "false"


def test_marks_are_there_again_after_a_reload_and_in_the_csv(own_visit: Any, own_site: Any) -> None:
    page = own_visit(query(own_site, 17))
    searched(page)
    row = rows_in(page, "grid-right")[4]
    page.focus("#grid-right .card:nth-child(5) .pic")
    page.keyboard.press("r")
    says(page, "Saved")
    page.reload()
    searched(page)
    assert page.get_attribute(f"#grid-right .card[data-row='{row}'] .marks .right", "aria-pressed") == "true"
    with page.expect_download() as saved:
        page.click("#export")
    assert str(own_site[1].state.session.index.ids[row]) in saved.value.path().read_text()


def test_a_picture_is_dragged_onto_a_label_or_labelled_by_its_button(own_visit: Any, own_site: Any) -> None:
    page = own_visit(query(own_site, 17))
    searched(page)
    labels = own_site[1].state.session.labels
    first, second = rows_in(page, "grid-right")[:2]
    page.drag_and_drop("#grid-right .card:first-child .pic", "#tray-labels button:text-is('digit 8')")
    says(page, "labelled digit 8")
    assert labels[first] == "digit 8"
    page.focus(f"#grid-right .card[data-row='{second}'] .pic")
    page.click("#tray-labels button:text-is('digit 7')")
    says(page, "labelled digit 7")
    assert labels[second] == "digit 7"
    assert focused_row(page) == second
    assert page.inner_text("#tray-labels li:first-child") == "New label…"


def test_many_are_labelled_in_one_step_and_undone_in_one(own_visit: Any, own_site: Any) -> None:
    page = own_visit("/#browse")
    before = list(own_site[1].state.session.labels)
    page.click("#browse-grid .card:nth-child(1) .pic", modifiers=["ControlOrMeta"])
    page.click("#browse-grid .card:nth-child(24) .pic", modifiers=["Shift"])
    until(page, "document.getElementById('selected-count').textContent === '24 pictures selected'")
    page.click("#selected-label")
    page.fill("#label-input", "mine")
    with page.expect_request("**/api/labels") as request:
        page.keyboard.press("Enter")
    assert json.loads(request.value.post_data) == {"items": list(range(24)), "label": "mine"}
    says(page, "24 pictures are labelled mine")
    assert own_site[1].state.session.labels[:24] == ["mine"] * 24
    assert page.is_hidden("#selection")
    page.click("#undo")
    says(page, "Undone: label mine")
    assert own_site[1].state.session.labels == before


def test_a_selection_is_marked_in_one_step(own_visit: Any, own_site: Any) -> None:
    page = own_visit(query(own_site, 17))
    searched(page)
    for card in (2, 3, 4):
        page.click(f"#grid-right .card:nth-child({card}) .pic", modifiers=["ControlOrMeta"])
    page.click("#selected-right")
    says(page, "3 pictures are right")
    assert page.locator("#grid-right .card.right").count() == 3


def test_the_picture_view_teaches_too(own_visit: Any, own_site: Any) -> None:
    page = own_visit(query(own_site, 17))
    searched(page)
    row = rows_in(page, "grid-right")[1]
    page.click("#grid-right .card:nth-child(2) .pic")
    page.click("#viewer-right")
    until(page, "document.getElementById('viewer-right').getAttribute('aria-pressed') === 'true'")
    page.keyboard.press("l")
    page.fill("#label-input", "seen large")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('viewer-label').textContent === 'seen large'")
    page.keyboard.press("Escape")
    assert focused_row(page) is not None
    assert own_site[1].state.session.labels[row] == "seen large"


def test_everything_works_by_keyboard_alone_and_the_focus_stays(own_visit: Any, own_site: Any) -> None:
    page = own_visit()
    for _ in range(40):  # from the top of the page to the first picture
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('pic')"):
            break
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    row = focused_row(page)
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    searched(page)
    assert page.evaluate("location.hash") == query(own_site, row)[1:]
    page.focus("#grid-right .pic[tabindex='0']")
    page.keyboard.press("r")
    says(page, "1 right")
    page.keyboard.press("ArrowRight")
    here = focused_row(page)
    page.keyboard.press("l")
    page.wait_for_selector("#label-dialog[open]")
    page.fill("#label-input", "my own label")
    page.keyboard.press("Enter")
    says(page, "labelled my own label")
    assert own_site[1].state.session.labels[here] == "my own label"
    here = focused_row(page)
    assert here is not None
    page.keyboard.press("w")
    says(page, "1 wrong")
    assert focused_row(page) not in (None, here)  # it has gone to the end
    page.keyboard.press("t")
    says(page, "Kept in")
    assert focused_row(page) is not None
    page.keyboard.press("u")
    says(page, "Undone: lesson 1")
    assert focused_row(page) is not None
    page.keyboard.press("?")
    page.wait_for_selector("#help[open]")
    page.keyboard.press("Escape")


def test_a_finger_marks_on_a_phone(own_visit: Any, own_site: Any) -> None:
    screen = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    page = own_visit(query(own_site, 17), **screen)
    searched(page)
    page.tap("#grid-right .card:first-child .marks .right")
    says(page, "is right for this query")


def test_two_people_see_what_the_other_does_and_undo_their_own(browser: Any, own_site: Any) -> None:
    address = query(own_site, 17)
    with visiting(browser, own_site[0]) as go:
        anna, bert = go(address), go(address)
        for page, name in ((anna, "Anna"), (bert, "Bert")):
            page.click("#help-open")
            page.fill("#who", name)
            page.keyboard.press("Enter")
            page.reload()
            searched(page)
        row = rows_in(anna, "grid-right")[2]
        anna.focus("#grid-right .card:nth-child(3) .pic")
        anna.keyboard.press("r")
        says(bert, "Anna marked 1 picture right")
        assert bert.get_attribute(f"#grid-right .card[data-row='{row}'] .marks .right", "aria-pressed") == "true"
        until(bert, f"{COUNT}.startsWith('1 ')")
        assert bert.is_disabled("#undo")  # it is Anna's
        bert.click("#view-browse")
        bert.click("#browse-grid .card:nth-child(1) .pic", modifiers=["ControlOrMeta"])
        bert.click("#browse-grid .card:nth-child(4) .pic", modifiers=["Shift"])
        bert.click("#tray-labels button:text-is('digit 8')")
        says(anna, "Bert labelled 4 pictures digit 8")
        anna.click("#learn")
        says(anna, "Kept in")
        until(bert, "document.getElementById('learn').disabled")
        bert.click("#view-search")
        until(bert, "document.getElementById('lesson').textContent.includes('Anna')")
        anna.click("#undo")
        says(anna, "Undone: lesson 1")
        anna.click("#undo")
        until(bert, f"{COUNT}.startsWith('1 ')")
        until(anna, "document.getElementById('undo').disabled")
        bert.click("#undo")
        says(bert, "Undone: label digit 8 on 4 items")


@pytest.mark.parametrize("where", [pytest.param("before", marks=pytest.mark.second), "after"])
def test_taught_and_not_taught_axe_finds_nothing(own_visit: Any, own_site: Any, where: str) -> None:
    from tests.serve.test_browser_accessible import violations

    page = own_visit(query(own_site, doubtful(own_site[1])), bypass_csp=True, reduced_motion="reduce")
    searched(page)
    for number in range(1, 5):
        page.locator("#grid-right .card:not(.right):not(.wrong) .pic").first.focus()
        page.keyboard.press("w" if number % 2 else "r")
        until(page, f"{COUNT}.startsWith('{number} ')")
        until(page, "document.querySelectorAll('.waiting').length === 0")
    if where == "after":
        page.click("#learn")
        says(page, "Kept in")
    assert violations(page) == []


def test_three_ticks_change_the_order_at_once_and_it_is_there_after_a_restart(browser: Any, index_folder: Path) -> None:
    with serving(index_folder) as site, visiting(browser, site[0]) as go:
        address = query(site, doubtful(site[1]))
        page = go(address)
        searched(page)
        before = rows_in(page, "grid-right")[:20]
        ticked = before[4:7]
        for number, row in enumerate(ticked, start=1):
            page.focus(f"#grid-right .card[data-row='{row}'] .pic")
            page.keyboard.press("r")
            until(page, f"{COUNT}.startsWith('{number} ')")
            says(page, f"{number} right")  # by then the new order is shown
        assert set(rows_in(page, "grid-right")[:3]) == set(ticked)
        page.click("#learn")
        says(page, "Kept in")
        certain = rows_in(page, "grid-right")[:20]
        assert certain != before
    with serving(index_folder) as site, visiting(browser, site[0]) as go:
        page = go(address)
        searched(page)
        assert rows_in(page, "grid-right")[:20] == certain
        assert page.is_visible("#save-model")
    assert isinstance(load_index(index_folder), TaughtIndex)


def test_new_pictures_that_fit_a_label_are_shown_and_labelled(browser: Any, tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    X, zeros = X.astype(np.float32), np.flatnonzero(y == 0)
    names = [f"digit {row}" for row in range(len(X))]
    folder = Index.build(Cosine(centre=True).fit(X[:500]), X[:500], names[:500]).save(tmp_path / "d.index")
    teacher = Teacher(load_index(folder), Feedback(folder))
    teacher.label(zeros[:12].tolist(), "snow")
    teacher.mark(int(zeros[0]), np.flatnonzero(y[:500] != 0)[:60:5].tolist(), False)
    teacher.learn()
    new = zeros[zeros >= 500][:4]
    save_index(load_index(folder).plus(X[new], [names[row] for row in new]), folder)
    with serving(folder) as site, visiting(browser, site[0]) as go:
        page = go(query(site, 5))
        searched(page)
        fresh = page.locator("#searches button.primary")
        fresh.wait_for()
        count = int(fresh.inner_text().removeprefix("new in snow (").removesuffix(")"))
        assert 3 <= count <= 4
        assert "snow: " in page.inner_text("#searches")
        fresh.click()
        until(page, "document.getElementById('next-title').textContent === 'New in snow'")
        rows = rows_in(page, "next-grid")
        assert len(rows) == count
        assert set(rows) <= {500, 501, 502, 503}
        page.keyboard.press("r")
        says(page, "Saved.")
        assert site[1].state.session.labels[rows[0]] == "snow"
        until(page, f"document.querySelector('#searches button.primary')?.textContent === 'new in snow ({count - 1})'")
