"""`likewise suggest`: which items to mark next, in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from likewise.rivals import Cosine
from likewise.search import Index
from likewise.teach import Feedback, Teacher, load_index


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """300 digits whose ids are words, without labels."""
    X = load_digits(return_X_y=True)[0][:300].astype(np.float32)
    return Index.build(Cosine().fit(X), X, [f"digit {row}" for row in range(300)]).save(tmp_path / "d.index")


def mark(index: Path) -> None:
    y = load_digits(return_X_y=True)[1][:300]
    teacher = Teacher(load_index(index), Feedback(index))
    teacher.mark(0, np.flatnonzero(y == 0)[1:6].tolist(), True)
    teacher.mark(0, np.flatnonzero(y != 0)[:6].tolist(), False)
    teacher.label([5, 15, 25], "five")


def test_json_has_rows_reasons_and_nothing_that_was_marked(run: Any, index: Path) -> None:
    mark(index)
    done = run("suggest", index, "--query", 0, "-n", 7, "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    teacher = Teacher(load_index(index), Feedback(index))
    assert [one["row"] for one in answer["suggestions"]] == [one.row for one in teacher.suggest(7, query=0)]
    assert not {one["row"] for one in answer["suggestions"]} & {m.item.value for m in teacher.state().marks}
    assert answer["suggestions"][0]["id"] == f"digit {answer['suggestions'][0]['row']}"
    assert answer["suggestions"][0]["concept"] == "digit 0"


def test_a_table(run: Any, index: Path) -> None:
    mark(index)
    done = run("suggest", index, "--query", 0)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("digit ") >= 10


def test_without_marks_it_is_a_start(run: Any, index: Path) -> None:
    done = run("suggest", index)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("many others are like it") == 10


def test_if_all_was_labelled_there_is_a_sentence(run: Any, index: Path) -> None:
    Teacher(load_index(index), Feedback(index)).label(list(range(300)), "all")
    done = run("suggest", index, "--label", "all")
    assert "nothing to suggest: every item was marked or labelled" in done.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--query", "none.jpg"], "--query none.jpg does not exist; expected a row of the index or an image file"),
        (["--label", "x", "--query", "1"], "--label and --query were given; expected one of them"),
        (["--label", "x"], "label='x' was given to no item; expected one of none"),
    ],
)
def test_what_is_no_concept_is_refused_in_a_sentence(run: Any, index: Path, words: list[str], sentence: str) -> None:
    done = run("suggest", index, *words)
    assert done.exit_code == 2
    assert sentence in done.stderr
