"""Decoding: every kind of picture becomes upright RGB, everything else a sentence."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.hostile.bombs import jpeg_of_many_scans, webp_of_a_few_bytes
from tests.pictures.conftest import picture

from likewise.errors import LikewiseError
from likewise.pictures.images import (
    ImageError,
    as_sources,
    centre_crop,
    jpeg_scans,
    load_image,
    looks_like_image,
    shrink,
    unreasonable,
    webp_size,
)


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "WEBP"])
def test_lossless_kinds_give_the_pixels_back(kind: str) -> None:
    image = picture(0)
    options = {"lossless": True} if kind == "WEBP" else {}
    np.testing.assert_array_equal(load_image(encoded(Image.fromarray(image), kind, **options)), image)


def test_jpeg_is_close_to_the_picture() -> None:
    image = np.full((40, 60, 3), (200, 100, 50), np.uint8)
    assert np.abs(load_image(encoded(Image.fromarray(image), "JPEG")).astype(int) - image).max() <= 3


def test_a_multi_picture_jpeg_as_cameras_write_it_is_read() -> None:
    frames = [Image.new("RGB", (20, 10), colour) for colour in ("red", "blue")]
    data = encoded(frames[0], "MPO", save_all=True, append_images=frames[1:])
    assert load_image(data)[5, 5, 0] > 250


def test_the_first_frame_of_an_animated_gif_is_taken() -> None:
    frames = [Image.new("RGB", (20, 10), colour) for colour in ("red", "blue", "lime")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    np.testing.assert_array_equal(load_image(data)[5, 5], [255, 0, 0])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_undone(orientation: int) -> None:
    upright = picture(1)
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(Image.fromarray(np.ascontiguousarray(stored)), "PNG", exif=exif)
    np.testing.assert_array_equal(load_image(data), upright)


def test_grey_has_three_equal_channels() -> None:
    grey = picture(2)[:, :, 0]
    np.testing.assert_array_equal(load_image(encoded(Image.fromarray(grey), "PNG")), np.stack([grey] * 3, axis=-1))


def test_a_palette_becomes_its_colours() -> None:
    image = Image.new("RGB", (8, 8), (10, 200, 30)).convert("P", palette=Image.Palette.ADAPTIVE)
    np.testing.assert_array_equal(load_image(encoded(image, "PNG"))[0, 0], [10, 200, 30])


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_what_is_transparent_is_white(mode: str) -> None:
    image = Image.new("RGBA", (4, 4), (0, 0, 0, 0)).convert(mode)
    assert (load_image(encoded(image, "PNG")) == 255).all()


def test_a_transparent_palette_colour_is_white() -> None:
    image = Image.new("P", (4, 4), 0)
    image.putpalette([0, 0, 0, 255, 0, 0])
    assert (load_image(encoded(image, "PNG", transparency=0)) == 255).all()


def test_cmyk_becomes_rgb() -> None:
    image = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    red = load_image(encoded(image, "JPEG", quality=95))[8, 8]
    assert red[0] > 200
    assert red[1] < 60
    assert red[2] < 60


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_keep_their_range(kind: str) -> None:
    values = np.array([[0, 257 * 100], [257 * 200, 65535]], np.uint16)
    pixels = load_image(encoded(Image.fromarray(values), kind))
    np.testing.assert_array_equal(pixels[:, :, 0], [[0, 100], [200, 255]])


def test_sixteen_bits_of_the_other_byte_order_are_the_same() -> None:
    values = np.array([[0, 257 * 100], [257 * 200, 65535]], ">u2")
    np.testing.assert_array_equal(load_image(values)[:, :, 1], [[0, 100], [200, 255]])


def test_floating_point_tiff_is_stretched() -> None:
    pixels = load_image(encoded(Image.fromarray(np.array([[-1.0, 0.0, 1.0]], np.float32)), "TIFF"))
    np.testing.assert_array_equal(pixels[0, :, 0], [0, 128, 255])


def test_bilevel_is_black_and_white() -> None:
    image = Image.fromarray(np.array([[True, False]]))
    np.testing.assert_array_equal(load_image(encoded(image, "PNG"))[0, :, 0], [255, 0])


def test_a_large_jpeg_may_be_decoded_small() -> None:
    data = encoded(Image.fromarray(picture(3, 1200, 1600)), "JPEG")
    assert load_image(data, at_least=256).shape == (300, 400, 3)
    assert load_image(data).shape == (1200, 1600, 3)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64, np.int64, bool])
def test_arrays_of_any_number_type_are_images(dtype: type) -> None:
    pixels = load_image(np.ones((5, 6), dtype))
    assert pixels.shape == (5, 6, 3)
    assert pixels.dtype == np.uint8


def test_floats_in_the_unit_interval_are_scaled() -> None:
    np.testing.assert_array_equal(load_image(np.array([[0.0, 0.5, 1.0]]))[0, :, 0], [0, 128, 255])


def test_huge_floats_do_not_overflow() -> None:
    values = np.array([[-1.7e308, 1.7e308]])
    np.testing.assert_array_equal(load_image(values)[0, :, 0], [0, 255])


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (np.zeros((2, 3, 5), np.uint8), "has shape (2, 3, 5); expected (height, width) or (height, width, 1 to 4"),
        (np.zeros((0, 3), np.uint8), "has shape (0, 3)"),
        (np.array([[np.nan]]), "contains NaN or infinity"),
        (np.array([["a"]]), "has dtype"),
        (b"", "the file is empty"),
        (b"plain text", "is not a supported image format (jpg, png, webp, gif, bmp, tiff, heic, avif)"),
        (3, "int is not an image"),
    ],
)
def test_other_data_than_images_is_refused_in_a_sentence(bad: object, words: str) -> None:
    with pytest.raises(ImageError) as caught:
        load_image(bad)
    assert words in str(caught.value)


def test_a_truncated_file_is_said_to_be(tmp_path: Path) -> None:
    data = encoded(Image.fromarray(picture(4, 200, 200)), "JPEG")
    with pytest.raises(ImageError, match="is damaged or truncated"):
        load_image(data[: len(data) // 2])


def test_a_decompression_bomb_is_stopped_before_it_is_decoded() -> None:
    data = encoded(Image.new("L", (3000, 3000)), "PNG")
    with pytest.raises(ImageError, match="is 3000 × 3000 pixels, above the limit of 1,000,000 pixels"):
        load_image(data, max_pixels=1_000_000)


def test_a_bomb_that_pillow_itself_refuses_is_the_same_sentence() -> None:
    data = bytearray(encoded(Image.new("L", (8, 8)), "BMP"))
    data[18:26] = (60_000).to_bytes(4, "little") * 2
    with pytest.raises(ImageError, match="above the limit of 100,000,000 pixels"):
        load_image(bytes(data))


def test_a_missing_file_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="cannot be read: No such file"):
        load_image(tmp_path / "none.jpg")
    with pytest.raises(ImageError, match="not a file"):
        load_image(tmp_path)
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(ImageError, match="not a file"):
        load_image(tmp_path / "pipe.jpg")


SEEDS = {
    "PNG": encoded(Image.fromarray(picture(5, 20, 24)), "PNG"),
    "JPEG": encoded(Image.fromarray(picture(5, 20, 24)), "JPEG"),
    "GIF": encoded(Image.fromarray(picture(5, 20, 24)), "GIF"),
    "BMP": encoded(Image.fromarray(picture(5, 20, 24)), "BMP"),
    "TIFF": encoded(Image.fromarray(picture(5, 20, 24)), "TIFF", compression="tiff_lzw"),
    "WEBP": encoded(Image.fromarray(picture(5, 20, 24)), "WEBP"),
}


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(sorted(SEEDS)),
    edits=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=12),
    cut=st.one_of(st.none(), st.integers(0, 2000)),
    at_least=st.sampled_from([None, 8]),
)
def test_mutated_bytes_give_an_image_or_an_image_error(
    kind: str, edits: list[tuple[int, int]], cut: int | None, at_least: int | None
) -> None:
    data = bytearray(SEEDS[kind])
    for place, value in edits:
        data[place % len(data)] = value
    try:
        pixels = load_image(bytes(data[:cut]), at_least, max_pixels=1_000_000)
    except ImageError:
        return
    assert pixels.dtype == np.uint8
    assert pixels.ndim == 3
    assert pixels.shape[2] == 3


def test_known_extensions_and_known_first_bytes_look_like_images(tmp_path: Path) -> None:
    for name, data, expected in (
        ("a.JPG", b"", True),
        ("no-extension", SEEDS["PNG"], True),
        ("photo.dat", SEEDS["WEBP"], True),
        ("notes.txt", b"hello", False),
        ("empty", b"", False),
    ):
        (tmp_path / name).write_bytes(data)
        assert looks_like_image(tmp_path / name) is expected


@pytest.mark.parametrize(("kind", "brand"), [("HEIF", b"heic"), ("AVIF", b"avif")])
def test_pictures_of_phones_are_read_upright(kind: str, brand: bytes) -> None:
    load_image(SEEDS["PNG"])  # loads the readers, and with them the writers
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned right
    upright = np.zeros((64, 48, 3), np.uint8)
    upright[:32] = (250, 30, 30)
    data = encoded(Image.fromarray(np.rot90(upright)), kind, exif=exif.tobytes(), quality=95)
    assert data[4:12] == b"ftyp" + brand
    pixels = load_image(data)
    assert pixels.shape == upright.shape
    assert np.abs(pixels[4:28].astype(int) - (250, 30, 30)).max() < 40
    assert pixels[36:].max() < 40


def test_phone_pictures_are_known_by_their_first_bytes_and_films_are_not(tmp_path: Path) -> None:
    for brand, expected in ((b"heic", True), (b"mif1", True), (b"avif", True), (b"isom", False), (b"qt  ", False)):
        (tmp_path / "file").write_bytes(bytes([0, 0, 0, 28]) + b"ftyp" + brand + bytes(16))
        assert looks_like_image(tmp_path / "file") is expected
    for name in ("a.HEIC", "b.heif", "c.avif"):
        assert looks_like_image(tmp_path / name)


def test_a_phone_picture_without_its_reader_names_the_extra() -> None:
    script = (
        "import sys; sys.modules['pillow_heif'] = None\n"
        "from likewise.pictures import ImageError, load_image\n"
        "try: load_image(bytes([0, 0, 0, 28]) + b'ftypheic' + bytes(40))\n"
        "except ImageError as error: print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.stdout == "cannot be read: heic needs the extra 'images': pip install 'likewise[images]'\n", done.stderr


def test_shrink_only_makes_smaller() -> None:
    assert shrink(picture(0, 100, 50), 40).shape == (40, 20, 3)
    assert shrink(picture(0, 30, 20), 40).shape == (30, 20, 3)
    assert shrink(picture(0, 10, 5000), 100).shape == (1, 100, 3)


@pytest.mark.parametrize("shape", [(1, 10_000), (10_000, 1), (3, 3), (500, 400)])
def test_any_proportions_can_be_cropped_to_a_square(shape: tuple[int, int]) -> None:
    assert centre_crop(np.zeros((*shape, 3), np.uint8), (32, 32), 0.875).shape == (32, 32, 3)


@pytest.mark.parametrize("stretch", [False, True])
@pytest.mark.parametrize("short", [225, 450, 900, 1800])
def test_the_whole_of_the_shorter_side_can_be_kept(short: int, stretch: bool) -> None:
    for shape in ((short, 2 * short), (2 * short, short), (short, short)):
        for side in (64, 224, 299):
            assert centre_crop(np.zeros((*shape, 3), np.uint8), (side, side), 1.0, stretch).shape == (side, side, 3)


def test_the_crop_is_the_middle() -> None:
    image = np.zeros((40, 80, 3), np.uint8)
    image[:, 20:60] = 255
    square = centre_crop(image, (20, 20))
    assert (square[:, 1:-1] == 255).all()
    assert (square > 200).all()  # the filter sees a little beyond the border


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ("a.jpg", "X is one path ('a.jpg'); expected a list of paths"),
        (np.zeros((3, 4)), "X has shape (3, 4); expected images"),
        ([], "X is empty; expected at least one image"),
        (7, "X is int; expected a list of paths or an array of images"),
    ],
)
def test_x_must_be_many_images(X: object, words: str) -> None:
    with pytest.raises(LikewiseError) as caught:
        as_sources(X)
    assert words in str(caught.value)


def test_paths_in_a_numpy_array_are_paths() -> None:
    assert as_sources(np.array(["a.jpg", "b.jpg"])) == ["a.jpg", "b.jpg"]


# ---------------------------------------------------------------------------------------------------------------------
# What the header claims


def _saved(kind: str, size: tuple[int, int] = (300, 200), mode: str = "RGB", **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size, "red").save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        _saved("WEBP", lossless=True),
        _saved("WEBP", lossless=False),
        _saved("WEBP", mode="RGBA", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0"),
        _saved("WEBP", save_all=True, append_images=[Image.new("RGB", (300, 200))]),
    ],
)
def test_each_kind_of_webp_tells_its_size(data: bytes) -> None:
    assert webp_size(data) == (300, 200)


def test_other_data_than_webp_has_no_such_size() -> None:
    assert webp_size(b"") is None
    assert webp_size(b"RIFF\0\0\0\0WEBP") is None
    assert webp_size(_saved("PNG")) is None
    assert webp_size(b"RIFF\0\0\0\0WEBPVP9 " + bytes(40)) is None


def test_the_scans_of_a_jpeg_are_counted() -> None:
    assert jpeg_scans(_saved("JPEG")) == 1
    assert jpeg_scans(_saved("JPEG", progressive=True)) == 10
    assert jpeg_scans(jpeg_of_many_scans(100, 64)) == 100


def test_a_film_behind_a_jpeg_is_not_counted() -> None:
    assert jpeg_scans(_saved("JPEG", progressive=True) + b"\xff\xda" * 1000) == 10
    assert jpeg_scans(_saved("JPEG", comment=b"\xff\xda" * 1000)) == 1


def test_every_honest_picture_is_reasonable() -> None:
    for kind, options in (("PNG", {}), ("WEBP", {"lossless": True}), ("JPEG", {"progressive": True}), ("TIFF", {})):
        data = _saved(kind, (2000, 1900), **options)
        assert unreasonable(data, 2000, 1900, kind == "JPEG") == ""
    fax = _saved("TIFF", (5000, 7000), "1", compression="group4")
    assert unreasonable(fax, 5000, 7000, False) == ""


def test_a_bomb_is_named_for_what_it_claims() -> None:
    assert unreasonable(webp_of_a_few_bytes(), 7000, 7000, False) == "claims 7000 × 7000 pixels in 34 bytes"
    many = unreasonable(jpeg_of_many_scans(1000, 64), 64, 64, True)
    assert many == "is a JPEG of 1000 scans, above the limit of 64"
    large = unreasonable(jpeg_of_many_scans(40, 64) + bytes(9999), 7000, 7000, True)
    assert large == "is a JPEG of 40 scans, above the limit of 20"
