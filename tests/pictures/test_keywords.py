"""Keywords of pictures: where they are found, and which of them is the label."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from likewise.pictures.folder import find_images
from likewise.pictures.keywords import (
    NONE,
    Keywords,
    chosen_labels,
    embedded_keywords,
    find_sidecar,
    keywords_of,
    labels_from_keywords,
)
from likewise.pictures.pipeline import extract_folder
from likewise.pictures.xmp import EMPTY, Xmp

PIXELS = np.random.default_rng(0).integers(0, 256, (16, 12, 3), dtype=np.uint8)


def packet(*words: str, field: str = "dc:subject") -> bytes:
    xmp = Xmp(EMPTY)
    xmp.add({field: words})
    return xmp.to_bytes()


def picture(path: Path, *words: str) -> Path:
    written = {"tiffinfo": {700: packet(*words)}} if path.suffix == ".tif" else {"xmp": packet(*words)}
    Image.fromarray(PIXELS).save(path, **(written if words else {}))
    return path


@pytest.mark.parametrize("ending", ["jpg", "webp", "tif"])
def test_an_embedded_packet_is_read(tmp_path: Path, ending: str) -> None:
    assert embedded_keywords(picture(tmp_path / f"a.{ending}", "cat", "Ünï")).words == ["cat", "Ünï"]
    assert embedded_keywords(picture(tmp_path / f"b.{ending}")) == NONE


@pytest.mark.parametrize("compressed", [False, True])
def test_a_packet_in_a_png_is_read_also_behind_the_pixels(tmp_path: Path, compressed: bool) -> None:
    info = PngImagePlugin.PngInfo()
    info.add_itxt("XML:com.adobe.xmp", packet("cat").decode(), zip=compressed)
    Image.fromarray(PIXELS).save(tmp_path / "a.png", pnginfo=info)
    assert embedded_keywords(tmp_path / "a.png").words == ["cat"]
    data = (tmp_path / "a.png").read_bytes()
    start = data.index(b"iTXt") - 4
    end = start + 12 + int.from_bytes(data[start : start + 4])
    (tmp_path / "b.png").write_bytes(data[:start] + data[end:-12] + data[start:end] + data[-12:])
    assert embedded_keywords(tmp_path / "b.png").words == ["cat"]


def test_a_png_that_unpacks_to_gigabytes_has_no_keywords(tmp_path: Path) -> None:
    head = b"XML:com.adobe.xmp\0\1\0\0\0"
    body = head + zlib.compress(b" " * 2**26)
    chunk = len(body).to_bytes(4) + b"iTXt" + body + b"\0\0\0\0"
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk)
    assert embedded_keywords(tmp_path / "a.png") == NONE


def test_iptc_is_read_in_utf8_and_in_western_letters(tmp_path: Path, exiftool: Callable[..., str]) -> None:
    both = picture(tmp_path / "a.jpg", "cat"), picture(tmp_path / "b.jpg")
    exiftool("-charset", "iptc=latin", "-IPTC:Keywords=été", "-IPTC:Keywords=cat", *both)
    assert embedded_keywords(both[0]).words == ["cat", "été"]
    exiftool("-IPTC:CodedCharacterSet=UTF8", "-IPTC:Keywords=für", both[1])
    assert embedded_keywords(both[1]).words == ["für"]


def test_a_sidecar_hides_what_is_inside_and_the_full_name_goes_first(tmp_path: Path) -> None:
    photo = picture(tmp_path / "a.jpg", "inside")
    assert keywords_of(photo)[0].words == ["inside"]
    (tmp_path / "a.XMP").write_bytes(packet("short"))
    assert keywords_of(photo)[0].words == ["short"]
    (tmp_path / "a.jpg.xmp").write_bytes(packet("full"))
    assert keywords_of(photo)[0].words == ["full"]
    (tmp_path / "a.jpg.xmp").write_bytes(EMPTY)
    assert keywords_of(photo)[0].words == ["inside"]
    assert find_sidecar(tmp_path / "b.jpg") is None


def test_of_a_path_the_end_counts_and_what_it_passes_through_does_not() -> None:
    fields = {"dc:subject": ["animals", "cat", "beach"], "lr:hierarchicalSubject": ["animals|cat"]}
    assert Keywords(fields).words == ["cat", "beach"]
    assert Keywords({"digiKam:TagsList": ["People/Ann", "People"]}).words == ["Ann", "People"]


def test_of_several_keywords_the_most_common_is_the_label_but_none_that_all_have() -> None:
    words = {"a": ["all", "cat", "rare"], "b": ["all", "cat"], "c": ["all", "dog"], "d": ["all"]}
    assert chosen_labels(words) == {"a": "cat", "b": "cat", "c": "dog", "d": "all"}
    assert chosen_labels({"a": [], "b": ["y", "x"]}) == {"a": "", "b": "x"}


def test_labels_of_a_folder_count_several_and_name_broken_sidecars(tmp_path: Path) -> None:
    for name, words in {"a": ("cat", "sun"), "b": ("cat",), "c": ()}.items():
        picture(tmp_path / f"{name}.jpg", *words)
    (tmp_path / "b.jpg.xmp").write_text("<not xmp>")
    labelled = labels_from_keywords(tmp_path, ["a.jpg", "b.jpg", "c.jpg"])
    assert labelled.labels == {"a.jpg": "cat", "b.jpg": "cat", "c.jpg": ""}
    assert labelled.n_several == 1
    assert [(skipped.path, skipped.kind) for skipped in labelled.problems] == [
        ("b.jpg", "sidecars that cannot be read")
    ]


def test_extraction_labels_by_keywords_and_does_not_list_sidecars_as_skipped(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for number, word in enumerate(["cat", "cat", "dog", "dog"]):
        picture(photos / f"{number}.png")
        (photos / f"{number}.png.xmp").write_bytes(packet(word, "holiday"))
    summary = extract_folder(photos, tmp_path / "f", "pixels", labels="keywords")
    assert (summary.n_classes, summary.n_skipped, summary.n_several_keywords) == (2, 0, 4)
    shutil.copy(photos / "0.png.xmp", photos / "3.png.xmp")
    again = extract_folder(photos, tmp_path / "f", "pixels", labels="keywords")
    assert (again.n_new, again.n_classes) == (0, 2)
    assert find_images(photos)[1] == []
