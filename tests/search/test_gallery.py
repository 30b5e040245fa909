"""The rows of an index: from whatever holds them, in blocks, and in steps that survive a kill."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.processes import ran
from tests.search.conftest import Digits

from likewise.errors import LikewiseError
from likewise.rivals import Cosine
from likewise.rows import FeatureStore, read_table
from likewise.search import Index, gallery
from likewise.search.approximate import serialized
from likewise.search.gallery import as_gallery, write_rows

X = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)


def test_stores_tables_and_paths_to_either_are_one(tmp_path: Path) -> None:
    store = FeatureStore.write(tmp_path / "x.features", X, list("aabbcc"), [f"{i}.png" for i in range(6)])
    np.savez(tmp_path / "x.npz", X=X, y=list("aabbcc"))
    for source in (store, store.path, tmp_path / "x.npz", read_table(tmp_path / "x.npz")):
        result = as_gallery(source)
        np.testing.assert_array_equal(result.raw, X)
        assert result.items.labels is not None
        assert list(result.items.labels) == list("aabbcc")
    assert as_gallery(store).items.paths is not None
    assert as_gallery(X).extractor is None


def test_blocks_are_shown_before_they_are_kept() -> None:
    seen: list[np.ndarray] = []
    result = as_gallery(iter([X[:2], X[2:]]), seen.append)
    np.testing.assert_array_equal(result.raw, X)
    assert [rows.shape for rows in seen] == [(1, 3)]


@pytest.mark.parametrize(
    ("rows", "message"), [(sp.csr_array(X), "gallery is sparse"), (X[0], r"gallery has shape \(3,\) and type float32")]
)
def test_what_is_no_gallery_is_refused(rows: object, message: str) -> None:
    with pytest.raises(LikewiseError, match=message):
        as_gallery(rows)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.search.gallery._BLOCK", 100)


def _parts(G: np.ndarray) -> Iterator[np.ndarray]:
    yield from (G[:0], G[:150], G[150:151], G[151:])


@pytest.mark.parametrize("kind", ["generator", "function", "list", "file", "store", "memmap"])
def test_rows_that_are_not_in_memory_give_the_index_of_the_array(
    fitted: dict[str, Any], digits: Digits, tmp_path: Path, kind: str
) -> None:
    G, y = np.ascontiguousarray(digits[2], dtype=np.float32), digits[3]
    np.save(tmp_path / "rows.npy", G)
    gallery: Any = {
        "generator": lambda: _parts(G),
        "function": lambda: lambda: _parts(G),
        "list": lambda: list(_parts(G)),
        "file": lambda: tmp_path / "rows.npy",
        "store": lambda: FeatureStore.write(tmp_path / "store", G),
        "memmap": lambda: np.load(tmp_path / "rows.npy", mmap_mode="r"),
    }[kind]()
    plain = Index.build(fitted["kernel"], G, {"label": y})
    index = Index.build(fitted["kernel"], gallery, {"label": y})
    index.save(tmp_path / "index")
    for one in (index, Index.load(tmp_path / "index")):
        np.testing.assert_array_equal(one.raw, G)
        np.testing.assert_allclose(one.vectors, plain.vectors, atol=1e-6)
        np.testing.assert_array_equal(one.search(G[:7], k=5).ids, plain.search(G[:7], k=5).ids)
        np.testing.assert_array_equal(
            one.search(G[:7], k=5, space="raw").rows, plain.search(G[:7], k=5, space="raw").rows
        )
        assert one.labels is not None
        assert one.labels.tolist() == y.tolist()


def test_an_index_of_blocks_can_be_changed(fitted: dict[str, Any], digits: Digits) -> None:
    G = digits[2].astype(np.float32)
    index = Index.build(fitted["lda"], _parts(G))
    index = index.plus(G[:3])
    index = index.minus([0, 1])
    np.testing.assert_array_equal(index.raw, np.concatenate([G[2:], G[:3]]))


def test_a_model_of_another_width_refuses_at_the_first_block(fitted: dict[str, Any]) -> None:
    passed: list[int] = []

    def blocks() -> Iterator[np.ndarray]:
        for number in range(5):
            passed.append(number)
            yield np.ones((10, 3), dtype=np.float32)

    with pytest.raises(ValueError, match="3 features"):
        Index.build(fitted["lda"], blocks())
    assert passed == [0]


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "gallery gives no row: expected blocks of shape"),
        ([np.ones((0, 64))], "gallery gives no row"),
        ([sp.csr_array(np.eye(64))], "gallery gives a block of type csr_array.*expected dense rows of numbers"),
        ([np.ones(64)], r"gallery gives a block of type ndarray, float64, and shape \(64,\)"),
        ([np.ones((2, 64)), np.ones((2, 63))], "a block of 63 columns and type float64 after one of 64 and float64"),
        ([np.ones((2, 64), "f4"), np.ones((2, 64))], "64 columns and type float64 after one of 64 and float32"),
        ([np.ones((150, 64)), np.full((2, 64), np.nan)], "gallery: row 150 holds NaN or infinity"),
    ],
)
def test_blocks_that_cannot_be_indexed_are_refused_in_words(
    fitted: dict[str, Any], blocks: list[Any], message: str
) -> None:
    with pytest.raises(LikewiseError, match=message):
        Index.build(fitted["lda"], iter(blocks))


def test_rows_are_written_as_numpy_writes_them() -> None:
    X = np.random.default_rng(0).standard_normal((250, 3))
    for rows in (X, X.astype(np.float16), np.asfortranarray(X), X[::2]):
        ours, numpys = io.BytesIO(), io.BytesIO()
        write_rows(ours, rows)
        np.save(numpys, np.ascontiguousarray(rows))
        assert ours.getvalue() == numpys.getvalue()


def test_what_was_changed_in_a_private_map_is_not_lost(fitted: dict[str, Any], digits: Digits, tmp_path: Path) -> None:
    G = digits[2].astype(np.float32)
    np.save(tmp_path / "rows.npy", G)
    private = np.load(tmp_path / "rows.npy", mmap_mode="c")
    private[5] = 3.0
    index = Index.build(fitted["lda"], private)
    assert np.all(private[5] == 3.0)
    alone = Index.build(fitted["lda"], np.full((1, G.shape[1]), 3.0, dtype=np.float32))
    np.testing.assert_allclose(index.vectors[5], alone.vectors[0], atol=1e-5)


def test_a_bar_is_shown_on_request(fitted: dict[str, Any], digits: Digits, capsys: pytest.CaptureFixture[str]) -> None:
    Index.build(fitted["lda"], digits[2])
    assert capsys.readouterr().err == ""
    Index.build(fitted["lda"], digits[2], verbose=1)
    assert f"{len(digits[2])}/{len(digits[2])}" in capsys.readouterr().err


MEASURED = """
import sys
import numpy as np
from pathlib import Path
from likewise.rivals import LDA
from likewise.search import Index
rng = np.random.default_rng(0)
model = LDA(shrinkage=0.1).fit(rng.standard_normal((400, 256), dtype=np.float32), np.arange(400) % 5)
Index.build(model, rng.standard_normal((5000, 256), dtype=np.float32)).save(sys.argv[2] + "/small")
peak = lambda: int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
gallery = sys.argv[1]
if sys.argv[3] == "blocks":
    gallery = (rng.standard_normal((4096, 256), dtype=np.float32) for _ in range(49))
