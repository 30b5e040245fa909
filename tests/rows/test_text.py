"""CSV: what is found in it, and a sentence for everything malformed."""

from __future__ import annotations

import builtins
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from likewise.errors import LikewiseError
from likewise.rows import Table, read_table
from likewise.rows.text import CsvOptions, read_csv


def _csv(rows: np.ndarray, y: np.ndarray, header: str = "a,b,c,label", mark: str = ",") -> str:
    lines = [mark.join([*(repr(float(v)) for v in row), str(label)]) for row, label in zip(rows, y, strict=True)]
    return "\n".join([header.replace(",", mark), *lines]) + "\n"


@settings(max_examples=40, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(-1e300, 1e300)))
def test_numbers_survive_csv_exactly(rows: np.ndarray) -> None:
    header = ",".join([*(f"f{i}" for i in range(rows.shape[1])), "label"])
    table = read_csv(io.StringIO(_csv(rows, np.arange(len(rows)), header)), "text")
    assert np.array_equal(table.X, rows)
    assert table.y is not None
    assert table.y.tolist() == list(range(len(rows)))


def _read(text: str, label: str | None = None) -> Table:
    return read_csv(io.StringIO(text), "data.csv", options=CsvOptions(label))


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
    table = _read("5,6,3\n7,8,4\n", "3")
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
        ("w,label\n1,a\n", {"label": "kind"}, "data.csv has no column 'kind': its columns are w, label"),
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


def test_the_work_for_a_header_grows_with_its_columns_and_not_with_their_square() -> None:
    counted = [_comparisons(n) for n in (500, 2000)]
    assert counted[1] <= 5 * counted[0]


def _comparisons(n: int) -> int:
    """Steps of Python while a table of n columns is read."""
    text, steps = ",".join(["1.5"] * n) + "\n" + ",".join(["2.5"] * n) + "\n", 0

    class Counted(int):
        def __eq__(self, other: object) -> bool:
            nonlocal steps
            steps += 1
            return int(self) == other

        __hash__ = int.__hash__

    original = builtins.range
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("likewise.rows.text.range", lambda *a: [Counted(i) for i in original(*a)], raising=False)
        assert read_csv(io.StringIO(text), "text").X.shape[1] == n
    return steps
