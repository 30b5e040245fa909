"""Text embeddings in a Parquet file, learned from, and exported to PostgreSQL, Qdrant, LanceDB and Milvus.

usage: LIKEWISE_DATA=DIR python -m benchmarks.stores [--rows N] [--kills N] [--folder DIR] [STORE ...]
       LIKEWISE_DATA=DIR python -m benchmarks.stores --learn
       python -m benchmarks.stores --million [--rows N] [--width N] [--server postgresql://…]

STORE is postgresql, qdrant, lancedb or milvus; all by default. Rows are the messages of newsgroups20.npz in
LIKEWISE_DATA, 300 numbers each (an SVD of their words that sees no labels), or random ones without it; they are in a
Parquet file with ids such as doc-7108, the heaviest words of each message as its text, and its topic. A model is
learned from every other row. An export is killed with -9 at random moments, each time at another batch, and run again;
then the first ten of 200 queries are compared with those of `Index.search`.

`--learn` stops after learning and prints mAP, raw and learned, among the rows that were not learned from: each of them
is a query that ranks the others.

`--million` exports a million vectors of 128 numbers around random centres to PostgreSQL and builds an HNSW index.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse as sp
from rich.table import Table
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize
from tests.search.stores.server import postgres

from benchmarks.__main__ import show
from likewise import SimilarityLearner
from likewise.evaluate import mean_average_precision
from likewise.rivals import Cosine
from likewise.rows.parquet import streamed_parquet
from likewise.search import Index
from likewise.search.stores import Store, export_to, open_store

EFFORTS = (100, 200, 400, 800)  # rows that a search of the graph looks at, at least
QUERIES, K, TIE = 200, 10, 1e-5
SETTINGS = "-c maintenance_work_mem=2GB -c shared_buffers=1GB -c max_wal_size=8GB"
BATCH = 500  # rows per transaction of an export that is to be killed: there is more to kill between
COMMAND = """
import sys
from likewise.search import Index
from likewise.search.stores import export_to, open_store
with open_store(sys.argv[2], sys.argv[4]) as store:
    type(store).batch = int(sys.argv[3])
    index = Index.load(sys.argv[1])
    print("begun", flush=True)
    done = export_to(index, store)
    print(done.written, done.kept, flush=True)
"""

# ---------------------------------------------------------------------------------------------------------------------
# Rows


def parquet_of_messages(path: Path, rows: int) -> None:
    """Ids, text, topics and vectors in a Parquet file."""
    file = Path(os.environ.get("LIKEWISE_DATA", "")) / "newsgroups20.npz"
    X, y, text = _messages(file, rows) if file.is_file() else (*_random(rows, 300), None)
    columns = {"id": [f"doc-{row}" for row in range(len(y))], "text": text or [f"row of {topic}" for topic in y]}
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    pa.parquet.write_table(pa.table({**columns, "topic": list(y), "embedding": vectors}), path)


def _messages(file: Path, rows: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Vectors, topics and the eight heaviest words of each message; topics in random order."""
    with np.load(file) as archive:
        data = dict(archive)
    X = sp.csr_matrix((data["data"], data["indices"], data["indptr"]), shape=tuple(data["shape"]))
    order = np.random.default_rng(0).permutation(X.shape[0])[:rows]
    X = normalize(X[order])
    parts = [slice(*X.indptr[row : row + 2]) for row in range(len(order))]
    words = [data["vocab"][X.indices[part][np.argsort(-X.data[part])[:8]]] for part in parts]
    Z = TruncatedSVD(300, random_state=0).fit_transform(X)
    return Z.astype(np.float32), data["classes"][data["y"][order]], [" ".join(parts) for parts in words]


def _random(rows: int, width: int, centres: int = 20) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, centres, rows)
    X = rng.normal(size=(centres, width)).astype(np.float32)[y]
    for start in range(0, rows, 100_000):
        part = X[start : start + 100_000]
        part += rng.normal(size=part.shape).astype(np.float32)
    return X, y.astype(str)