before = peak()
index = Index.build(model, gallery)
index.save(sys.argv[2] + "/index")
print(peak() - before - index.vectors.nbytes)
"""


@pytest.mark.second
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process its peak")
@pytest.mark.parametrize("kind", ["file", "blocks"])
def test_raw_rows_are_never_held(tmp_path: Path, kind: str) -> None:
    big = np.lib.format.open_memmap(tmp_path / "big.npy", mode="w+", dtype=np.float32, shape=(200_000, 256))
    big[::1000] = 1.0
    del big  # 205 MB, most of it zeros
    done = ran("-c", MEASURED, tmp_path / "big.npy", tmp_path, kind, check=True)
    assert json.loads(done.stdout) < 60e6


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """A thousand rows in a file, in steps of a hundred."""
    monkeypatch.setattr(gallery, "BLOCK", 100)
    monkeypatch.setattr(gallery, "_PART", 300)
    X = np.random.default_rng(0).standard_normal((1000, 8)).astype(np.float32)
    np.save(tmp_path / "rows.npy", X)
    return np.load(tmp_path / "rows.npy", mmap_mode="r")


def build(rows: np.ndarray, workspace: Path, kind: str = "ivfpq") -> Index:
    return Index.build(Cosine().fit(rows), rows, approximate=kind, workspace=workspace)


@pytest.mark.parametrize("write", range(2, 17, 3))
def test_a_build_that_was_killed_goes_on_to_the_same_index(
    rows: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: int
) -> None:
    whole = build(rows, tmp_path / "whole.building")
    done, original = [], gallery.atomic_write

    def killing(path: Path, data: Any) -> Any:
        done.append(path.name)
        if len(done) == write:
            raise Killed
        return original(path, data)

    monkeypatch.setattr(gallery, "atomic_write", killing)
    with pytest.raises(Killed):
        build(rows, tmp_path / "a.building")
    monkeypatch.setattr(gallery, "atomic_write", original)
    again = build(rows, tmp_path / "a.building")
    assert serialized(again.engine) == serialized(whole.engine)
    np.testing.assert_array_equal(again.vectors, whole.vectors)
    assert again.recall == whole.recall


def test_steps_in_parts_are_those_of_one_build(rows: np.ndarray, tmp_path: Path) -> None:
    plain = Index.build(Cosine().fit(rows), rows, approximate="ivf")
    stepped = build(rows, tmp_path / "a.building", "ivf")
    assert stepped.search(rows=[3, 4], k=10).rows.tolist() == plain.search(rows=[3, 4], k=10).rows.tolist()


def test_steps_of_another_gallery_are_begun_anew(rows: np.ndarray, tmp_path: Path) -> None:
    build(rows, tmp_path / "a.building")
    other = build(rows[:900] + 1, tmp_path / "a.building", "ivf")
    assert (len(other), other.approximate) == (900, "ivf")


def test_one_changed_row_is_another_gallery(rows: np.ndarray, tmp_path: Path) -> None:
    build(rows, tmp_path / "a.building")
    changed = np.array(rows)
    changed[501] = changed[7]
    again = build(changed, tmp_path / "a.building")
    np.testing.assert_array_equal(again.vectors, Index.build(Cosine().fit(changed), changed).vectors)


@pytest.mark.parametrize("name", ["thesis.tex", "part-1.txt", "vectors.npy", ".notes"])
def test_a_folder_of_somebody_else_is_left_alone(rows: np.ndarray, tmp_path: Path, name: str) -> None:
    (tmp_path / "a.building").mkdir()
    (tmp_path / "a.building" / name).write_text("…")
    with pytest.raises(LikewiseError, match="is there and was not made by likewise index; move it away"):
        build(rows, tmp_path / "a.building")
    assert (tmp_path / "a.building" / name).read_text() == "…"


def test_a_full_disk_is_a_sentence(rows: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gallery, "reserve", full)
    with pytest.raises(LikewiseError, match=r"cannot write .*vectors.npy: No space left on device"):
        build(rows, tmp_path / "a.building")
