"""Single things that an adversary found, each with its own test; most of the rest are next to what they test."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise import SLR, SimilarityLearner
from likewise import rivals as b
from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel
from likewise.learn.model_file import read_tensors, write_tensors
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.teach import Teacher, load_index
from likewise.teach.teacher import opened_feedback
from tests.serve.conftest import application, client, index_folder, made_index  # noqa: F401  fixtures

# ---------------------------------------------------------------------------------------------------------------------
# Steps of a teacher


def _opened(folder: Path) -> Teacher:
    index = load_index(folder)
    return Teacher(index, opened_feedback(index))


def _save(folder: Path, rows: int, **options: Any) -> None:
    X = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)[:rows]
    ids = [f"i{number}" for number in range(rows)]
    Index.build(Cosine().fit(X), X, {"id": ids}, **options).save(folder)


def test_after_a_restart_one_undo_takes_back_a_whole_mark_of_three(tmp_path: Path) -> None:
    _save(tmp_path, 30)
    _opened(tmp_path).mark(0, [1], right=True)
    _opened(tmp_path).mark(0, [2, 3, 4], right=False)
    _opened(tmp_path).undo()
    assert [len(event.items) for event in _opened(tmp_path).feedback.events()] == [1]


def test_a_mark_whose_item_is_gone_can_be_taken_back(tmp_path: Path) -> None:
    _save(tmp_path, 30)
    _opened(tmp_path).mark(0, [1], right=True)
    _opened(tmp_path).mark(29, [28], right=True)
    _save(tmp_path, 20)
    teacher = _opened(tmp_path)
    teacher.undo()
    assert [event.items[0].id for event in teacher.feedback.events()] == ["i1"]


@pytest.mark.parametrize("room", [0, 600, 5000])  # bytes a file may have: none, less than a page, less than two
def test_a_journal_that_cannot_be_written_is_said_by_the_server(client: Any, room: int) -> None:  # noqa: F811
    mark = {"query": [{"row": 1}], "items": [2, 3], "right": True}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        answer = client.post("/api/marks", json=mark)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert answer.status_code == 422
    assert "nothing was saved" in answer.json()["detail"]
    assert client.get("/api/feedback").json() == []
    assert client.post("/api/marks", json=mark).status_code == 201
    assert len(client.get("/api/feedback").json()) == 1


# ---------------------------------------------------------------------------------------------------------------------
# Numbers: a sentence, or a finite result

Y = np.arange(24) % 3
NOISE = np.random.default_rng(0).standard_normal((24, 4))
SAME = np.eye(4)[Y]  # the rows of a class are all the same
HUGE = np.where(np.arange(24) == 5, 1e300, 1.0)
FITS: dict[str, Callable[[], SimilarityModel]] = {
    "unseen classes, classes of one row": lambda: SimilarityLearner(settings={"share": 0.0}).fit(SAME, Y),
    "LDA, classes of one row": lambda: b.LDA(shrinkage=0.0).fit(SAME, Y),
    "LDAPosterior, classes of one row": lambda: b.LDAPosterior().fit(SAME, Y),
    "Euclid, 1e160": lambda: b.Euclid().fit(NOISE * 1e160),
    "LDA, 1e160": lambda: b.LDA().fit(NOISE * 1e160, Y),
    "SLR, 1e160": lambda: SLR(2).fit(NOISE * 1e160, Y),
    "NCA, duplicates": lambda: b.NCA(max_iter=3).fit(SAME, Y),
    "SLR, weights of 1e300": lambda: SLR(2).fit(NOISE, Y, HUGE),
    "SimilarityLearner, weights of 1e300": lambda: SimilarityLearner("linear").fit(NOISE, Y, HUGE),
}


@pytest.mark.parametrize("name", FITS)
def test_awkward_numbers_end_in_a_sentence_or_a_finite_similarity(name: str) -> None:
    rows = SAME if "row" in name or "duplicates" in name else NOISE * (1e160 if "160" in name else 1.0)
    try:
        found = FITS[name]().similarity(rows)
    except LikewiseError as error:
        found, said = None, str(error)
    assert (found is None and len(said.splitlines()) == 1) or (found.shape == (24, 24) and np.isfinite(found).all())


def test_a_lesson_that_names_its_rows_by_an_array_is_learned_again(tmp_path: Path) -> None:
    _save(tmp_path, 30)
    teacher = _opened(tmp_path)
    teacher.mark(0, [1], right=True)
    teacher.mark(0, [2], right=False)
    teacher.learn()
    before = np.array(load_index(tmp_path).vectors)
    (path,) = (tmp_path / "lessons").glob("*.likewise")
    tensors, card = read_tensors(path)
    card["state"]["lesson_rows_"] = {"__ndarray__": "<U1", "values": ["a", "b"]}
    write_tensors(path, tensors, card)
    np.testing.assert_allclose(load_index(tmp_path).vectors, before, atol=1e-5)
