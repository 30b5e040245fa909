"""`likewise serve` as a process: it listens, says where, leaves in good order, and has a sentence for what is wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sklearn.datasets import load_digits

import likewise

pytest.importorskip("fastapi")

SOURCE = Path(likewise.__file__).parents[1]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from likewise.baselines import LDA
    from likewise.retrieval import Index

    X, y = load_digits(return_X_y=True)
    made = Index.build(LDA().fit(X[:500], y[:500]), X[500:600], {"label": y[500:600]})
    return made.save(tmp_path_factory.mktemp("serve") / "digits.index")


@contextmanager
def _serving(index: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running server and its address."""
    command = [sys.executable, "-m", "likewise", "serve", str(index), "--port", "0", "--no-browser", *words]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert said.startswith("likewise: 100 items at http://"), said
            yield process, said.split(" at ")[1].split(" ")[0]
        finally:
            process.kill()


def _ask(address: str, **headers: str) -> Any:
    request = urllib.request.Request(address, headers=headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, (0, -signal.SIGTERM)), (signal.SIGINT, (130,))])
def test_it_serves_and_leaves_in_good_order(index: Path, sent: signal.Signals, code: tuple[int, ...]) -> None:
    with _serving(index, "--log-level", "debug") as (process, address):
        assert _ask(address + "api/search?row=1&k=3")["hits"]
        process.send_signal(sent)
        assert process.wait(20) in code
        assert process.stderr is not None
        said = process.stderr.read()
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [line["event"] for line in lines if line["event"] in ("start", "request")] == ["start", "request"]
    assert lines[1]["path"] == "/api/search"
    assert "Traceback" not in said


def test_for_others_it_asks_for_a_token(index: Path) -> None:
    with _serving(index, "--host", "0.0.0.0") as (_, address):
        token = address.split("token=")[1]
        port = address.split(":")[2].split("/")[0]
        where = f"http://127.0.0.1:{port}/api/status"
        assert _ask(where, Authorization=f"Bearer {token}")["items"] == 100
        with pytest.raises(urllib.error.HTTPError, match="401"):
            _ask(where)


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
        (["--token", "short"], "--token has 5 characters; expected at least 8"),
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
