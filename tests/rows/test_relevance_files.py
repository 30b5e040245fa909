"""Relevance from files: columns tell what they hold."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from likewise.errors import LikewiseError
from likewise.rows import read_relevance

FILES = {
    "triples.csv": ("query,item,grade\nq1,b,0.5\nq0,a,2\n", [[2, 0, 0], [0, 0.5, 0]], 2),
    "relevant.tsv": ("qid\tdoc_id\nq1\tb\nq0\ta\n", [[1, 0, 0], [0, 1, 0]], 2),
    "clicks.csv": ("query;item;clicked;position\nq0;a;0;1\nq0;b;1;2\nq0;c;0;3\n", [[0, 1, 0], [0, 0, 0]], 2),
    "triplets.csv": ("anchor,positive,negative\nq1,a,c\n", [[0, 0, 0], [1, 0, 0]], 2),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("parquet", [False, True])
def test_columns_tell_what_a_file_holds(tmp_path, name, parquet):
    text, dense, known = FILES[name]
    path = tmp_path / name
    path.write_text(text)
    if parquet:
        mark = max(",;\t", key=text.count)
        head, *rows = [line.split(mark) for line in text.splitlines()]
        columns = {
            key: [float(c) if c.replace(".", "").isdigit() else c for c in cells]
            for key, cells in zip(head, zip(*rows, strict=True), strict=True)
        }
        path = tmp_path / "same.parquet"
        pq.write_table(pa.table(columns), path)
    relevance = read_relevance(path, query_ids=["q0", "q1"], item_ids=["a", "b", "c"])
    np.testing.assert_allclose(relevance.R.toarray(), dense, atol=1e-9)
    assert relevance.n_known == known


@pytest.mark.parametrize("links", [("must", "cannot"), ("1", "0"), ("must-link", "Cannot-Link")])
def test_links_hold_both_ways_round(tmp_path, links):
    path = tmp_path / "links.csv"
    path.write_text(f"a,b,link\nx,y,{links[0]}\ny,z,{links[1]}\n")
    relevance = read_relevance(path, query_ids=["x", "y", "z"], item_ids=["x", "y", "z"])
    np.testing.assert_array_equal(relevance.R.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert relevance.n_known == 4


def test_without_names_ids_are_row_numbers(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("query,item\n0,3\n2,1\n")
    assert read_relevance(path, shape=(4, 5)).n_known == 2


@pytest.mark.parametrize("times", [("2026-01-01", "2026-01-31"), ("1767225600", "1769817600"), ("0", "30")])
def test_a_log_has_sessions_weights_and_times_of_any_kind(tmp_path, times):
    path = tmp_path / "log.csv"
    path.write_text(f"query,item,clicks,session,timestamp,weight\n0,1,1,s,{times[0]},1\n0,2,1,t,{times[1]},3\n")
    relevance = read_relevance(path, shape=(1, 3), half_life=30)
    np.testing.assert_allclose(relevance.R.toarray(), [[0, 0.5, 3]])
    assert relevance.summary == "2 clicks of 1 query"


def test_days_that_cannot_be_used_are_refused(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("query,item,clicked,time\n0,1,1,yesterday\n")
    with pytest.raises(LikewiseError, match="has times in 'time' that are neither numbers nor dates: expected 2026-01"):
        read_relevance(path, shape=(1, 3), half_life=30)
    path.write_text("query,item,grade\n0,1,1\n")
    with pytest.raises(LikewiseError, match=r"half_life=30 is for clicks: .* has no column of clicks"):
        read_relevance(path, shape=(1, 3), half_life=30)


BAD = {
    "columns": ("x,y\n1,2\n", "has the columns x, y: expected query, item[, grade]"),
    "empty": ("query,item\n", "is empty: expected a header and one pair per row"),
    "short": ("query,item\n1,2\n3\n", "row 3 of"),
    "text": ("query,item,grade\n0,1,good\n", "has 'good' in the column 'grade': expected numbers"),
    "nan": ("query,item,grade\n0,1,nan\n", "grades that are not finite"),
    "link": ("a,b,link\n0,1,maybe\n", "has the link 'maybe': expected must or cannot, or 1 or 0"),
    "conflict": ("query,item,grade\n0,1,1\n0,1,0\n", "relevance has 1 conflicting pair: (0, 1) is 1 and 0"),
    "outside": ("query,item\n0,9\n", "relevance names the pair (0, 9)"),
    "names": ("query,item\nq,r\n", "expected row numbers, or give query_ids"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path, case):
    text, message = BAD[case]
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(LikewiseError, match=re.escape(message)) as caught:
        read_relevance(path, shape=(3, 3))
    assert str(path) in str(caught.value)


def test_a_file_that_is_none_gets_a_sentence(tmp_path):
    with pytest.raises(LikewiseError, match="does not exist"):
        read_relevance(tmp_path / "no.csv")
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(LikewiseError, match=re.escape("ends with .json: expected .csv, .tsv or .parquet")):
        read_relevance(tmp_path / "x.json")
    (tmp_path / "x.parquet").write_text("not")
    with pytest.raises(LikewiseError, match="is not a Parquet file"):
        read_relevance(tmp_path / "x.parquet")
