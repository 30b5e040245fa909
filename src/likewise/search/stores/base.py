"""The contract of a store: a table of ids, vectors and metadata, searched by inner product."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Literal, Self

import numpy as np

from likewise.errors import LikewiseError

Kind = Literal["int", "float", "text"]
EXPORT = "likewise_export"  # the column that says which export wrote a row; empty for rows that we did not write


@dataclass(frozen=True)
class Rows:
    """A batch of rows: ids, vectors (n, r), and metadata columns with None where a value is unknown."""

    ids: list[Any]
    vectors: np.ndarray
    metadata: dict[str, list[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def without(self, ids: set[Any]) -> "Rows":
        """The rows whose ids are not among these."""
        if not ids:
            return self
        kept = [row for row, name in enumerate(self.ids) if name not in ids]
        metadata = {name: [column[row] for row in kept] for name, column in self.metadata.items()}
        return Rows([self.ids[row] for row in kept], self.vectors[kept], metadata)


@dataclass(frozen=True)
class Layout:
    """The columns of a table: the width of its vectors, the kind of its ids and of each metadata column."""

    width: int
    ids: Kind
    metadata: dict[str, Kind] = field(default_factory=dict)


class Store(ABC):
    """One table or collection; `upsert` writes a batch in one transaction, and again without harm.

    `id_column` and `vector_column` name the columns of a table that somebody else made.
    """

    batch: ClassVar[int] = 1000  # rows per transaction

    def __init__(self, table: str, id_column: str = "id", vector_column: str = "vector") -> None:
        self.table, self.id_column, self.vector_column = table, id_column, vector_column

    @abstractmethod
    def layout(self) -> Layout | None:
        """The columns of the table; None if there is no such table."""

    @abstractmethod
    def _create(self, layout: Layout) -> None:
        """Create the table."""

    @abstractmethod
    def _upsert(self, rows: Rows, export: str | None) -> None:
        """Insert rows, or replace those with the same ids, all or none."""

    @abstractmethod
    def written(self, ids: Sequence[Any], export: str) -> set[Any]:
        """Those of the ids whose rows this export has written already."""

    @abstractmethod
    def prune(self, export: str) -> int:
        """Remove the rows of other exports and return their number; rows of no export stay."""

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
            check_fits(self.table, existing, layout)

    def upsert(
        self,
        ids: Sequence[Any],
        vectors: Any,
        metadata: dict[str, Sequence[Any]] | None = None,
        *,
        export: str | None = None,
    ) -> None:
        """Insert rows, or replace those with the same ids, in one transaction per batch."""
        rows = Rows(_plain(ids), np.asarray(vectors, np.float32), {k: _plain(v) for k, v in (metadata or {}).items()})
        _check_rows(rows)
        for start in range(0, len(rows), self.batch):
            part = slice(start, start + self.batch)
            columns = {name: column[part] for name, column in rows.metadata.items()}
            self._upsert(Rows(rows.ids[part], rows.vectors[part], columns), export)

    def search(self, Q: Any, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Ids and inner products, both (n, k), best first, for query vectors; fewer where there are fewer rows."""
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise LikewiseError(f"k={k!r}; expected a whole number of at least 1")
        results = [list(hits) for hits in self._search(np.atleast_2d(np.asarray(Q, np.float32)), int(k))]
        least = min(map(len, results), default=0)
        ids = as_ids([[name for name, _ in hits[:least]] for hits in results])
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


def as_ids(values: Any) -> np.ndarray:
    """Lists of ids as an array of integers, or of Python strings."""
    array = np.array(values)
    return array if array.dtype.kind in "iu" else np.array(values, dtype=object)


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


def _check_rows(rows: Rows) -> None:
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


def check_fits(table: str, held: Layout, wanted: Layout) -> None:
    """Raise if rows of one layout do not fit into a table of another."""
    if held.width != wanted.width:
        raise LikewiseError(f"the table {table!r} holds vectors of width {held.width}; the rows have {wanted.width}")
    if held.ids != wanted.ids:
        words = {"int": "integers", "float": "numbers", "text": "words"}
        raise LikewiseError(f"the ids of the table {table!r} are {words[held.ids]}; the rows have {words[wanted.ids]}")
    missing = [name for name in wanted.metadata if name not in held.metadata]
    if missing:
        raise LikewiseError(f"the table {table!r} has no column {missing[0]!r}: add it, or choose another table")


# ---------------------------------------------------------------------------------------------------------------------
# Addresses: `postgresql://…`, `qdrant:PATH`, `lancedb:PATH` and `milvus:PATH`; servers as `qdrant:http://…`


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
