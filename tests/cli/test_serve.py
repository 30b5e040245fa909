"""`likewise serve` as a process: it listens, says where, leaves in good order, and has a sentence for what is wrong.

In the second tier one is started from nothing; the others are forked (`tests.processes`).
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from tests.processes import Python

import likewise
from likewise.rows import FeatureStore

pytest.importorskip("fastapi")

SOURCE = Path(likewise.__file__).parents[1]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from likewise.rivals import LDA
    from likewise.search import Index

    X, y = load_digits(return_X_y=True)
    digits = Index.build(LDA().fit(X[:500], y[:500]), X[500:600], {"label": y[500:600]})
    return digits.save(tmp_path_factory.mktemp("serve") / "digits.index")


COMMAND = [sys.executable, "-m", "likewise"]
QUIET = ["--port", "0", "--no-browser"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE)}
Process = subprocess.Popen[str] | Python


def _forked(*words: object, **options: Any) -> Python:
    return Python("-m", "likewise", *words, *QUIET, stderr=subprocess.PIPE, **options)


def _new(*words: object) -> subprocess.Popen[str]:
    command = [*COMMAND, *map(str, words), *QUIET]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


@contextmanager
def _started(*words: object, how: Callable[..., Process] = _forked, **options: Any) -> Iterator[tuple[Any, list[str]]]:
    """A running server, and its output up to the line with its address."""
    with how(*words, **options) as process:
        try:
            assert process.stderr is not None
            lines = [process.stderr.readline()]
            while lines[-1] and " at http://" not in lines[-1]:
                lines.append(process.stderr.readline())
            assert lines[-1], lines
            yield process, lines
        finally:
            process.kill()


def _address(line: str) -> str:
    return line.split(" at ")[1].split(" ")[0]


@contextmanager
def _serving(index: Path, *words: str, how: Callable[..., Process] = _forked) -> Iterator[tuple[Any, str]]:
    """A server of an index, and its address."""
    with _started("serve", index, *words, how=how) as (process, lines):
        assert len(lines) == 1
        assert lines[0].startswith("likewise: 100 items at http://")
        yield process, _address(lines[0])


def _ask(address: str, path: str, **headers: str) -> Any:
    """The answer to a request with the token of a printed address."""
    url, token = address.split("login?token=")
    headers = {"Authorization": f"Bearer {token}", **headers}
    request = urllib.request.Request(url + path, headers=headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize(
    ("how", "sent", "code"),
    [
        (_forked, signal.SIGTERM, (0, -signal.SIGTERM)),
        (_forked, signal.SIGINT, (130,)),
        pytest.param(_new, signal.SIGTERM, (0, -signal.SIGTERM), marks=pytest.mark.second),
    ],
    ids=["SIGTERM", "SIGINT", "SIGTERM-not-forked"],
)
def test_it_serves_and_leaves_in_good_order(
    index: Path, how: Callable[..., Process], sent: signal.Signals, code: tuple[int, ...]
) -> None:
    with _serving(index, "--log-level", "debug", how=how) as (process, address):
        assert _ask(address, "api/search?row=1&k=3")["hits"]
        process.send_signal(sent)
        assert process.wait(20) in code
        assert process.stderr is not None
        output = process.stderr.read()
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert [line["event"] for line in lines if line["event"] in ("start", "request")] == ["start", "request"]
    assert lines[1]["path"] == "/api/search"
    assert "Traceback" not in output


@pytest.mark.parametrize("words", [(), ("--host", "0.0.0.0")])
def test_every_request_needs_the_token_of_the_printed_address(index: Path, words: tuple[str, ...]) -> None:
    with _serving(index, *words) as (_, address):
        assert len(address.split("token=")[1]) >= 20
        local = re.sub(r"//.*:", "//127.0.0.1:", address)
        assert _ask(local, "api/status")["items"] == 100
        with pytest.raises(urllib.error.HTTPError, match="401"):
            _ask(local, "api/status", Authorization="Bearer none")


def test_a_token_of_the_environment_is_not_printed(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_TOKEN", "a long secret")
    with _started("serve", index, env={**os.environ}) as (_, lines):
        assert re.search(r"100 items at http://127.0.0.1:\d+/ with the token of LIKEWISE_TOKEN \(Ctrl-C", lines[0])
        assert "a long secret" not in "".join(lines)
        address = lines[0].split(" at ")[1].split(" ")[0]
        assert _ask(f"{address}login?token=a long secret", "api/status")["items"] == 100


def test_without_a_token_only_if_that_is_said(index: Path) -> None:
    with _serving(index, "--no-token") as (_, address):
        assert "token" not in address
        assert _ask(f"{address}login?token=", "api/status")["items"] == 100


def test_sighup_and_an_update_bring_the_new_version_and_a_rollback_the_old_one(index: Path, run: Any) -> None:
    from likewise.search import Index

    with _serving(index) as (process, address):
        read = Index.load(index)
        read.minus(read.ids[90:]).save(index)
        process.send_signal(signal.SIGHUP)
        _await(address, 90)
        assert run("index", index, "--rollback").exit_code == 0
        _await(address, 100)


def _workers(process: Any) -> list[int]:
    children = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    return [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def _are_gone(pids: list[int]) -> bool:
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.second
def test_workers_end_with_a_supervisor_that_is_killed(index: Path) -> None:
    with _serving(index, "--workers", "2", how=_new) as (process, _):
        workers = _workers(process)
        process.kill()
        assert len(workers) == 2
        assert _are_gone(workers)


@pytest.mark.second
def test_workers_answer_on_one_port_follow_the_index_are_replaced_and_leave_together(index: Path, run: Any) -> None:
    from likewise.search import Index

    def of_each(path: str, key: str) -> set[Any]:
        return {_ask(address, path)[key] for _ in range(30)}

    with _serving(index, "--workers", "2", how=_new) as (process, address):
        until = time.monotonic() + 60
        while len(boots := of_each("api/status", "boot")) < 2:
            assert time.monotonic() < until
        read = Index.load(index)
        read.minus(read.ids[90:]).save(index)
        process.send_signal(signal.SIGHUP)
        while of_each("api/status", "items") != {90}:
            assert time.monotonic() < until
        assert run("index", index, "--rollback").exit_code == 0
        workers = _workers(process)
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        while len(of_each("api/status", "boot") - boots) < 1:
            assert time.monotonic() < until
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)
    assert _are_gone(workers)


def _await(address: str, n: int) -> None:
    until = time.monotonic() + 20
    while _ask(address, "api/status")["items"] != n:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_port_in_use_gets_one_sentence(run: Any, index: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", index, "--port", port, "--no-browser")
    assert result.exit_code == 2
    assert result.stderr == f"likewise: error: port {port} of 127.0.0.1 is in use; choose another with --port\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--host", "300.1.1.1"], "cannot listen on 300.1.1.1 port 8000"),
        (["--proxy", "*"], "proxy '*' is not an IP address; expected an address or a network such as 10.0.0.0/8"),
        (["--workers", "2", "--text", "onnx:t.onnx"], "--text and --tokenizer are for one process"),
        (["--token", "a long secret", "--no-token"], "--no-token and a token (--token, or LIKEWISE_TOKEN) exclude"),
        (["--token", "short"], "--token has 5 characters; expected 12 to 128"),
    ],
)
def test_wrong_words_get_one_sentence(run: Any, index: Path, words: list[str], sentence: str) -> None:
    result = run("serve", index, "--no-browser", *words)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_what_is_no_index_gets_one_sentence(run: Any, tmp_path: Path) -> None:
    result = run("serve", tmp_path / "no.index", "--no-browser")
    assert (result.exit_code, result.stderr) == (2, f"likewise: error: {tmp_path / 'no.index'} does not exist\n")


# ---------------------------------------------------------------------------------------------------------------------
# A folder of pictures


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Thirty digits as small pictures, in three folders."""
    X, y = load_digits(return_X_y=True)
    for digit, name in enumerate(("zero", "one", "two")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for row in np.flatnonzero(y == digit)[:10]:
            Image.fromarray((X[row].reshape(8, 8) * 15).astype(np.uint8)).save(
                tmp_path / "photos" / name / f"{row}.png"
            )
    return tmp_path / "photos"


def test_a_folder_of_pictures_is_extracted_learned_indexed_and_served(photos: Path) -> None:
    with _started(photos, "-e", "pixels") as (_, lines):
        status = _ask(_address(lines[-1]), "api/status")
        assert (status["items"], status["labels"], status["model"]) == (30, 3, "SimilarityLearner")
    labels, read, learned, held_out, ready = lines
    assert labels == ("likewise: 3 folders with 10 pictures each: used as labels (--labels none leaves them out)\n")
    assert read.startswith("likewise: 30 pictures read in ")
    assert learned == "likewise: learned from 30 labelled pictures\n"
    assert held_out.startswith("likewise: held-out mAP ")
    assert ready.startswith("likewise: 30 items at http://")


def test_a_second_call_goes_on_where_it_was(photos: Path) -> None:
    with _started(photos, "-e", "pixels", "--labels", "none"):
        pass
    with _started("serve", ".", cwd=photos) as (_, lines):
        assert lines[0] == "likewise: 30 pictures: none new, none gone\n"
        assert len(lines) == 2
    next(photos.rglob("*.png")).unlink()
    (photos / "broken.jpg").write_bytes(b"half a pict")
    with _started(photos) as (_, lines):
        details = FeatureStore.open(photos.parent / "photos.features").version / "skipped.csv"
        status = _ask(_address(lines[-1]), "api/status")
        assert (status["items"], status["labels"], status["model"]) == (29, 0, "Cosine")
    assert lines[:-1] == [
        "likewise: 29 pictures: 1 gone\n",
        f"likewise: skipped 1 file: 1 not a supported image format (details: {details})\n",
    ]


@pytest.mark.parametrize(("answer", "labels"), [(b"\n", 3), (b"n\n", 0)])
def test_on_a_terminal_it_asks_about_the_folders(photos: Path, answer: bytes, labels: int) -> None:
    ours, its = os.openpty()
    words = ["-m", "likewise", photos, "-e", "pixels", *QUIET]
    with Python(*words, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        try:
            _read_until(ours, "3 folders with 10 pictures each: use them as labels? [Y/n]: ")
            os.write(ours, answer)
            text = _read_until(ours, "(Ctrl-C stops)")
            assert _ask(_address(text[text.rindex("items at") :]), "api/status")["labels"] == labels
        finally:
            process.kill()
            os.close(ours)


def _read_until(terminal: int, words: str) -> str:
    text = ""
    while words not in text:
        text += os.read(terminal, 4096).decode(errors="replace")
    return text


def test_a_folder_without_pictures_gets_one_sentence(run: Any, tmp_path: Path) -> None:
    result = run(tmp_path, "--no-browser", "--port", 0)
    assert result.exit_code == 2
    formats = "jpg, png, webp, gif, bmp, tiff, heic, avif"
    assert result.stderr == f"likewise: error: {tmp_path} contains no image ({formats})\n"


def test_options_for_pictures_are_refused_for_an_index(run: Any, index: Path) -> None:
    result = run("serve", index, "--labels", "none", "--no-browser", "--port", 0)
    assert result.stderr == f"likewise: error: --labels is for a folder of pictures, and {index} is an index\n"


def test_options_for_pictures_are_refused_for_features(run: Any, photos: Path) -> None:
    run("features", photos, "-o", photos.parent / "mine.features", "-e", "pixels")
    result = run("serve", photos.parent / "mine.features", "--labels", "none", "--no-browser", "--port", 0)
    assert "--labels is for a folder of pictures, and " in result.stderr
