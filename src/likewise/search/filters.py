"""Which items pass a condition: its columns are the metadata, and the id, the label, the path and the date."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from likewise.errors import LikewiseError, optional
from likewise.rows.columns import kind_of
from likewise.search.items import Items

MOST_CHARACTERS = 4000
_MOST_DEPTH = 40
_WORDS = {"and", "or", "not", "in", "is", "null", "none", "true", "false", "contains", "startswith", "endswith"}
_ORDER = {"==": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
_TEXT = {"contains": "match_substring", "startswith": "starts_with", "endswith": "ends_with"}
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<quoted>`[^`]+`)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign><=|>=|==|!=|<>|=|<|>|\(|\)|\[|\]|,))""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A word of a condition, its kind, and where it stands."""

    kind: str
    text: str
    place: int


@dataclass(frozen=True)
class Column:
    """A column by its name."""

    name: str


@dataclass(frozen=True)
class Literal:
    """A number, a text or a boolean."""

    value: Any


Value = Column | Literal


@dataclass(frozen=True)
class Comparison:
    """A value compared with others: `how` is a sign, "in", "null" or a test of text."""

    how: str
    left: Value
    right: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Combined:
    """Conditions under "and", "or" or "not"."""

    how: str
    parts: tuple[Condition, ...]


Condition = Comparison | Combined


def parsed(text: str) -> Condition:
    """The tree of a condition."""
    if not isinstance(text, str):
        raise LikewiseError(f"where is {type(text).__name__}; expected a text such as 'price < 20'")
    if len(text) > MOST_CHARACTERS:
        raise LikewiseError(f"where has {len(text):,} characters; expected at most {MOST_CHARACTERS:,}")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise LikewiseError("where holds half of a pair of characters; expected text")
    return _Parser(text).whole()


def columns_of(condition: Condition) -> set[str]:
    """The names of the columns that a condition speaks of."""
    if isinstance(condition, Combined):
        return set().union(*map(columns_of, condition.parts))
    return {value.name for value in (condition.left, *condition.right) if isinstance(value, Column)}


def passing(condition: Condition, columns: Mapping[str, Any], n: int) -> np.ndarray:
    """Whether each of n items passes, as booleans; `columns` has an Arrow array for each name."""
    result = _Evaluation(columns, n).of(condition)
    return np.asarray(result.fill_null(False).to_numpy(zero_copy_only=False), dtype=bool)


