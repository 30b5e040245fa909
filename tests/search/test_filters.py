"""Conditions, agreed with pandas on random ones, and searches that rank only what passes one."""

from __future__ import annotations

import functools
import json
import operator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.documents import N, columns, embeddings, write_parquet

from likewise.errors import LikewiseError
from likewise.rivals import Cosine
from likewise.rows.columns import Columns
from likewise.search import Index
from likewise.search.exports import export
from likewise.search.filters import Condition, rows_where, where_mask
from likewise.search.items import ItemColumns, as_items
from likewise.teach import Feedback, Teacher, load_index

pa = pytest.importorskip("pyarrow")
X = embeddings()
WHERE = 'price < 60 and topic in ["space", "cars"]'
PASS = [row for row in range(40) if row % 7 != 3 and row % 3 < 2]  # 1.5 · row is below 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documents, indexed from their Parquet file."""
    made = tmp_path_factory.mktemp("documents")
    index = Index.build(Cosine().fit(X), write_parquet(made / "docs.parquet"))
    return index.save(made / "docs.index")


def expected(scores: np.ndarray, rows: list[int], k: int) -> list[int]:
    return sorted(rows, key=lambda row: (-scores[row], row))[:k]


def test_ids_labels_and_metadata_come_back_from_the_folder(folder: Path) -> None:
    index = load_index(folder)
    assert index.ids.tolist() == columns()["id"]
    assert list(index.labels) == columns()["topic"]
    assert index.paths is None
    assert index.metadata.table.to_pydict() == {name: c for name, c in columns().items() if name != "id"}
    assert index.identities.keys[8] == "doc-7108"


def test_an_index_saved_over_itself_keeps_its_metadata(tmp_path: Path) -> None:
    index = Index.build(Cosine().fit(X), X[:2], {"price": [1, 2]})
    index = load_index(index.save(tmp_path / "i"))  # its metadata is mapped from the version that is replaced
    index.save(tmp_path / "i")
    assert index.metadata.rows([1]) == load_index(tmp_path / "i").metadata.rows([1]) == [{"price": 2}]


def test_rows_that_come_and_go_take_their_metadata_along(folder: Path) -> None:
    index = load_index(folder)
    index = index.minus(["doc-7100", "doc-7102"])
    index = index.plus(X[:1], {"id": ["new"], "price": [3.5], "colour": ["red"]})
    assert index.metadata.rows([0], ["title"]) == [{"title": "Title 1"}]
    last = index.metadata.rows([len(index) - 1])[0]
    assert (last["price"], last["colour"], last["title"]) == (3.5, "red", None)
    assert index.search(X[:1], k=5, where="colour == 'red'").ids.tolist() == [["new"]]


@pytest.mark.parametrize("kind", ["exact", "hnsw", "numpy", "smoothed", "taught"])
def test_the_filter_is_applied_before_ranking(folder: Path, kind: str, monkeypatch: Any) -> None:
    if kind == "numpy":
        monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    if kind == "hnsw":
        pytest.importorskip("faiss")
    index = load_index(folder)
    if kind in ("hnsw", "smoothed"):
        options: dict[str, Any] = {"approximate": "hnsw"} if kind == "hnsw" else {"n_neighbors": 5}
        index = Index.build(index.model, X, index.items, **options)
    if kind == "taught":
        teacher = Teacher(index)
        teacher.mark("doc-7108", ["doc-7111", "doc-7114"], True)
        teacher.mark("doc-7108", ["doc-7109"], False)
        index = teacher.learn().index
    Q = index.space().embed(X[:4] + 0.1)
    for k in (1, 5, N):
        rows, scores = index.space().rank(Q, k, rows_where(index.items, WHERE))
        S = Q.astype(np.float64) @ index.vectors.T.astype(np.float64)
        assert rows.tolist() == [expected(s, PASS, k) for s in S]
        np.testing.assert_allclose(scores, np.take_along_axis(S, rows, axis=1), atol=1e-6)


def test_search_by_rows_by_raw_features_and_with_a_mask(folder: Path) -> None:
    index = load_index(folder)
    ids = index.search(X[:2], k=3, where=WHERE).ids
    mask = np.zeros(N, bool)
    mask[PASS] = True
    np.testing.assert_array_equal(ids, index.search(X[:2], k=3, where=mask).ids)
    np.testing.assert_array_equal(ids, index.ids[index.search(X[:2], k=3, space="raw", where=WHERE).rows])
    others = PASS[0]
    rows = index.search(rows=[others], k=N, where=WHERE).rows
    assert sorted(rows[0].tolist()) == [row for row in PASS if row != others]
    outside = next(row for row in range(N) if row not in PASS)
    assert sorted(index.search(rows=[outside], k=N, where=WHERE).rows[0].tolist()) == PASS
    hits = index.search(rows=[others, outside], k=N, where=WHERE)
    both, scores = hits.rows, hits.scores  # one list is shorter by the query itself
    assert both[0, -1] == -1
    assert np.isneginf(scores[0, -1])
    assert index.search(X[:2], k=3, where="price < 0").ids.shape == (2, 0)
    assert index.search(rows=[0], k=3, space="raw", where="price < 0").rows.shape == (1, 0)


