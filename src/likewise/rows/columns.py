"""Metadata of the items of a table: typed columns, in Arrow's format; large ones stay on disk.

A column holds whole numbers, numbers, text, dates, times or booleans; any value may be missing. NaN is missing.
"""

import mmap
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, Self

import numpy as np

from likewise.errors import FileFormatError, LikewiseError, optional

Kind = Literal["number", "text", "date", "boolean"]
_BATCH = 10_000  # rows written at a time
MISSING = ("", "na", "n/a", "nan", "null", "none", "?")  # of a column of numbers, dates or booleans; in any case
# Which text of a CSV has another type; "007" is a name, not a number.
SPELLED = (
    (r"^-?(0|[1-9][0-9]{0,17})$", "int64"),
    (r"^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$", "float64"),
    (r"^(?i:true|false)$", "bool"),
    (r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$", "date32"),
    (r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$", "timestamp"),
)


class Columns:
    """Typed columns of n rows, in memory or mapped from a file.

    Examples
    --------
    >>> columns = Columns.of({"price": [3, None], "title": ["Ant", "Bee"]})
    >>> columns.kinds, columns.rows([1])
    ({'price': 'number', 'title': 'text'}, [{'price': None, 'title': 'Bee'}])
    """

    def __init__(self, source: Any, n: int | None = None) -> None:
        self._source = source  # an Arrow table, or the pages of a file that are not looked at before they are needed
        self._n = n  # the rows that it must have

    # -- making -------------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Self:
        """Columns of Python values or arrays; what is of mixed kinds is text, and lists of numbers are left out."""
        pa = _arrow()
        arrays = {str(name): _as_array(values) for name, values in columns.items()}
        typed = {name: _typed(array) for name, array in arrays.items() if _target(array.type) is not None}
        return cls(pa.table(typed))

    @classmethod
    def of_text(cls, columns: Mapping[str, Any]) -> Self:
        """Columns of the cells of a text file: numbers, dates and booleans where all cells are."""
        return cls(_arrow().table({name: _understood(values) for name, values in columns.items()}))

    @classmethod
    def spooled(cls, batches: Iterable[Any], schema: Any) -> Self:
        """Record batches as they come, kept in a temporary file: they may be larger than memory."""
        names, types = kept_fields(schema)
        file: IO[bytes] = tempfile.TemporaryFile(prefix="likewise-")  # noqa: SIM115 (its map is what is kept)
        with file:
            _write(file, _arrow().schema(types), (_kept_columns(batch, names) for batch in batches))
            return cls(_mapped(file))

    @classmethod
    def open(cls, path: Path, n: int) -> Self:
        """Columns of n rows, of a file that `write` wrote; it is mapped, and read when a column is asked for."""
        try:
            with open(path, "rb") as file:
                return cls(_mapped(file), n)
        except (OSError, ValueError) as error:
            raise FileFormatError(f"{path} cannot be read: {error}") from error

    def write(self, file: BinaryIO) -> None:
        """Write an Arrow file, batch by batch."""
        _write(file, self.table.schema, self.table.to_batches(max_chunksize=_BATCH))

    # -- reading ------------------------------------------------------------------------------------------------------

    @cached_property
    def table(self) -> Any:
        """The Arrow table; that of a file is mapped, and checked as a whole before it is believed."""
        pa = _arrow()
        if isinstance(self._source, pa.Table):
            return self._source
        try:
            table = pa.ipc.open_file(pa.py_buffer(self._source)).read_all()
            table.validate(full=True)
            names, strange = table.column_names, [field for field in table.schema if _target(field.type) != field.type]
            if strange or len(set(names)) < len(names) or self._n not in (None, table.num_rows):
                raise ValueError(f"{table.num_rows} rows of {names}")
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise FileFormatError(f"the metadata of the index is damaged: {reason}") from error
        return table

    def __len__(self) -> int:
        return self._n if self._n is not None else int(self.table.num_rows)

    @property
    def names(self) -> list[str]:
        return list(self.table.column_names)

    @property
    def kinds(self) -> dict[str, Kind]:
        """What each column holds."""
        return {field.name: kind_of(field.type) for field in self.table.schema}

    def without(self, name: str | None) -> Self | None:
        """All columns but one, if there are any."""
        rest = [column for column in self.names if column != name]
        return type(self)(self.table.select(rest), self._n) if rest else None

    def column(self, name: str) -> Any:
        """The values of a column, as an Arrow array."""
        return self.table.column(name)

    def rows(self, rows: Sequence[int] | np.ndarray, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The values of some rows, as Python's own."""
        wanted = self.table if names is None else self.table.select(list(names))
        # One row at a time: `take` of a text column would first join all of its chunks in memory.
        return [wanted.slice(int(row), 1).to_pylist()[0] if wanted.num_columns else {} for row in rows]

    def take(self, rows: np.ndarray) -> "Columns":
        """The columns of the given rows."""
        return Columns(self.table.take(np.asarray(rows, np.int64)))

    def plus(self, other: "Columns | None", n: int, m: int) -> "Columns":
        """These n rows followed by m others; what one side does not have is missing."""
        pa = _arrow()
        below = pa.table({}) if other is None else other.table
        names = list(dict.fromkeys([*self.names, *below.column_names]))
        parts = []
        for table, length in ((self.table, n), (below, m)):
            missing = {name: pa.nulls(length) for name in names if name not in table.column_names}
            parts.append(pa.table({name: missing[name] if name in missing else table.column(name) for name in names}))
        try:
            joined = pa.concat_tables(parts, promote_options="permissive")
        except pa.ArrowException as error:
            raise LikewiseError(f"items has other kinds of metadata than the index: {error}") from error
        return Columns(joined)


def kind_of(type_: Any) -> Kind:
    """What a column of one of our types holds."""
    import pyarrow.types as pt

    if pt.is_boolean(type_):
        return "boolean"
    if pt.is_integer(type_) or pt.is_floating(type_):
        return "number"
    return "date" if pt.is_date(type_) or pt.is_timestamp(type_) else "text"


def kept_fields(schema: Any) -> tuple[list[str], list[tuple[str, Any]]]:
    """The columns of a schema that can be kept, each name once, and their types."""
    targets = {field.name: target for field in reversed(schema) if (target := _target(field.type)) is not None}
    names = [name for name in dict.fromkeys(schema.names) if name in targets]
    return names, [(name, targets[name]) for name in names]


def _arrow() -> Any:
    return optional("pyarrow", "metadata", "parquet")


def _target(type_: Any) -> Any:
    """The type that values of a type are kept in; None for those that are not."""
    import pyarrow as pa
    import pyarrow.types as pt

    if pt.is_dictionary(type_):
        return _target(type_.value_type)
    if pt.is_boolean(type_):
        return pa.bool_()
    if pt.is_integer(type_):
        return pa.float64() if pt.is_uint64(type_) else pa.int64()
    if pt.is_floating(type_) or pt.is_decimal(type_):
        return pa.float64()
    if pt.is_date(type_):
        return pa.date32()
    if pt.is_timestamp(type_):
        return pa.timestamp("us", None if type_.tz is None else "UTC")
    texts = (pt.is_string, pt.is_large_string, pt.is_string_view, pt.is_null, pt.is_time)
    if any(check(type_) for check in texts) or (_is_list(type_) and _target(type_.value_type) == pa.string()):
        return pa.string()
    return None


def _is_list(type_: Any) -> bool:
    import pyarrow.types as pt

    return bool(pt.is_list(type_) or pt.is_large_list(type_))


def _typed(array: Any) -> Any:
    """Values in the type they are kept in: NaN is missing, and a list of words is one text."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as pt

    target = _target(array.type)
    if pt.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if _is_list(array.type):
        array = pc.binary_join(array.cast(pa.list_(pa.string())), ", ")
    array = array.cast(target, safe=False) if array.type != target else array
    if pt.is_floating(target):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, target), array)
    return array


def _as_array(values: Any) -> Any:
    """Values of any kind as an Arrow array; what is of mixed kinds is text."""
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([None if value is None or value != value else str(value) for value in values], pa.string())


def _understood(cells: Any) -> Any:
    """A column of text as what all of its cells spell."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "date32": pa.date32()}
    trimmed = pc.utf8_trim_whitespace(cells)
    absent = pc.is_in(pc.utf8_lower(trimmed), pa.array(MISSING))
    present = trimmed.filter(pc.invert(absent))
    for pattern, name in SPELLED if len(present) else ():
        if pc.all(pc.match_substring_regex(present, pattern)).as_py():
            values = pc.if_else(absent, pa.scalar(None, pa.string()), trimmed)
            values = pc.utf8_lower(values) if name == "bool" else values
            try:
                return values.cast(types.get(name, pa.timestamp("us")))
            except pa.ArrowException:  # 31 February
                break
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), cells)


def _kept_columns(batch: Any, names: list[str]) -> Any:
    import pyarrow as pa

    batch.validate(full=True)  # text that is not UTF-8 is found here
    return pa.record_batch([_typed(batch.column(name)) for name in names], names=names)


def _write(file: Any, schema: Any, batches: Iterable[Any]) -> None:
    with _arrow().ipc.new_file(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _mapped(file: IO[bytes]) -> mmap.mmap:
    file.flush()
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def chunks(cells: Iterator[list[str]], n: int) -> list[Any]:
    """Rows of n cells as n Arrow columns of text, without a Python object for each cell of a large file."""
    pa = _arrow()
    columns: list[list[Any]] = [[] for _ in range(n)]
    while block := list(islice(cells, _BATCH)):
        for place, column in enumerate(columns):
            column.append(pa.array([row[place] for row in block], pa.string()))
    return [pa.chunked_array(column, pa.string()) for column in columns]
