"""A server of a million items: its start, memory and times, a person in a real browser, and 32 clients at once.

usage: python -m benchmarks.serve_million [--rows 1000000] [--width 128] [--seconds 60] [--folder DIR]
                                          [--neighbors 0] [--approximate auto] [--no-browser] [--store NAME]

The items are those of `benchmarks.catalogue`, indexed by `likewise index` and served by `likewise serve` in a process
of its own. Times are from the request to its whole answer, medians of 15. Chromium searches by an id, filters, scrolls
through 5,000 results, opens the map, zooms in, gives 20 marks and presses Learn. Then the clients of `benchmarks.load`
search. Memory is the resident set of the server, whose mapped files are part of it. With --folder, the index is kept
there and used again; with --store, the figures become docs/results/NAME.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks import catalogue
from benchmarks.page import READY, wait
from benchmarks.photo_story import CHROMIUM, FLAGS, LIKEWISE, fetch
from benchmarks.results import Figure, show_figures

SCROLLED, MARKS, CLIENTS = 5_000, 20, 32
LAST = "Math.max(-1, ...[...document.querySelectorAll('#grid-right .card:not(.blank)')].map((card) => card.place))"
NO_BLANK = "document.querySelector('#grid-right .card.blank') === null && document.querySelector('#grid-right .card')"


class Server:
    """A running `likewise serve`: its address, its process, and how long it took until it answered."""

    def __init__(self, index: Path) -> None:
        began = time.perf_counter()
        command = [*LIKEWISE, "serve", str(index), "--port", "0", "--no-browser", "--no-token"]
        self.process = subprocess.Popen([*command, "--log-level", "warning"], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        address = next(match for line in self.process.stderr if (match := re.search(r"http://[^ ]+", line)))
        self.address = address.group().rstrip("/")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()  # a full pipe would stop the server
        fetch(self.address, "/healthz")
        self.seconds = time.perf_counter() - began

    def memory(self, what: str = "VmRSS") -> float:
        """Gigabytes that are resident now, or at most (VmHWM), or not of a file (RssAnon)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split(f"{what}:")[1].split()[0]) / 1e6 * 1.024

    def processor(self) -> float:
        """Seconds of processor that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)


@contextmanager
def served(index: Path) -> Iterator[Server]:
    server = Server(index)
    try:
        yield server
    finally:
        server.close()


def built(folder: Path, words: argparse.Namespace) -> tuple[Path, dict[str, Any]]:
    """The index, and what `likewise index` said of it."""
    index, summary = folder / "catalogue.index", folder / "catalogue.json"
    if not index.exists():
        table = catalogue.write(folder / "catalogue.parquet", words.rows, words.width)
        options = ["--neighbors", words.neighbours]
        options += [] if words.approximate == "exact" else ["--approximate", words.approximate]
        command = [*LIKEWISE, "index", str(table), "-o", str(index), *options, "--json"]
        summary.write_text(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        table.unlink()
    return index, json.loads(summary.read_text())


def milliseconds(work: Callable[[int], object], times: int = 15) -> float:
    """The median over some calls, each with another number."""
    taken = []
    for number in range(times):
        began = time.perf_counter()
        work(number)
        taken.append(time.perf_counter() - began)
    return 1e3 * statistics.median(taken)


def requests(server: Server, n: int) -> Iterator[Figure]:
    """Times of single requests: searches, filters, pages, facets."""

    def search(row: int, **more: Any) -> Any:
        return fetch(server.address, "/api/search", {"like": [{"row": row % n}], "k": 60, **more})

    fetch(server.address, "/api/items?limit=24"), search(1), search(2, where=["price < 20"])
    yield Figure("search by an item", milliseconds(lambda i: search(7_919 * i + 3)), "ms", 50)
    yield Figure("search by raw features", milliseconds(lambda i: search(7_919 * i + 4, side="raw")), "ms")
    one = [f"kind = 'kind {i:02d}'" for i in range(15)]
    new, known = (milliseconds(lambda i, at=at: search(7_919 * i + at, where=[one[i]])) for at in (5, 6))
    yield Figure("the same among 2 %, a new filter", new, "ms")
    yield Figure("the same, a known filter", known, "ms")
    low = milliseconds(lambda i: search(7_919 * i + 7, where=["price < 20"]))
    yield Figure("the same among 26 %, a known filter", low, "ms")
    deep = milliseconds(lambda i: search(11, offset=60 * i + 4_000))
    yield Figure("a page of 60 after 4,000 results", deep, "ms")
    facets = milliseconds(lambda i: fetch(server.address, f"/api/facets?where=price%20%3C%20{20 + i}"))
    yield Figure("counts of all facets under a new filter", facets, "ms")


def person(server: Server, shots: Path | None) -> Iterator[Figure]:
    """What somebody does on the page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{server.address}/")
        wait(page, "document.querySelectorAll('#start-grid .card:not(.blank)').length > 3")
        began = time.perf_counter()
        page.fill("#ask-input", "item-00000777")
        page.keyboard.press("Enter")
        wait(page, READY)
        yield Figure("browser: an id to its results", time.perf_counter() - began, "s")
        yield Figure("browser: scrolled through 5,000 results", scrolled(page), "s")
        page.evaluate("scrollTo(0, 0)")
        began = time.perf_counter()
        page.fill("#where", "price < 20 and kind = 'kind 07'")
        page.keyboard.press("Enter")
        wait(page, "document.getElementById('status').textContent.includes('in this filter')")
        yield Figure("browser: a filter to its results", time.perf_counter() - began, "s")
        page.fill("#where", "")
        page.keyboard.press("Enter")
        wait(page, f"!document.getElementById('status').textContent.includes('in this filter') && {READY}")
        yield from taught(page)
        yield from mapped(page, shots)
        browser.close()