# ---------------------------------------------------------------------------------------------------------------------
# Reading


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [*_tokens(text), Token("end", "", len(text))]
        self.at = 0
        self.depth = 0

    def whole(self) -> Condition:
        found = self.disjunction()
        if self.now.kind != "end":
            raise self.wrong("and, or, or the end")
        return found

    @property
    def now(self) -> Token:
        return self.tokens[self.at]

    def wrong(self, expected: str) -> LikewiseError:
        token = self.now
        found = "it ends" if token.kind == "end" else f"{token.text!r} stands"
        return LikewiseError(f"where: {found} at character {token.place + 1}; expected {expected}: {self.text!r}")

    def is_word(self, *words: str) -> bool:
        return self.now.kind == "word" and self.now.text.lower() in words

    def took(self, *words: str) -> str | None:
        """The next token, if it is one of these words or signs; it is then done with."""
        if not (self.is_word(*words) or (self.now.kind == "sign" and self.now.text in words)):
            return None
        self.at += 1
        return self.tokens[self.at - 1].text.lower()

    def disjunction(self) -> Condition:
        return self._joined("or", self.conjunction)

    def conjunction(self) -> Condition:
        return self._joined("and", self.negation)

    def _joined(self, word: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self.took(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Combined(word, tuple(parts))

    def negation(self) -> Condition:
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise LikewiseError(f"where is nested more than {_MOST_DEPTH} deep; expected a simpler condition")
        try:
            if self.took("not"):
                return Combined("not", (self.negation(),))
            if self.took("("):
                inner = self.disjunction()
                if not self.took(")"):
                    raise self.wrong(")")
                return inner
            return self.test()
        finally:
            self.depth -= 1

    def test(self) -> Condition:
        left = self.value()
        if sign := self.took(*_ORDER, "=", "<>"):
            return self._chain(left, sign)
        if self.took("is"):
            negated = self.took("not")
            if not self.took("null", "none"):
                raise self.wrong("null")
            return _negated(Comparison("null", left), negated)
        negated = self.took("not")
        if self.took("in"):
            return _negated(Comparison("in", left, self._list()), negated)
        if how := self.took(*_TEXT):
            return _negated(Comparison(how, left, (self.value(),)), negated)
        if negated or not isinstance(left, Column):
            raise self.wrong("a comparison such as < 20, in [1, 2], contains or is null")
        return Comparison("==", left, (Literal(True),))

    def _chain(self, left: Value, sign: str | None) -> Condition:
        tests: list[Condition] = []
        while sign:
            right = self.value()
            tests.append(Comparison({"=": "==", "<>": "!="}.get(sign, sign), left, (right,)))
            left, sign = right, self.took(*_ORDER, "=", "<>")
        return tests[0] if len(tests) == 1 else Combined("and", tuple(tests))

    def _list(self) -> tuple[Value, ...]:
        opening = self.took("[", "(")
        if opening is None:
            raise self.wrong("a list such as [1, 2]")
        closing = {"[": "]", "(": ")"}[opening]
        found: list[Value] = []
        while not self.took(closing):
            if found and not self.took(","):
                raise self.wrong(f", or {closing}")
            value = self.value()
            if isinstance(value, Column):
                self.at -= 1
                raise self.wrong("a number, a text, true or false")
            found.append(value)
        return tuple(found)

    def value(self) -> Value:
        token = self.now
        known = (
            {"true": Literal(True), "false": Literal(False)}.get(token.text.lower()) if token.kind == "word" else None
        )
        if token.kind == "end" or token.kind == "sign" or (known is None and self.is_word(*_WORDS)):
            raise self.wrong("a column, a number or a text")
        self.at += 1
        if known is not None:
            return known
        if token.kind == "number":
            return Literal(float(token.text) if set(token.text) & set(".eE") else int(token.text))
        if token.kind == "text":
            return Literal(_unquoted(token, self.text))
        return Column(token.text.strip("`") if token.kind == "quoted" else token.text)


def _negated(test: Condition, negated: object) -> Condition:
    return Combined("not", (test,)) if negated else test


def _tokens(text: str) -> Iterator[Token]:
    place, end = 0, len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None:
            start = place + len(text[place:]) - len(text[place:].lstrip())
            raise LikewiseError(f"where: {text[start]!r} at character {start + 1} is not understood: {text!r}")
        kind = str(found.lastgroup)
        yield Token(kind, found[kind], found.start(kind))
        place = found.end()


def _unquoted(token: Token, whole: str) -> str:
    """The text between the quotes, with the escapes of JSON."""
    inner = token.text[1:-1]
    if token.text[0] == "'":
        inner = re.sub(
            r"\\(.)|\"", lambda m: '\\"' if m[0] == '"' else "'" if m[1] == "'" else m[0], inner, flags=re.DOTALL
        )
    try:
        found = str(json.loads(f'"{inner}"', strict=False))
        found.encode()  # half of a pair of characters is no text
        return found
    except ValueError:
        raise LikewiseError(f"where: {token.text} at character {token.place + 1} is no text: {whole!r}") from None


# ---------------------------------------------------------------------------------------------------------------------
# Computing


class _Evaluation:
    """A condition computed with Arrow: every part is an array of true, false and missing."""

    def __init__(self, columns: Mapping[str, Any], n: int) -> None:
        self.pa = optional("pyarrow", "a filter", "parquet")
        self.pc = optional("pyarrow.compute", "a filter", "parquet")
        self.columns, self.n = columns, n

    def of(self, condition: Condition) -> Any:
        if isinstance(condition, Comparison):
            return self._test(condition)
        parts = [self.of(part) for part in condition.parts]
        if condition.how == "not":
            return self.pc.invert(parts[0])
        join = self.pc.and_kleene if condition.how == "and" else self.pc.or_kleene
        result = parts[0]
        for part in parts[1:]:
            result = join(result, part)
        return result

    def _test(self, test: Comparison) -> Any:
        if test.how == "null":
            return self._all(self.pc.is_null(self._operand(test.left)))
        kind, name = self._kind(test)
        left, *right = (self._as(value, kind, name) for value in (test.left, *test.right))
        if test.how == "in":
            return self._in(left, right)
        if test.how in _TEXT:
            if kind != "text" or not isinstance(test.right[0], Literal):
                raise LikewiseError(f"where: {test.how} is for a column of text and a text; {name} holds {_many(kind)}")
            return self._all(getattr(self.pc, _TEXT[test.how])(left, right[0].as_py()))
        if kind == "boolean" and test.how not in ("==", "!="):
            raise LikewiseError(f"where: {name} holds booleans, which have no order: expected == or !=")
        return self._all(getattr(self.pc, _ORDER[test.how])(left, right[0]))

    def _in(self, left: Any, right: list[Any]) -> Any:
        """Missing where the value is missing: it is not known whether it is one of them."""
        result = self._all(self.pc.is_null(left))
        result = self.pc.if_else(result, self.pa.scalar(None, self.pa.bool_()), False)
        for value in right:
            result = self.pc.or_kleene(result, self._all(self.pc.equal(left, value)))
        return result

    def _all(self, result: Any) -> Any:
        """One boolean per item, also where both sides are literals."""
        if isinstance(result, self.pa.Scalar):
            return self.pa.array(np.full(self.n, bool(result.as_py())))
        return result.combine_chunks() if isinstance(result, self.pa.ChunkedArray) else result

    def _kind(self, test: Comparison) -> tuple[str, str]:
        """What the values of a test are compared as, and what to call the column of them."""
        named = [value for value in (test.left, *test.right) if isinstance(value, Column)]
        if not named:
            value = test.left.value  # type: ignore[union-attr]
            return _kind_of_value(value), repr(value)
        kinds = {kind_of(self._column(column.name).type) for column in named}
        if len(kinds) > 1:
            texts = " and ".join(f"{c.name!r} {_many(kind_of(self._column(c.name).type))}" for c in named)
            raise LikewiseError(f"where: {texts} cannot be compared")
        return kinds.pop(), f"the column {named[0].name!r}"

    def _column(self, name: str) -> Any:
        if name not in self.columns:
            raise LikewiseError(f"where: there is no column {name!r}; the columns are {', '.join(self.columns)}")
        return self.columns[name]

    def _operand(self, value: Value) -> Any:
        return self._column(value.name) if isinstance(value, Column) else self.pa.scalar(value.value)

    def _as(self, value: Value, kind: str, name: str) -> Any:
        """A column, or a literal of the kind of the column it is compared with."""
        if isinstance(value, Column):
            column = self._column(value.name)
            return column.cast(self.pa.timestamp("us")) if kind == "date" else column
        given = value.value
        if kind == "text" and name == "the column 'label'":  # labels that are numbers are text as well
            given = str(given)
        if kind == "date" and isinstance(given, str):
            return self._date(given, name)
        if _kind_of_value(given) != kind:
            raise LikewiseError(f"where: {name} holds {_many(kind)}; it cannot be compared with {given!r}")
        is_wide = isinstance(given, int) and not isinstance(given, bool) and not -(2**63) <= given < 2**63
        return self.pa.scalar(float(given) if is_wide else given)

    def _date(self, text: str, name: str) -> Any:
        try:
            return self.pa.scalar(np.datetime64(text.removesuffix("Z"), "us"))
        except ValueError:
            raise LikewiseError(f"where: {name} holds dates; {text!r} is none, such as '2024-05-31' is") from None


def _kind_of_value(value: Any) -> str:
    return "boolean" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def _many(kind: str) -> str:
    return {"number": "numbers", "text": "text", "date": "dates", "boolean": "booleans"}[kind]


# ---------------------------------------------------------------------------------------------------------------------
# Items


class ItemColumns(Mapping[str, Any]):
    """The columns of items by name, as Arrow arrays, each made when it is asked for.

    `label` is text, whatever the labels are; it is what the items are labelled now.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        built_in = {"id": items.ids, "label": items.labels, "path": items.paths, "date": items.dates}
        beside = [] if items.metadata is None else items.metadata.names
        self._own = {
            name: c for name, c in built_in.items() if c is not None and not (name == "date" and name in beside)
        }
        self.names = [*self._own, *(name for name in beside if name not in self._own)]

    def __getitem__(self, name: str) -> Any:
        if name not in self._own:
            if self._items.metadata is None:
                raise KeyError(name)
            return self._items.metadata.column(name)
        import pyarrow as pa

        values = self._own[name].tolist()
        if name == "date":
            return pa.array(values, pa.string()).cast(pa.date32())
        if name == "label":
            values = [None if value is None else str(value) for value in values]
        try:
            return pa.array(values)
        except UnicodeEncodeError:  # the name of a file may be no UTF-8
            return pa.array([_text(value) if isinstance(value, str) else value for value in values])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _text(value: str) -> str:
    """Text that is UTF-8."""
    return value.encode("utf-8", "replace").decode("utf-8")


def rows_where(items: Items, where: Any) -> np.ndarray | None:
    """Rows of the items that pass, in order; None if all do because nothing is asked for.

    `where` is a condition such as `price < 20`, several that must all hold, or one boolean per item.
    """
    if where is None:
        return None
    mask = where_mask(items, [where] if isinstance(where, str) else where)
    return np.flatnonzero(mask)


def where_mask(items: Items, where: Any) -> np.ndarray:
    """Whether each item passes all conditions, or the booleans themselves."""
    if isinstance(where, np.ndarray):
        if where.dtype != bool or where.shape != (len(items),):
            raise LikewiseError(f"where has shape {where.shape} and type {where.dtype}; expected {len(items)} booleans")
        return where
    columns, n = ItemColumns(items), len(items)
    masks = [passing(parsed(condition), columns, n) for condition in where]
    return np.logical_and.reduce([np.ones(n, dtype=bool), *masks])
