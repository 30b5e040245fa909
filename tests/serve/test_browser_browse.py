"""Browsing everything: endless scroll, facets, selecting many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from likewise.search import Index
from likewise.teach import load_index
from tests.serve.conftest import rows_in, says, serving, until, visiting

IN_WINDOW = """[...document.querySelectorAll('#browse-grid .card')].map((card) => card.getBoundingClientRect())
    .filter((box) => box.bottom > 0 && box.top < innerHeight)"""


def test_everything_is_there_in_order_and_the_document_stays_small(browser: Any, tmp_path: Path) -> None:
    from likewise.rivals import Cosine

    X = np.random.default_rng(0).normal(size=(100_000, 2)).astype(np.float32)
    Index.build(Cosine().fit(X[:10]), X).save(tmp_path / "many.index")
    with serving(tmp_path / "many.index") as (address, _), visiting(browser, address) as go:
        page = go("/#browse")
        until(page, "document.getElementById('browse-title').textContent === '100,000 items'")
        for share in (0.3, 0.6, 1):
            page.evaluate(f"scrollTo(0, {share} * document.body.scrollHeight)")
            until(page, f"{IN_WINDOW}.length > 6 && document.querySelector('#browse-grid .card.blank') === null")
            rows = rows_in(page, "browse-grid")
            assert rows == list(range(rows[0], rows[-1] + 1))
            assert len(rows) < 300
        assert rows[-1] == 99_999


def test_folders_and_labels_are_facets_that_combine(visit: Any, site: Any) -> None:
    page = visit("/#browse")
    page.click('.entry[data-name="folder"][data-value="digit 3"]')
    n = site[1].state.session.labels.count("digit 3")
    until(page, f"document.getElementById('browse-title').textContent === '{n} pictures of 400'")
    labels = page.eval_on_selector_all('.entry[data-name="label"]', "all => all.map(e => e.textContent)")
    assert labels == [] or labels == [f"digit 3{n}"]
    assert page.locator('.entry[data-name="folder"]').count() == 10  # the others can still be chosen
    assert {site[1].state.session.labels[row] for row in rows_in(page, "browse-grid")} == {"digit 3"}
    assert page.evaluate("location.hash") == "#browse?folder=digit+3"
    page.click("#clear-filter")
    until(page, "document.getElementById('browse-title').textContent === '400 pictures'")


def test_years_and_their_months_are_a_facet(browser: Any, index_folder: Path) -> None:
    index = load_index(index_folder)
    dates = np.array([f"{2021 + row % 3}-0{1 + row % 2}-15" for row in range(len(index))], dtype=object)
    index.items = replace(index.items, dates=dates)
    index.save(index_folder)
    with serving(index_folder) as (address, _), visiting(browser, address) as go:
        page = go("/#browse")
        page.click('.entry[data-value="2022"]')
        until(page, "document.getElementById('browse-title').textContent === '133 pictures of 400'")
        page.click('.entry[data-value="2022-02"]')
        until(page, "document.getElementById('browse-title').textContent === '67 pictures of 400'")
        assert "February 2022" in page.inner_text("#facets")
        page.click('.entry[data-name="folder"][data-value="digit 3"]')
        until(page, "location.hash === '#browse?folder=digit+3&month=2022-02'")
        page.reload()
        until(page, "document.getElementById('browse-title').textContent.endsWith('pictures of 400')")
        rows = rows_in(page, "browse-grid")
        assert rows
        assert {str(dates[row])[:7] for row in rows} == {"2022-02"}
        page.click("#browse-grid .card:nth-child(1) .pic")
        assert page.inner_text("#viewer-date").startswith("February 15, 2022")


def test_a_range_and_everything_can_be_selected(visit: Any) -> None:
    page = visit("/#browse")
    page.click("#browse-grid .card:nth-child(2) .pic", modifiers=["ControlOrMeta"])
    assert page.inner_text("#selected-count") == "1 picture selected"
    page.click("#browse-grid .card:nth-child(9) .pic", modifiers=["Shift"])
    until(page, "document.getElementById('selected-count').textContent === '8 pictures selected'")
    page.click("#browse-grid .card:nth-child(4) .pic")  # while selecting, a click takes off or adds
    assert page.inner_text("#selected-count") == "7 pictures selected"
    assert page.is_hidden("#selected-right")  # there is no query
    page.click("#browse-all")
    until(page, "document.getElementById('selected-count').textContent === '400 pictures selected'")
    page.focus("#browse-grid .card:nth-child(1) .pic")
    page.keyboard.press("x")
    until(page, "document.getElementById('selected-count').textContent === '399 pictures selected'")
    page.keyboard.press("Escape")
    assert page.is_hidden("#selection")


def test_a_selection_is_downloaded(visit: Any, site: Any) -> None:
    page = visit("/#browse")
    for card in (1, 3):
        page.click(f"#browse-grid .card:nth-child({card}) .pic", modifiers=["ControlOrMeta"])
    with page.expect_download() as saved:
        page.click("#selected-csv")
    paths = site[1].state.session.index.paths
    lines = saved.value.path().read_text().splitlines()[1:]
    assert [line.split(",")[2] for line in lines] == [paths[0], paths[2]]
    says(page, "2 pictures in the CSV")
