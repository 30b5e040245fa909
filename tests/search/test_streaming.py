"""An index of rows that are not in memory: the one of the array, and no more held than its vectors."""

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
from likewise.rows import FeatureStore
from likewise.search import Index
from likewise.search.gallery import spooled, write_rows


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
    given: list[int] = []

    def blocks() -> Iterator[np.ndarray]:
        for number in range(5):
            given.append(number)
            yield np.ones((10, 3), dtype=np.float32)

    with pytest.raises(ValueError, match="3 features"):
        Index.build(fitted["lda"], blocks())
    assert given == [0]


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


def test_a_full_disk_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no device that is always full")
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: full.open("wb"))
    with pytest.raises(LikewiseError, match=r"cannot keep the raw rows in .*; set TMPDIR to a folder with space"):
        spooled([np.ones((100_000, 4))])


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
