"""A lesson about a gallery that is larger than the graph it is learned on: only the rows it reaches change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.search.conftest import Digits

from likewise.rivals import Cosine
from likewise.search import Index
from likewise.teach import TaughtIndex, Teacher, learning, load_index, taught_index
from likewise.teach.feedback import Feedback
from likewise.teach.taught import ChangedRows
from likewise.teach.taught_index import LessonEngine, LessonVectors


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """900 digits count as a large gallery."""
    monkeypatch.setattr(learning, "MOST_ROWS", 400)
    monkeypatch.setattr(taught_index, "DENSE_UP_TO", 400)
    monkeypatch.setattr(learning, "CANDIDATES", 300)


def taught(digits: Digits, folder: Path, **options: Any) -> tuple[Index, Index]:
    """An index, and the same after twelve marks and a label."""
    X, y = digits[0][:900].astype(np.float32), digits[1][:900]
    labels = np.where(np.arange(900) % 3 == 0, y.astype(object), None)
    index = Index.build(Cosine(centre=True).fit(X), X, {"label": labels}, **options)
    index.save(folder)
    teacher = Teacher(load_index(folder), Feedback(folder))
    for item in teacher.index.search(rows=[1], k=12).rows[0]:
        teacher.mark(1, int(item), bool(y[item] == y[1]))
    teacher.label([4], str(y[4]))
    return teacher.untaught, teacher.learn().index


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("neighbours", [0, 5])
def test_a_lesson_is_that_of_all_rows_and_is_found_again(digits: Digits, tmp_path: Path, neighbours: int) -> None:
    before, after = taught(digits, tmp_path / "a.index", n_neighbors=neighbours)
    assert isinstance(after.vectors, LessonVectors)
    assert 0 < len(after.vectors.rows) < 900
    dense = TaughtIndex(before, after.model, ChangedRows(after.vectors.rows, after.part.values), after.labels)  # type: ignore[attr-defined,union-attr]
    for one, other in zip(*(each.search(rows=[1, 4, 7], k=30).rows for each in (after, dense)), strict=True):
        assert len(np.intersect1d(one, other)) == 30
    again = load_index(tmp_path / "a.index")
    np.testing.assert_array_equal(np.asarray(again.vectors), np.asarray(after.vectors))
    even = np.arange(900) % 2 == 0
    assert (
        again.search(rows=[1], k=9, where=even).rows.tolist() == dense.search(rows=[1], k=9, where=even).rows.tolist()
    )


@pytest.mark.usefixtures("small_limits")
def test_an_approximate_index_keeps_its_lists_through_a_lesson(digits: Digits, tmp_path: Path) -> None:
    before, after = taught(digits, tmp_path / "a.index", approximate="ivf", n_neighbors=0)
    assert isinstance(after.engine, LessonEngine)
    assert after.engine.before is before.engine
    assert (after.approximate, after.recall) == ("ivf", before.recall)
    exact = np.argsort(-(np.asarray(after.vectors) @ after.vectors[1]))[1:25]
    assert len(np.intersect1d(after.search(rows=[1], k=24).rows[0], exact)) >= 20
    after.save(
        tmp_path / "b.index"
    )  # elsewhere the lesson is part of the model, and the lists are those of its vectors
    assert load_index(tmp_path / "b.index").search(rows=[1], k=5).rows.shape == (1, 5)


def test_lifted_vectors_are_indexed_and_multiplied_as_an_array() -> None:
    rng = np.random.default_rng(0)
    base, rows = rng.standard_normal((50, 4)).astype(np.float32), np.array([3, 7, 40])
    part, shrink = rng.standard_normal((3, 2)).astype(np.float32), np.array([0.5, 0.6, 0.7], np.float32)
    V = LessonVectors(base, rows, part, shrink)
    dense = np.hstack([base, np.zeros((50, 2), np.float32)])
    dense[rows, :4] *= shrink[:, None]
    dense[rows, 4:] = part
    keys = (3, slice(2, 9), [7, 40, 1], np.array([[3, -1], [0, 7]]), np.arange(50) > 30, slice(0, 0))
    for key in keys:
        np.testing.assert_array_equal(V[key], dense[key])
    np.testing.assert_array_equal(np.asarray(V), dense)
    Q = rng.standard_normal((6, 3)).astype(np.float32)
    np.testing.assert_allclose(V @ Q, dense @ Q, atol=1e-5)
    np.testing.assert_allclose(V @ Q[:, 0], dense @ Q[:, 0], atol=1e-5)
    assert (len(V), V.shape) == (50, (50, 6))
