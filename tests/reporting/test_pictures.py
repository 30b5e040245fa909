"""Pictures: what is written is what a decoder reads, and what is drawn is where it should be."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from likewise.errors import LikewiseError
from likewise.reporting import pictures
from likewise.reporting.font import HEIGHT, lettering
from likewise.reporting.pictures import above, beside, encode_png, fitted, framed, padded, resized, words, write_png

GREY = arrays(np.uint8, st.tuples(st.integers(1, 12), st.integers(1, 12)))
COLOUR = arrays(np.uint8, st.tuples(st.integers(1, 12), st.integers(1, 12), st.just(3)))
RED = (222, 45, 38)


def _decoded(png: bytes) -> np.ndarray:
    image = pytest.importorskip("PIL.Image")
    with image.open(io.BytesIO(png)) as picture:
        picture.load()
        return np.asarray(picture.convert("RGB"))


@settings(max_examples=50, deadline=None)
@given(st.one_of(GREY, COLOUR))
def test_a_png_decodes_to_what_was_written(image: np.ndarray) -> None:
    assert np.array_equal(_decoded(encode_png(image)), pictures.as_rgb(image))


def test_a_large_smooth_png_decodes_too_and_is_small(tmp_path: Path) -> None:
    ramp = np.broadcast_to(np.arange(256, dtype=np.uint8)[:, None], (256, 300))
    path = write_png(tmp_path / "ramp.png", ramp)
    assert np.array_equal(_decoded(path.read_bytes())[:, :, 0], ramp)
    assert path.stat().st_size < 2000


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        (np.zeros((2, 2)), "an image has dtype float64: expected uint8 from 0 to 255"),
        (np.zeros((2, 2, 4), np.uint8), "an image has shape (2, 2, 4): expected (height, width) or (height, width, 3)"),
        (np.zeros((0, 2), np.uint8), "an image of 0 x 2 pixels cannot be written"),
    ],
)
def test_what_is_no_image_gets_a_sentence(image: np.ndarray, sentence: str) -> None:
    with pytest.raises(LikewiseError) as caught:
        encode_png(image)
    assert str(caught.value) == sentence


@settings(max_examples=30, deadline=None)
@given(COLOUR, st.integers(1, 30), st.integers(1, 30))
def test_resizing_stays_within_the_range_of_the_image(image: np.ndarray, height: int, width: int) -> None:
    new = resized(image, height, width)
    assert new.shape == (height, width, 3)
    assert new.min() >= image.min()
    assert new.max() <= image.max()


def test_resizing_to_the_same_size_changes_nothing() -> None:
    image = np.random.default_rng(0).integers(0, 256, (7, 5, 3), dtype=np.uint8)
    assert np.array_equal(resized(image, 7, 5), image)


def test_halving_averages() -> None:
    image = np.kron(np.array([[0, 200], [100, 40]], np.uint8), np.ones((8, 8), np.uint8))
    assert resized(image, 4, 4)[:, :, 0].mean() == pytest.approx(image.mean(), abs=1)


def test_fitting_keeps_proportions() -> None:
    box = fitted(np.zeros((10, 20), np.uint8), 40)
    assert box.shape == (40, 40, 3)
    dark = np.flatnonzero((box == 0).all(axis=(1, 2)))
    assert (dark[0], dark[-1]) == (10, 29)


def test_a_frame_goes_around() -> None:
    image = framed(np.zeros((3, 5), np.uint8), RED, 2)
    assert image.shape == (7, 9, 3)
    assert (image[2:5, 2:7] == 0).all()
    image[2:5, 2:7] = RED
    assert (image == RED).all()


def test_pictures_are_set_beside_and_above_each_other() -> None:
    small, large = np.full((2, 3), 10, np.uint8), np.full((4, 5), 20, np.uint8)
    row = beside([small, large], gap=1, align=1.0)
    assert row.shape == (4, 9, 3)
    assert row[:, :, 0].tolist()[1] == [255, 255, 255, 255, 20, 20, 20, 20, 20]
    assert row[:, :, 0].tolist()[2] == [10, 10, 10, 255, 20, 20, 20, 20, 20]
    column = above([small, large], gap=2)
    assert column.shape == (8, 5, 3)
    assert column[0, :, 0].tolist() == [10, 10, 10, 255, 255]
    assert (column[2:4] == 255).all()
    assert padded(small, 3).shape == (8, 9, 3)
    with pytest.raises(LikewiseError, match="no images to set together"):
        above([])


def test_every_letter_digit_and_sign_has_its_own_shape() -> None:
    signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;-+=/%()?!'_<>@#&*"
    shapes = {lettering(sign).tobytes() for sign in signs}
    assert len(shapes) == len(signs)
    assert all(lettering(sign).shape == (HEIGHT, 5) for sign in signs)


def test_words_are_drawn_in_capitals_and_unknown_signs_as_question_marks() -> None:
    assert np.array_equal(words("query"), words("QUERY"))
    assert np.array_equal(words("é"), words("?"))
    assert words("AB", scale=3).shape == (HEIGHT * 3, 11 * 3, 3)
    assert {tuple(pixel) for pixel in words("A", colour=RED).reshape(-1, 3)} == {RED, (255, 255, 255)}
    assert words("").shape == (14, 0, 3)
