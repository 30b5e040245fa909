"""The command line as a process of its own: pipes, colours, interrupts, no traceback.

One that meets an error and one that loses its reader are started from nothing, the others forked (`tests.processes`).
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from tests.processes import Python, ran

import likewise

SOURCE = Path(likewise.__file__).parents[1]
COMMAND = [sys.executable, "-m", "likewise"]


def _environment(**more: str) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    return {**environment, "PYTHONPATH": str(SOURCE), "TERM": "xterm-256color", **more}


def _run(*words: object, input: str = "") -> subprocess.CompletedProcess[str]:
    return ran("-m", "likewise", *words, input=input, env=_environment())


def _run_on_a_terminal(*words: object, **environment: str) -> str:
    """What the command writes to a terminal."""
    master, slave = pty.openpty()
    streams = {"stdout": slave, "stderr": slave}
    with Python("-m", "likewise", *words, **streams, env=_environment(**environment)) as process:
        os.close(slave)
        seen = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # Linux reports the end of a terminal as an error
                break
            if not piece:
                break
            seen += piece
        process.wait()
    os.close(master)
    return seen.decode()


def test_a_pipeline_of_verbs(files: Path, tmp_path: Path) -> None:
    text = (files / "train.csv").read_text()
    fitted = _run("fit", "-", "-o", tmp_path / "m", "--kernel", "linear", "--json", input=text)
    assert fitted.returncode == 0, fitted.stderr
    assert json.loads(fitted.stdout)["rows"] == 500
    measured = _run("evaluate", tmp_path / "m", files / "test.csv", "--json")
    assert measured.returncode == 0, measured.stderr
    assert measured.stderr == ""
    assert json.loads(measured.stdout)["gain"]["mAP"] > 0


def test_an_error_is_one_line_on_stderr(tmp_path: Path) -> None:
    command = [*COMMAND, "fit", "missing.npz", "-o", "m"]
    result = subprocess.run(command, capture_output=True, text=True, env=_environment(), check=False, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_debug_shows_the_traceback() -> None:
    result = _run("--debug", "doctor", "missing.csv")
    assert result.returncode != 0
    assert "Traceback" in result.stderr
    assert "LikewiseError: missing.csv does not exist" in result.stderr


def test_a_reader_that_leaves_early_is_not_an_error(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(30, 3))
    np.savez(tmp_path / "d.npz", X=X, y=np.zeros(30, dtype=int))
    command = f"{sys.executable} -m likewise doctor {tmp_path / 'd.npz'} | head -c 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, env=_environment(), check=False)
    assert "Traceback" not in result.stderr


def test_no_color_is_honoured_on_a_terminal(files: Path) -> None:
    colourful = _run_on_a_terminal("doctor", files / "train.npz")
    plain = _run_on_a_terminal("doctor", files / "train.npz", NO_COLOR="1")
    assert "\x1b[36m" in colourful  # the cyan of a note
    assert "\x1b[36m" not in plain
    assert "· note: " in plain


def test_learning_on_a_terminal_shows_a_bar_and_results_stay_on_stdout(files: Path, tmp_path: Path) -> None:
    seen = _run_on_a_terminal("fit", files / "train.npz", "-o", tmp_path / "m")
    assert "learning" in seen
    assert f"saved {tmp_path / 'm'}" in seen


def test_ctrl_c_exits_with_130_and_a_sentence(tmp_path: Path) -> None:
    """Opening a named pipe waits for its reader, so the interrupt comes when the reading has begun."""
    os.mkfifo(tmp_path / "d.csv")
    words = ["-m", "likewise", "doctor", tmp_path / "d.csv"]
    with Python(*words, stderr=subprocess.PIPE, env=_environment()) as process:
        with (tmp_path / "d.csv").open("w") as pipe:
            process.send_signal(signal.SIGINT)
            process.wait()
            pipe.close()
        assert process.stderr is not None
        printed = process.stderr.read()
    assert process.returncode == 130
    assert printed == "likewise: stopped by Ctrl-C\n"
