"""The page on a large library, in a real browser: the first page, scrolling, a lasso that labels, two who teach.

    python -m benchmarks.page INDEX [--starts N] [--seconds N]

INDEX is a folder written by `likewise index`; a copy of it is served by `likewise serve` in a process of its own. The
first page counts as there when every picture in the window is drawn. Scrolling goes a window at a time and counts cards
that are missing or blank once the page is at rest. The lasso goes around the middle of the map. Two
browsers mark results at once, one of them presses Learn now and then, and both must see every mark of the other.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.photo_story import CHROMIUM, FLAGS, fetch, served

GOAL_SECONDS, GOAL_LASSO = 1.0, 500
# Pictures whose card reaches into the window; all of them are drawn when the first page is there.
DRAWN = """() => {
  const cards = [...document.querySelectorAll('.card')].filter((card) => {
    const box = card.getBoundingClientRect();
    return box.width && box.bottom > 0 && box.top < innerHeight;
  });
  const pictures = cards.map((card) => card.querySelector('img')).filter(Boolean);
  return cards.length > 3 && cards.every((card) => !card.classList.contains('blank'))
    && pictures.every((picture) => picture.complete && picture.naturalWidth);
}"""
COUNT = "document.getElementById('count').textContent"
READY = "!document.querySelector('.grid.waiting') && document.querySelectorAll('#grid-right .card').length > 12"
PLACES = "[...document.querySelectorAll('#browse-grid .card:not(.blank)')].map((card) => +card.dataset.row)"


def wait(page: Any, expression: str, seconds: float = 60) -> float:
    """Seconds until something is so."""
    began = time.perf_counter()
    while not page.evaluate(expression):
        if time.perf_counter() - began > seconds:
            raise TimeoutError(expression)
        page.wait_for_timeout(5)
    return time.perf_counter() - began


def first_page(new_page: Callable[[], Any], address: str, view: str) -> float:
    """Seconds from the address to a window full of pictures."""
    page = new_page()
    began = time.perf_counter()
    page.goto(f"{address}/#{view}", wait_until="commit")
    wait(page, "document.querySelector('.card') !== null")
    wait(page, DRAWN)
    seconds = time.perf_counter() - began
    page.close()
    return seconds


def scrolled(page: Any, n_items: int) -> tuple[int, float]:
    """Items that were never seen on the way to the end, and the seconds it took."""
    page.evaluate("location.hash = '#browse'")
    wait(page, "document.querySelectorAll('#browse-grid .card').length > 3")
    seen: set[int] = set()
    began, bottom = time.perf_counter(), False
    while not bottom:
        wait(page, "document.querySelector('#browse-grid .card.blank') === null")
        seen.update(page.evaluate(PLACES))
        bottom = page.evaluate("scrollY + innerHeight >= document.documentElement.scrollHeight - 2")
        page.evaluate("scrollBy({ top: innerHeight, behavior: 'instant' })")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return n_items - len(seen), time.perf_counter() - began


def lassoed(page: Any, label: str) -> tuple[int, float]:
    """How many items a lasso selected, and the seconds it took to label them."""
    page.evaluate("location.hash = '#map'")
    wait(page, "document.getElementById('map-note').textContent.includes('lie together')", 300)
    page.click("#lasso")
    box = page.locator("#canvas").bounding_box()
    corners = [(0.3, 0.3), (0.7, 0.3), (0.7, 0.7), (0.3, 0.7)]
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=4)
    page.mouse.up()
    wait(page, "document.getElementById('selected-count').textContent.includes('selected')")
    n = int(page.inner_text("#selected-count").split()[0].replace(",", ""))
    page.click("#selected-label")
    page.keyboard.type(label)
    began = time.perf_counter()
    page.keyboard.press("Enter")
    wait(page, f"document.getElementById('status').textContent.includes('{label}')")
    return n, time.perf_counter() - began


def together(pages: list[Any], address: str, seconds: float) -> tuple[int, int, list[str]]:
    """Marks that two browsers made at once, entries of the journal, and what each page says of their number."""
    before, marked, number = len(fetch(address, "/api/feedback")), 0, 0
    keys = [item["key"] for item in fetch(address, "/api/items?limit=200")["items"]]
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for page in pages:
            page.goto(f"{address}/#search?like={keys[number]}")
        for page in pages:
            wait(page, f"location.hash.includes('{keys[number]}') && {READY}")
        number += 1
        for place in range(2, 12):
            page = pages[place % 2]
            page.focus(f"#grid-right .card:nth-child({place}) .pic")
            page.keyboard.press("r")
            marked += 1
    for page in pages:
        wait(page, f"{COUNT}.startsWith('{before + marked} ')", 20)
    return marked, len(fetch(address, "/api/feedback")) - before, [page.evaluate(COUNT) for page in pages]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("--starts", type=int, default=5, help="how often the first page is opened")
    parser.add_argument("--seconds", type=float, default=60, help="how long two browsers teach at once")
    words = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as engine:
        copy = shutil.copytree(words.index, Path(folder) / words.index.name)
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        began = time.perf_counter()
        with served("serve", str(copy)) as address:
            n = fetch(address, "/api/status")["items"]
            print(f"{n:,} items; the server answers after {time.perf_counter() - began:.1f} s")

            def new_page() -> Any:
                return browser.new_context(viewport={"width": 1280, "height": 900}).new_page()

            for view in ("search", "browse"):
                times = [first_page(new_page, address, view) for _ in range(words.starts)]
                summary = f"first {times[0]:.2f} s, then median {statistics.median(times[1:]):.2f} s"
                print(f"first page, {view:>6}: {summary} (goal {GOAL_SECONDS:g})", flush=True)
            page = new_page()
            page.goto(f"{address}/#browse")
            missing, seconds = scrolled(page, n)
            print(f"scrolled to the end in {seconds:.1f} s; {missing:,} items never shown (goal 0)", flush=True)
            count, seconds = lassoed(page, "from the middle")
            print(f"lasso: {count:,} items (goal {GOAL_LASSO}) labelled in {seconds:.2f} s")
            marked, stored, counts = together([page, new_page()], address, words.seconds)
            print(
                f"two browsers: {marked} marks in {words.seconds:g} s, {stored} in the journal; the pages say {counts}"
            )


if __name__ == "__main__":
    main()
