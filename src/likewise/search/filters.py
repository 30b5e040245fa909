"""Which items pass a condition: its columns are the metadata, and the id, the label, the path and the date.

A condition is spelled in Python, with a placeholder for each column and literal, and parsed by `ast`. It is never run:
the nodes of its tree are computed with Arrow, and any node that is not named here is refused.
"""

import ast
import functools
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from likewise.errors import LikewiseError, optional
from likewise.rows.columns import Kind, kind_of
from likewise.search.items import ItemColumns, Items

MOST_CHARACTERS = 4000
_MOST_DEPTH = 40
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<column>`[^`]+`)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign><=|>=|==|!=|<>|=|<|>|\(|\)|\[|\]|,))""",
    re.VERBOSE | re.DOTALL,
)
# Words and signs in Python's spelling. It has no tests of text: each becomes "in" and a sign before what follows.
_PYTHON = {word: word for word in ("and", "or", "not", "in", "is", "<=", ">=", "==", "!=", "<", ">", *"()[],")}
_PYTHON |= {"=": "==", "<>": "!=", "null": "None", "none": "None"}
_PYTHON |= {"contains": "in -", "startswith": "in +", "endswith": "in ~"}
# The function of Arrow for a node of the tree.
_TEXT: dict[type, str] = {ast.USub: "match_substring", ast.UAdd: "starts_with", ast.Invert: "ends_with"}
_ORDER: dict[type, str] = {ast.Eq: "equal", ast.NotEq: "not_equal", ast.Lt: "less", ast.LtE: "less_equal"}
_ORDER |= {ast.Gt: "greater", ast.GtE: "greater_equal"}
_KIND: dict[type, Kind] = {bool: "boolean", int: "number", float: "number", str: "text"}
_MANY = {"number": "numbers", "text": "text", "date": "dates", "boolean": "booleans"}

Literal = bool | int | float | str
Where = str | Sequence[str] | np.ndarray


class Column(str):
    """The name of a column; any other text is a literal."""


class Condition:
    """A condition such as `10 <= price < 20 and title contains "moon"`; `columns` are the names in it."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise LikewiseError(f"where is {type(text).__name__}; expected a text such as 'price < 20'")
        if len(text) > MOST_CHARACTERS:
            raise LikewiseError(f"where has {len(text):,} characters; expected at most {MOST_CHARACTERS:,}")
        self.text, self._source = text, ""
        self._tokens: list[tuple[int, str, int]] = []  # place in the source, token, place in the text
        self._values: dict[str, Literal] = {}
        self._translate()
        self.columns = {str(value) for value in self._values.values() if isinstance(value, Column)}
        try:
            self.tree = ast.parse(self._source, mode="eval").body
        except (SyntaxError, RecursionError) as error:
            at = getattr(error, "offset", None) or 1 + len(self._source)
            if at >= len(self._source):
                raise LikewiseError(f"where: the condition is incomplete: {text!r}") from None
            at = max(at - 1, (getattr(error, "end_offset", None) or 0) - 2)  # "[1 2]" is reported from 1 to 2
            raise self.wrong(at, "and, or, a comparison, or the matching bracket") from None

    def _translate(self) -> None:
        """Spell the text in Python."""
        place, depth, negations, end = 0, 0, 0, len(self.text.rstrip())
        while place < end:
            if (match := _TOKEN.match(self.text, place)) is None:
                rest = self.text[place:end].lstrip()
                at = 1 + end - len(rest)
                raise LikewiseError(f"where: {rest[0]!r} at character {at} is not understood: {self.text!r}")
            kind, place = str(match.lastgroup), match.end()
            token = match[kind]
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token, 0)
            negations = negations + 1 if token.lower() == "not" else 0
            if depth + negations > _MOST_DEPTH:
                raise LikewiseError(f"where is nested more than {_MOST_DEPTH} deep; expected a simpler condition")
            self._tokens.append((len(self._source), token, match.start(kind)))
            self._source += self._in_python(kind, token) + " "

    def _in_python(self, kind: str, token: str) -> str:
        word = token.lower()
        if kind in ("word", "sign") and word in _PYTHON:
            return "_(" if word == "(" and self._source.endswith("in ") else _PYTHON[word]
        value: Literal = word == "true" if word in ("true", "false") else Column(token.strip("`"))
        if kind == "text":
            value = self._unquoted(token)
        elif kind == "number":
            is_float = bool(set(token) & set(".eE")) or not -(2**63) <= int(token) < 2**63
            value = float(token) if is_float else int(token)
        self._values[name := f"_{len(self._values)}"] = value
        return name

    def _unquoted(self, token: str) -> str:
        """The text between the quotes, with the escapes of JSON."""
        inner, changed = token[1:-1], {'"': '\\"', "\\'": "'"}
        if token[0] == "'":
            inner = re.sub(r"\\.|\"", lambda match: changed.get(match[0], match[0]), inner, flags=re.DOTALL)
        try:
            return str(json.loads(f'"{inner}"', strict=False)).encode().decode()  # unpaired surrogates raise
        except ValueError:
            raise self.wrong(len(self._source), "a text with the escapes of JSON") from None

    def wrong(self, at: int, expected: str) -> LikewiseError:
        """The error for what the source has at a place."""
        _, token, place = [entry for entry in self._tokens if entry[0] <= at][-1]
        return LikewiseError(f"where: {token!r} at character {place + 1}; expected {expected}: {self.text!r}")

    def value(self, node: ast.expr) -> Literal:
        """The column or the literal that a node of the tree is."""
        if not isinstance(node, ast.Name) or node.id not in self._values:
            raise self.wrong(node.col_offset, "a column, a number or a text")
        return self._values[node.id]

    def passing(self, columns: Mapping[str, Any], n: int) -> np.ndarray:
        """Whether each of n items passes, as booleans; `columns` has an Arrow array for each name."""
        evaluation = _Evaluation(self, columns, n)
        try:
            return np.asarray(evaluation.of(self.tree).fill_null(False), dtype=bool)
        except (evaluation.pa.ArrowException, RecursionError) as error:  # for example a date beyond those of Arrow
            raise LikewiseError(f"where: {self.text!r} cannot be computed: {str(error).splitlines()[0]}") from None


