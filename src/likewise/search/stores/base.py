"""The contract of a store: a table of ids, vectors and metadata, searched by inner product."""

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Literal, Self

import numpy as np

from likewise.errors import LikewiseError, optional
from likewise.learn.base import SimilarityModel

Kind = Literal["int", "float", "text"]
EXPORT = "likewise_export"  # the column with the tag of a row that an export wrote: its model and a hash of the row


@dataclass(frozen=True)
class Rows:
    """A batch of rows: ids, vectors (n, r), and metadata columns with None where a value is unknown."""

    ids: list[Any]
    vectors: np.ndarray
    metadata: dict[str, list[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int]) -> "Rows":
        """Some of the rows."""
        metadata = {name: [column[row] for row in rows] for name, column in self.metadata.items()}
        return Rows([self.ids[row] for row in rows], self.vectors[list(rows)], metadata)


@dataclass(frozen=True)
class Layout:
    """The columns of a table: the width of its vectors, the kind of its ids and of each metadata column.

    `card` describes the model that the vectors are from, as `model.card()` does; None if they are from no model.
    """

    width: int
    ids: Kind
    metadata: dict[str, Kind] = field(default_factory=dict)
    card: dict[str, Any] | None = field(default=None, compare=False)

    @property
    def model(self) -> str | None:
        """The identity of that model."""
        return None if self.card is None else self.card["id"]


