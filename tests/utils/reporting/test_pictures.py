"""Pictures: what is written is what a decoder reads, and what is drawn is where it should be."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from likewise.errors import LikewiseError
from likewise.utils.reporting.pictures import (
    HIT,
    MISS,
    QUERY,
    UNKNOWN,
    Panel,
    above,
    choose_queries,
    encode_png,
    fitted,
    line_of_text,
    nearest,
    padded,
    retrieval_strips,
    side_by_side,
    square_of_text,
    write_png,
)

GREY = arrays(np.uint8, st.tuples(st.integers(1, 12), st.integers(1, 12)))
COLOUR = arrays(np.uint8, st.tuples(st.integers(1, 12), st.integers(1, 12), st.just(3)))
RED = (222, 45, 38)


def _decoded(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as picture:
        return np.asarray(picture.convert("RGB"))


def _rgb(image: np.ndarray) -> np.ndarray:
    return np.broadcast_to(image[..., None] if image.ndim == 2 else image, (*image.shape[:2], 3))


@settings(max_examples=50, deadline=None)
@given(st.one_of(GREY, COLOUR))
def test_a_png_decodes_to_what_was_written(image: np.ndarray) -> None:
    assert np.array_equal(_decoded(encode_png(image)), _rgb(image))


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
        (np.zeros((0, 2), np.uint8), "an image has shape (0, 2): expected at least one pixel"),
        (np.zeros(4, np.uint8), "an image has shape (4,): expected (height, width) or (height, width, 3)"),
    ],
)
def test_what_is_no_image_gets_a_sentence(image: np.ndarray, sentence: str) -> None:
    with pytest.raises(LikewiseError) as caught:
        encode_png(image)
    assert str(caught.value) == sentence


def test_fitting_keeps_proportions() -> None:
    box = np.asarray(fitted(np.zeros((10, 20), np.uint8), 40))
    assert box.shape == (40, 40, 3)
    dark = np.flatnonzero((box == 0).all(axis=(1, 2)))
    assert (dark[0], dark[-1]) == (10, 29)
    assert fitted(np.zeros((1, 300), np.uint8), 40).size == (40, 40)


def test_a_frame_goes_around() -> None:
    image = np.array(padded(np.zeros((3, 5), np.uint8), 2, RED))
    assert image.shape == (7, 9, 3)
    assert (image[2:5, 2:7] == 0).all()
    image[2:5, 2:7] = RED
    assert (image == RED).all()


def test_pictures_are_placed_beside_and_above_each_other() -> None:
    small, large = np.full((2, 3), 10, np.uint8), np.full((4, 5), 20, np.uint8)
    row = np.asarray(side_by_side([small, large], gap=1, align=1.0))
    assert row.shape == (4, 9, 3)
    assert row[:, :, 0].tolist()[1] == [255, 255, 255, 255, 20, 20, 20, 20, 20]
    assert row[:, :, 0].tolist()[2] == [10, 10, 10, 255, 20, 20, 20, 20, 20]
    column = np.asarray(above([small, large], gap=2))
    assert column.shape == (8, 5, 3)
    assert column[0, :, 0].tolist() == [10, 10, 10, 255, 255]
    assert (column[2:4] == 255).all()
    assert padded(small, 3).size == (9, 8)
    with pytest.raises(LikewiseError, match="there are no images to combine: expected at least one"):
        above([])


def test_every_letter_digit_and_sign_has_its_own_shape() -> None:
    signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0123456789.,:;-+=/%()?!'_<>@#&*"
    shapes = {line_of_text(sign).tobytes() for sign in signs}
    assert len(shapes) == len(signs)


def test_accents_are_dropped_and_unknown_signs_are_question_marks() -> None:
    assert line_of_text("Café…") == line_of_text("Cafe...")
    assert line_of_text("犬") == line_of_text("?")


def test_lines_of_text_share_height_and_baseline() -> None:
    assert {line_of_text(text).height for text in ("query", "SLR", "x", "")} == {line_of_text("mAP").height}
    bottoms = [_inked_rows(line_of_text(text))[-1] for text in ("SLR", "cosine", "H")]
    assert max(bottoms) - min(bottoms) <= 1  # round letters reach a little below
    assert line_of_text("AB", 34).width == pytest.approx(2 * line_of_text("AB").width, abs=2)


def test_text_has_its_colour_on_its_background() -> None:
    pixels = np.asarray(line_of_text("Hit", colour=RED)).reshape(-1, 3)
    assert {RED, (255, 255, 255)} <= {tuple(pixel.tolist()) for pixel in pixels}
    assert not (pixels[:, 0] < RED[0]).any()


def test_a_square_of_text_holds_all_of_it() -> None:
    short, long = square_of_text("mac", 72), square_of_text("motorcycles", 72)
    assert short.size == long.size == (72, 72)
    assert np.asarray(short).astype(int).sum() - 255 * 3 * 72 * 72 == _ink(line_of_text("mac"))
    assert len(_inked_rows(long)) < len(_inked_rows(line_of_text("motorcycles")))
    columns = _inked_rows(long.transpose(Image.Transpose.TRANSPOSE))
    assert 0 <= columns[0] < 5
    assert 67 < columns[-1] <= 71


def _ink(image: Image.Image) -> int:
    return int((np.asarray(image).astype(int) - 255).sum())


def _inked_rows(image: Image.Image) -> np.ndarray:
    return np.flatnonzero((np.asarray(image) < 200).any(axis=(1, 2)))


# -- Retrieval strips: the right neighbours in the right frames, and queries chosen without favour ---------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 20), st.integers(1, 5), st.integers(0, 99))
def test_nearest_is_the_order_of_all_scores_without_oneself(n: int, r: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Q, G = rng.normal(size=(n, r)), rng.normal(size=(n, r))
    result = nearest(Q, G, n - 1, exclude=np.arange(n))
    for i in range(n):
        assert result[i].tolist() == sorted(set(range(n)) - {i}, key=lambda j: -(Q[i] @ G[j]))


def test_asking_for_more_than_there_is_gets_a_sentence() -> None:
    with pytest.raises(LikewiseError, match="k=3: expected 1 to 2, the number of items that can be found"):
        nearest(np.eye(3), np.eye(3), 3, exclude=np.arange(3))


def _count(picture: Image.Image, colour: tuple[int, int, int]) -> int:
    return int((np.asarray(picture) == np.array(colour, dtype=np.uint8)).all(axis=2).sum())


@pytest.mark.parametrize("shape", [(8, 8), (30, 20, 3)])
@pytest.mark.parametrize("n_panels", [1, 3])
def test_frames_have_the_colours_of_hits_and_misses(shape: tuple[int, ...], n_panels: int) -> None:
    images = [np.full(shape, 9, np.uint8) for _ in range(6)]
    y = np.array([0, 0, 0, 1, 1, 1])
    result = np.array([[1, 2, 3], [4, 0, 1]])
    panels = [Panel(f"method {i}", result, "mAP 0.5", ["#1", "#2", "#3"] if i else ()) for i in range(n_panels)]
    picture = retrieval_strips([images[0], images[3]], images, panels, y[[0, 3]], y, cell=32)
    assert np.asarray(picture).dtype == np.uint8
    frame, swatch = (32 + 8) ** 2 - 32**2, 14**2
    assert _count(picture, QUERY) == 2 * frame + swatch
    assert _count(picture, HIT) == n_panels * 3 * frame + swatch
    assert _count(picture, MISS) == n_panels * 3 * frame + swatch


def test_a_label_that_is_not_known_is_framed_grey() -> None:
    images = [np.full((8, 8), 9, np.uint8) for _ in range(3)]
    labels = np.array(["a", "b", None], dtype=object)
    panel = Panel("method", np.array([[0, 1, 2], [0, 1, 2]]))
    picture = retrieval_strips(images[:2], images, [panel], np.array(["a", None], dtype=object), labels)
    frame, swatch = 4 * 4 * (56 + 4), 14 * 14
    assert _count(picture, HIT) == _count(picture, MISS) == frame + swatch
    assert _count(picture, UNKNOWN) == 4 * frame + swatch


def test_strips_of_nothing_get_a_sentence() -> None:
    with pytest.raises(LikewiseError, match="at least one query and one panel"):
        retrieval_strips([], [], [], [], [])


def test_the_choice_of_queries_favours_no_method() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(200) % 10
    before, after = rng.integers(0, 6, 200), rng.integers(0, 6, 200)
    chosen, differing = choose_queries([before, after], y, 6, seed=1)
    swapped, _ = choose_queries([after, before], y, 6, seed=1)
    assert chosen.tolist() == swapped.tolist()
    assert differing == 4
    assert (before[chosen[:4]] != after[chosen[:4]]).all()
    assert len(set(y[chosen])) == len(set(chosen.tolist())) == 6


def test_the_choice_depends_on_the_seed_alone() -> None:
    hits = [np.zeros(50), np.arange(50) % 2]
    y = np.arange(50) % 5
    again = [choose_queries(hits, y, 5, seed)[0].tolist() for seed in (0, 0, 1)]
    assert again[0] == again[1] != again[2]


def test_queries_are_found_where_nothing_differs_and_where_there_are_few() -> None:
    chosen, differing = choose_queries([np.ones(4), np.ones(4)], np.zeros(4), 6)
    assert differing == 0
    assert sorted(chosen.tolist()) == [0, 1, 2, 3]