def learned(path: Path, folder: Path) -> tuple[Index, np.ndarray]:
    """An index of the rows of a Parquet file under a model learned from half of them, and raw queries."""
    table = pa.parquet.read_table(path)
    X = np.array(table["embedding"].combine_chunks().flatten()).reshape(len(table), -1)
    y = np.array(table["topic"].to_pylist())
    if not folder.exists():
        began = time.perf_counter()
        model = SimilarityLearner(kernel="linear", random_state=0).fit(X[::2], y[::2])
        print(f"learned from {len(y[::2]):,} rows in {time.perf_counter() - began:.0f} s;", end=" ")
        print(_held_out(model, X[1::2], y[1::2]), flush=True)
        Index.build(model, streamed_parquet(path, label="topic")).save(folder)  # with ids, text and topic
    return Index.load(folder), X[1 :: max(1, len(X) // QUERIES)][:QUERIES]


def _held_out(model: SimilarityLearner, X: np.ndarray, y: np.ndarray) -> str:
    """mAP of rows that were not learned from, each against the others, by their cosine and by the model."""
    raw, V = normalize(X), model.transform(X)
    before, after = mean_average_precision(raw, raw, y), mean_average_precision(model.transform_query(X), V, y)
    return f"mAP among {len(y):,} other rows: raw {before:.3f}, learned {after:.3f}"


# ---------------------------------------------------------------------------------------------------------------------
# Killing


def killed(folder: Path, address: str, kills: int) -> tuple[int, float]:
    """Export, killing it again and again; returns how often it was killed while writing, and seconds of a whole run."""
    rng, hits, seconds = np.random.default_rng(0), 0, _whole_run(folder, address)
    for _ in range(kills):
        with subprocess.Popen(_command(folder, address), stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            assert run.stdout.readline().strip() == "begun"
            time.sleep(rng.uniform(0, 2 * seconds / kills))
            run.send_signal(signal.SIGKILL)
            hits += not run.stdout.readline()
    subprocess.run(_command(folder, address), check=True, stdout=subprocess.DEVNULL)
    return hits, seconds


def _whole_run(folder: Path, address: str) -> float:
    """Seconds of an export that nobody kills, to another table."""
    with subprocess.Popen(_command(folder, address, "whole"), stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        run.stdout.readline()
        began = time.perf_counter()
        run.stdout.readline()
        return time.perf_counter() - began


def _command(folder: Path, address: str, table: str = "items") -> list[str]:
    return [sys.executable, "-c", COMMAND, str(folder), address, str(BATCH), table]


def compared(index: Index, Q: np.ndarray, address: str) -> dict[str, object]:
    """Rows in the store, missing or there twice, and its first ten against those of the index."""
    with open_store(address, "items") as store:
        ids = [name for rows in store.scan() for name in rows.ids]
        began = time.perf_counter()
        result_ids, scores = store.search(index.space().embed(Q), K)
        took = (time.perf_counter() - began) / len(Q)
    hits = index.search(Q, k=K)
    expected, exact = hits.ids, hits.scores
    same = [set(a) == set(b) for a, b in zip(result_ids, expected, strict=True)]
    tied = np.abs(scores - exact).max(axis=1) < TIE
    return {
        "rows": len(ids),
        "missing": len(set(index.ids.tolist()) - set(ids)),
        "twice": len(ids) - len(set(ids)),
        "same ten": f"{sum(same)}/{len(Q)}",
        "or tied": f"{int(np.sum(np.array(same) | tied))}/{len(Q)}",
        "ms a query": f"{1000 * took:.1f}",
    }


# ---------------------------------------------------------------------------------------------------------------------
# A million


def million(rows: int, width: int, address: str | None) -> None:
    """Export to a server that is running, or to one that ends with it."""
    with nullcontext(address) if address else postgres(SETTINGS) as place, open_store(place, "items") as store:
        _measure(rows, width, store)


def _measure(rows: int, width: int, store: Store) -> None:
    """Rows per second, memory, time of the index, and recall."""
    X, _ = _random(rows, width, 1000)
    index = Index.build(Cosine().fit(X[:1000]), X)
    began = time.perf_counter()
    with peak_memory() as grown:
        done = export_to(index, store)
    took = time.perf_counter() - began
    print(
        f"export: {done.written:,} of {rows:,} × {width} in {took:.0f} s, {done.written / took:,.0f} rows/s,", end=" "
    )
    print(f"memory of the client + {grown[0]:.0f} MB", flush=True)
    began = time.perf_counter()
    store.build_index()
    print(f"HNSW: {time.perf_counter() - began:.0f} s", flush=True)
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(QUERIES, width)).astype(np.float32) / 4
    Q = index.space().embed(X[rng.integers(0, rows, QUERIES)] + noise)
    exact = index.space().rank(Q, K)[0].tolist()
    for effort in EFFORTS:
        began = time.perf_counter()
        ids = store.search(Q, effort)[0][:, :K].tolist()
        took = (time.perf_counter() - began) / QUERIES
        recall = np.mean([len(set(a) & set(b)) / K for a, b in zip(ids, exact, strict=True)])
        print(f"ef_search {effort}: recall@{K} {100 * recall:.1f} %, {1000 * took:.1f} ms a query", flush=True)


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """Megabytes that this process grows by, at most."""
    process, grown, ended = psutil.Process(), [0.0], threading.Event()
    start = process.memory_info().rss

    def watch() -> None:
        while not ended.wait(0.1):
            grown[0] = max(grown[0], (process.memory_info().rss - start) / 2**20)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield grown
    ended.set()
    thread.join()


# ---------------------------------------------------------------------------------------------------------------------


@contextmanager
def place(kind: str, folder: Path) -> Iterator[str]:
    """The address of an empty store."""
    if kind == "postgresql":
        with postgres() as address:
            yield address
    else:
        yield f"{kind}:{folder / ('items.db' if kind == 'milvus' else kind)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="*", default=["postgresql", "qdrant", "lancedb", "milvus"])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--learn", action="store_true")
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--server", metavar="ADDRESS")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep the Parquet file and the index there")
    arguments = parser.parse_args()
    if arguments.million:
        return million(arguments.rows or 1_000_000, arguments.width, arguments.server)
    with tempfile.TemporaryDirectory(prefix="stores-") as scratch:
        folder = arguments.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "items.parquet").exists():
            parquet_of_messages(folder / "items.parquet", arguments.rows or 20_000)
        index, Q = learned(folder / "items.parquet", folder / "items.index")
        if not arguments.learn:
            _export(arguments.stores, folder, index, Q, arguments.kills)


def _export(stores: list[str], folder: Path, index: Index, Q: np.ndarray, kills: int) -> None:
    shown = [_row(kind, folder, index, Q, kills) for kind in stores]
    table = Table(*shown[0])
    for row in shown:
        table.add_row(*map(str, row.values()))
    show(f"{len(index):,} rows × {index.vectors.shape[1]}, {kills} kills, {len(Q)} queries", table)


def _row(kind: str, folder: Path, index: Index, Q: np.ndarray, kills: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory(dir=folder) as scratch, place(kind, Path(scratch)) as address:
        hits, seconds = killed(folder / "items.index", address, kills)
        rate = f"{len(index) / seconds:,.0f}"
        return {"store": kind, "rows/s": rate, "killed while writing": hits, **compared(index, Q, address)}


if __name__ == "__main__":
    main()
