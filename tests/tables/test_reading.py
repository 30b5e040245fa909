"""Reading tables: every format gives the same rows, and every malformed input gets its own sentence."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from likewise.errors import LikewiseError
from likewise.tables import Table, read_labels, read_table
from likewise.tables.table import is_missing, tidy_labels
from likewise.tables.text import read_csv

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


def test_npy_stays_on_the_disk(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    assert isinstance(read_table(tmp_path / "X.npy").X, np.memmap)


def test_stdin_is_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(_csv(X, Y)))
    table = read_table("-")
    assert np.array_equal(table.X, X)
    assert table.source == "standard input"


@settings(max_examples=40, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(-1e300, 1e300)))
def test_numbers_survive_csv_exactly(rows: np.ndarray) -> None:
    header = ",".join([*(f"f{i}" for i in range(rows.shape[1])), "label"])
    table = read_csv(io.StringIO(_csv(rows, np.arange(len(rows)), header)), "text")
    assert np.array_equal(table.X, rows)
    assert table.y is not None
    assert table.y.tolist() == list(range(len(rows)))


# ---------------------------------------------------------------------------------------------------------------------
# CSV


def _read(text: str, **options: str) -> Table:
    return read_csv(io.StringIO(text), "data.csv", **options)


@pytest.mark.parametrize(
    "text",
    [
        "1,2,cat\n3,4,dog\n",
        "w,h,label\n1,2,cat\n3,4,dog\n",
        "w;h;label\n1;2;cat\n3;4;dog\n",
        ",w,h,label\n0,1,2,cat\n1,3,4,dog\n",
        "0,1,label\n1,2,cat\n3,4,dog\n",
        "path,w,h,Label\n1.jpg,1,2,cat\n2.jpg,3,4,dog\n",
        'w,h,label\n"1","2","cat"\n\n3,4,dog\n',
        "\ufefflabel,w,h\ncat,1,2\ndog,3,4\n".removeprefix("\ufeff"),
    ],
)
def test_header_delimiter_index_and_label_are_found(text: str) -> None:
    table = _read(text)
    assert table.X.tolist() == [[1, 2], [3, 4]]
    assert table.y is not None
    assert table.y.tolist() == ["cat", "dog"]


def test_a_byte_order_mark_is_not_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes(b"\xef\xbb\xbflabel,w\ncat,1\ndog,2\n")
    table = read_table(tmp_path / "d.csv")
    assert table.X.tolist() == [[1], [2]]
    assert table.y is not None
    assert table.y.tolist() == ["cat", "dog"]


def test_a_numeric_label_column_is_taken_by_its_number() -> None:
    table = _read("5,6,3\n7,8,4\n", label_column="3")
    assert table.X.tolist() == [[5, 6], [7, 8]]
    assert table.y is not None
    assert table.y.tolist() == [3, 4]


def test_an_id_is_a_name_and_not_a_feature() -> None:
    table = _read("id,w,label\n17,1,a\n18,2,b\n")
    assert table.X.tolist() == [[1], [2]]
    assert table.names == ["17", "18"]
    assert table.notes == ["data.csv: not used as features: id"]


def test_text_columns_are_left_out_with_a_remark() -> None:
    assert _read("w,colour,label\n1,red,a\n2,blue,b\n").notes == ["data.csv: not used as features: colour"]


def test_an_empty_cell_is_nan() -> None:
    assert np.isnan(_read("w,h,label\n1,,a\n2,3,b\nNA,4,b\n").X).tolist() == [
        [False, True],
        [False, False],
        [True, False],
    ]


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("", {}, "data.csv is empty: expected rows of numbers"),
        ("w,h,label\n", {}, "data.csv has a header and no rows"),
        ("w,label\n1,a\n2,b,c\n", {}, "row 3 of data.csv has 3 cells: expected 2"),
        ("w,label\n1,a\n", {"label_column": "kind"}, "data.csv has no column 'kind': its columns are w, label"),
        ("name,label\nx,a\ny,b\n", {}, "data.csv has no numeric column: its columns are name, label"),
        (
            "w,label\n" + "1,a\n" * 150 + "wide,a\n",
            {},
            "row 152 of data.csv has 'wide' in column 'w': expected a number",
        ),
        ('w,label\n"1,a\n', {}, "data.csv has no numeric column: its columns are w, label"),
    ],
)
def test_malformed_csv_gets_a_sentence(text: str, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(LikewiseError) as caught:
        _read(text, **options)
    assert str(caught.value) == sentence


def test_bytes_that_are_no_text_get_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes(b"w,label\n1,\xff\xfe\n")
    with pytest.raises(LikewiseError, match="is not UTF-8 text: byte 10 cannot be read"):
        read_table(tmp_path / "d.csv")


# ---------------------------------------------------------------------------------------------------------------------
# numpy


@pytest.mark.parametrize(
    "keys", [("X", "y"), ("features", "labels"), ("embeddings", "label"), ("train", "classes"), ("x", "target")]
)
def test_npz_keys_are_found(keys: tuple[str, str], tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", **{keys[0]: X, keys[1]: Y})
    table = read_table(tmp_path / "d.npz")
    assert np.array_equal(table.X, X)
    assert table.y is not None
    assert table.y.tolist() == Y.tolist()


def test_npz_keys_can_be_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x_train=X, x_test=X[:2], y_train=Y, y_test=Y[:2])
    table = read_table(tmp_path / "d.npz", features="x_test", label_column="y_test")
    assert table.X.shape == (2, 3)
    with pytest.raises(LikewiseError) as caught:
        read_table(tmp_path / "d.npz")
    listed = "x_train (2-D), x_test (2-D), y_train (1-D), y_test (1-D)"
    assert str(caught.value) == f"{tmp_path / 'd.npz'} holds {listed}: name the key of the features with --features"
    with pytest.raises(LikewiseError, match=r"has no key 'z': it holds x_train"):
        read_table(tmp_path / "d.npz", features="z")


def test_sparse_npz_stays_sparse(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "d.npz", sp.csc_array(X))
    (tmp_path / "y.txt").write_text("\n".join(Y))
    table = read_table(tmp_path / "d.npz", labels=tmp_path / "y.txt")
    assert sp.issparse(table.X)
    assert table.X.format == "csr"
    assert np.array_equal(table.X.toarray(), X)


def test_pictures_are_flattened_with_a_remark(tmp_path: Path) -> None:
    np.save(tmp_path / "d.npy", np.zeros((5, 4, 3), dtype=np.uint8))
    table = read_table(tmp_path / "d.npy")
    assert table.X.shape == (5, 12)
    assert "(5, 4, 3): each example was flattened to one row" in table.notes[0]


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros(5), "has shape (5,): expected a matrix with one row per example"),
        (np.zeros((0, 3)), "is empty: its shape is (0, 3)"),
        (np.zeros((2, 2), dtype=complex), "has dtype complex128: expected real numbers"),
        (np.array([["a", "b"]]), "has dtype <U1: expected real numbers"),
    ],
)
def test_npy_that_is_no_matrix_gets_a_sentence(array: np.ndarray, sentence: str, tmp_path: Path) -> None:
    np.save(tmp_path / "d.npy", array)
    with pytest.raises(LikewiseError) as caught:
        read_table(tmp_path / "d.npy")
    assert str(caught.value) == f"{tmp_path / 'd.npy'} {sentence}"


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


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X=X, y=np.array(["a", 1, None, 2.0], dtype=object))
    with pytest.raises(LikewiseError, match="holds pickled objects, which can run code"):
        read_table(tmp_path / "d.npz")


# ---------------------------------------------------------------------------------------------------------------------
# Parquet


def test_numeric_columns_of_parquet_are_features(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"w": [1, 2], "h": [0.5, 1.5], "label": [7, 8], "path": ["a", "b"], "remark": ["x", "y"]}
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    table = read_table(tmp_path / "d.parquet")
    assert table.X.tolist() == [[1, 0.5], [2, 1.5]]
    assert table.y is not None
    assert table.y.tolist() == [7, 8]
    assert table.names == ["a", "b"]
    assert table.notes == [f"{tmp_path / 'd.parquet'}: not used as features: remark"]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"embedding": [[1.0, 2.0], [1.0]]}, "row 2 of {} has 1 numbers in 'embedding': expected 2"),
        ({"embedding": [[1.0, 2.0], None]}, "row 2 of {} has no embedding: expected a list of numbers"),
        ({"a": [[1.0]], "b": [[2.0]]}, "{} has the embedding columns a, b: name one with --features"),
        ({"name2": ["x"]}, "{} has no embedding column and no numeric one: it has name2"),
        ({"w": []}, "{} is empty: it has columns and no rows"),
    ],
)
def test_malformed_parquet_gets_a_sentence(columns: dict[str, list], sentence: str, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(LikewiseError) as caught:
        read_table(path)
    assert str(caught.value) == sentence.format(path)


def test_a_chosen_parquet_column_is_read_in_its_own_precision(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel(), pa.float32()), 3)
    pq.write_table(pa.table({"a": X.tolist(), "b": fixed}), tmp_path / "d.parquet")
    table = read_table(tmp_path / "d.parquet", features="b")
    assert table.X.dtype == np.float32
    assert np.array_equal(table.X, X.astype(np.float32))


def test_missing_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(LikewiseError, match=r"needs the extra 'parquet': pip install 'likewise\[parquet\]'"):
        read_table(tmp_path / "d.parquet")


# ---------------------------------------------------------------------------------------------------------------------
# Labels and the door


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
    with pytest.raises(LikewiseError, match="has 4 rows but 3 labels: expected one a row"):
        read_table(tmp_path / "X.npy", labels=tmp_path / "y.npy")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2", "10"], [1, 2, 10]),
        (["007", "8"], ["007", "8"]),
        (["1", ""], ["1", ""]),
        ([1.0, 2.0], [1, 2]),
        (np.array([1.0, np.nan]), ["1", ""]),
        ([1, "a", None], ["1", "a", ""]),
        (["1" * 30], ["1" * 30]),
        ([True, False], ["True", "False"]),
        (["1", "1"], [1, 1]),
    ],
)
def test_labels_are_whole_numbers_or_text(values: list, expected: list) -> None:
    y = tidy_labels(values)
    assert y.tolist() == expected
    assert y.dtype.kind in "iU"


def test_only_labelled_rows_are_kept() -> None:
    table = Table(X, tidy_labels(["3", "", "4", " "]), ["a", "b", "c", "d"], "data")
    kept = table.labelled()
    assert kept.y is not None
    assert kept.y.tolist() == [3, 4]
    assert kept.names == ["a", "c"]
    assert kept.notes == ["data: 2 of 4 rows have no label and are left out"]
    with pytest.raises(LikewiseError, match="not one of them has a label"):
        Table(X, np.array([""] * 4), source="data").labelled()
    with pytest.raises(LikewiseError, match="data has no labels: name a file"):
        Table(X, source="data").labelled()


def test_missing_labels_are_empty_none_and_nan() -> None:
    assert is_missing(np.array(["a", "", " "])).tolist() == [False, True, True]
    assert is_missing(np.array([1.0, np.nan])).tolist() == [False, True]
    assert is_missing(np.array(["a", None, float("nan")], dtype=object)).tolist() == [False, True, True]
    assert is_missing(np.array([0, 1])).tolist() == [False, False]


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
