"""The story of a photo library in a real browser: one command to the page, four concepts taught, kept, and taken along.

    python -m benchmarks.photo_story PHOTOS [--shots FOLDER]

PHOTOS has one folder of pictures per class (Caltech101). 600 of them are copied into one flat folder without labels
and opened with `likewise FOLDER`; Chromium searches for four of the classes, those that the raw features rank worst
(one probe each), marks the first ten results of each and presses Learn. Average precision is over pictures that nobody
marked. Then the server is started again, `likewise search` is asked the same, and the taught model serves 600 other
pictures. With --shots, screenshots and a recording are written.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

from likewise.evaluate import average_precision

N_CLASSES, N_PICTURES, N_CONCEPTS, N_MARKS = 16, 600, 4, 10
GOAL = 0.05
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-headless-shell")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
LIKEWISE = [sys.executable, "-m", "likewise"]


def flat_folders(photos: Path, folder: Path, seed: int) -> list[dict[str, str]]:
    """Two folders of pictures of the same classes, all in one level; the class of each file."""
    rng = np.random.default_rng(seed)
    classes = sorted(path.name for path in photos.iterdir() if path.is_dir() and len(list(path.iterdir())) >= 60)
    classes = [name for name in classes if name != "Faces_easy"]  # the same pictures as in Faces, cropped
    chosen = rng.choice(classes, N_CLASSES, replace=False)
    files = [(name, path) for name in chosen for path in rng.permutation(sorted((photos / name).iterdir()))[:80]]
    order = rng.permutation(len(files))[: 2 * N_PICTURES]
    truths: list[dict[str, str]] = []
    for half in range(2):
        place = folder / ("photos" if half == 0 else "others")
        place.mkdir()
        truth = {}
        for number, which in enumerate(order[half * N_PICTURES : (half + 1) * N_PICTURES]):
            name, path = files[which]
            truth[f"IMG_{number:04d}{path.suffix}"] = str(name)
            shutil.copyfile(path, place / f"IMG_{number:04d}{path.suffix}")
        truths.append(truth)
    return truths


@contextmanager
def served(*words: str) -> Iterator[str]:
    """`likewise …` in a process of its own; gives the address of the page."""
    command = [*LIKEWISE, *words, "--port", "0", "--no-browser", "--no-token", "--log-level", "warning"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if match := re.search(r"http://[^ ]+", line):
                yield match.group().rstrip("/")
                return
        raise RuntimeError("".join(lines))
    finally:
        process.terminate()
        process.wait(20)


def fetch(address: str, path: str, body: Any = None) -> Any:
    """JSON of the server."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(address + path, data, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)


def ranking(address: str, row: int, side: str) -> list[dict[str, Any]]:
    """All pictures, most similar first."""
    hits: list[dict[str, Any]] = []
    while True:
        page = fetch(address, "/api/search", {"like": [{"row": row}], "k": 200, "offset": len(hits), "side": side})
        hits += page["hits"]
        if len(page["hits"]) < 200:
            return hits


def unmarked_precision(hits: list[dict[str, Any]], truth: dict[str, str], name: str, marked: set[str]) -> float:
    """Average precision over the pictures that nobody marked."""
    others = [hit for hit in hits if hit["name"] not in marked]
    relevant = np.array([truth[hit["name"]] == name for hit in others])
    return float(average_precision(-np.arange(len(others), dtype=float), relevant))


class Story:
    """A browser that teaches, and takes pictures of what it sees."""

    def __init__(self, address: str, truth: dict[str, str], shots: Path | None) -> None:
        self.address, self.truth, self.shots = address, truth, shots
        self.marked: set[str] = set()
        self.n_marks = 0
        self.frames: list[tuple[bytes, int]] = []

    def teach(self, page: Any, item: dict[str, Any], name: str, recorded: bool) -> None:
        """Search by an item and mark its first results."""
        page.goto(f"{self.address}/#search?like={item['key']}")
        self._wait(page, "document.querySelectorAll('#grid-right .card').length > 12")
        self.marked.add(item["name"])
        self._frame(page, 1400, recorded)
        for _ in range(N_MARKS):  # the first that is not marked yet: the order follows the marks
            card = page.locator("#grid-right .card:not(.right):not(.wrong)").first
            label = next(name for name in self.truth if name in card.inner_text())
            card.hover()
            card.locator(".marks .right" if self.truth[label] == name else ".marks .wrong").click()
            self.marked.add(label)
            self.n_marks += 1
            self._wait(page, f"document.getElementById('count').textContent.startsWith('{self.n_marks} ')")
            self._wait(page, "!document.querySelector('.waiting')")
            self._frame(page, 350, recorded)

    def learn(self, page: Any) -> None:
        page.click("#learn")
        self._wait(page, "document.getElementById('status').textContent.includes('Kept in')")
        page.wait_for_timeout(600)
        self._frame(page, 4000, True)

    def shot(self, page: Any, name: str) -> None:
        if self.shots is not None:
            page.screenshot(path=str(self.shots / f"{name}.png"))

    def record(self, name: str) -> None:
        """The frames as one animated picture."""
        from PIL import Image

        if self.shots is None or not self.frames:
            return
        pictures = [Image.open(io.BytesIO(data)).convert("RGB").resize((960, 640)) for data, _ in self.frames]
        times = [milliseconds for _, milliseconds in self.frames]
        options = {"save_all": True, "append_images": pictures[1:], "duration": times, "loop": 0}
        pictures[0].save(self.shots / name, quality=62, method=4, **options)

    def _frame(self, page: Any, milliseconds: int, recorded: bool) -> None:
        if self.shots is not None and recorded:
            self.frames.append((page.screenshot(), milliseconds))

    @staticmethod
    def _wait(page: Any, expression: str) -> None:
        for _ in range(1500):
            if page.evaluate(expression):
                return
            page.wait_for_timeout(20)
        raise TimeoutError(f"{expression}; {page.inner_text('#status')}")