def test_id_label_and_path_are_columns_and_labels_those_of_today(folder: Path) -> None:
    index = load_index(folder)
    labels = [None] * N
    labels[4], labels[5] = "new", 3
    index = index.with_labels(labels)
    assert list(ItemColumns(index.items))[:3] == ["id", "label", "title"]
    for where, rows in (
        ("label == 'new'", [4]),
        ("label == 3", [5]),
        ("id endswith '08'", [8]),
        ("label is null", None),
    ):
        assert rows_where(index.items, where).tolist() == (rows or [row for row in range(N) if row not in (4, 5)])
    items = as_items({"id": [1, 2], "path": ["a.png", "\udcff.png"]}, 2)
    assert rows_where(items, "id >= 2 and path endswith 'png'").tolist() == [1]


def test_wrong_conditions_get_a_sentence(folder: Path) -> None:
    index = load_index(folder)
    with pytest.raises(LikewiseError, match="no column 'prize'; the columns are id, label, title, text, topic, price"):
        index.search(X[:1], where="prize < 3")
    with pytest.raises(LikewiseError, match=rf"where has shape \(3,\) and type bool; expected {N} booleans"):
        index.search(X[:1], where=np.ones(3, bool))


def test_the_journal_names_the_ids(folder: Path) -> None:
    teacher = Teacher(load_index(folder), Feedback(folder))
    teacher.mark("doc-7108", "doc-7111", True)
    event = Feedback(folder).events()[-1]
    assert (event.queries[0].id, event.items[0].id) == ("doc-7108", "doc-7111")  # type: ignore[union-attr]
    teacher.undo()


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_an_export_has_the_ids_and_all_metadata_in_their_types(folder: Path, tmp_path: Path, ending: str) -> None:
    index = load_index(folder)
    path = export(index, tmp_path / f"out.{ending}")
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(path) if ending == "parquet" else pa.ipc.open_file(path).read_all()
    found = table.to_pydict()
    assert found["id"] == columns()["id"]
    assert {name: found[name] for name in index.metadata.names} == index.metadata.table.to_pydict()
    if ending == "parquet":  # and back again
        again = Index.build(index.model, path)
        assert again.metadata.table.to_pydict() == index.metadata.table.to_pydict()
        assert again.ids.tolist() == index.ids.tolist()


def test_items_of_a_data_frame_keep_their_other_columns() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"id": ["a", "b"], "label": ["x", "y"], "price": [1.0, float("nan")]})
    index = Index.build(Cosine().fit(X), X[:2], frame)
    assert index.metadata.rows([0, 1]) == [{"price": 1.0}, {"price": None}]
    with pytest.raises(LikewiseError, match="items has 3 rows of metadata; expected 2, one per row of the gallery"):
        Index.build(Cosine().fit(X), X[:2], {"price": [1, 2, 3]})


pd = pytest.importorskip("pandas")

DATA = Columns.of(columns())
FRAME = DATA.table.to_pandas(types_mapper=pd.ArrowDtype)
SIGNS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
NUMBERS = st.one_of(st.integers(-5, 60), st.floats(-5, 90, allow_nan=False).map(lambda x: round(x, 2)))
Case = tuple[str, Any]  # a condition, and what pandas says of each row


def found(text: str) -> np.ndarray:
    return Condition(text).passing({name: DATA.column(name) for name in DATA.names}, N)


def number_tests() -> st.SearchStrategy[Case]:
    def made(name: str, sign: str, value: float) -> Case:
        return f"{name} {sign} {value!r}", SIGNS[sign](FRAME[name], value)

    return st.builds(made, st.sampled_from(["price", "size"]), st.sampled_from(list(SIGNS)), NUMBERS)


def text_tests() -> st.SearchStrategy[Case]:
    words = st.sampled_from(["space", "cars", "Title 1", "part 5", "'", "", "all", "All about"])
    methods = {"contains": lambda c, w: c.str.contains(w, regex=False), "startswith": lambda c, w: c.str.startswith(w)}

    def made(name: str, how: str, word: str) -> Case:
        test = methods.get(how) or SIGNS[how]
        return f"{name} {how} {json.dumps(word)}", test(FRAME[name], word)

    return st.builds(made, st.sampled_from(["topic", "title", "text"]), st.sampled_from([*methods, "==", "!="]), words)


