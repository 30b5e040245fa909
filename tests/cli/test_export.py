"""`likewise export`: an index in files and databases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise import SLR
from likewise.rivals import LDA
from likewise.rows import read_table
from likewise.search import Index
from likewise.search.exports import query_map
from likewise.search.stores import Layout, open_store
from likewise.teach import load_index


def built(files: Path, folder: Path, model: Any) -> Path:
    table = read_table(files / "test.npz")
    train = read_table(files / "train.npz")
    ids = [f"it's {row}" for row in range(len(table.X))]
    Index.build(model.fit(train.X, train.y), table.X, {"id": ids, "label": table.y}).save(folder)
    return folder


@pytest.fixture
def folder(files: Path, tmp_path: Path) -> Path:
    return built(files, tmp_path / "t.index", LDA(shrinkage=0.1))


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "npz", "faiss", "onnx"])
def test_the_suffix_says_the_kind_of_file(run: Any, folder: Path, tmp_path: Path, suffix: str) -> None:
    result = run("export", folder, "--to", tmp_path / f"a.{suffix}", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["rows"] == 200
    assert (tmp_path / f"a.{suffix}").stat().st_size > 100


def test_a_database_is_filled_once_and_read_back(run: Any, folder: Path, tmp_path: Path, server: str) -> None:
    place = server.replace("likewise@", "likewise:secret@")
    first = run("export", folder, "--to", place, "--table", "cli", "--approximate", "--json")
    assert first.exit_code == 0, first.stderr
    summary = json.loads(first.stdout)
    assert (summary["written"], summary["kept"], summary["removed"], summary["table"]) == (200, 0, 0, "cli")
    again = run("export", folder, "--to", place, "--table", "cli")
    assert "200 rows × 9; 0 written, 200 there already, 0 old ones removed" in again.stdout
    back = run("pull", place, "--table", "cli", "-o", tmp_path / "rows.npz")
    assert back.exit_code == 0, back.stderr
    assert "200 rows × 9, with label" in back.stdout
    assert "secret" not in first.output + again.output + back.output
    index = load_index(folder)
    with np.load(tmp_path / "rows.npz") as rows:
        where = {name: row for row, name in enumerate(rows["ids"].tolist())}
        order = [where[name] for name in index.ids]
        np.testing.assert_array_equal(rows["X"][order], index.vectors)
        assert rows["label"][order].tolist() == index.labels.tolist()


@pytest.mark.parametrize("matrix", [False, True])
def test_the_printed_code_searches_raw_rows_where_they_are(
    run: Any, files: Path, tmp_path: Path, server: str, matrix: bool
) -> None:
    folder = built(files, tmp_path / "b.index", SLR(rank=9, n_iter=1))
    index, table = load_index(folder), f'raw "{matrix}" 100%'
    with open_store(server, table, vector_column="embedding") as store:
        store.create(Layout(64, "text"))
        store.upsert(index.ids, np.asarray(index.raw))
    words = ["--to", "postgresql", "--table", table, "--vector-column", "embedding"]
    words += ["-o", str(tmp_path / "M.npy")] if matrix else []
    result = run("export", folder, "--query-map", *words)
    assert result.exit_code == 0, result.stderr
    q = np.asarray(index.raw[3], np.float64)
    code = result.stdout.replace("postgresql://user@host/database", server).replace("q = ...", "")
    space: dict[str, Any] = {"q": q}
    exec(code, space)
    hits = index.search(q, k=10)
    expected, scores = hits.ids, hits.scores
    assert [name for name, _ in space["found"]] == expected[0].tolist()
    np.testing.assert_allclose([score for _, score in space["found"]], scores[0], rtol=1e-3)
    np.testing.assert_allclose(space["M"], query_map(index.model))


@pytest.mark.parametrize("scheme", ["qdrant", "lancedb", "milvus"])
def test_the_printed_calls_of_other_stores_run(run: Any, files: Path, tmp_path: Path, scheme: str) -> None:
    pytest.importorskip({"qdrant": "qdrant_client", "lancedb": "lancedb", "milvus": "milvus_lite"}[scheme])
    folder = built(files, tmp_path / "b.index", SLR(rank=9, n_iter=1))
    index, place = load_index(folder), str(tmp_path / "raw.db")
    with open_store(f"{scheme}:{place}", "raw") as store:
        store.create(Layout(64, "text"))
        store.upsert(index.ids[:50], np.asarray(index.raw[:50]))
        best = store.search((index.raw[3] @ query_map(index.model)).reshape(1, -1), 10)[0][0].tolist()
    code = run("export", folder, "--query-map", "--to", scheme, "--table", "raw").stdout.replace("q = ...", "")
    for example in ("http://localhost:6333", "items.lancedb", "http://localhost:19530"):
        code = code.replace(repr(example), f"path={place!r}" if scheme == "qdrant" else repr(place))
    space: dict[str, Any] = {"q": np.asarray(index.raw[3], np.float64)}
    exec(code, space)
    found = space["found"][0] if scheme == "milvus" else space["found"]
    ids = [hit.payload["id"] if scheme == "qdrant" else hit["id"] for hit in found]
    assert ids == best


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--to is missing; expected a file, postgresql://…"),
        (["--to", "a.xls"], "a.xls ends with .xls; expected .parquet, .arrow, .faiss, .npz or .onnx"),
        (["--query-map"], "is not bilinear in raw rows and has no query_map: its gallery must be transformed"),
        (
            ["--to", "postgresql://me:secret@127.0.0.1:9/db"],
            "cannot reach PostgreSQL at postgresql://me:***@127.0.0.1:9",
        ),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(run: Any, folder: Path, words: list[str], message: str) -> None:
    result = run("export", folder, *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "secret" not in result.output
