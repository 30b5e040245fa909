"""`likewise export` and `likewise pull`: an index in files and databases, and a database in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.rivals import LDA
from likewise.rows import read_table
from likewise.search import Index
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


def test_a_model_is_exported_without_an_index(run: Any, files: Path, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    train = read_table(files / "train.npz")
    model = LDA(shrinkage=0.1).fit(train.X, train.y)
    model.save(tmp_path / "m.likewise")
    result = run("export", tmp_path / "m.likewise", tmp_path / "query.onnx")
    assert result.exit_code == 0, result.stderr
    assert f"input rows of {train.X.shape[1]} columns, outputs query and gallery" in result.stdout
    session = runtime.InferenceSession(tmp_path / "query.onnx")
    rows = train.X[:3].astype(np.float32)
    np.testing.assert_allclose(session.run(["query"], {"rows": rows})[0], model.transform_query(rows), atol=1e-5)
    assert session.get_modelmeta().custom_metadata_map == {"likewise_model": model.identity}


def test_a_database_is_filled_once_and_read_back(run: Any, folder: Path, tmp_path: Path, server: str) -> None:
    place = server.replace("likewise@", "likewise:secret@")
    first = run("export", folder, "--to", place, "--table", "cli", "--approximate", "--json")
    assert first.exit_code == 0, first.stderr
    summary = json.loads(first.stdout)
    assert (summary["written"], summary["kept"], summary["removed"], summary["table"]) == (200, 0, 0, "cli")
    again = run("export", folder, "--to", place, "--table", "cli")
    assert "200 rows × 9; 0 written, 200 there already, 0 removed" in again.stdout
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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "PLACE is missing; expected a file, postgresql://…"),
        (
            ["--to", "foo:bar"],
            "foo:bar is not a store; expected postgresql://…, qdrant:PATH, lancedb:PATH or milvus:PATH",
        ),
        (["--to", "a.xls"], "a.xls ends with .xls; expected .parquet, .arrow, .faiss, .npz or .onnx"),
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


def test_what_was_pulled_can_be_learned_from(run: Any, files: Path, tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    folder = built(files, tmp_path / "t.index", LDA(shrinkage=0.1))
    place = f"lancedb:{tmp_path / 'db'}"
    assert run("export", folder, "--to", place, "--table", "items").exit_code == 0
    assert run("pull", place, "--table", "items", "-o", tmp_path / "rows.parquet", "--json").exit_code == 0
    words = ["--features", "vector", "--label-column", "label", "--method", "lda"]
    result = run("fit", tmp_path / "rows.parquet", *words, "-o", tmp_path / "m.likewise")
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(
    ("place", "output", "message"),
    [
        ("redis://me:secret@host", "rows.npz", "redis://me:***@host is not a store; expected postgresql://…"),
        ("lancedb:folder", "no/rows.npz", "the folder no of --output does not exist"),
        ("lancedb:folder", "rows.npz", "there is no table 'likewise'"),
    ],
)
def test_what_cannot_be_pulled_is_one_sentence(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, output: str, message: str
) -> None:
    pytest.importorskip("lancedb")
    monkeypatch.chdir(tmp_path)
    result = run("pull", place, "-o", output)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "secret" not in result.output


def test_the_table_before_the_last_model_is_brought_back_and_removed(
    run: Any, folder: Path, tmp_path: Path, server: str
) -> None:
    from likewise.rivals import Cosine
    from likewise.search import Index

    first = Index.load(folder)
    Index.build(Cosine().fit(first.raw), first.raw).save(tmp_path / "raw.index")
    assert run("export", folder, server, "--table", "swapped").exit_code == 0
    second = run("export", tmp_path / "raw.index", server, "--table", "swapped")
    assert (
        "200 written, 0 there already, 0 removed, in a new table for this model; the one before is kept"
        in second.stdout
    )
    assert json.loads(run("show", server, "--table", "swapped", "--json").stdout)["model"]["class"] == "Cosine"
    back = run("export", server, "--table", "swapped", "--rollback")
    assert back.stdout.endswith(f"swapped: went back to the table before; it has model {first.model.identity}\n")
    for done in ("removed the table before", "no table before it to remove"):
        assert (
            json.loads(run("export", server, "--table", "swapped", "--drop-previous", "--json").stdout)["done"] == done
        )
    result = run("export", server, "--table", "swapped", "--rollback", "--drop-previous")
    assert result.stderr == (
        "likewise: error: --rollback and --drop-previous take the address of a database, and exclude each other\n"
    )
