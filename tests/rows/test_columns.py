"""Typed columns: what is kept of a Parquet file, of a CSV and of Python values, and that damage is found."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pytest
from tests.documents import N, columns, embeddings, write_parquet

from likewise.errors import FileFormatError, LikewiseError
from likewise.rows import read_table
from likewise.rows.columns import Columns

pa = pytest.importorskip("pyarrow")


def test_a_parquet_file_gives_ids_labels_features_and_typed_metadata(tmp_path: Path) -> None:
    table = read_table(write_parquet(tmp_path / "d.parquet"))
    np.testing.assert_array_equal(table.X, embeddings())
    assert table.ids == columns()["id"]
    assert table.y.tolist() == columns()["topic"]  # the only text column that is no title, text or address
    result = table.metadata()
    assert result.kinds == {
        "title": "text", "text": "text", "topic": "text", "price": "number", "size": "number", "sold": "boolean",
        "made on": "date", "url": "text",
    }  # fmt: skip
    wanted = {name: values for name, values in columns().items() if name != "id"}
    assert result.table.to_pydict() == wanted
    assert table.paths is None


def test_a_csv_file_gives_the_same(tmp_path: Path) -> None:
    head = [name for name in columns() if name != "title"]
    lines = [",".join([*head, "e0", "e1"])]
    for row, (a, b) in enumerate(embeddings()[:, :2]):
        cells = ["" if (value := columns()[name][row]) is None else str(value) for name in head]
        lines.append(",".join([f'"{cell}"' for cell in cells] + [repr(float(a)), repr(float(b))]))
    path = tmp_path / "d.csv"
    path.write_text("\n".join(lines) + "\n")
    table = read_table(path, metadata=["price", "size"])
    assert table.ids == columns()["id"]
    assert table.y.tolist() == columns()["topic"]
    assert table.X.shape == (N, 2)
    wanted = {name: values for name, values in columns().items() if name not in ("id", "title")}
    assert table.metadata().table.to_pydict() == wanted


def test_without_arrow_a_note_says_that_columns_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d.csv").write_text("id,title,e\na,Ant,1\nb,Bee,2\n")
    monkeypatch.setattr("likewise.rows.text.find_spec", lambda name: None)
    table = read_table(tmp_path / "d.csv")
    assert (table.ids, table.metadata) == (["a", "b"], None)
    assert table.notes[-1].endswith(
        "only the extra 'parquet' keeps them with an index: pip install 'likewise[parquet]'"
    )


def test_kinds_of_python_values_and_of_arrow_types() -> None:
    odd = {
        "mixed": [1, "a", None],
        "nan": np.array([1.0, np.nan, 2.0]),
        "tags": [["a", "b"], [], None],
        "name": pa.array(["x", "y", "x"]).dictionary_encode(),
        "big": pa.array([1, 2, 2**63], pa.uint64()),
        "vector": [[1.0], [2.0], [3.0]],
        "when": pa.array([0, 1, None], pa.timestamp("ms", "Europe/Berlin")),
        "bytes": [b"a", b"b", b"c"],
    }
    result = Columns.of(odd)
    assert result.names == ["mixed", "nan", "tags", "name", "big", "when"]  # vectors and bytes are left out
    assert result.column("mixed").to_pylist() == ["1", "a", None]
    assert result.column("nan").to_pylist() == [1.0, None, 2.0]
    assert result.column("tags").to_pylist() == ["a, b", "", None]
    assert result.column("big").to_pylist() == [1.0, 2.0, 2.0**63]
    assert result.rows([0], ["when"]) == [{"when": dt.datetime(1970, 1, 1, tzinfo=dt.UTC)}]


def test_cells_that_look_like_numbers_but_are_names_stay_text(tmp_path: Path) -> None:
    cells = {"code": ["007", "1"], "day": ["2024-02-30", "2024-01-01"], "yes": ["True", "?"], "n": ["1", "nan"]}
    result = Columns.of_text({name: pa.chunked_array([values]) for name, values in cells.items()})
    assert result.kinds == {"code": "text", "day": "text", "yes": "boolean", "n": "number"}
    assert result.rows([1]) == [{"code": "1", "day": "2024-01-01", "yes": None, "n": None}]


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        (["a", "b"] * (N // 2), "d.parquet has the id 'a' in rows 1 and 3: expected ids that are all different"),
        (["a", None, *map(str, range(N - 2))], "row 2 of {} has no 'id': expected an id in every row"),
        ([*map(str, range(N - 1)), "  "], f"row {N} of {{}} has no 'id'"),
    ],
)
def test_ids_that_are_missing_or_twice_get_a_sentence(tmp_path: Path, ids: list[str], sentence: str) -> None:
    path = write_parquet(tmp_path / "d.parquet", id=ids)
    with pytest.raises(LikewiseError) as caught:
        read_table(path)
    assert sentence.format(path) in str(caught.value)


def test_an_id_column_of_another_name_and_one_that_is_not_there(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "d.parquet", code=list(range(N)))
    assert read_table(path, id_column="code").ids == list(range(N))
    with pytest.raises(LikewiseError, match="has no column 'nummer': its columns are id, title"):
        read_table(path, id_column="nummer")
    np.save(tmp_path / "x.npy", embeddings())
    with pytest.raises(LikewiseError, match=r"x.npy has no columns: an id column is one of a .csv"):
        read_table(tmp_path / "x.npy", id_column="code")


def test_a_text_column_that_never_repeats_is_no_label(tmp_path: Path) -> None:
    assert read_table(write_parquet(tmp_path / "d.parquet", topic=[f"t{row}" for row in range(N)])).y is None


def test_a_damaged_file_is_found_when_a_column_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "metadata.arrow"
    with open(path, "wb") as file:
        Columns.of({"text": ["abc"] * 100}).write(file)
    whole = path.read_bytes()
    assert Columns.open(path, 100).names == ["text"]
    broken = (whole[: len(whole) // 2], whole.replace(b"abcabc", b"ab\xff\xfebc"), whole[:-10] + b"\0" * 10, b"nothing")
    for data in broken:
        path.write_bytes(data)
        with pytest.raises(FileFormatError, match="the metadata of the index is damaged"):
            Columns.open(path, 100).table  # noqa: B018
    path.write_bytes(whole)
    with pytest.raises(FileFormatError, match="100 rows of"):
        Columns.open(path, 99).table  # noqa: B018
    path.write_bytes(b"")
    with pytest.raises(FileFormatError, match="cannot be read"):
        Columns.open(path, 1)


def test_rows_of_other_kinds_cannot_follow() -> None:
    with pytest.raises(LikewiseError, match="items has other kinds of metadata than the index"):
        Columns.of({"a": [1]}).plus(Columns.of({"a": ["x"]}), 1, 1)
    joined = Columns.of({"a": [1]}).plus(Columns.of({"b": ["x"]}), 1, 1)
    assert joined.table.to_pydict() == {"a": [1, None], "b": [None, "x"]}
