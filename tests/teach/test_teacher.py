"""Teaching: a few clicks raise the mAP of items nobody clicked on, for any model, and can be taken back."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.processes import Python
from tests.search.conftest import MODELS, Digits

import likewise
from likewise.errors import LikewiseError
from likewise.evaluate import mean_average_precision
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.search.items import ItemRef
from likewise.teach import Feedback, Taught, Teacher, learning, load_index
from likewise.teach.teacher import in_force


@pytest.fixture
def gallery(digits: Digits) -> tuple[np.ndarray, np.ndarray]:
    """900 digits: 600 without a label, to be clicked on, and 300 with one, to be measured on."""
    X, y, _, _ = digits
    return X[:900].astype(np.float32), y[:900]


def teacher_of(model: Any, gallery: tuple[np.ndarray, np.ndarray], **options: Any) -> Teacher:
    """A teacher without labels; the last third of the gallery is measured on."""
    return Teacher(Index.build(model, gallery[0]), **options)


def held_out(index: Any, y: np.ndarray) -> float:
    """mAP of the last third of the gallery."""
    V = index.vectors[600:900]
    return float(mean_average_precision(V, V, y[600:900]))


def click(teacher: Teacher, y: np.ndarray, n_queries: int, seed: int, flip: bool = False) -> None:
    """Four marks for each of some queries among their first 20 results: wrong ones first, then the last right ones."""
    rng = np.random.default_rng(seed)
    for query in rng.choice(600, n_queries, replace=False):
        top = teacher.index.search(rows=[query], k=100).rows[0]
        top = top[top < 600][:20]
        wrong, right = top[y[top] != y[query]][:2], top[y[top] == y[query]][::-1]
        for item in [*wrong, *right][:4]:
            teacher.mark(int(query), int(item), bool(y[item] == y[query]) != flip)


@pytest.mark.parametrize("seed", range(3))
def test_20_marks_on_an_untrained_model_raise_the_map_of_held_out_items(
    gallery: tuple[np.ndarray, np.ndarray], seed: int
) -> None:
    X, y = gallery
    teacher = teacher_of(Cosine(centre=True).fit(X), gallery)
    before = held_out(teacher.index, y)
    click(teacher, y, 5, seed)
    lesson = teacher.learn()
    assert lesson.n_marks == 20
    assert held_out(lesson.index, y) > before + 0.02


def test_right_marks_teach_more_than_the_same_marks_turned_round(gallery: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = gallery
    gains = []
    for flip in (False, True):
        teacher = teacher_of(Cosine(centre=True).fit(X), gallery)
        click(teacher, y, 5, 0, flip)
        gains.append(held_out(teacher.learn().index, y))
    assert gains[0] > gains[1] + 0.01


def test_30_labels_raise_it_by_a_tenth(gallery: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = gallery
    teacher = teacher_of(Cosine(centre=True).fit(X), gallery)
    for item in np.random.default_rng(0).choice(600, 30, replace=False):
        teacher.label(int(item), int(y[item]))
    before = held_out(teacher.index, y)
    lesson = teacher.learn()
    assert held_out(lesson.index, y) > before + 0.1
    assert lesson.index.labels is not None
    assert sum(label is not None for label in lesson.index.labels) == 30


@pytest.mark.parametrize("name", [name for name in MODELS if name != "posterior"])
def test_every_model_can_be_taught_a_new_label(
    fitted: dict[str, Any], gallery: tuple[np.ndarray, np.ndarray], name: str
) -> None:
    """Ten examples of one class under a new name: other items of it come closer to each other."""
    X, y = gallery
    teacher = teacher_of(fitted[name], gallery)
    members = np.flatnonzero(y[:600] == 8)
    for item in members[:10]:
        teacher.label(int(item), "snowman")
    lesson = teacher.learn()
    assert isinstance(lesson.model, Taught)

    def precision(model: Any) -> float:
        Q = X[600:][y[600:] == 8]
        S = model.similarity(Q, X[600:])
        S[S.max(axis=1, keepdims=True) == S] = -np.inf
        return float(np.mean(y[600:][np.argsort(-S, axis=1)[:, :20]] == 8))

    assert precision(lesson.model) > precision(fitted[name])


def test_marking_changes_the_ranking_of_the_marked_query(gallery: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = gallery
    teacher = teacher_of(Cosine(centre=True).fit(X), gallery)
    before = teacher.index
    found = before.search(rows=[3], k=20).rows[0]
    teacher.mark(3, int(found[15]), True)
    teacher.mark(3, int(found[1]), False)
    after = teacher.learn().index
    now = after.search(rows=[3], k=899).rows[0].tolist()
    assert now.index(found[15]) < 15
    assert now.index(found[1]) > 1


def test_a_query_from_outside_teaches_too(gallery: tuple[np.ndarray, np.ndarray], digits: Digits) -> None:
    X, y = gallery
    teacher = teacher_of(Cosine(centre=True).fit(X), gallery)
    query = digits[2][0].astype(np.float32)
    rows = teacher.index.search(query, k=30).rows[0]
    for item in rows[y[rows] == digits[3][0]][:5]:
        teacher.mark(query, int(item), True)
    wanted = y == digits[3][0]
    before = mean_average_precision(teacher.base.transform_query(query[None]), teacher.index.vectors, digits[3][:1], y)
    lesson = teacher.learn()
    after = mean_average_precision(lesson.model.transform_query(query[None]), lesson.index.vectors, digits[3][:1], y)
    assert wanted.any()
    assert after > before


def test_items_of_an_untouched_kind_keep_their_vectors(gallery: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = gallery
    teacher = teacher_of(Cosine(centre=True).fit(X), gallery)
    for item in np.flatnonzero(y[:600] == 0)[:5]:
        teacher.label(int(item), 0)
    lesson = teacher.learn()
    extra = lesson.index.vectors[:, X.shape[1] :]
    assert np.mean(extra[y == 0] > 0) > 0.5
    assert np.mean(extra[y != 0] > 0) < 0.2


def test_a_large_gallery_is_taught_through_some_of_its_rows(
    gallery: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "MOST_ROWS", 400)
    X, y = gallery
    teacher = teacher_of(Cosine(centre=True).fit(X), gallery)
    before = held_out(teacher.index, y)
    click(teacher, y, 8, 0)
    assert held_out(teacher.learn().index, y) > before


def test_undo_brings_back_what_was(gallery: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = gallery
    teacher = teacher_of(Cosine(centre=True).fit(X), gallery)
    start = teacher.index
    teacher.label(5, "a")
    teacher.mark(1, 2, True)
    undone = [teacher.undo(), teacher.undo(), teacher.undo()]
    assert [event and event.kind for event in undone] == ["mark", "label", None]
    lesson = teacher.learn()
    assert lesson.model is teacher.base
    np.testing.assert_allclose(lesson.index.vectors, start.vectors, atol=1e-6)
    np.testing.assert_array_equal(lesson.index.labels, start.labels)


def test_a_taught_model_is_saved_loaded_and_taught_further(
    gallery: tuple[np.ndarray, np.ndarray], tmp_path: Path, fitted: dict[str, Any]
) -> None:
    X, _ = gallery
    for name in ("bilinear", "kernel", "cosine"):
        teacher = teacher_of(fitted[name], gallery)
        teacher.mark(0, 1, True)
        lesson = teacher.learn()
        lesson.index.save(tmp_path / "a.index")
        loaded = load_index(tmp_path / "a.index")
        assert type(loaded.model.base) is type(fitted[name])  # type: ignore[attr-defined]
        np.testing.assert_allclose(loaded.model.transform(X[:9]), lesson.model.transform(X[:9]), atol=2e-4)
        np.testing.assert_allclose(loaded.vectors[:9], lesson.index.vectors[:9], atol=2e-4)
        np.testing.assert_array_equal(loaded.search(X[:9]).ids, lesson.index.search(X[:9]).ids)
        further = Teacher(loaded)
        assert further.base is loaded.model  # what the model was taught stays, whatever it is taught next
        further.mark(20, 21, True)
        np.testing.assert_array_equal(further.learn().index.model.base.landmarks_, lesson.model.landmarks_)  # type: ignore[attr-defined]
        lesson.model.save(tmp_path / "taught.likewise")
        assert isinstance(likewise.load(tmp_path / "taught.likewise"), Taught)


def test_the_journal_is_taken_over_and_written_before_a_mark_counts(
    gallery: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    X, _ = gallery
    model = Cosine(centre=True).fit(X)
    teacher = teacher_of(model, gallery, feedback=Feedback(tmp_path))
    teacher.mark(0, 1, True)
    teacher.mark(X[0], 2, False)
    teacher.label(3, "x")
    teacher.undo()
    again = teacher_of(model, gallery, feedback=Feedback(tmp_path))
    assert again.events == teacher.events
    assert len(again.events) == 2
    np.testing.assert_array_equal(again.learn().index.vectors, teacher.learn().index.vectors)


def test_known_labels_join_in_unless_the_marks_contradict_them(gallery: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = gallery
    columns, marked = [], []
    for right in (True, False):
        teacher = Teacher(Index.build(Cosine(centre=True).fit(X), X, {"label": y}))
        same = np.flatnonzero(y == 4)
        teacher.mark(int(same[0]), int(same[1]), right)
        extra = teacher.learn().index.vectors[:, X.shape[1] :]
        columns.append(float(np.mean(extra[same])))
        marked.append(float(extra[same[1], 0]))
    assert columns[0] > columns[1]
    assert marked[0] > 0
    assert marked[1] < 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.mark(3, 3, True), "item 3 is the query itself; mark another"),
        (lambda t: t.mark(3, 9000, True), "row 9000 is not in the index"),
        (lambda t: t.mark(np.ones(3), 1, True), "expected rows of 64 numbers"),
        (lambda t: t.label(3, " "), "label=' '; expected a name"),
        (lambda t: t.label([3, 9000], "x"), "row 9000 is not in the index"),
    ],
)
def test_what_cannot_be_taught_gets_a_sentence(gallery: tuple[np.ndarray, np.ndarray], call: Any, message: str) -> None:
    teacher = teacher_of(Cosine(centre=True).fit(gallery[0]), gallery)
    with pytest.raises(LikewiseError, match=message):
        call(teacher)
    assert teacher.events == []


def test_without_labels_there_is_nothing_to_measure_and_learning_works(digits: Digits) -> None:
    X = digits[0][:200]
    teacher = Teacher(Index.build(Cosine().fit(X), X))
    teacher.mark(0, 1, True)
    lesson = teacher.learn()
    assert isinstance(lesson.model, Taught)


def test_items_with_text_ids_are_taught_by_row(digits: Digits) -> None:
    X = digits[0][:200]
    teacher = Teacher(Index.build(Cosine().fit(X), X, [f"item {row}" for row in range(200)]))
    event = teacher.mark(0, 1, True)
    assert (event.queries, event.items) == ((ItemRef("item 0"),), (ItemRef("item 1"),))
    assert teacher.label(7, "x").items == (ItemRef("item 7"),)
    assert isinstance(teacher.learn().model, Taught)


def test_several_queries_and_items_are_one_step(digits: Digits, tmp_path: Path) -> None:
    X = digits[0][:50]
    teacher = Teacher(Index.build(Cosine().fit(X), X), Feedback(tmp_path))
    with pytest.raises(LikewiseError, match="item 3 is the query itself; mark another"):
        teacher.mark([1, 2, 3], 3, True)
    assert teacher.events == Feedback(tmp_path).events() == []
    teacher.mark([1, 2], [3, 4], True)
    teacher.label([7, 8, 9], "x")
    assert len(Feedback(tmp_path).events()) == 2
    assert len(teacher.state().marks) == 4
    assert teacher.state().labels == {7: "x", 8: "x", 9: "x"}
    teacher.undo()
    assert teacher.state().labels == {}


def test_the_last_word_counts(digits: Digits) -> None:
    X = digits[0][:50]
    teacher = Teacher(Index.build(Cosine().fit(X), X, {"label": ["a"] * 50}))
    teacher.mark(1, [3, 4, 5], True)
    teacher.mark(1, 4, False)
    teacher.mark(1, 5, None)
    assert [(mark.item.value, mark.right) for mark in teacher.state().marks] == [(3, True), (4, False)]
    teacher.label([7, 8], "x")
    teacher.label(8, None)
    labels = teacher.learn().index.labels
    assert labels is not None
    assert labels[6:9].tolist() == ["a", "x", None]


# -- lessons last -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(gallery: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> Path:
    """A saved index of 300 digits without labels."""
    X = gallery[0][:300]
    return Index.build(Cosine(centre=True).fit(X), X, n_neighbors=5).save(tmp_path / "a.index")


def taught(folder: Path) -> Teacher:
    teacher = Teacher(load_index(folder), Feedback(folder))
    teacher.mark(0, [1, 2, 3], True, "Anna")
    teacher.mark(0, [4, 5], False, "Anna")
    teacher.label([10, 11, 12], "new", "Ben")
    return teacher


def test_a_lesson_is_there_after_a_restart(folder: Path) -> None:
    lesson = taught(folder).learn("Anna")
    again = load_index(folder)
    np.testing.assert_array_equal(again.vectors, lesson.index.vectors)
    assert again.labels is not None
    assert again.labels[10] == "new"
    assert Index.load(folder).labels is None
    np.testing.assert_array_equal(Index.load(folder).vectors, lesson.index.index.vectors)


def test_files_of_lessons_are_kept_by_their_order_whatever_the_clock_says(folder: Path) -> None:
    teacher, names = taught(folder), []
    for row in range(20, 31):
        teacher.mark(0, row, True)
        names.append(teacher.learn().event.id)
        for file in (folder / "lessons").iterdir():
            os.utime(file, (2e9 - row, 2e9 - row))  # the clock goes backwards
    assert sorted(file.name.partition("-")[0] for file in (folder / "lessons").iterdir()) == sorted(names[-8:])


def test_a_lesson_is_not_written_where_the_folder_was_taken_away(folder: Path) -> None:
    teacher = taught(folder)
    folder.rename(folder.with_name("unplugged"))
    with pytest.raises(LikewiseError, match="is gone"):
        teacher.learn()
    assert not folder.exists()


def test_a_lesson_that_is_taken_back_is_gone_after_a_restart_too(folder: Path) -> None:
    teacher = taught(folder)
    before = teacher.index.vectors
    first = teacher.learn("Anna").index.vectors
    teacher.mark(0, 20, True, "Anna")
    teacher.learn("Anna")
    for expected in (first, before):
        while (undone := teacher.undo("Anna")) is not None and undone.kind != "lesson":
            pass
        np.testing.assert_array_equal(teacher.index.vectors, expected)
        np.testing.assert_array_equal(load_index(folder).vectors, expected)


def test_a_lesson_is_learned_again_where_its_file_is_lost_or_the_model_another(
    folder: Path, gallery: tuple[np.ndarray, np.ndarray]
) -> None:
    lesson = taught(folder).learn()
    for file in (folder / "lessons").iterdir():
        file.unlink()
    np.testing.assert_allclose(load_index(folder).vectors, lesson.index.vectors, atol=1e-5)
    assert list((folder / "lessons").iterdir())  # and kept
    X = gallery[0][:300]
    Index.build(Cosine().fit(X), X).save(folder)
    again = load_index(folder)
    assert isinstance(again.model, Taught)
    assert isinstance(again.model.base, Cosine)
    assert not again.model.base.centre


def test_a_taught_index_is_saved_in_its_own_folder_without_being_taught_twice(folder: Path) -> None:
    taught(folder).learn()
    loaded = load_index(folder)
    loaded = loaded.plus(loaded.raw[:2] + 1)
    loaded.save(folder)
    again = load_index(folder)
    assert len(again) == 302
    assert isinstance(again.model.base, Cosine)  # type: ignore[attr-defined]
    np.testing.assert_allclose(again.vectors, loaded.vectors, atol=1e-5)
    assert loaded.labels is not None
    assert again.labels is not None
    assert again.labels.tolist() == loaded.labels.tolist()


def test_what_was_learned_by_another_process_is_in_force(folder: Path) -> None:
    here, there = Teacher(load_index(folder), Feedback(folder)), taught(folder)
    lesson = there.learn("Anna")
    here.feedback.refresh()
    np.testing.assert_array_equal(in_force(here.untaught, here.feedback).vectors, lesson.index.vectors)


LEARNING = """
import sys
from likewise.teach import Feedback, Teacher, load_index
teacher = Teacher(load_index(sys.argv[1]), Feedback(sys.argv[1]))
teacher.prepare()
print("ready", flush=True)
while True:
    teacher.learn()
    teacher.undo()