def other_tests() -> st.SearchStrategy[Case]:
    price, size, made_on = FRAME["price"], FRAME["size"], FRAME["made on"]
    day = pd.Timestamp("2024-02-01").date()
    return st.sampled_from(
        [
            ("sold", FRAME["sold"]),
            ("sold == false", ~FRAME["sold"]),
            ("price is null", price.isna()),
            ("`made on` is not null", made_on.notna()),
            ("`made on` >= '2024-02-01'", made_on >= day),
            ("10 <= price < 20.5", (price >= 10) & (price < 20.5)),
            ("price < size", price < size),
            ("size in [1, 2, 7]", size.isin([1, 2, 7]).astype("bool[pyarrow]").mask(size.isna(), pd.NA)),
            ("topic not in ['cars']", FRAME["topic"] != "cars"),
        ]
    )


def joined(parts: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    def both(word: str, cases: list[Case]) -> Case:
        join = operator.and_ if word == "and" else operator.or_
        return "(" + f") {word} (".join(text for text, _ in cases) + ")", functools.reduce(join, [c for _, c in cases])

    several = st.builds(both, st.sampled_from(["and", "or"]), st.lists(parts, min_size=2, max_size=3))
    return st.one_of(several, parts.map(lambda case: (f"not ({case[0]})", ~case[1].astype("bool[pyarrow]"))))


CASES = st.recursive(st.one_of(number_tests(), text_tests(), other_tests()), joined, max_leaves=5)


@settings(max_examples=150)
@given(CASES)
def test_random_conditions_agree_with_pandas(case: Case) -> None:
    text, expected = case
    np.testing.assert_array_equal(
        found(text), expected.astype("bool[pyarrow]").fillna(False).to_numpy(dtype=bool), text
    )


def test_words_of_any_case_other_signs_and_quotes() -> None:
    same = [
        "topic == 'space' and price < 20",
        'TOPIC = "space" AND price<20'.replace("TOPIC", "topic"),
        "20 > price and not topic <> 'space'",
    ]
    assert len({tuple(found(text)) for text in same}) == 1
    assert found(same[0]).sum() == 4
    assert found(r"text contains 'it\'s \"odd\"'").sum() == found('title contains "\\u2028"').sum() == 0
    assert found("1 < 2").all()
    assert not found("'a' == 'b'").any()
    assert not found("size in []").any()
    assert found("size < 99999999999999999999999").sum() == found("size is not null").sum()


def test_the_columns_of_a_condition() -> None:
    assert Condition("a < 1 and (b or not `c d` in [1]) and 3 == 3").columns == {"a", "b", "c d"}


REFUSED = {
    "prize < 20": "there is no column 'prize'; the columns are id, title, text, topic, price, size, sold, made on, url",
    "price < 'a'": "the column 'price' holds numbers; it cannot be compared with 'a'",
    "topic == 3": "the column 'topic' holds text; it cannot be compared with 3",
    "topic < price": "'topic' text and 'price' numbers cannot be compared",
    "sold < true": "the column 'sold' holds booleans, which have no order: expected == or !=",
    "price contains 'a'": "the column 'price' holds numbers; it cannot be compared with 'a'",
    "price contains 1": "the column 'price' holds numbers; contains, startswith and endswith need text",
    "`made on` > 'May'": "the column 'made on' holds dates; 'May' is none, such as '2024-05-31' is",
    "`made on` > '300000-01-01'": "the column 'made on' holds dates; '300000-01-01' is none",
    "": "the condition is incomplete: ''",
    "price <": "the condition is incomplete: 'price <'",
    "price 20": "'20' at character 7; expected and, or, a comparison, or the matching bracket",
    "20": "'20' at character 1; expected a comparison such as price < 20",
    "(price < 20": "'(' at character 1; expected and, or, a comparison, or the matching bracket",
    "size in [1, price]": "'price' at character 13; expected a number, a text, true or false",
    "size in 3": "'3' at character 9; expected a list such as [1, 2]",
    "size in [1 2]": "'2' at character 12; expected and, or, a comparison, or the matching bracket",
    "price is 3": "'3' at character 10; expected null",
    "price == null": "'null' at character 10; expected a column, a number or a text",
    "size[1]": "'size' at character 1; expected a column, a number or a text",
    "size(1) < 2": "'size' at character 1; expected a column, a number or a text",
    r"topic == '\q'": "expected a text with the escapes of JSON",
    r"topic == '\ud800'": "expected a text with the escapes of JSON",
    "topic == 'open": "''' at character 10 is not understood" .replace("'''", '"\'"'),
}  # fmt: skip
# What would be a program, a query or a loop elsewhere is no condition here.
INJECTIONS = [
    "__import__('os').system('true')", "price < 20; drop table items", "price < 20 -- and", "1=1 or (select 1)",
    "(lambda: 1)()", "topic.__class__ == 1", "price < 20 /* */", "eval('1')", "[x for x in [1]]", "price < 9**9**9",
    "${jndi:x}",
    "price < 20 union select * from x", "{{7*7}}", "exec", "not " * 60 + "sold", "(" * 60 + "sold" + ")" * 60,
    "a" * 5000, "price < \ud800", "topic == 'a' 'b'", "price < 20\x00",
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), list(REFUSED.items()))
def test_what_is_wrong_gets_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(LikewiseError) as caught:
        found(text)
    assert str(caught.value).startswith("where: ")
    assert sentence in str(caught.value)


