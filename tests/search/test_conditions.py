"""Conditions: what they mean, agreed with pandas on random ones, and what is refused."""

from __future__ import annotations

import functools
import json
import operator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.documents import N, columns

from likewise.errors import LikewiseError
from likewise.rows.columns import Columns
from likewise.search.filters import Condition

pa = pytest.importorskip("pyarrow")
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
