"""Rows on disk within a memory limit give the results of rows in memory; a pass that was killed is resumed."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.learn.engines.agreement import CLASSES, WAYS, D, N, assert_same, rows, slr_of_the_array
from tests.processes import Python, ran

from likewise import SLR
from likewise.errors import FileFormatError, LikewiseError
from likewise.learn.engines.disk import DiskEngine, MemoryBudget, SpilledColumns, in_bytes
from likewise.learn.engines.opening import open_rows
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.passes import PassColumns
from likewise.rows import FeatureStore
from likewise.rows.sources import NpyFile


@pytest.mark.parametrize(
    ("words", "expected"),
    [("1GB", 10**9), ("1.5 gib", 3 * 2**29), ("512 MB", 512 * 10**6), ("64k", 64_000), (12345, 12345), ("7", 7)],
)
def test_limits_are_read_as_people_write_them(words: Any, expected: int) -> None:
    assert in_bytes(words) == expected


@pytest.mark.parametrize("words", ["much", "-1GB", "0", 0, -5, "1XB", True, ""])
def test_limits_that_make_no_sense_are_refused(words: Any) -> None:
    with pytest.raises(LikewiseError, match=r"memory_limit=.*expected bytes as a positive number"):
        in_bytes(words)


@given(limit=st.integers(10**5, 10**11), d=st.integers(1, 5000), size=st.sampled_from([4, 8]), n=st.integers(2, 10**8))
def test_what_is_shared_out_stays_within_the_limit(limit: int, d: int, size: int, n: int) -> None:
    fixed = 6 * 8 * d * d + 40 * n
    if limit - fixed < 64 * 4 * d * size:
        with pytest.raises(LikewiseError, match="is too little for"):
            MemoryBudget.of(limit, d, d * size, n)
        return
    budget = MemoryBudget.of(limit, d, d * size, n)
    assert fixed + 4 * budget.block_rows * d * size + budget.gallery_bytes <= limit
    assert budget.block_rows >= 64


SMALL = "200kB"  # several blocks of the rows below


def saved(folder: Path, X: np.ndarray) -> Path:
    path = folder / "rows.npy"
    np.save(path, X)
    return path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_file_gives_the_model_of_the_array(tmp_path: Path, way: str, dtype: type) -> None:
    X, y = rows(dtype)
    tolerance = 1e-5 if dtype == np.float32 else 1e-9
    on_disk = SLR(**WAYS[way]).fit(open_rows(saved(tmp_path, X), y, memory_limit=SMALL))
    assert_same(slr_of_the_array(way, dtype), on_disk, X, tolerance)
    assert on_disk.n_features_in_ == D
    assert on_disk.components_.dtype == dtype


def test_losses_are_those_of_the_memory_engine(tmp_path: Path) -> None:
    X, y = rows()
    ours = SLR(rank=8, max_iter=3).fit(open_rows(saved(tmp_path, X), y, memory_limit=SMALL)).history_
    theirs = SLR(rank=8, max_iter=3).fit(X, y).history_
    np.testing.assert_allclose([h["loss"] for h in ours], [h["loss"] for h in theirs], rtol=1e-5)


@pytest.mark.parametrize("way", ["all pairs", "landmarks", "sample", "fixed, iterated"])
def test_weights_mean_repetition_and_zero_means_absence(tmp_path: Path, way: str) -> None:
    X, y = rows()
    weights = np.random.default_rng(1).integers(0, 4, N).astype(float)
    on_disk = SLR(**WAYS[way]).fit(open_rows(saved(tmp_path, X), y, sample_weight=weights, memory_limit=SMALL))
    assert_same(SLR(**WAYS[way]).fit(X, y, sample_weight=weights), on_disk, X)
    assert on_disk.n_samples_ == np.count_nonzero(weights)


def test_the_gallery_goes_to_a_file_where_memory_has_no_room(tmp_path: Path) -> None:
    X, y = rows(np.float64)
    weights = np.random.default_rng(1).integers(1, 4, N).astype(float)
    source = NpyFile.open(saved(tmp_path, X))
    codes = y.astype(np.int32)
    R = np.random.default_rng(2).standard_normal((D, 7))
    spilled = DiskEngine(source, codes, CLASSES, weights, "130kB").gallery(R)
    held = DiskEngine(source, codes, CLASSES, weights, "10MB").gallery(R)
    assert isinstance(spilled, SpilledColumns)
    assert isinstance(held, PassColumns)
    np.testing.assert_allclose(spilled.linear[0], held.linear[0], rtol=1e-12)
    assert_same(SLR(rank=7, max_iter=2).fit(open_rows(source.path, y, weights, memory_limit="110kB")),
                SLR(rank=7, max_iter=2).fit(X, y, weights), X, 1e-9)  # fmt: skip


def test_each_block_is_read_once_a_pass_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    read: list[int] = []
    plain = NpyFile._read

    def noted(self: NpyFile, part: slice, buffer: np.ndarray) -> np.ndarray:
        read.append(part.start)
        return plain(self, part, buffer)

    engine = DiskEngine(NpyFile.open(saved(tmp_path, X)), y.astype(np.int32), CLASSES, None, SMALL)
    monkeypatch.setattr(NpyFile, "_read", noted)
    engine.class_sums(np.eye(D))
    assert len(read) == engine.n_blocks > 3
    assert read == sorted(set(read))


@pytest.mark.parametrize("dtype", [np.float16, np.uint8, np.int64])
def test_other_number_types_are_converted_block_by_block(tmp_path: Path, dtype: type) -> None:
    X, y = rows()
    X = np.rint(20 * X / np.abs(X).max() + 100).astype(dtype)
    on_disk = SLR(rank=6, max_iter=2).fit(open_rows(saved(tmp_path, X), y, memory_limit=SMALL))
    assert on_disk.components_.dtype == (np.float64 if dtype == np.int64 else np.float32)
    assert_same(SLR(rank=6, max_iter=2).fit(X.astype(np.float64), y), on_disk, X.astype(np.float64), 1e-4)


def test_a_memmap_is_read_from_its_file_also_as_a_view(tmp_path: Path) -> None:
    X, y = rows()
    mapped = np.load(saved(tmp_path, X), mmap_mode="r")
    assert isinstance(open_rows(mapped, y).engine, DiskEngine)
    assert isinstance(open_rows(X, y).engine, MemoryEngine)
    assert_same(SLR(rank=6, max_iter=2).fit(mapped, y), SLR(rank=6, max_iter=2).fit(X, y), X)
    view = mapped[100:500][3:]
    assert_same(SLR(rank=6, max_iter=2).fit(view, y[103:500]), SLR(rank=6, max_iter=2).fit(X[103:500], y[103:500]), X)
    columns = mapped[:, :10]
    assert_same(SLR(rank=6, max_iter=2).fit(columns, y), SLR(rank=6, max_iter=2).fit(X[:, :10], y), X[:, :10])


@pytest.mark.parametrize("kind", ["list", "function", "object", "generator"])
def test_blocks_that_come_one_after_the_other_will_do(kind: str) -> None:
    X, y = rows()
    parts = np.split(X, [100, 101, 390])

    class Again:
        def __iter__(self) -> Any:
            return (part for part in parts)

    blocks: Any = {"list": parts, "function": lambda: iter(parts), "object": Again(), "generator": iter(parts)}[kind]
    data = open_rows(blocks, y, memory_limit=SMALL)
    for way in ("all pairs", "landmarks"):
        assert_same(SLR(**WAYS[way]).fit(data), SLR(**WAYS[way]).fit(X, y), X)


def test_a_store_brings_its_own_labels_and_leaves_out_unlabelled_rows(tmp_path: Path) -> None:
    X, y = rows()
    labels = [("" if i % 10 == 0 else str(c)) for i, c in enumerate(y)]
    store = FeatureStore.write(tmp_path / "x.features", X, labels)
    labelled = np.arange(N) % 10 != 0
    plain = SLR(rank=6, max_iter=2).fit(X[labelled], y[labelled])
    for source in (store, store.path, str(store.path)):
        model = SLR(rank=6, max_iter=2).fit(open_rows(source, memory_limit=SMALL))
        assert model.classes_.tolist() == plain.classes_.tolist()
        assert_same(plain, model, X)


# -- What is refused, in words -----------------------------------------------------------------------------------------


def test_a_truncated_file_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    X, y = rows()
    path, model = saved(tmp_path, X), tmp_path / "checkpoint"
    with open(path, "r+b") as file:
        file.truncate(5000)
    with pytest.raises(FileFormatError, match=r"it is truncated: its header has shape \(700, 24\)"):
        SLR(rank=6).fit(open_rows(path, y, checkpoint=model))
    assert os.listdir(tmp_path) == ["rows.npy"]


def test_a_file_that_shrinks_while_it_is_read_is_named_too(tmp_path: Path) -> None:
    X, y = rows()
    source = NpyFile.open(saved(tmp_path, X))
    with open(source.path, "r+b") as file:
        file.truncate(5000)
    with pytest.raises(FileFormatError, match=r"rows\.npy is truncated: it ends at byte 5000"):
        DiskEngine(source, y.astype(np.int32), CLASSES, None, SMALL).whiten(0.0)


def test_a_value_that_is_not_finite_is_named_by_row_and_byte(tmp_path: Path) -> None:
    X, y = rows()
    X[431, 7] = np.nan
    checkpoint = tmp_path / "checkpoint"
    byte = 128 + 431 * D * 4
    with pytest.raises(LikewiseError, match=rf"rows\.npy: row 431, at byte {byte}, holds NaN or infinity"):
        SLR(rank=6).fit(open_rows(saved(tmp_path, X), y, memory_limit=SMALL, checkpoint=checkpoint))
    assert not checkpoint.exists()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("absent.npy", r"absent\.npy does not exist"),
        (lambda: iter([]), "X gives no row: expected blocks"),
        (lambda: iter([np.ones((2, 3))]), "X has 2 rows and y 4 labels: expected one per row"),
        (lambda: iter([np.ones((2, 3)), np.ones((2, 4))]), "X gives a block of 4 columns and type float64 after one"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(X: Any, message: str) -> None:
    with pytest.raises(LikewiseError, match=message):
        SLR(rank=1).fit(X, [0, 0, 1, 1])


def test_files_of_the_wrong_kind_are_refused(tmp_path: Path) -> None:
    X, y = rows()
    (tmp_path / "text.npy").write_text("not an array")
    np.save(tmp_path / "columns.npy", np.asfortranarray(X))
    np.save(tmp_path / "cube.npy", np.ones((2, 2, 2)))
    for name, message in [
        ("text.npy", "is not a .npy file"),
        ("columns.npy", "is stored column by column"),
        ("cube.npy", r"has shape \(2, 2, 2\)"),
    ]:
        with pytest.raises(FileFormatError, match=message):
            SLR(rank=2).fit(tmp_path / name, y)
    with pytest.raises(LikewiseError, match="X has 700 rows and y 699 labels"):
        SLR(rank=2).fit(saved(tmp_path, X), y[:-1])
    with pytest.raises(LikewiseError, match="y is None, and X brings no labels"):
        SLR(rank=2).fit(saved(tmp_path, X))
    with pytest.raises(LikewiseError, match="memory_limit='1kB' is too little for 700 rows of 24"):
        SLR(rank=2).fit(open_rows(saved(tmp_path, X), y, memory_limit="1kB"))
    with pytest.raises(LikewiseError, match="compress='gaussian' mixes all rows"):
        SLR(rank=2, compress="gaussian", compress_size=50).fit(saved(tmp_path, X), y)


# -- Memory and kills, each in a process of its own --------------------------------------------------------------------

MEASURED = """
import json, sys
import numpy as np
from pathlib import Path
from likewise import SLR, open_rows
from likewise.learn.engines.disk import DiskEngine
path, n, rank = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
y = np.arange(n) % 20
peak = lambda: int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
SLR(rank=rank, max_iter=1).fit(np.random.default_rng(0).standard_normal((400, 64), dtype=np.float32), y[:400])
before = peak()
SLR(rank=rank, max_iter=1, compress="landmarks", compress_size=200).fit(open_rows(path, y, memory_limit="24MB"))
print(json.dumps(peak() - before))
"""


@pytest.mark.second
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process its peak")
def test_memory_stays_within_the_limit_whatever_the_number_of_rows(tmp_path: Path) -> None:
    n, path = 300_000, tmp_path / "big.npy"
    big = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, 64))
    rng = np.random.default_rng(0)
    for first in range(0, n, 50_000):
        big[first : first + 50_000] = rng.standard_normal((50_000, 64), dtype=np.float32)
    del big
    out = ran("-c", MEASURED, path, n, 8, check=True)
    assert json.loads(out.stdout) < 32e6 < path.stat().st_size / 2


KILLED = """
import sys
import numpy as np
from likewise import SLR, open_rows
folder, max_iter = sys.argv[1], int(sys.argv[2])
y = np.load(folder + "/y.npy")
model = SLR(rank=8, max_iter=max_iter, compress="sample", compress_size=300, random_state=5)
rows = open_rows(folder + "/rows.npy", y, memory_limit="150kB", checkpoint=folder + "/checkpoint")
print("ready", flush=True)
model.fit(rows).save(folder + "/model.likewise")
"""


@pytest.mark.second
@pytest.mark.parametrize("seed", range(2))
def test_a_fit_that_was_killed_goes_on_to_the_same_model(tmp_path: Path, seed: int) -> None:
    X, y = rows()
    saved(tmp_path, X)
    np.save(tmp_path / "y.npy", y)
    max_iter, checkpoint = 15, tmp_path / "checkpoint"
    words = ["-c", KILLED, tmp_path, max_iter]
    with Python(*words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while not checkpoint.exists() and process.poll() is None:
            time.sleep(0.001)
        time.sleep(float(np.random.default_rng(seed).uniform(0, 0.2)))
        process.send_signal(signal.SIGKILL)
    if not (tmp_path / "model.likewise").exists():
        ran(*words, check=True)
    resumed = SLR.load(tmp_path / "model.likewise")
    whole = SLR(rank=8, max_iter=max_iter, compress="sample", compress_size=300, random_state=5).fit(
        open_rows(tmp_path / "rows.npy", y, memory_limit="150kB")
    )
    assert resumed.n_iter_ == max_iter
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    np.testing.assert_array_equal(resumed.query_components_, whole.query_components_)
