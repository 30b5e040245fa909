"""A small real index (digits as pictures, a model learned from a few of them) and a real server in a thread."""

from __future__ import annotations

import shutil
import struct
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

pytest.importorskip("fastapi")
pytest.importorskip("PIL")

from likewise.retrieval import Index
from likewise.web import Limits, ServerSettings, create_app
from likewise.web.server import listening, server_for

N = 400
PNG = {"content-type": "image/png"}
SEARCH = {"like": [{"row": 1}], "k": 3}


@pytest.fixture(scope="session")
def made_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of 400 digits, each a picture of 32 × 32 pixels in a folder of its name."""
    from PIL import Image

    from likewise.baselines import LDA
    from likewise.features import Pixels, extract_folder

    folder = tmp_path_factory.mktemp("web")
    X, y = load_digits(return_X_y=True)
    for number in range(N):
        path = folder / "digits" / f"digit {y[number]}" / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.uint8(255 - X[number].reshape(8, 8) * 255 / 16).repeat(4, axis=0).repeat(4, axis=1)
        Image.fromarray(pixels).save(path)
    extract_folder(folder / "digits", folder / "digits.features", Pixels(size=8, colour=False))
    from likewise.features import FeatureStore

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
    """Make an application; the rate is not limited unless a test wants it to be."""

    def make(**settings: Any) -> Any:
        settings.setdefault("rate_limited", False)
        return create_app(Index.load(index_folder), ServerSettings(**settings), index_folder)

    return make


@pytest.fixture
def client(application: Callable[..., Any]) -> Iterator[Any]:
    """A client in this process that speaks to the application as a browser on this machine does."""
    with talking(application()) as made:
        yield made


def doubtful(app: Any, most: int = 8) -> int:
    """The first item for which at least a third of the best 12 are right and a third wrong."""
    session = app.state.session
    hits = ((row, session.search([row], [], 12, "learned")) for row in range(len(session)))
    return next(row for row, result in hits if 4 <= sum(session.labels[i] == result.label for i in result.rows) <= most)


def found(client: Any, **query: Any) -> dict[str, Any]:
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
    with TestClient(app, base_url=f"http://{host}", raise_server_exceptions=False) as made:
        yield made


@contextmanager
def running(app: Any, limits: Limits | None = None) -> Iterator[int]:
    """Serve in a thread on a free port, and leave in good order."""
    with listening("127.0.0.1", 0) as made:
        server = server_for(app, limits or Limits())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [made]}, daemon=True)
        thread.start()
        until = time.monotonic() + 20
        while not server.started and time.monotonic() < until:
            time.sleep(0.02)
        try:
            yield made.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(15)
            assert not thread.is_alive()