def taught_story(address: str, truth: dict[str, str], seed: int, shots: Path | None) -> tuple[list[Any], Story]:
    """Teach four concepts; their queries, and the story."""
    from playwright.sync_api import sync_playwright

    rng = np.random.default_rng(seed)
    items = [item for offset in range(0, N_PICTURES, 200) for item in listed(address, offset)]
    names = worst_ranked(address, truth, items, rng)
    queries = [(name, rng.choice([i for i in items if truth[i["name"]] == name])) for name in names]
    story = Story(address, truth, shots)
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 853})
        page.goto(address)
        story._wait(page, "document.querySelector('.card img')?.complete === true")
        page.wait_for_timeout(800)
        story.shot(page, "start")
        story._frame(page, 1500, True)
        for number, (name, item) in enumerate(queries):
            story.teach(page, item, name, recorded=number == N_CONCEPTS - 1)
        story.learn(page)
        story.shot(page, "learned")
        browser.close()
    return queries, story


def worst_ranked(address: str, truth: dict[str, str], items: list[Any], rng: np.random.Generator) -> list[str]:
    """The classes that raw features rank worst, for a random picture of each: these are worth teaching."""
    probes = [
        (name, rng.choice([i for i in items if truth[i["name"]] == name])) for name in sorted(set(truth.values()))
    ]
    before = precisions(address, truth, probes, set(), "raw")
    return [probes[place][0] for place in np.argsort(before)[:N_CONCEPTS][::-1]]  # the worst is taught last


def listed(address: str, offset: int) -> list[dict[str, Any]]:
    return fetch(address, f"/api/items?limit=200&offset={offset}")["items"]


def precisions(address: str, truth: dict[str, str], queries: list[Any], marked: set[str], side: str) -> np.ndarray:
    rankings = [(ranking(address, item["row"], side), name) for name, item in queries]
    return np.array([unmarked_precision(hits, truth, name, marked) for hits, name in rankings])


def order_on_the_command_line(index: Path, row: int, k: int) -> list[str]:
    done = subprocess.run([*LIKEWISE, "search", str(index), "--row", str(row), "-k", str(k), "--json"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    return [Path(hit["path"]).name for hit in json.loads(done.stdout)[0]["results"]]


def taken_along(folder: Path, truth: dict[str, str], names: list[str], seed: int) -> tuple[float, float]:
    """Mean average precision of the concepts among other pictures, raw and by the taught model."""
    run = [*LIKEWISE, "learn", str(folder / "photos.index"), "-o", str(folder / "taught.likewise")]
    subprocess.run(run, check=True, capture_output=True)
    subprocess.run([*LIKEWISE, "features", str(folder / "others"), "-o", str(folder / "others.features"), "--labels",
                    "none", "--quiet"], check=True, capture_output=True)  # fmt: skip
    lines = []
    for model in ([], [str(folder / "taught.likewise")]):
        index = folder / f"others{len(model)}.index"
        words = [*LIKEWISE, "index", *model, str(folder / "others.features"), "-o", str(index)]
        subprocess.run(words, check=True, capture_output=True)
        with served(str(index)) as address:
            items = [item for offset in range(0, N_PICTURES, 200) for item in listed(address, offset)]
            rng = np.random.default_rng(seed)
            queries = [(name, rng.choice([i for i in items if truth[i["name"]] == name])) for name in names * 5]
            lines.append(
                float(precisions(address, truth, queries, {i["name"] for _, i in queries[:0]}, "learned").mean())
            )
    return lines[0], lines[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--shots", type=Path, default=None)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.shots is not None:
        arguments.shots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        tell(Path(name), arguments.photos, arguments.seed, arguments.shots)


def tell(folder: Path, photos: Path, seed: int, shots: Path | None) -> None:
    truth, other_truth = flat_folders(photos, folder, seed)
    with served(str(folder / "photos")) as address:
        queries, story = taught_story(address, truth, seed, shots)
        before = precisions(address, truth, queries, story.marked, "raw")
        after = precisions(address, truth, queries, story.marked, "learned")
        rankings = [[hit["name"] for hit in ranking(address, item["row"], "learned")] for _, item in queries]
        card = fetch(address, "/api/status")["lesson"]
    for (name, _), one, two in zip(queries, before, after, strict=True):
        print(f"{name:>16}  AP {one:.3f} → {two:.3f}")
    gain = float((after - before).mean())
    print(f"{'mean':>16}  AP {before.mean():.3f} → {after.mean():.3f}  ({gain:+.3f}; goal +{GOAL})  lesson {card}")
    with served(str(folder / "photos")) as address:
        again = [[hit["name"] for hit in ranking(address, item["row"], "learned")] for _, item in queries]
    print(f"after a restart the same ranking: {again == rankings}")
    command = [order_on_the_command_line(folder / "photos.index", item["row"], 24) for _, item in queries]
    shared = np.mean([len({*one} & {*names[:24]}) / 24 for one, names in zip(command, rankings, strict=True)])
    print(f"likewise search, by taught coordinates, has {shared:.0%} of the first 24 of the page")
    raw, learned = taken_along(folder, other_truth, [name for name, _ in queries], seed)
    print(f"the taught model on {N_PICTURES} other pictures: raw {raw:.3f}, taught {learned:.3f}")
    story.record("teaching.webp")


if __name__ == "__main__":
    main()
