"""Rows that are read: files by block, by row and by range; and blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.rows.sources import NpyFile, check_finite, read_ahead, spooled, working_dtype

X = np.random.default_rng(0).standard_normal((37, 5))


@pytest.mark.parametrize("block_rows", [1, 10, 37, 100])
def test_a_file_gives_its_rows_in_blocks_by_number_and_by_range(tmp_path: Path, block_rows: int) -> None:
    np.save(tmp_path / "x.npy", X)
    source = NpyFile.open(tmp_path / "x.npy")
    for part, rows in source.blocks(block_rows):
        np.testing.assert_array_equal(rows, X[part])
    np.testing.assert_array_equal(source.take(np.array([0, 7, 36])), X[[0, 7, 36]])
    np.testing.assert_array_equal(source.between(3, 9), X[3:9])


def test_a_file_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "text").write_text("hello")
    assert NpyFile.is_one(tmp_path / "x.npy")
    assert not NpyFile.is_one(tmp_path / "text")
    assert not NpyFile.is_one(tmp_path / "absent")


def test_a_memmap_is_its_file_unless_its_rows_are_apart(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    part = NpyFile.of_memmap(mapped[4:20])
    assert part is not None
    np.testing.assert_array_equal(part.between(0, 16), X[4:20])
    assert NpyFile.of_memmap(mapped[:, :2]) is None


@pytest.mark.parametrize("blocks", [lambda: iter([X[:10], X[10:]]), iter([X[:0], X[:1], X[1:]]), [X]])
def test_blocks_become_a_file_without_a_name(blocks: Any) -> None:
    rows = spooled(blocks)
    np.testing.assert_array_equal(rows, X)
    source = NpyFile.of_memmap(rows)
    assert source is not None
    assert source.place(3).startswith("X: row 3")
    np.testing.assert_array_equal(source.take(np.array([3, 12])), X[[3, 12]])


def test_a_full_disk_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no device that is always full")
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: full.open("wb"))
    with pytest.raises(LikewiseError, match=r"cannot keep the rows of X in .*; set TMPDIR to a folder with space"):
        spooled([np.ones((100_000, 4))])


def test_jobs_are_read_ahead_in_order() -> None:
    assert list(read_ahead(iter([lambda i=i: i for i in range(5)]))) == list(range(5))


def test_small_numbers_are_computed_in_single_precision() -> None:
    assert [working_dtype(np.dtype(t)).name for t in ("float16", "uint8", "int64", "float64")] == [
        "float32", "float32", "float64", "float64",
    ]  # fmt: skip


def test_a_row_that_is_not_finite_is_named() -> None:
    bad = X.copy()
    bad[4, 2] = np.inf
    check_finite(X, 0, str)
    with pytest.raises(LikewiseError, match="row 14 holds NaN or infinity"):
        check_finite(bad, 10, lambda row: f"row {row}")
