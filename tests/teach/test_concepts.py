"""Named sets: found by label or by examples, counted by their probabilities, saved as a label in one step."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from likewise.errors import LikewiseError
from likewise.rivals import LDA, Cosine
from likewise.search import Index
from likewise.teach import Teacher
from likewise.teach.concepts import Concept, labelled, ranked, save_as_label, to_csv

X, Y = load_digits(return_X_y=True)
X, Y = X[:300].astype(np.float32), Y[:300]


@pytest.fixture
def index() -> Index:
    return Index.build(Cosine().fit(X), X, {"label": [f"digit {y}" if y < 5 else None for y in Y]})


def test_the_rows_of_a_label_are_those_of_the_index_and_those_taught(index: Index) -> None:
    assert labelled(index, "digit 3").rows.tolist() == np.flatnonzero(Y == 3).tolist()
    teacher = Teacher(index)
    teacher.label([5, 6], "mine")
    taught = index.with_labels(teacher.state().labels_of(index))
    assert labelled(taught, "mine").rows.tolist() == [5, 6]
    with pytest.raises(LikewiseError, match="no item of the index has the label 'digit3'; there is 'digit 3'"):
        labelled(index, "digit3")


@pytest.mark.parametrize("model", [Cosine(), LDA()])
def test_a_set_grows_by_what_is_like_its_members_and_unlike_the_others(model: Cosine | LDA) -> None:
    index = Index.build(model.fit(X, Y), X)
    members, others = np.flatnonzero(Y == 3)[:4], np.flatnonzero(Y == 9)[:4]
    rows, scores = ranked(index, members.tolist(), others.tolist())
    assert sorted([*rows, *members, *others]) == list(range(300))
    assert (np.diff(scores) <= 0).all()
    precision = [np.mean(Y[found[:20]] == 3) for found in (rows, ranked(index, members[:1].tolist())[0])]
    assert precision[0] > 0.8
    assert precision[0] >= precision[1]


def test_examples_that_contradict_each_other_have_a_sentence(index: Index) -> None:
    with pytest.raises(LikewiseError, match="row 3 is both inside and outside; expected one of them"):
        ranked(index, [2, 3], [3])
    with pytest.raises(LikewiseError, match="inside is empty; expected at least one row"):
        ranked(index, [])


def test_probabilities_say_how_many_are_wrong_and_which_to_look_at() -> None:
    concept = Concept("cat", np.array([4, 7, 9]), np.array([0.9, 0.5, 0.8]))
    assert concept.about_wrong == pytest.approx(0.8)
    assert concept.least_sure(2).tolist() == [7, 9]
    unknown = Concept("cat", np.array([4, 7]))
    assert unknown.about_wrong is None
    assert unknown.least_sure().tolist() == []
    with pytest.raises(LikewiseError, match=re.escape("probabilities has 1 numbers; expected 2, one per row")):
        Concept("cat", np.array([4, 7]), np.array([0.5]))


def test_a_set_is_saved_in_one_step_and_rows_with_another_label_keep_it(index: Index) -> None:
    teacher = Teacher(index)
    rows = np.flatnonzero((Y == 9) | (Y == 3))
    event, left = save_as_label(teacher, Concept("round", rows))
    assert left.tolist() == np.flatnonzero(Y == 3).tolist()
    assert event is not None
    assert len(event.items) == np.sum(Y == 9)
    assert teacher.state().labels == dict.fromkeys(np.flatnonzero(Y == 9).tolist(), "round")
    assert save_as_label(teacher, Concept("round", rows))[0] is None  # nothing is new
    teacher.undo()
    assert teacher.state().labels == {}


def test_the_list_is_what_labels_are_read_from(index: Index, tmp_path: Path) -> None:
    pictures = Index.build(Cosine().fit(X), X[:3], {"path": ["a.jpg", "b\n.jpg", "-c.jpg"]})
    to_csv(pictures, Concept("=cat", np.array([0, 1, 2]), np.array([1, 0.5, 0.25])), tmp_path / "list.csv")
    lines = (tmp_path / "list.csv").read_text().splitlines()
    assert lines == ["path,label,probability", "a.jpg,'=cat,1.0000", "b\\n.jpg,'=cat,0.5000", "'-c.jpg,'=cat,0.2500"]
    to_csv(index, Concept("cat", np.array([7])), tmp_path / "list.csv")
    assert (tmp_path / "list.csv").read_text() == "id,label\n7,cat\n"
