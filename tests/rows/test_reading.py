"""Tables and labels from whatever people have, svmlight files among it."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from likewise.errors import FileFormatError, LikewiseError
from likewise.rows import read_labels, read_table
from likewise.rows.reading import widened

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
    features = pytest.importorskip("likewise.pictures")
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


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("y.txt", "cat\ndog\ncat\n"),
        ("y.csv", "path,label\n1.jpg,cat\n2.jpg,dog\n3.jpg,cat\n"),
        ("y.csv", "cat\ndog\ncat\n"),
        ("y.csv", "label\ncat\ndog\ncat\n"),
        ("y.tsv", "path\tlabel\n1\tcat\n2\tdog\n3\tcat\n"),
    ],
)
def test_labels_are_read_in_order(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert read_labels(tmp_path / name).tolist() == ["cat", "dog", "cat"]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("y.csv", "a,b\n1,2\n", "{} has the columns a, b: name one with --label-column"),
        ("y.csv", "", "the labels file {} is empty"),
        ("y.csv", "path,label\n1.jpg,cat\n2.jpg\n", "row 3 of {} has no cell 2, where its label should be"),
        ("y.json", "[]", "the labels file {} ends with .json: expected .npy, .csv, .tsv or .txt"),
    ],
)
def test_malformed_labels_get_a_sentence(name: str, content: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(LikewiseError) as caught:
        read_labels(path)
    assert str(caught.value) == sentence.format(path)


def test_labels_of_another_length_get_a_sentence(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.arange(3))
    with pytest.raises(LikewiseError, match="has 4 rows but 3 labels: expected one per row"):
        read_table(tmp_path / "X.npy", labels=tmp_path / "y.npy")


SPARSE = sp.csr_array(np.array([[0.5, 0, 2], [0, 0, 1.25], [3, 1, 0], [0, 4, 0]]))
SIGNS = np.array([1, 2, 1, -1])


def _written(path: Path, zero_based: bool = False) -> Path:
    with gzip.open(path, "wb") if path.suffix == ".gz" else path.open("wb") as file:
        dump_svmlight_file(SPARSE, SIGNS, file, zero_based=zero_based)
    return path


@pytest.mark.parametrize("name", ["a.svm", "a.svmlight", "a.libsvm", "a.SVM", "a.svm.gz"])
@pytest.mark.parametrize("zero_based", [False, True])
def test_rows_and_labels_come_back_sparse(name: str, zero_based: bool, tmp_path: Path) -> None:
    table = read_table(_written(tmp_path / name, zero_based))
    assert sp.issparse(table.X)
    assert table.X.dtype == np.float32
    np.testing.assert_array_equal(table.X.toarray(), SPARSE.toarray())
    assert table.y is not None
    assert table.y.tolist() == SIGNS.tolist()


def test_columns_counted_from_zero_are_remarked_on(tmp_path: Path) -> None:
    path = _written(tmp_path / "a.svm", zero_based=True)
    expected = f"{path}: its columns are counted from 0; files to compare it with must be as well"
    assert read_table(path).notes == [expected]
    assert read_table(_written(tmp_path / "b.svm")).notes == []


def test_a_narrower_file_takes_the_width_of_the_model_and_no_other_format_does(tmp_path: Path) -> None:
    table = widened(read_table(_written(tmp_path / "a.svm")), 7)
    assert table.X.shape == (4, 7)
    np.testing.assert_array_equal(table.X.toarray()[:, :3], SPARSE.toarray())
    np.savez(tmp_path / "a.npz", X=SPARSE.toarray(), y=SIGNS)
    assert widened(read_table(tmp_path / "a.npz"), 7).X.shape == (4, 3)


def test_what_is_no_svmlight_file_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("cat 1:2\n")
    with pytest.raises(FileFormatError, match=r"a\.svm is not an svmlight file, or it is damaged: could not convert"):
        read_table(path)
    path.write_text("1\n2\n")
    with pytest.raises(LikewiseError, match=r"a\.svm has no column:value pair: expected lines such as 1 3:0\.5 7:2"):
        read_table(path)
    damaged = _written(tmp_path / "b.svm.gz")
    damaged.write_bytes(damaged.read_bytes()[:-12])
    with pytest.raises(FileFormatError, match=r"b\.svm\.gz is not an svmlight file, or it is damaged"):
        read_table(damaged)