class _Evaluation:
    """A condition computed with Arrow: every part is an array of true, false and missing."""

    def __init__(self, condition: Condition, columns: Mapping[str, Any], n: int) -> None:
        self.pa = optional("pyarrow", "a filter", "parquet")
        self.pc = optional("pyarrow.compute", "a filter", "parquet")
        self.value, self.wrong, self.columns, self.n = condition.value, condition.wrong, columns, n

    def of(self, node: ast.expr) -> Any:
        if isinstance(node, ast.BoolOp):
            join = self.pc.and_kleene if isinstance(node.op, ast.And) else self.pc.or_kleene
            return functools.reduce(join, map(self.of, node.values))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.pc.invert(self.of(node.operand))
        if isinstance(node, ast.Compare):
            tests = map(self._test, [node.left, *node.comparators], node.ops, node.comparators)
            return functools.reduce(self.pc.and_kleene, tests)
        if not isinstance(column := self.value(node), Column):
            raise self.wrong(node.col_offset, "a comparison such as price < 20")
        return self._ordered("equal", column, True)

    def _test(self, node: ast.expr, sign: ast.cmpop, right: ast.expr) -> Any:
        left = self.value(node)
        if order := _ORDER.get(type(sign)):
            return self._ordered(order, left, self.value(right))
        if isinstance(sign, ast.Is | ast.IsNot):
            if not isinstance(right, ast.Constant):
                raise self.wrong(right.col_offset, "null")
            result = self.pc.is_null(self._values(left)[2][0])
        elif isinstance(right, ast.UnaryOp):
            part = self.value(right.operand)
            kind, name, (texts, _) = self._values(left, part)
            if kind != "text" or isinstance(part, Column):
                raise LikewiseError(f"where: {name} holds {_MANY[kind]}; contains, startswith and endswith need text")
            result = getattr(self.pc, _TEXT[type(right.op)])(texts, str(part))
        else:
            result = self._one_of(left, right)
        return self.pc.invert(result) if isinstance(sign, ast.NotIn | ast.IsNot) else result

    def _ordered(self, order: str, left: Literal, right: Literal) -> Any:
        kind, name, values = self._values(left, right)
        if kind == "boolean" and order not in ("equal", "not_equal"):
            raise LikewiseError(f"where: {name} holds booleans, which have no order: expected == or !=")
        return getattr(self.pc, order)(*values)

    def _one_of(self, left: Literal, right: ast.expr) -> Any:
        """Missing where the value is missing: it is not known whether it is one of them."""
        match right:
            case ast.List(elts=nodes) | ast.Call(func=ast.Name(id="_"), args=nodes):
                items = list(map(self.value, nodes))
            case _:
                raise self.wrong(right.col_offset, "a list such as [1, 2]")
        for node, item in zip(nodes, items, strict=True):
            if isinstance(item, Column):
                raise self.wrong(node.col_offset, "a number, a text, true or false")
        value, *others = self._values(left, *items)[2]
        missing = self.pa.scalar(None, self.pa.bool_())
        return self.pc.if_else(self.pc.is_null(value), missing, self._among(value, others))

    def _among(self, value: Any, others: list[Any]) -> Any:
        """Whether values are in a set; where they have no common type, they are compared with one after the other."""
        try:
            wanted = self.pa.array([other.as_py() for other in others])
            if not self.pa.types.is_floating(wanted.type):
                return self.pc.is_in(value, value_set=wanted.cast(value.type))
            value, wanted = (self.pc.add(numbers.cast(wanted.type), 0.0) for numbers in (value, wanted))  # no -0.0
            return self.pc.is_in(value, value_set=wanted)
        except self.pa.ArrowException:
            return functools.reduce(self.pc.or_kleene, (self.pc.equal(value, other) for other in others))

    def _values(self, *values: Literal) -> tuple[str, str, list[Any]]:
        """The kind of values that are compared, what to call their column, and the values for Arrow."""
        names = [value for value in values if isinstance(value, Column)]
        if missing := [name for name in names if name not in self.columns]:
            raise LikewiseError(f"where: there is no column {missing[0]!r}; the columns are {', '.join(self.columns)}")
        types = [self.columns[name].type for name in names]
        kinds = list(map(kind_of, types)) or [_KIND[type(values[0])]]
        if len(set(kinds)) > 1:
            texts = " and ".join(f"{name!r} {_MANY[kind]}" for name, kind in zip(names, kinds, strict=True))
            raise LikewiseError(f"where: {texts} cannot be compared")
        called = f"the column {names[0]!r}" if names else repr(values[0])
        ready = []
        for value in values:
            if isinstance(value, Column):
                column = self.columns[value]
                ready.append(column.cast(self.pa.timestamp("us")) if kinds[0] == "date" else column)
                continue
            if kinds[0] == "text" and "label" in names:  # labels may be numbers
                value = str(value)
            if kinds[0] != _KIND[type(value)] and not (kinds[0] == "date" and isinstance(value, str)):
                raise LikewiseError(f"where: {called} holds {_MANY[kinds[0]]}; it cannot be compared with {value!r}")
            is_float = any(map(self.pa.types.is_floating, types))
            scalar = self.pa.scalar(
                _date(str(value), called) if kinds[0] == "date" else float(value) if is_float else value
            )
            ready.append(scalar if names or ready else self.pa.repeat(scalar, self.n))
        return kinds[0], called, ready


def _date(text: str, column: str) -> datetime:
    try:
        date = datetime.fromisoformat(text + {4: "-01-01", 7: "-01"}.get(len(text), ""))
        return date if date.tzinfo is None else date.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise LikewiseError(f"where: {column} holds dates; {text!r} is none, such as '2024-05-31' is") from None


def rows_where(items: Items, where: Where | None) -> np.ndarray | None:
    """Rows of the items that pass, in order; None without a condition.

    `where` is a condition such as `price < 20`, several that must all hold, or one boolean per item.
    """
    if where is None:
        return None
    return np.flatnonzero(where_mask(items, [where] if isinstance(where, str) else where))


def where_mask(items: Items, where: Where) -> np.ndarray:
    """Whether each item passes all conditions, or the booleans themselves."""
    if isinstance(where, np.ndarray):
        if where.dtype != bool or where.shape != (len(items),):
            raise LikewiseError(f"where has shape {where.shape} and type {where.dtype}; expected {len(items)} booleans")
        return where
    masks = [Condition(text).passing(ItemColumns(items), len(items)) for text in where]
    return np.logical_and.reduce([np.ones(len(items), dtype=bool), *masks])
