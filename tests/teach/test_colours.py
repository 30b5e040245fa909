"""Colour and light: what is measured of a picture, and concepts that take it in only where their marks ask for it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from likewise.learn.cosine import Cosine
from likewise.search import Index
from likewise.teach import Teacher, load_index
from likewise.teach.colours import WIDTH, Colours, statistics

RED, GREY = np.arange(60) % 3 == 0, np.arange(60) < 20


def pixels(row: int) -> np.ndarray:
    """A picture that is red or blue; what it is made of does not show in the features."""
    P = np.random.default_rng(row).integers(0, 60, (40, 30, 3), dtype=np.uint8)
    P[..., 0 if RED[row] else 2] += 150
    return P


def jpeg(row: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels(row)).save(file, "JPEG", quality=90)
    return file.getvalue()


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """Features that say nothing of colours, and the names of files."""
    X = np.random.default_rng(5).standard_normal((60, 16)).astype(np.float32)
    paths = [f"{row}.jpg" for row in range(60)]
    built = Index.build(Cosine().fit(X), X, {"path": paths, "hash": [f"{row:032x}" for row in range(60)]})
    built.save(tmp_path / "some.index")
    return Index.load(tmp_path / "some.index")


def taught(index: Index) -> Teacher:
    teacher = Teacher(index)
    teacher.mark(0, [3, 6, 9, 12, 15], True)
    teacher.mark(0, [1, 2, 4, 5, 7], False)
    return teacher


def share_of_red(teacher: Teacher) -> float:
    scores = teacher.scores(teacher.concept(query=0))  # type: ignore[arg-type]
    free = np.arange(16, 60)
    return float(RED[free[np.argsort(-scores[free])[:14]]].mean())


def test_a_picture_becomes_58_numbers_of_light_colour_and_edges() -> None:
    red, blue, dark = statistics(pixels(0)), statistics(pixels(1)), statistics(pixels(1) // 4)
    assert red.shape == (WIDTH,) == (58,)
    assert (red[16:32] > 0.5).all()
    assert (blue[16:32] < 0.1).all()
    assert (blue[32:48] > 0.5).all()
    assert (dark[:16] < blue[:16]).all()
    np.testing.assert_allclose(statistics(np.zeros((5, 7, 3), np.uint8)), 0, atol=1e-6)


def test_marks_that_only_colours_tell_apart_are_followed(index: Index) -> None:
    teacher = taught(index)
    assert share_of_red(teacher) < 0.7
    teacher.look(jpeg)
    assert share_of_red(teacher) > 0.8


def test_colours_have_no_weight_where_features_tell_the_marks_apart(index: Index) -> None:
    teacher = Teacher(index)
    teacher.look(jpeg)
    first = np.argsort(-(index.raw @ index.raw[0]))
    teacher.mark(0, first[1:8].tolist(), True)
    teacher.mark(0, first[-8:].tolist(), False)
    concept = teacher.concept(query=0)
    assert concept is not None
    assert concept.scorers.colour_share(concept.examples) == 0


def test_colours_are_measured_once_and_a_damaged_file_again(index: Index) -> None:
    seen: list[int] = []

    def thumbnail(row: int) -> bytes | None:
        seen.append(row)
        return None if row == 50 else jpeg(row)

    Teacher(index).look(thumbnail)
    assert seen == list(range(60))
    again = Teacher(load_index(index.folder))  # type: ignore[arg-type]
    again.look(thumbnail)
    assert seen[60:] == [50]
    rows = Colours(index).rows()
    assert rows is not None
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), np.arange(60) != 50, atol=1e-3)
    next((index.folder / "lessons").glob("colours*")).write_bytes(b"PK damaged")  # type: ignore[operator]
    assert Colours(index).rows() is None


def test_rows_of_numbers_have_no_colours(digits: Any) -> None:
    X = digits[0][:50].astype(np.float32)
    colours = Colours(Index.build(Cosine().fit(X), X))
    assert not colours.measure(jpeg)
    assert colours.rows() is None
