"""A small real index (digits as pictures, a model learned from a few of them) and a real server in a thread."""

from __future__ import annotations

import json
import shutil
import struct
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

pytest.importorskip("fastapi")
pytest.importorskip("PIL")

from likewise.search import Index
from likewise.serve import Limits, ServerSettings, create_app
from likewise.serve.server import listening, server_for
from likewise.serve.session import SearchQuery
from likewise.serve.teaching import NothingToUndoError
from likewise.teach import load_index

N = 400
PNG = {"content-type": "image/png"}
SEARCH = {"like": [{"row": 1}], "k": 3}


@pytest.fixture(scope="session")
def made_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of 400 digits, each a picture of 32 × 32 pixels in a folder of its name."""
    from PIL import Image

    from likewise.pictures import Pixels, extract_folder
    from likewise.rivals import LDA

    folder = tmp_path_factory.mktemp("web")
    X, y = load_digits(return_X_y=True)
    for number in range(N):
        path = folder / "digits" / f"digit {y[number]}" / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.uint8(255 - X[number].reshape(8, 8) * 255 / 16).repeat(4, axis=0).repeat(4, axis=1)
        Image.fromarray(pixels).save(path)
    extract_folder(folder / "digits", folder / "digits.features", Pixels(size=8, colour=False))
    from likewise.rows import FeatureStore

    store = FeatureStore.open(folder / "digits.features")
    few = np.random.default_rng(0).permutation(N)[:40]  # few, so that there is something left to teach
    model = LDA(shrinkage=0.3).fit(np.asarray(store.features)[few], store.labels[few])
    Index.build(model, store).save(folder / "digits.index")
    return folder / "digits.index"


@pytest.fixture
def index_folder(made_index: Path, tmp_path: Path) -> Path:
    """A copy of the index, without anybody's feedback."""
    return Path(shutil.copytree(made_index, tmp_path / "digits.index"))


@pytest.fixture
def application(index_folder: Path) -> Callable[..., Any]:
    """Make an application."""

    def make(**settings: Any) -> Any:
        return create_app(load_index(index_folder), ServerSettings(**settings), index_folder)

    return make


@pytest.fixture
def client(application: Callable[..., Any]) -> Iterator[Any]:
    """A client in this process that speaks to the application as a browser on this machine does."""
    with talking(application()) as client:
        yield client


def doubtful(app: Any, most: int = 8) -> int:
    """The first item for which at least a third of the best 12 are right and a third wrong."""
    session = app.state.session
    hits = ((row, session.search(SearchQuery([row]), 12)) for row in range(len(session)))
    return next(row for row, result in hits if 4 <= sum(session.labels[i] == result.label for i in result.rows) <= most)


