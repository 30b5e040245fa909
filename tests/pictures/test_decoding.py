"""Decoding in other processes: the same pixels, and an end to what is slow, huge or deadly."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image
from tests.hostile.bombs import jpeg_of_many_scans, large_picture, webp_of_a_few_bytes
from tests.pictures.conftest import picture

from likewise.pictures import Pixels, extract_folder
from likewise.pictures.decoding import DecoderLimits, Decoders, DecodersClosedError
from likewise.pictures.images import ImageError, ImageTooCostlyError, ImageTooLargeError, is_cheap, load_image


@pytest.fixture(scope="module")
def decoders() -> Iterator[Decoders]:
    """Two processes, which decode for most tests here."""
    with Decoders(2) as processes:
        yield processes


@pytest.fixture(scope="module")
def slow() -> bytes:
    """A picture that takes many seconds to decode."""
    return jpeg_of_many_scans(50, 4000, noise=True)


def _encoded(kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture(0)).save(buffer, kind, **options)
    return buffer.getvalue()


def _children() -> set[psutil.Process]:
    return {child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_another_process_decodes_the_same_pixels(decoders: Decoders, kind: str) -> None:
    data = _encoded(kind)
    np.testing.assert_array_equal(decoders.pixels(data).content, load_image(data))
    np.testing.assert_array_equal(decoders.load(data, 16, 10**6), load_image(data, 16))


def test_errors_come_with_their_sentence_and_kind(decoders: Decoders) -> None:
    for data in (b"", b"no picture", _encoded("PNG")[:-40]):
        with pytest.raises(ImageError) as there:
            decoders.pixels(data)
        with pytest.raises(ImageError) as here:
            load_image(data)
        assert (str(there.value), there.value.kind) == (str(here.value), here.value.kind)
    with pytest.raises(ImageTooLargeError, match="above the limit of 10 pixels"):
        decoders.pixels(_encoded("PNG"), max_pixels=10)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_large_picture_is_averaged_and_turned_upright(decoders: Decoders, orientation: int) -> None:
    small = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    large, little = io.BytesIO(), io.BytesIO()
    Image.fromarray(small).resize((2400, 1800), Image.Resampling.NEAREST).save(large, "PNG", exif=exif)
    Image.fromarray(small).save(little, "PNG", exif=exif)
    decoded = decoders.pixels(large.getvalue(), 30, reduced=True)
    np.testing.assert_array_equal(decoded.content, load_image(little.getvalue()))
    assert decoded.size == (2400, 1800)


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1", "I;16", "CMYK"])
def test_every_mode_can_be_averaged(decoders: Decoders, mode: str) -> None:
    buffer = io.BytesIO()
    Image.new("L", (2200, 2100), 255).convert(mode).save(buffer, "TIFF")
    decoded = decoders.pixels(buffer.getvalue(), 50, reduced=True)
    assert decoded.content.shape[:2] == (50, 53)
    assert np.ptp(decoded.content) == 0


def test_a_jpeg_of_a_large_one_is_small(decoders: Decoders, tmp_path: Path) -> None:
    (tmp_path / "a\udcff.png").write_bytes(large_picture("PNG", 3000))
    with Image.open(io.BytesIO(decoders.thumbnail(tmp_path / "a\udcff.png", 288))) as image:
        assert (image.format, image.size) == ("JPEG", (288, 288))


@pytest.mark.parametrize("bomb", [webp_of_a_few_bytes(), jpeg_of_many_scans(), jpeg_of_many_scans(65, 100)])
def test_bombs_are_refused_by_their_claims(decoders: Decoders, bomb: bytes) -> None:
    for decode in (decoders.pixels, load_image):
        with pytest.raises(ImageTooCostlyError):
            decode(bomb)


def test_memory_is_limited() -> None:
    with Decoders(1, DecoderLimits(memory=64 * 2**20)) as decoders:
        with pytest.raises(ImageError, match="memory"):
            decoders.pixels(large_picture("PNG"))
        assert decoders.pixels(_encoded("PNG")).content.shape == picture(0).shape


def test_a_picture_that_does_not_fit_frees_its_memory() -> None:
    others = _children()
    with Decoders(1, DecoderLimits(memory=256 * 2**20)) as decoders:
        decoders.pixels(_encoded("WEBP"))
        (process,) = _children() - others
        before = process.memory_info().rss
        with pytest.raises(ImageError, match="memory"):
            decoders.pixels(large_picture("WEBP", side=5000, quality=10, method=0), 224, reduced=True)
        assert process.is_running()
        assert process.memory_info().rss - before < 32 * 2**20


def test_time_is_limited_and_the_process_replaced(slow: bytes) -> None:
    with Decoders(1, DecoderLimits(seconds=1)) as decoders:
        with pytest.raises(ImageTooCostlyError, match=r"takes longer than [16] s to decode"):
            decoders.pixels(slow)
        assert decoders.pixels(_encoded("PNG")).content.shape == picture(0).shape


def _kill_at_work(process: psutil.Process) -> None:
    """Kill a process once it has computed for a while."""
    began = process.cpu_times().user
    while process.cpu_times().user < began + 0.3:
        time.sleep(0.02)
    process.kill()


def test_a_process_that_dies_is_replaced(slow: bytes) -> None:
    others = _children()
    with Decoders(1, DecoderLimits(seconds=60)) as decoders:
        decoders.pixels(_encoded("PNG"))
        (idle,) = _children() - others
        idle.kill()
        assert decoders.pixels(_encoded("PNG")).content.shape == picture(0).shape
        (busy,) = _children() - others
        threading.Thread(target=_kill_at_work, args=(busy,)).start()
        with pytest.raises(ImageTooCostlyError, match="stops the process that decodes it"):
            decoders.pixels(slow)
        assert decoders.pixels(_encoded("PNG")).content.shape == picture(0).shape
        assert len(_children() - others) == 1
    assert _children() == others


def test_closing_ends_what_is_waiting(slow: bytes) -> None:
    decoders, others = Decoders(1, DecoderLimits(seconds=60)), _children()
    decoders.pixels(_encoded("PNG"))
    threading.Timer(0.5, decoders.close).start()
    with pytest.raises(DecodersClosedError):
        decoders.pixels(slow)
    with pytest.raises(DecodersClosedError):
        decoders.pixels(_encoded("PNG"))
    decoders.close()
    assert _children() == others


def test_a_script_without_a_guard_may_decode(tmp_path: Path) -> None:
    (tmp_path / "a.webp").write_bytes(_encoded("WEBP"))
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom likewise.pictures import Pixels, extract_folder\n"
        "print(extract_folder(sys.argv[1], sys.argv[1] + '.features', Pixels(size=4)).n_items)\n"
    )
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_no_more_processes_than_asked_for_serve_all_threads() -> None:
    data, shapes, others = _encoded("PNG"), [], _children()
    with Decoders(2) as decoders:
        work = [threading.Thread(target=lambda: shapes.append(decoders.pixels(data).content.shape)) for _ in range(12)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        assert shapes == [picture(0).shape] * 12
        assert len(_children() - others) <= 2


def test_only_small_pictures_of_plain_formats_are_cheap() -> None:
    assert is_cheap(_encoded("JPEG"))
    assert is_cheap(_encoded("PNG"))
    assert is_cheap(b"no picture")
    assert not is_cheap(_encoded("WEBP"))
    assert not is_cheap(large_picture("PNG"))
    assert not is_cheap(jpeg_of_many_scans(20, 100))


def test_a_folder_with_bombs_is_extracted_without_them(tmp_path: Path) -> None:
    photos = tmp_path / "photos" / "a"
    photos.mkdir(parents=True)
    for number, data in enumerate((_encoded("JPEG"), _encoded("WEBP"), webp_of_a_few_bytes(), jpeg_of_many_scans())):
        (photos / f"{number}.jpg").write_bytes(data)
    summary = extract_folder(tmp_path / "photos", tmp_path / "photos.features", Pixels(size=4))
    assert (summary.n_items, summary.skipped) == (2, {"too costly to decode": 2})
