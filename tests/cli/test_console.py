"""What comes from data is printed as text, never obeyed by the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.cli.console import emit_json, note, printable, results
from likewise.rivals import Cosine
from likewise.search import Index

EVIL = "cat\x1b]0;owned\x1b[2J\x9b31m\u202egpj.exe\udcff"


def test_control_characters_become_their_pictures() -> None:
    assert printable("a\tb\nc") == "a\tb\nc"
    assert printable("\x1b[2J\r\x7f") == "␛[2J␍␡"
    assert printable("\x9b\u202e\udcff") == "\ufffd" * 3
    assert printable("čmelák 東京 🐝") == "čmelák 東京 🐝"


def test_json_escapes_them_and_reads_back(capsys: pytest.CaptureFixture[str]) -> None:
    emit_json({"path": EVIL})
    printed = capsys.readouterr().out
    assert not {"\x1b", "\x9b", "\u202e"} & set(printed)
    assert json.loads(printed)["path"] == EVIL


def test_notes_and_the_console_show_them(capsys: pytest.CaptureFixture[str]) -> None:
    note(EVIL)
    results().print(EVIL, markup=False)
    for printed in capsys.readouterr():
        assert "cat␛]0;owned␛[2J" in printed.replace("\n", "")
        assert not {"\x1b", "\x9b", "\u202e"} & set(printed)


def test_a_search_prints_no_escape_sequence_of_a_name(run: Any, tmp_path: Path) -> None:
    X = np.eye(4)
    names = [f"{number}\x1b[31m.jpg" for number in range(4)]
    Index.build(Cosine().fit(X), X, {"label": names}).save(tmp_path / "x.index")
    result = run("search", tmp_path / "x.index", "--row", 0)
    assert result.exit_code == 0, result.stderr
    assert "␛[31m.jpg" in result.stdout
    assert "\x1b" not in result.stdout