def scrolled(page: Any) -> float:
    """Seconds through the first results, a window at a time."""
    began = time.perf_counter()
    while page.evaluate(LAST) < SCROLLED:
        page.evaluate("scrollBy({ top: innerHeight, behavior: 'instant' })")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        wait(page, NO_BLANK)
    return time.perf_counter() - began


def taught(page: Any) -> Iterator[Figure]:
    """Twenty marks, one a second as a quick person gives them, and a lesson."""
    began = time.perf_counter()
    for place in range(MARKS):
        page.focus(f"#grid-right .card:nth-child({place + 1}) .pic")
        page.keyboard.press("r" if place % 3 != 2 else "w")
        wait(page, f"document.getElementById('count').textContent.startsWith('{place + 1} ')")
        page.wait_for_timeout(max(0, 1_000 * (place + 1 - (time.perf_counter() - began))))
    marked = time.perf_counter() - began
    began = time.perf_counter()
    page.click("#learn")
    wait(page, "document.getElementById('status').textContent.includes('Kept in')", 300)
    wait(page, READY)
    what = f"browser: Learn to the new ranking, after {MARKS} marks in {marked:.0f} s"
    yield Figure(what, time.perf_counter() - began, "s", 2)


def mapped(page: Any, shots: Path | None) -> Iterator[Figure]:
    """The map: its first sketch, zooming in, and neighbourhoods."""
    began = time.perf_counter()
    page.click("#view-map")
    wait(page, "document.getElementById('map-note').textContent.includes('points')", 120)
    yield Figure("browser: the first sketch of the map", time.perf_counter() - began, "s")
    wait(page, "document.getElementById('map-note').textContent.includes('lie together')", 600)
    yield Figure("browser: the map with neighbourhoods", time.perf_counter() - began, "s")
    page.wait_for_timeout(1_000)  # for the tiles, which are drawn as they come
    if shots is not None:
        page.screenshot(path=shots / "map-million.png")
    page.focus("#canvas")
    began = time.perf_counter()
    for _ in range(16):
        page.keyboard.press("+")
        page.wait_for_timeout(200)
        page.keyboard.press("Enter")  # does nothing before there are points
        if page.evaluate("document.getElementById('map-side').querySelector('.chosen') !== null"):
            break
    wait(page, "document.querySelector('#map-side .card') !== null")
    yield Figure("browser: zoomed in to a point and its neighbours", time.perf_counter() - began, "s")


def load(server: Server, queries: str, clients: int, seconds: float) -> dict[str, float]:
    """Latency of clients that search by random rows of the index, or by the rows of a .npy file."""
    where = urlsplit(server.address)
    words = [str(where.hostname), str(where.port), queries, str(clients), str(seconds)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load", *words], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout)


def figures(index: Path, summary: dict[str, Any], words: argparse.Namespace) -> Iterator[Figure]:
    """All of it, in order."""
    kind = summary["approximate"] or "exact"
    recall = "" if summary["recall"] is None else f", recall@10 {100 * summary['recall']:.1f} %"
    yield Figure(f"built: {kind}{recall}", summary["seconds"], "s")
    with served(index) as server:
        yield Figure("started, to the first answer", server.seconds, "s", 20)
        yield Figure("memory after the start", server.memory(), "GB", 2.5)
        yield from requests(server, summary["n_items"])
        if words.seconds:
            result = load(server, str(summary["n_items"]), CLIENTS, words.seconds)
            what = f"{CLIENTS} clients for {words.seconds:g} s, {kind}{recall}: p95 (p50 {result['p50_ms']:.0f} ms, "
            yield Figure(f"{what}{result['rate']:.0f} per second, {result['errors']} errors)", result["p95_ms"], "ms")
        if not words.no_browser:
            yield from person(server, words.shots)
        yield Figure("memory at the end", server.memory(), "GB", 2.5)
        yield Figure("memory at the end, without mapped files", server.memory("RssAnon"), "GB")
        yield Figure("memory at most", server.memory("VmHWM"), "GB", 2.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=60, help="how long the clients search; 0 for none")
    parser.add_argument("--folder", type=Path, help="folder for the index; default: a temporary one")
    parser.add_argument("--neighbors", default="0", help="as of likewise index")
    parser.add_argument("--approximate", default="auto", help="as of likewise index, or exact")
    parser.add_argument("--no-browser", action="store_true")
    parser.add_argument("--shots", type=Path, help="folder for a picture of the map")
    parser.add_argument("--store", help="name of the file in docs/results")
    words = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # as somebody at a laptop has them
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as temporary:
        index, summary = built(words.folder or Path(temporary), words)
        copy = shutil.copytree(index, Path(temporary) / "served.index")  # which is taught
        about = f"A server of {words.rows:,} × {words.width}, generated"
        show_figures(about, "python -m benchmarks.serve_million", figures(copy, summary, words), words.store)


if __name__ == "__main__":
    main()