def ask(client: Any, **query: Any) -> dict[str, Any]:
    """The response to a search by examples."""
    answer = client.post("/api/search", json=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def png(width: int, height: int, rows: bytes) -> bytes:
    """A PNG file of grey pixels from its uncompressed rows."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def picture(side: int = 16) -> bytes:
    """A small PNG file."""
    return png(side, side, (b"\0" + bytes(range(side))) * side)


@contextmanager
def talking(app: Any, host: str = "127.0.0.1:8000") -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # starlette has thoughts about httpx
        from fastapi.testclient import TestClient
    with TestClient(app, base_url=f"http://{host}", raise_server_exceptions=False) as client:
        yield client


@contextmanager
def running(app: Any, limits: Limits | None = None, settings: ServerSettings | None = None) -> Iterator[int]:
    """Serve in a thread on a free port, and leave in good order."""
    with listening("127.0.0.1", 0) as client:
        server = server_for(app, settings or ServerSettings(limits=limits or Limits()))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [client]}, daemon=True)
        thread.start()
        until = time.monotonic() + 20
        while not server.started and time.monotonic() < until:
            time.sleep(0.02)
        try:
            yield client.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(15)
            assert not thread.is_alive()


# -- the page in a browser ---------------------------------------------------------------------------------------------

# The headless shell takes a fifth of the time of the whole browser, whose window is drawn although it is not shown.
CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))), None)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def plain_index(made_index: Path) -> Path:
    """The same digits without labels under the cosine of the raw features: nothing was learned yet."""
    from likewise.rivals import Cosine

    index = load_index(made_index)
    plain = Index.build(Cosine().fit(np.asarray(index.raw)), np.asarray(index.raw), {"path": index.paths})
    plain.root, plain.extractor, plain.extractor_file = index.root, index.extractor, index.extractor_file
    return plain.save(made_index.parent / "plain.index")


@pytest.fixture(scope="session")
def sure_index(made_index: Path) -> Path:
    """The same digits under a calibrated model that has not seen the nine; every third has a label."""
    from likewise import SimilarityLearner

    index = load_index(made_index)
    X, y = np.asarray(index.raw), np.array([str(label) for label in index.labels])
    some = np.random.default_rng(0).permutation(N)[:160]  # writers come one after the other: any others would not do
    learned = some[y[some] != "digit 9"]
    model = SimilarityLearner(random_state=0).fit(X[learned], y[learned])
    labels = np.where((np.arange(N) % 3 == 0) & (y != "digit 9"), y, None)
    sure = Index.build(model, X, {"path": index.paths, "label": labels})
    sure.root, sure.extractor, sure.extractor_file = index.root, index.extractor, index.extractor_file
    return sure.save(made_index.parent / "sure.index")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium; the tests are skipped where it is not installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the page is tested with playwright (extra 'dev')")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (apt-get install chromium-headless-shell)")
    with playwright.sync_playwright() as engine:
        started = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, Any]]:
    """The address of a running server, and its application."""
    app = create_app(load_index(folder), ServerSettings(), folder)
    with running(app) as port:
        yield f"http://127.0.0.1:{port}", app


@pytest.fixture(scope="module")
def site(made_index: Path) -> Iterator[Any]:
    """A server of labelled digits, shared by tests that teach nothing."""
    with serving(made_index) as client:
        yield client
        assert client[1].state.teaching.count == 0


@pytest.fixture(scope="module")
def plain_site(plain_index: Path) -> Iterator[Any]:
    """A server of digits without labels, shared by tests that teach nothing."""
    with serving(plain_index) as client:
        yield client
        assert client[1].state.teaching.count == 0


@pytest.fixture(scope="module")
def taught_site(made_index: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server of labelled digits, shared by tests that teach."""
    with serving(Path(shutil.copytree(made_index, tmp_path_factory.mktemp("taught") / "digits.index"))) as client:
        yield client


@pytest.fixture
def own_site(taught_site: Any) -> Iterator[Any]:
    """That server for a test that teaches; afterwards everything is taken back."""
    yield taught_site
    take_back(taught_site[1])


def take_back(app: Any) -> None:
    """Undo all that was taught, the last step first."""
    teaching = app.state.teaching
    teaching.job.wait(60)
    with suppress(NothingToUndoError):
        while True:
            teaching.undo()


@pytest.fixture
def visit(browser: Any, site: Any) -> Iterator[Callable[..., Any]]:
    """Open the shared page; afterwards there was no error on the console and no request to another host."""
    with visiting(browser, site[0]) as go:
        yield go


@pytest.fixture
def plain_visit(browser: Any, plain_site: Any) -> Iterator[Callable[..., Any]]:
    """Open the page without labels, as `visit` does."""
    with visiting(browser, plain_site[0]) as go:
        yield go


@pytest.fixture
def own_visit(browser: Any, own_site: Any) -> Iterator[Callable[..., Any]]:
    """Open the page of a test that teaches, as `visit` does."""
    with visiting(browser, own_site[0]) as go:
        yield go


@contextmanager
def visiting(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """A function that opens pages, and watches them for errors."""
    problems: list[str] = []
    contexts = []

    def watch(page: Any) -> None:
        loud = ("error", "warning")
        page.on("console", lambda message: problems.append(message.text) if message.type in loud else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: None if _ours(request.url, address) else problems.append(request.url))
        page.on("response", lambda got: problems.append(f"{got.status} {got.url}") if got.status >= 400 else None)

    def go(path: str = "/", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        watch(page)
        page.goto(address + path, wait_until="domcontentloaded")
        until(page, "!['Loading…', ''].includes(document.getElementById('status').textContent)")
        return page

    yield go
    for context in contexts:
        context.close()
    assert problems == [], problems


def _ours(url: str, address: str) -> bool:
    return url.startswith((address + "/", "blob:", "data:"))


def query(site: Any, row: int, more: str = "") -> str:
    """The address of a search by an item."""
    return f"/#search?like={site[1].state.session.index.identities.key(row)}{more}"


def rows_in(page: Any, grid: str) -> list[int]:
    """Row numbers of the cards of a grid, in order."""
    return page.eval_on_selector_all(f"#{grid} .card[data-row]", "cards => cards.map(card => +card.dataset.row)")


def until(page: Any, expression: str, seconds: float = 10) -> None:
    """Wait for something to be so; playwright's own way of waiting needs eval, which our policy forbids."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"{expression}; status: {page.inner_text('#status')}"
        page.wait_for_timeout(20)


def searched(page: Any) -> None:
    """Wait for the results."""
    until(page, "!document.querySelector('.grid.waiting') && document.querySelector('#grid-right .card') !== null")


def says(page: Any, words: str) -> None:
    """Wait for words in the status line."""
    until(page, f"document.getElementById('status').textContent.includes({json.dumps(words)})")


def focused_row(page: Any) -> int | None:
    """The row of the card that has the focus."""
    row = page.evaluate("document.activeElement.closest('.card')?.dataset.row ?? null")
    return None if row is None else int(row)
