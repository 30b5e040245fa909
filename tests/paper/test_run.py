"""A run of the experiments from end to end, and a killed one that is resumed."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.processes import Python
from typer.testing import CliRunner, Result

import likewise
from likewise.cli import app
from likewise.paper.cells import COLUMNS
from likewise.paper.protocol import TrainingBudget
from likewise.utils.journal import Journal

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(likewise.__file__).parents[1])}
PICTURES = ("figure1.png", "figure2.png", "figure3.png", "theorem1.png", "corollary1.png")
# Enough for every method to beat Euclid, in half the time of --quick itself.
SMALL = TrainingBudget(
    rows=600, oasis_steps=8000, frml_steps=600, lmnn_rounds=1, lmnn_neighbours=(3,), curve_splits=1, curve_points=3,
    draws=40,
)  # fmt: skip


def _run(*words: object) -> Result:
    """`likewise paper digits --quick` in this process."""
    command = ["paper", "digits", "--quick", *map(str, words)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["likewise", *command])
        done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.stderr
    return done


def _rows(folder: Path) -> list[dict[str, str]]:
    """The table without its columns of seconds."""
    with open(folder / "cells.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: value for name, value in row.items() if not name.endswith("seconds")} for row in rows]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """The folder of a small run of everything, and what it printed."""
    folder = tmp_path_factory.mktemp("quick") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingBudget, "quick", lambda: SMALL)
        return folder, json.loads(_run("-o", folder, "--json").stdout)


@pytest.mark.second
def test_a_quick_run_writes_the_whole_report(whole: tuple[Path, dict[str, object]]) -> None:
    folder, summary = whole
    for name in ("report.md", "report.html", "cells.csv", *PICTURES):
        assert (folder / name).is_file()
        assert name in summary["files"]  # type: ignore[operator]
    for name in PICTURES:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
        assert (folder / name).stat().st_size < 300_000


@pytest.mark.second
def test_a_quick_run_has_every_method_and_every_experiment(whole: tuple[Path, dict[str, object]]) -> None:
    folder, summary = whole
    names = {entry["method"]: entry for entry in summary["methods"]}  # type: ignore[attr-defined]
    expected = {"Euclid", "LMNN", "FRML", "OASIS", "LDA", "SLR", "SLR-Fixed", "SLR-Whole", "SimilarityLearner"}
    assert expected <= set(names)
    assert any(name.startswith("SLR-G-") for name in names)
    assert any(name.startswith("SLR-C-") for name in names)
    for name, entry in names.items():
        assert entry["splits"] == 2
        assert entry["mAP"] > names["Euclid"]["mAP"] or name == "Euclid"
        assert (entry["training_seconds"] is None) == (name == "Euclid")
    rows = _rows(folder)
    assert {row["experiment"] for row in rows} == {
        "tables", "times", "figure2", "figure3", "theorem", "corollary", "choices",
    }  # fmt: skip
    assert {row["setting"] != "" for row in rows if row["experiment"] == "tables" and row["method"] == "OASIS"} == {
        True
    }


@pytest.mark.second
def test_the_report_answers_the_paper_s_questions(whole: tuple[Path, dict[str, object]]) -> None:
    text = (whole[0] / "report.md").read_text()
    for words in (
        "Tables 1 and 2", "lead of SLR", "Table 3: training time", "Figure 1", "T = 2", "SLR-Whole, closed form",
        "Figure 3", "measured / bound, form 1", "smallest m at which the bound", "It is vacuous", "ridge 0.1",
        "Corollary 1: convergence", "test rows rank the training rows", "likewise paper digits --quick", "numpy",
    ):  # fmt: skip
        assert words in text
    assert "nan" not in text.lower().split()
    page = (whole[0] / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(PICTURES)


@pytest.mark.second
def test_a_killed_run_is_resumed(tmp_path: Path) -> None:
    """After kill -9 halfway, --resume gives the table of an undisturbed run, except for the seconds."""
    words = ("--methods", "Euclid,OASIS,SLR,SLR-C-200", "--only", "table1,figure2,figure3", "--splits", "2")
    assert "of 19: " in _run(*words, "-o", tmp_path / "a").stderr
    command = ["-m", "likewise", "paper", "digits", "--quick", *words, "-o", tmp_path / "b"]
    with Python(*command, stderr=subprocess.DEVNULL) as process:
        while not _finished(tmp_path / "b") >= 7:
            time.sleep(0.005)
            assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
    n_rows = len(_rows(tmp_path / "b"))
    assert 0 < n_rows < len(_rows(tmp_path / "a"))
    assert not (tmp_path / "b" / "report.md").exists()
    resumed = _run(*words, "-o", tmp_path / "b", "--resume")
    assert "of 19: " not in resumed.stderr  # finished tasks are not done again
    assert _rows(tmp_path / "b") == _rows(tmp_path / "a")
    assert (tmp_path / "b" / "report.md").exists()


def _finished(folder: Path) -> int:
    """Tasks in the journal: its records less the header and the command."""
    return len(Journal(folder / "cells.sqlite").read()) - 2


def test_times_can_be_measured_again_at_the_settings_found(tmp_path: Path) -> None:
    words = ("--methods", "LDA,SLR", "--splits", "1", "-o", tmp_path / "out", "--resume", "--only")
    for only in ("table1", "table3", "table3"):
        _run(*words, only)
    rows = [row for row in _rows(tmp_path / "out") if row["experiment"] == "times"]
    assert [row["method"] for row in rows] == ["LDA", "SLR"]
    tables = {row["method"]: row["setting"] for row in _rows(tmp_path / "out") if row["experiment"] == "tables"}
    assert rows[0]["setting"] == tables["LDA"] != ""


def test_the_columns_of_seconds_are_known_by_their_names() -> None:
    assert [name for name in COLUMNS if "seconds" in name] == [name for name in COLUMNS if name.endswith("seconds")]