@pytest.mark.parametrize("text", INJECTIONS)
def test_injections_are_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(LikewiseError, match=r"^where"):
        found(text)


@settings(max_examples=200)
@given(st.text(alphabet="price<>=!&|()[]'\"`\\, 0129.eandornotisulcb\n\x00ü", max_size=40))
def test_any_text_is_a_condition_or_gets_a_sentence(text: str) -> None:
    with suppress(LikewiseError):
        assert found(text).shape == (N,)


@pytest.mark.parametrize("bound", ["1" + "0" * 400, "1e400", "9223372036854775809"])
def test_numbers_beyond_those_of_arrow_are_compared(bound: str) -> None:
    for name in ("price", "size"):
        assert found(f"{name} < {bound} and {name} > -{bound}").sum() == found(f"{name} is not null").sum()
        assert not found(f"{name} in [{', '.join([bound] * 8)}]").any()


def test_lists_in_parentheses_and_negated_tests_of_text() -> None:
    np.testing.assert_array_equal(found("size in (1, 2) or size in (7)"), found("size in [1, 2, 7]"))
    np.testing.assert_array_equal(found("title not contains '1'"), found("not title contains '1'"))
    np.testing.assert_array_equal(found("`made on` < '2024-02'"), found("`made on` < '2024-02-01T00:00:00Z'"))


def test_what_arrow_cannot_compute_gets_a_sentence() -> None:
    dates = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())  # in the year 5,881,580
    with pytest.raises(LikewiseError, match="where: \"day > '2024'\" cannot be computed: Casting from date32"):
        Condition("day > '2024'").passing({"day": dates}, 1)
    deep = "".join("not " * (38 - level) + "(sold and " for level in range(36))
    with suppress(LikewiseError):
        found(deep + "sold" + ")" * 36)


def test_a_condition_that_is_no_text_gets_a_sentence() -> None:
    with pytest.raises(LikewiseError, match="where is int; expected a text such as 'price < 20'"):
        Condition(3)  # type: ignore[arg-type]


def test_a_column_is_built_once_however_often_a_condition_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    items, built, array = as_items({"label": ["a", "b", "c"]}, 3), [], ItemColumns._array
    monkeypatch.setattr(ItemColumns, "_array", lambda self, name: built.append(name) or array(self, name))
    assert where_mask(items, [" or ".join(["label = 'a'"] * 30)]).tolist() == [True, False, False]
    assert built == ["label"]


@pytest.mark.parametrize(
    ("condition", "n"),
    [
        (f"price < 1{'0' * 400}", 3), ("price < 1e400", 3), ("price > -9223372036854775809", 3),
        ("made < '9999-12-31'", 3), ("made < '0001-01-01'", 0), (f"price in [{','.join(['1'] * 1000)}]", 1),
    ],
)  # fmt: skip
def test_numbers_and_dates_beyond_those_of_arrow_are_compared(condition: str, n: int) -> None:
    made = np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[s]")
    items = as_items({"price": [1, 2, 3], "made": made}, 3)
    assert where_mask(items, [condition]).sum() == n


@pytest.mark.parametrize(
    ("column", "listed"),
    [
        (pa.array([1, 2, None, 3], pa.uint8()), ["1", "-1", "300", "2.0", "0.5", "1" + "0" * 30]),
        (pa.array([0.0, -0.0, None, 0.1]), ["0.1", "-0.0", "1"]),
        (pa.array([0.1, 0.5, None], pa.float32()), ["0.1", "0.5"]),
        (pa.array(["a", None, "b"]).dictionary_encode(), ['"a"', '"z"']),
    ],
)  # fmt: skip
def test_a_list_finds_what_comparisons_find(column: Any, listed: list[str]) -> None:
    for n in range(1, len(listed) + 1):
        one, each = f"x in [{', '.join(listed[:n])}]", " or ".join(f"x == {value}" for value in listed[:n])
        for first, second in ((one, each), (f"not ({one})", f"not ({each})")):
            passing = [Condition(text).passing({"x": column}, len(column)).tolist() for text in (first, second)]
            assert passing[0] == passing[1], one
