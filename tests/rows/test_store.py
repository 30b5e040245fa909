"""A feature store is three files a person can open, and says so when they are not."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.errors import FileFormatError, LikewiseError
from likewise.rows import FeatureStore
from likewise.rows.store import Item, escape, items_to_csv, unescape

FEATURES = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    FeatureStore.write(tmp_path / "a.features", FEATURES, ["x", "y", "x", None], ["1.jpg", "b/2.jpg", "3.jpg", "4.jpg"])
    return tmp_path / "a.features"


def current(store: Path) -> Path:
    """The folder of the current version."""
    return FeatureStore.open(store).version


def test_what_was_written_is_read(store: Path) -> None:
    opened = FeatureStore.open(store)
    np.testing.assert_array_equal(opened.features, FEATURES)
    assert isinstance(opened.features, np.memmap)
    assert opened.labels is not None
    assert opened.labels.tolist() == ["x", "y", "x", ""]
    assert opened.paths == ["1.jpg", "b/2.jpg", "3.jpg", "4.jpg"]
    assert len(opened) == 4
    assert opened.meta["n_classes"] == 2
    assert opened.meta["n_unlabelled"] == 1
    assert opened.root is None
    assert repr(opened).endswith("4 items, 3 features)")


def test_items_know_their_content_and_their_date(store: Path) -> None:
    items = [Item(f"{i}.jpg", "", 10, 20, hash="ab" * 16, taken="2023-05-01T10:20:30" if i else "") for i in range(4)]
    (current(store) / "items.csv").write_bytes(items_to_csv(items))
    opened = FeatureStore.open(store)
    assert opened.items == items


def test_without_labels_there_are_none(tmp_path: Path) -> None:
    opened = FeatureStore.write(tmp_path / "s", FEATURES)
    assert opened.labels is None
    assert opened.paths == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("given_type", "stored_type"), [(np.float16, "float16"), (np.float64, "float32"), (np.int64, "float32")]
)
def test_half_precision_stays_and_everything_else_becomes_single(
    tmp_path: Path, given_type: type, stored_type: str
) -> None:
    opened = FeatureStore.write(tmp_path / "s", FEATURES.astype(given_type))
    assert opened.features.dtype == stored_type
    assert opened.meta["dtype"] == stored_type


def test_labels_that_are_numbers_become_text(tmp_path: Path) -> None:
    opened = FeatureStore.write(tmp_path / "s", FEATURES, np.array([0, 1, 0, 1]), meta={"source": "test"})
    assert opened.labels is not None
    assert opened.labels.tolist() == ["0", "1", "0", "1"]
    assert opened.meta["source"] == "test"


@given(st.text(st.characters(codec=None)))
def test_every_name_survives_as_one_line_of_utf8(name: str) -> None:
    text = escape(name)
    assert "\n" not in text
    assert "\r" not in text
    text.encode()
    assert unescape(text) == name


@given(st.binary(min_size=1).filter(lambda b: b"\0" not in b and b"/" not in b))
def test_every_name_a_file_can_have_survives(name: bytes) -> None:
    assert os.fsencode(unescape(escape(os.fsdecode(name)))) == name


def test_a_name_of_plain_bytes_is_written_as_documented() -> None:
    assert escape(os.fsdecode(b"caf\xe9 \\ one\ntwo")) == r"caf\xe9 \\ one\ntwo"
    assert escape("café") == "café"


def test_items_csv_is_plain_csv(store: Path) -> None:
    with open(current(store) / "items.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == ["1.jpg", "b/2.jpg", "3.jpg", "4.jpg"]
    assert rows[1]["label"] == "y"


@pytest.mark.parametrize(
    ("labels", "paths", "words"),
    [
        (["a"], None, "labels has 1 entries; expected 4, one per row of features"),
        (None, ["a", "b"], "paths has 2 entries; expected 4, one per row of features"),
    ],
)
def test_counts_that_do_not_agree_are_refused(tmp_path: Path, labels: object, paths: object, words: str) -> None:
    with pytest.raises(LikewiseError) as caught:
        FeatureStore.write(tmp_path / "s", FEATURES, labels, paths)  # type: ignore[arg-type]
    assert str(caught.value) == words


def test_features_must_be_rows_of_numbers(tmp_path: Path) -> None:
    with pytest.raises(LikewiseError, match="features has shape"):
        FeatureStore.write(tmp_path / "s", np.zeros(3))
    with pytest.raises(LikewiseError, match="expected rows of numbers"):
        FeatureStore.write(tmp_path / "s", np.array([["a"]]))


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LikewiseError, match="Not a directory"):
        FeatureStore.write(tmp_path / "file" / "s", FEATURES)


def test_what_is_not_a_store_is_said(tmp_path: Path) -> None:
    with pytest.raises(LikewiseError, match="none does not exist"):
        FeatureStore.open(tmp_path / "none")
    with pytest.raises(FileFormatError, match=r"is not a feature store: it has no CURRENT\.features"):
        FeatureStore.open(tmp_path)


@pytest.mark.parametrize("name", ["items.csv", "features.npy"])
def test_a_missing_part_is_named(store: Path, name: str) -> None:
    (current(store) / name).unlink()
    with pytest.raises(FileFormatError, match=f"a.features is damaged: .*{name} is missing"):
        FeatureStore.open(store)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("meta.json", b"{", "meta.json is damaged"),
        ("meta.json", b'{"format": 1}', "meta.json is damaged"),
        ("meta.json", b'{"format": 99, "n_items": 4}', "reads up to 2: upgrade likewise"),
        ("items.csv", b"a,b\n", "its columns are not path, label, size, mtime_ns, hash, taken"),
        ("items.csv", b"path,label,size,mtime_ns,hash,taken,stamp\n1,2,3,4\n", "line 2 has 4 columns; expected 7"),
        ("items.csv", b"path,label,size,mtime_ns,hash,taken,stamp\n1,2,x,4,,,\n", "cannot be read as items"),
        ("items.csv", b"\xff\xfe", "cannot be read as items"),
        (
            "items.csv",
            b"path,label,size,mtime_ns,hash,taken,stamp\n1,2,3,4,,,\n",
            "has 4 rows in features.npy, 1 in items.csv and 4 in meta.json",
        ),
        ("features.npy", b"\x93NUMPY", "features.npy is not a .npy file, or it is truncated"),
        ("features.npy", b"", "features.npy is not a .npy file, or it is truncated"),
    ],
)
def test_a_damaged_part_is_named(store: Path, name: str, content: bytes, words: str) -> None:
    (current(store) / name).write_bytes(content)
    with pytest.raises(FileFormatError, match=words):
        FeatureStore.open(store)


def test_features_of_another_kind_are_refused(store: Path) -> None:
    np.save(current(store) / "features.npy", np.zeros((4, 3), np.complex64))
    with pytest.raises(FileFormatError, match="expected rows of floats"):
        FeatureStore.open(store)


def test_a_store_without_an_extractor_says_so(store: Path) -> None:
    with pytest.raises(LikewiseError, match="carries no extractor: its features did not come from images"):
        FeatureStore.open(store).extractor()


def test_the_extractor_travels_with_the_store(tmp_path: Path) -> None:
    from likewise.pictures import Pixels

    built = Pixels(size=4, colour=False)
    images = np.random.default_rng(0).integers(0, 256, (3, 9, 9, 3)).astype(np.uint8)
    opened = FeatureStore.write(tmp_path / "s", built.transform(images), extractor=built)
    np.testing.assert_array_equal(opened.extractor().transform(images), opened.features)
    assert opened.meta["extractor"]["sha256"] == opened.extractor().checksum()


def test_writing_over_a_store_leaves_nothing_of_it(tmp_path: Path) -> None:
    from likewise.pictures import Pixels

    FeatureStore.write(tmp_path / "s", FEATURES, extractor=Pixels())
    opened = FeatureStore.write(tmp_path / "s", FEATURES[:2])
    assert len(opened) == 2
    assert "extractor" not in opened.meta
    with pytest.raises(LikewiseError, match="carries no extractor"):
        opened.extractor()


def test_meta_is_readable_json(store: Path) -> None:
    meta = json.loads((current(store) / "meta.json").read_text())
    assert meta["n_items"] == 4
    assert meta["n_features"] == 3