"""


@pytest.mark.second
def test_killed_during_a_lesson_the_old_or_the_new_one_is_there(folder: Path) -> None:
    teacher = taught(folder)
    before, events = teacher.index.vectors, teacher.events
    after = teacher.taught_by(teacher.state())[0].vectors
    rng, kills = np.random.default_rng(0), 0
    while kills < 3 or len(Feedback(folder)._history) == len(events):  # until it did learn
        assert kills < 40
        kills += 1
        with Python("-c", LEARNING, folder, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(float(rng.uniform(0.0, 0.1 + 0.1 * kills)))  # a busy machine needs longer
            process.kill()
        found = load_index(folder)
        is_new = found.vectors.shape == after.shape
        np.testing.assert_allclose(found.vectors, after if is_new else before, atol=1e-5)
        assert Feedback(folder).events() == events


def test_an_id_that_is_not_there_gets_a_sentence(gallery):
    X, _ = gallery
    teacher = Teacher(Index.build(Cosine().fit(X), X))
    for act in (lambda: teacher.mark("bottle-3", 5, True), lambda: teacher.mark(3, "bottle-3", True)):
        with pytest.raises(LikewiseError, match="the index has no item with the id 'bottle-3'"):
            act()
    assert teacher.events == []


def test_marks_and_labels_take_ids_that_are_text(gallery):
    X, _ = gallery
    ids = [f"doc-{row}" for row in range(len(X))]
    teacher = Teacher(Index.build(Cosine().fit(X), X, ids))
    teacher.mark("doc-3", ["doc-5", "doc-7"], True)
    teacher.label("doc-9", "nine")
    mark, label = teacher.events
    assert [ref.id for ref in (*mark.queries, *mark.items, *label.items)] == ["doc-3", "doc-5", "doc-7", "doc-9"]
    assert all(ref.hash is None for ref in (*mark.queries, *mark.items))


def test_a_table_of_labels_or_of_marks_is_taken_at_once(gallery):
    X, _ = gallery
    index = Index.build(Cosine().fit(X[:50]), X[:50], [f"doc-{row}" for row in range(50)])
    teacher = Teacher(index)
    assert teacher.take({"item": ["doc-1", "doc-2", "nowhere"], "label": ["red", "blue", "red"]}) == 1
    assert teacher.state().labels == {1: "red", 2: "blue"}
    table = {"query": ["doc-5"] * 3, "item": ["doc-6", "doc-7", "doc-8"], "right": [True, False, True]}
    assert teacher.take(table) == 0
    assert [mark.right for mark in teacher.state().marks] == [True, False, True]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": [1]}, "the table has no marks: expected the columns item and label, or query, item and right"),
        ({"item": [1, 2], "label": ["x"]}, "the columns of the table have different lengths: item 2, label 1; "),
        ({"item": [1], "query": [2], "right": ["maybe"]}, "line 2 of the table is neither a mark, right or wrong, nor"),
    ],
)
def test_a_table_that_cannot_be_taken_gets_a_sentence(gallery, table, message):
    teacher = Teacher(Index.build(Cosine().fit(gallery[0]), gallery[0]))
    with pytest.raises(LikewiseError, match=message):
        teacher.take(table)
    assert teacher.events == []