class Store(ABC):
    """One table or collection; `upsert` writes a batch in one transaction, and again without harm.

    `id_column` and `vector_column` name the columns of a table that somebody else made. Vectors of another model go
    into a table of their own, `staged`, which `swap` puts in the place of this one in one step.
    """

    batch: ClassVar[int] = 1000  # rows per transaction
    _nouns: ClassVar[tuple[str, str]] = ("table", "column")  # what the database calls them

    def __init__(self, table: str, id_column: str = "id", vector_column: str = "vector") -> None:
        self.table, self.id_column, self.vector_column = table, id_column, vector_column

    @abstractmethod
    def layout(self) -> Layout | None:
        """The columns of the table; None if there is no such table."""

    @abstractmethod
    def _create(self, layout: Layout) -> None:
        """Create the table."""

    @abstractmethod
    def _upsert(self, rows: Rows, tags: list[str | None]) -> None:
        """Insert rows, or replace those with the same ids, all or none."""

    @abstractmethod
    def tags(self) -> dict[Any, str]:
        """The tag of each row that an export has written, by id; rows that were added by hand have none."""

    @abstractmethod
    def _remove(self, ids: list[Any]) -> None:
        """Remove the rows with these ids."""

    @abstractmethod
    def _drop(self) -> None:
        """Remove the table."""

    @abstractmethod
    def swap(self, staged: Self) -> None:
        """Put another table in the place of this one in one step; this one is kept, the one kept before is removed."""

    @abstractmethod
    def _restore(self, previous: Self) -> None:
        """Exchange this table and that one."""

    @abstractmethod
    def count(self) -> int:
        """Number of rows."""

    @abstractmethod
    def _search(self, Q: np.ndarray, k: int) -> Iterable[Sequence[tuple[Any, float]]]:
        """The k best (id, inner product) of each query vector, best first."""

    @abstractmethod
    def fetch(self, ids: Sequence[Any]) -> Rows:
        """The rows with these ids, those that exist, in no particular order."""

    @abstractmethod
    def scan(self, batch: int | None = None) -> Iterator[Rows]:
        """All rows, in batches."""

    @abstractmethod
    def build_index(self) -> None:
        """Build the store's approximate inner-product index; searches without one are exact."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection, or the files."""

    # -- common to all stores -----------------------------------------------------------------------------------------

    def create(self, layout: Layout) -> None:
        """Create the table, or check that rows of this layout fit into the one that exists."""
        existing = self.layout()
        if existing is None:
            self._create(layout)
        else:
            self._check(existing, layout)

    def _check(self, existing: Layout, layout: Layout) -> None:
        """Raise if rows of this layout do not fit into the table."""
        held, rows = (
            f"the table {self.table!r} holds vectors of width {existing.width}",
            f"the rows have {layout.width}",
        )
        if existing.width != layout.width:
            raise LikewiseError(f"{held}; {rows}")
        if existing.ids != layout.ids:
            words = {"int": "integers", "float": "numbers", "text": "words"}
            held = f"the ids of the table {self.table!r} are {words[existing.ids]}"
            raise LikewiseError(f"{held}; the rows have {words[layout.ids]}")
        missing = [name for name in layout.metadata if name not in existing.metadata]
        if missing:
            raise LikewiseError(
                f"the table {self.table!r} has no column {missing[0]!r}: add it, or choose another table"
            )

    def _staging(self) -> Self:
        """The table for the vectors of another model, which need not exist."""
        return self._at(f"{self.table}_next")

    def _previous(self) -> Self:
        """The table that the last `swap` replaced, which need not exist."""
        return self._at(f"{self.table}_before")

    def _metadata(self, names: Iterable[str]) -> list[str]:
        """The columns that hold metadata; raises where there is no id or no vector."""
        table, column = self._nouns
        for name in (self.id_column, self.vector_column):
            if name not in names:
                listed = ", ".join(names)
                raise LikewiseError(f"the {table} {self.table!r} has no {column} {name!r}; it has {listed}")
        return [name for name in names if name not in (self.id_column, self.vector_column, EXPORT)]

    def upsert(
        self,
        ids: Sequence[Any],
        vectors: Any,
        metadata: dict[str, Sequence[Any]] | None = None,
        *,
        tags: Sequence[str | None] | None = None,
    ) -> None:
        """Insert rows, or replace those with the same ids, in one transaction per batch."""
        rows = Rows(_plain(ids), np.asarray(vectors, np.float32), {k: _plain(v) for k, v in (metadata or {}).items()})
        if rows.vectors.ndim != 2 or len(rows.vectors) != len(rows):
            raise LikewiseError(f"vectors has shape {rows.vectors.shape}; expected one row for each of {len(rows)} ids")
        if not np.isfinite(rows.vectors).all():
            raise LikewiseError("vectors has NaN or infinity; expected finite numbers")
        for name, column in rows.metadata.items():
            if len(column) != len(rows):
                raise LikewiseError(f"metadata has {len(column)} values of {name!r}; expected {len(rows)}, one per id")
        for value in chain(rows.ids, *rows.metadata.values()):  # databases hold text in UTF-8, most of them without NUL
            if isinstance(value, str) and not value.isprintable() and re.search("[\0\ud800-\udfff]", value):
                raise LikewiseError(f"{value!r} contains a NUL or an unpaired surrogate, which databases do not hold")
        for start in range(0, len(rows), self.batch):
            part = range(start, min(start + self.batch, len(rows)))
            self._upsert(rows.take(part), [None if tags is None else tags[row] for row in part])

    def remove(self, ids: Sequence[Any]) -> None:
        """Remove the rows with these ids, in one transaction per batch."""
        for start in range(0, len(ids), self.batch):
            self._remove(list(ids[start : start + self.batch]))

    def settle(self) -> None:  # noqa: B027 - most have nothing to do
        """Called after many changes; a store that has to tidy up or to wait does so."""

    def staged(self, layout: Layout) -> Self:
        """The table for the vectors of another model: what a killed export of this model left there, or empty."""
        other = self._staging()
        held = other.layout()
        if held is not None and (held.model != layout.model or layout.metadata.keys() - held.metadata.keys()):
            other._drop()
            held = None
        if held is None:
            other._create(layout)
        return other

    def rollback(self) -> None:
        """Exchange this table and the one that the last `swap` replaced; once more goes forward again."""
        previous = self._previous()
        if previous.layout() is None:
            raise LikewiseError(f"there is no table that {self.table!r} has replaced: nothing to go back to")
        self._restore(previous)

    def drop_previous(self) -> bool:
        """Remove the table that the last `swap` replaced; False if there is none."""
        previous = self._previous()
        if is_there := previous.layout() is not None:
            previous._drop()
        return is_there

    def card(self) -> dict[str, Any] | None:
        """The card of the model that the vectors are from; None if they are from no model."""
        return self.existing_layout().card

    def _check_tagged(self, columns: Iterable[str]) -> None:
        if EXPORT not in columns:
            raise LikewiseError(
                f"the table {self.table!r} was not made by likewise: it has no column {EXPORT}; choose another table"
            )

    def _at(self, table: str) -> Self:
        """Another table of the same store, over the same connection."""
        other = copy(self)
        other.table = table
        return other

    def search(self, Q: Any, k: int = 10, *, model: SimilarityModel | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Ids and inner products, both (n, k), best first, for query vectors; fewer where there are fewer rows.

        With a model, Q holds rows that it transforms, and vectors of another model are refused.
        """
        if model is not None:
            if (held := (self.card() or {"id": "no name"})["id"]) != model.identity:
                raise LikewiseError(
                    f"the table {self.table!r} holds vectors of the model {held}; the queries are of {model.identity}"
                )
            Q = model.transform_query(Q)
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise LikewiseError(f"k={k!r}; expected a whole number of at least 1")
        results = [list(hits) for hits in self._search(np.atleast_2d(np.asarray(Q, np.float32)), int(k))]
        least = min(map(len, results), default=0)
        names = [[name for name, _ in hits[:least]] for hits in results]
        ids = np.array(names)
        ids = ids if ids.dtype.kind in "iu" else np.array(names, dtype=object)
        return ids, np.array([[score for _, score in hits[:least]] for hits in results], np.float32)

    def existing_layout(self) -> Layout:
        """The columns of a table that must exist."""
        layout = self.layout()
        if layout is None:
            raise LikewiseError(f"there is no table {self.table!r}")
        return layout

    def __len__(self) -> int:
        return self.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AliasedStore(Store):
    """A store whose collections have aliases: `table` is one, `table_before` that of the one that was replaced.

    The collections themselves are `table_1` to `table_3`, of which one is always free.
    """

    @abstractmethod
    def _aliases(self) -> dict[str, str]:
        """The aliases and their tables."""

    @abstractmethod
    def _set_aliases(self, tables: Mapping[str, str]) -> None:
        """Let aliases name these tables."""

    def create(self, layout: Layout) -> None:
        """Create the table and its alias, or check that rows of this layout fit into the one that exists."""
        if self.layout() is None:
            self.swap(self.staged(layout))
        else:
            super().create(layout)

    def _staging(self) -> Self:
        aliases = self._aliases()
        used = {aliases.get(self.table), aliases.get(f"{self.table}_before")}
        return self._at(next(name for n in (1, 2, 3) if (name := f"{self.table}_{n}") not in used))

    def swap(self, staged: Self) -> None:
        """Let the alias name another table; the one kept before is removed."""
        before, aliases = f"{self.table}_before", self._aliases()
        current, outdated = aliases.get(self.table), aliases.get(before)
        if current is None and self.layout() is not None:
            raise LikewiseError(
                f"{self.table!r} is a collection and not an alias of one, so that vectors of another model cannot be "
                "swapped in; choose another table"
            )
        self._set_aliases({**({} if current is None else {before: current}), self.table: staged.table})
        if outdated not in (None, current, staged.table):
            self._at(str(outdated))._drop()

    def _previous(self) -> Self:
        before = f"{self.table}_before"
        return self._at(self._aliases().get(before, before))

    def _restore(self, previous: Self) -> None:
        current = self._aliases()[self.table]
        self._set_aliases({f"{self.table}_before": current, self.table: previous.table})


def card_of_text(text: str | None) -> dict[str, Any] | None:
    """The card of a model in the description of a table; None for any other text."""
    try:
        card = json.loads(text or "")
    except ValueError:
        return None
    return card if isinstance(card, dict) and isinstance(card.get("id"), str) else None


def kind_of_values(values: Iterable[Any]) -> Kind:
    """The kind of a column by all its values; what is neither all integers nor all numbers is text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {int}:
        return "int"
    return "float" if kinds and kinds <= {int, float} else "text"


def of_kind(values: list[Any], kind: Kind) -> list[Any]:
    """Values of a column; those of a text column as text."""
    return [v if v is None or isinstance(v, str) else str(v) for v in values] if kind == "text" else values


def reason_of(error: Exception) -> str:
    """The first line of an error's text, or its class."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _plain(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


# -- Arrow's record batches, for Parquet, Arrow files and LanceDB ------------------------------------------------------


def schema(layout: Layout, id_column: str = "id", vector_column: str = "vector", *extra: str) -> Any:
    """Ids, vectors as lists of one width, and metadata; `extra` columns are text; with the card of the model."""
    pa = optional("pyarrow", "Arrow and Parquet", "parquet")
    kinds = {"int": pa.int64(), "float": pa.float64(), "text": pa.string()}
    columns = [(id_column, kinds[layout.ids]), (vector_column, pa.list_(pa.float32(), layout.width))]
    columns += [(name, kinds[kind]) for name, kind in layout.metadata.items()]
    card = None if layout.card is None else {"likewise": json.dumps(layout.card)}
    return pa.schema([*columns, *((name, pa.string()) for name in extra)], metadata=card)


def record_batch(rows: Rows, of: Any, **extra: Any) -> Any:
    """Rows of a schema; `extra` has more columns."""
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(rows.vectors, np.float32).ravel())
    columns = {**rows.metadata, **extra}
    vectors = pa.FixedSizeListArray.from_arrays(flat, type=of.field(1).type)
    rest = [pa.array(columns.get(field.name, [None] * len(rows)), field.type) for field in list(of)[2:]]
    return pa.record_batch([pa.array(rows.ids, of.field(0).type), vectors, *rest], schema=of)


def kind_of_type(type_: Any) -> Kind:
    """The kind of an Arrow type; all but numbers is text."""
    import pyarrow as pa

    return "int" if pa.types.is_integer(type_) else "float" if pa.types.is_floating(type_) else "text"


# -- Addresses: `postgresql://…`, `qdrant:PATH`, `lancedb:PATH` and `milvus:PATH`; servers as `qdrant:http://…` --------


SCHEMES = ("postgresql", "qdrant", "lancedb", "milvus")
_PASSWORD = re.compile(r"(?<=://)([^/?#@:]*):.*@|((?:password|passfile|sslpassword)=)[^&\s]*", re.IGNORECASE)


def scheme_of(address: str) -> str | None:
    """The kind of store that an address names; None for anything else, such as a file."""
    scheme = "postgresql" if address == "postgres" or address.startswith("postgres:") else address.partition(":")[0]
    return scheme if scheme in SCHEMES else None


def without_password(address: str) -> str:
    """An address to print: its password is replaced by stars."""
    return _PASSWORD.sub(lambda match: f"{match[1]}:***@" if match[2] is None else f"{match[2]}***", address)


def open_store(address: str, table: str = "likewise", *, id_column: str = "id", vector_column: str = "vector") -> Store:
    """Open a table of a store, which need not exist yet.

    A server of Qdrant takes its key from QDRANT_API_KEY, one of Milvus its token from MILVUS_TOKEN, and PostgreSQL
    what libpq takes: PGPASSWORD or ~/.pgpass.
    """
    scheme, place = scheme_of(address), address.partition(":")[2]
    columns = {"id_column": id_column, "vector_column": vector_column}
    if not table:
        raise LikewiseError("table is empty; expected the name of a table or collection")
    if scheme is None or not place:
        raise LikewiseError(
            f"{without_password(address)} is not a store; expected postgresql://…, qdrant:, lancedb: or milvus:"
        )
    if scheme == "postgresql":
        from likewise.search.stores.postgres import PostgresStore

        return PostgresStore(address, table, **columns)
    if scheme == "qdrant":
        from likewise.search.stores.qdrant import QdrantStore

        return QdrantStore(place, table, api_key=os.environ.get("QDRANT_API_KEY"), **columns)
    if scheme == "lancedb":
        from likewise.search.stores.lance import LanceStore

        return LanceStore(place, table, **columns)
    from likewise.search.stores.milvus import MilvusStore

    return MilvusStore(place, table, token=os.environ.get("MILVUS_TOKEN", ""), **columns)
