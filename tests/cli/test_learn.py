"""`likewise learn`, `suggest` and `concepts`: marks are learned, what to mark next, and which labels there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import likewise
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.teach import Feedback, Teacher, load_index, save_index
from likewise.teach.feedback import feedback_to_csv

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """300 digits whose ids are words, without labels."""
    ids = [f"digit {row}" for row in range(300)]
    return Index.build(Cosine().fit(X[:300]), X[:300], ids).save(tmp_path / "d.index")


def mark(index: Path) -> None:
    teacher = Teacher(load_index(index), Feedback(index))
    teacher.mark(0, [10, 20, 30], True)
    teacher.mark(0, [1, 2], False)
    teacher.label([5, 15, 25], "five")


def test_the_lesson_is_kept_with_the_index_and_said(run: Any, index: Path) -> None:
    mark(index)
    done = run("learn", str(index))
    assert done.exit_code == 0, done.output
    assert "lesson 1: 5 marks and 3 labels" in done.stdout
    assert "mAP" not in done.stdout  # there is none for labels that no item has
    before, after = (run("search", str(index), "--row", "0", "--json", *more).stdout for more in (["--before"], []))
    assert json.loads(before) != json.loads(after)
    labels = load_index(index).labels
    assert labels is not None
    assert labels[15] == "five"


def test_a_model_is_written_and_the_index_left_as_it_is(run: Any, index: Path, tmp_path: Path) -> None:
    mark(index)
    done = run("learn", str(index), "-o", str(tmp_path / "taught.likewise"), "--json")
    assert done.exit_code == 0, done.output
    card = json.loads(done.stdout)
    assert (card["marks"], card["labels"], card["model"]) == (5, 3, str(tmp_path / "taught.likewise"))
    assert Feedback(index).lessons == []
    model = likewise.load(tmp_path / "taught.likewise")
    assert Index.build(model, X[300:350]).vectors.shape[1] > 64


def test_the_marks_of_a_file_teach_another_index_with_the_same_items(run: Any, index: Path, tmp_path: Path) -> None:
    mark(index)
    (tmp_path / "feedback.csv").write_text(feedback_to_csv(Feedback(index).events()))
    order = np.random.default_rng(0).permutation(300)[:280]
    ids = [f"digit {row}" for row in order]
    other = Index.build(Cosine().fit(X[:300]), X[order], ids).save(tmp_path / "other.index")
    done = run("learn", str(other), "--feedback", str(tmp_path / "feedback.csv"))
    assert done.exit_code == 0, done.output
    labels = load_index(other).labels
    assert labels is not None
    named = {f"digit {row}" for row in (5, 15, 25)} & {f"digit {row}" for row in order}
    assert {name for name, label in zip(load_index(other).ids, labels, strict=True) if label} == named


def test_without_marks_or_with_a_strange_file_there_is_a_sentence(run: Any, index: Path, tmp_path: Path) -> None:
    done = run("learn", str(index))
    assert done.exit_code == 2
    assert "has no marks and labels to learn from" in done.stderr
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    done = run("learn", str(index), "--feedback", str(tmp_path / "x.csv"))
    assert done.exit_code == 2
    assert "has no marks: expected the columns item and label, or query, item and right" in done.stderr
    (tmp_path / "x.csv").write_text("kind,query,item,right\nmark,digit 1,digit 2,maybe\n")
    done = run("learn", str(index), "--feedback", str(tmp_path / "x.csv"))
    assert "line 2 of" in done.stderr
    assert "neither a mark" in done.stderr


def mark_zeros(index: Path) -> None:
    teacher = Teacher(load_index(index), Feedback(index))
    teacher.mark(0, np.flatnonzero(Y[:300] == 0)[1:6].tolist(), True)
    teacher.mark(0, np.flatnonzero(Y[:300] != 0)[:6].tolist(), False)
    teacher.label([5, 15, 25], "five")


def test_json_has_rows_reasons_and_nothing_that_was_marked(run: Any, index: Path) -> None:
    mark_zeros(index)
    done = run("suggest", index, "--query", 0, "-n", 7, "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    teacher = Teacher(load_index(index), Feedback(index))
    assert [one["row"] for one in answer["suggestions"]] == [one.row for one in teacher.suggest(7, query=0)]
    assert not {one["row"] for one in answer["suggestions"]} & {m.item.value for m in teacher.state().marks}
    assert answer["suggestions"][0]["id"] == f"digit {answer['suggestions'][0]['row']}"
    assert answer["suggestions"][0]["concept"] == "digit 0"


def test_a_table(run: Any, index: Path) -> None:
    mark_zeros(index)
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
        (["--label", "x", "--query", "1"], "--label and --query exclude each other: expected one"),
        (["--label", "x"], "label='x' was given to no item; expected one of none"),
    ],
)
def test_an_invalid_concept_is_refused_in_a_sentence(run: Any, index: Path, words: list[str], sentence: str) -> None:
    done = run("suggest", index, *words)
    assert done.exit_code == 2
    assert sentence in done.stderr


@pytest.fixture
def zeros(tmp_path: Path) -> Path:
    """500 digits without labels, of which some zeros were labelled and some others marked wrong for one."""
    folder = Index.build(Cosine(centre=True).fit(X), X[:500], [f"digit {row}" for row in range(500)]).save(
        tmp_path / "d.index"
    )
    teacher = Teacher(load_index(folder), Feedback(folder))
    rows = np.flatnonzero(Y[:500] == 0)
    teacher.label(rows[:12].tolist(), "zero")
    teacher.mark(int(rows[0]), np.flatnonzero(Y[:500] != 0)[:60:5].tolist(), False)
    teacher.learn()
    return folder


def test_a_label_is_listed_with_what_fits_it_and_what_is_new(run: Any, zeros: Path) -> None:
    done = run("concepts", zeros, "--json")
    assert done.exit_code == 0, done.output
    (concept,) = json.loads(done.stdout)["concepts"]
    assert (concept["label"], concept["items"], concept["new"]) == ("zero", 12, 0)
    assert concept["fitting"] > 20
    new = [500 + int(place) for place in np.flatnonzero(Y[500:700] == 0)[:5]]
    save_index(load_index(zeros).plus(X[new], [f"digit {row}" for row in new]), zeros)
    (concept,) = json.loads(run("concepts", zeros, "--json").stdout)["concepts"]
    assert concept["new"] >= 4
    assert "zero" in run("concepts", zeros).stdout


def test_the_list_has_all_items_with_their_labels(run: Any, zeros: Path, tmp_path: Path) -> None:
    done = run("concepts", zeros, "--csv", tmp_path / "c.csv")
    assert done.exit_code == 0, done.output
    lines = (tmp_path / "c.csv").read_text().splitlines()
    assert lines[0] == "id,label,probability"
    ids = [int(line.split(",")[0].removeprefix("digit ")) for line in lines[1:]]
    assert len(ids) > 32
    assert np.mean(Y[ids] == 0) > 0.9


def test_without_labels_there_are_no_concepts(run: Any, tmp_path: Path) -> None:
    folder = Index.build(Cosine().fit(X[:50]), X[:50]).save(tmp_path / "e.index")
    assert "was labelled: likewise serve" in run("concepts", folder).output
