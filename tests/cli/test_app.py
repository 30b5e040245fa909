"""The application: help that teaches, exit codes, errors in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import likewise
from likewise.cli import VERBS, app
from likewise.cli.console import Verbs


def test_the_version_is_printed(run: Any) -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"likewise {likewise.__version__}\n")


def test_every_verb_is_listed_in_the_order_of_use(run: Any) -> None:
    help_text = run("--help").stdout
    places = [help_text.index(f"│ {verb} ") for verb in VERBS]
    assert places == sorted(places)
    assert (len(VERBS), VERBS[0], VERBS[-1]) == (20, "demo", "paper")
    assert "Exit codes" in help_text


def test_the_help_begins_with_three_ways_in_on_a_narrow_terminal(run: Any) -> None:
    lines = [
        line.strip() for line in run("--help", env={"COLUMNS": "80"}).stdout.split("╭")[0].splitlines() if line.strip()
    ]
    assert lines[2] == "Three ways in"
    assert [line.split("  ")[0] for line in lines[3:]] == [
        "likewise PHOTOS/", "likewise fit train.csv -o m.likewise", "likewise paper digits --quick"
    ]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_teaches_by_examples(run: Any, verb: str) -> None:
    result = run(verb, "--help", env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "Examples" in result.stdout
    assert sum(line.strip(" │").startswith("likewise ") for line in result.stdout.splitlines()) >= 3


@pytest.mark.parametrize(
    "words", [["fit"], ["fit", "data.csv"], ["nonsense"], ["doctor", "--nonsense", "x"], ["demo", "--seed", "many"]]
)
def test_wrong_usage_exits_with_2(run: Any, words: list[str]) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr


def test_a_missing_file_gets_one_sentence(run: Any, tmp_path: Path) -> None:
    result = run("doctor", tmp_path / "no.csv")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == f"likewise: error: {tmp_path / 'no.csv'} does not exist\n"


@pytest.mark.parametrize("how", ["option", "variable"])
def test_debug_shows_where_an_error_came_from(run: Any, tmp_path: Path, how: str) -> None:
    words = ["--debug"] if how == "option" else []
    result = run(*words, "doctor", tmp_path / "no.csv", env={"LIKEWISE_DEBUG": "1"} if how == "variable" else {})
    assert isinstance(result.exception, likewise.errors.LikewiseError)


def _failing(error: BaseException) -> Any:
    """An application whose one verb fails."""
    broken = typer.Typer(cls=Verbs, pretty_exceptions_enable=False)

    @broken.callback()
    def _options() -> None: ...

    @broken.command()
    def verb() -> None:
        raise error

    return CliRunner().invoke(broken, ["verb"])


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (KeyboardInterrupt(), 130, "likewise: stopped by Ctrl-C"),
        (MemoryError(), 2, "likewise: error: out of memory: MemoryError"),
        (OSError(28, "No space left on device"), 2, "likewise: error: [Errno 28] No space left on device"),
        (ValueError("Input X contains NaN.\nA paragraph of advice."), 2, "likewise: error: Input X contains NaN."),
        (KeyError("k"), 3, "likewise: error: KeyError: 'k' (a bug in likewise; likewise --debug shows the traceback)"),
        (
            ZeroDivisionError("by 0"),
            3,
            "likewise: error: ZeroDivisionError: by 0 (a bug in likewise; likewise --debug shows the traceback)",
        ),
    ],
)
def test_each_kind_of_failure_has_its_sentence_and_code(error: BaseException, code: int, sentence: str) -> None:
    result = _failing(error)
    assert (result.exit_code, result.stderr.strip(), result.stdout) == (code, sentence, "")


def test_the_names_of_completion_stay_as_typer_gives_them(run: Any) -> None:
    assert "--install-completion" in run("--help").stdout
    assert app.info.name == "likewise"


def test_a_word_that_is_neither_verb_nor_folder_is_refused_with_a_hint(run: Any) -> None:
    result = run("featurs", "photos", env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "No such command 'featurs'" in result.stderr


def test_a_verb_is_a_verb_even_if_a_folder_has_its_name(run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "doctor").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "Missing argument 'DATA'" in run("doctor", env={"COLUMNS": "200"}).stderr
    assert "doctor contains no image" in run("./doctor", "--port", 0, "--no-browser").stderr
