"""Reading tables: every format gives the same rows, and every malformed input gets its own sentence."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.tables import read_table

X = np.array([[1.5, -2.0, 0.25], [3.0, 4.0, 5.0], [6.0, 7.5, 8.0], [0.0, 1.0, 2.0]])


Y = np.array(["cat", "dog", "cat", "dog"])


def _csv(rows: np.ndarray, y: np.ndarray, header: str = "a,b,c,label", mark: str = ",") -> str:
    lines = [mark.join([*(repr(float(v)) for v in row), str(label)]) for row, label in zip(rows, y, strict=True)]
    return "\n".join([header.replace(",", mark), *lines]) + "\n"


def _write(kind: str, folder: Path) -> tuple[Path, dict[str, Path]]:
    """X and Y in a format; returns the path and the options to read it with."""
    path = folder / f"data.{kind}"
    if kind in ("csv", "tsv"):
        path.write_text(_csv(X, Y, mark="," if kind == "csv" else "\t"))
    elif kind == "npz":
        np.savez(path, X=X, y=Y)
    elif kind == "npy":
        np.save(path, X)
        (folder / "labels.txt").write_text("\n".join(Y) + "\n")
        return path, {"labels": folder / "labels.txt"}
    elif kind == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({"embedding": X.tolist(), "label": Y.tolist()}), path)
    elif kind == "folder":
        path.mkdir()
        np.save(path / "features.npy", X)
        np.save(path / "labels.npy", Y)
    return path, {}


@pytest.mark.parametrize("kind", ["csv", "tsv", "npz", "npy", "parquet", "folder"])
def test_every_format_gives_the_same_rows_and_labels(kind: str, tmp_path: Path) -> None:
    path, options = _write(kind, tmp_path)
    table = read_table(path, **options)
    assert np.array_equal(np.asarray(table.X), X)
    assert table.y is not None
    assert table.y.tolist() == Y.tolist()


def test_a_feature_store_is_a_table(tmp_path: Path) -> None:
    features = pytest.importorskip("likewise.features")
    if not hasattr(features, "FeatureStore"):
        pytest.skip("no feature stores here")
    features.FeatureStore.write(tmp_path / "s.features", X, Y, ["1.png", "2.png", "3.png", "4.png"])
    table = read_table(tmp_path / "s.features")
    assert isinstance(table.X, np.memmap)
    assert np.array_equal(np.asarray(table.X), X.astype(np.float32))
    assert table.y is not None
    assert table.y.tolist() == Y.tolist()
    assert table.names == ["1.png", "2.png", "3.png", "4.png"]


def test_stdin_is_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(_csv(X, Y)))
    table = read_table("-")
    assert np.array_equal(table.X, X)
    assert table.source == "standard input"


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet"])
def test_truncated_and_foreign_files_get_a_sentence(kind: str, tmp_path: Path) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    path, _ = _write(kind, tmp_path)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(LikewiseError, match=r"is not a .* file, or it is"):
        read_table(path)
    path.write_bytes(b"hello")
    with pytest.raises(LikewiseError, match=r"(is not a .* file, or it is|pickled)"):
        read_table(path)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nothing.csv", "{} does not exist"),
        ("data.xlsx", "{} ends with .xlsx: expected .npz, .npy, .csv, .tsv, .parquet, .svm, a folder of features"),
        ("empty", "{} is a folder without features.npy: expected .npz"),
    ],
)
def test_a_source_that_cannot_be_read_gets_a_sentence(name: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "empty":
        path.mkdir()
    elif name != "nothing.csv":
        path.write_text("")
    with pytest.raises(LikewiseError) as caught:
        read_table(path)
    assert str(caught.value).startswith(sentence.format(path))
