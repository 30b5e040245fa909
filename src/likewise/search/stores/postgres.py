"""PostgreSQL with pgvector: inner products by `<#>`, which is their negative, and HNSW by `vector_ip_ops`."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np

from likewise.errors import LikewiseError, optional
from likewise.search.stores.base import EXPORT, Kind, Layout, Rows, Store, card_of_text, reason_of, without_password

_TYPES = {"int": "bigint", "float": "double precision", "text": "text"}
_COPIED = {"int": "int8", "float": "float8", "text": "text"}
_INTEGERS, _NUMBERS = ("bigint", "integer", "smallint"), ("real", "double precision")
_INCOMING = "likewise_incoming"  # a temporary table
_MOST_INDEXED = 2000  # columns of an HNSW index of pgvector
_LEAST_EF, _MOST_EF = 100, 1000  # candidates of an HNSW search: pgvector returns no more rows than these


class PostgresStore(Store):
    """A table of PostgreSQL; `table` may be `schema.table`, and any name is quoted."""

    batch: ClassVar[int] = 5000

    def __init__(self, address: str, table: str = "likewise", **columns: str) -> None:
        super().__init__(table, **columns)
        self.sql = optional("psycopg.sql", "PostgreSQL", "postgres")
        self.address = without_password(address)
        psycopg = optional("psycopg", "PostgreSQL", "postgres")
        try:
            self._connection = psycopg.connect(address, autocommit=True)
        except psycopg.OperationalError as error:
            reason = without_password((str(error).strip().splitlines() or [""])[-1])
            raise LikewiseError(f"cannot reach PostgreSQL at {self.address}: {reason}") from error
        except psycopg.Error:  # its text may quote the address, and with it the password
            expected = "expected postgresql://user@host/database"
            raise LikewiseError(f"{self.address} is not a PostgreSQL address; {expected}") from None

    def layout(self) -> Layout | None:
        columns = self._columns()
        if not columns:
            return None
        metadata = {name: _kind(columns[name]) for name in self._metadata(columns)}
        with self._cursor() as cursor:
            (text,) = cursor.execute(_DESCRIPTION, (self._name.as_string(cursor),)).fetchone()
        width = self._width(columns[self.vector_column])
        return Layout(width, _kind(columns[self.id_column]), metadata, card_of_text(text))

    def create(self, layout: Layout) -> None:
        super().create(layout)
        self._check_tagged(self._columns())

    def _create(self, layout: Layout) -> None:
        columns = [self._column(self.id_column, f"{_TYPES[layout.ids]} PRIMARY KEY")]
        columns.append(self._column(self.vector_column, f"vector({layout.width}) NOT NULL"))
        columns += [self._column(name, _TYPES[kind]) for name, kind in layout.metadata.items()]
        columns.append(self._column(EXPORT, "text"))
        with self._cursor() as cursor:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
            cursor.execute(self._query("CREATE TABLE {table} ({columns})", columns=self.sql.SQL(", ").join(columns)))
            if layout.card is not None:
                card = self.sql.Literal(json.dumps(layout.card))
                cursor.execute(self._query("COMMENT ON TABLE {table} IS {card}", card=card))

    def _upsert(self, rows: Rows, tags: list[str | None]) -> None:
        columns = {self.id_column: rows.ids, self.vector_column: _sent(rows.vectors), **rows.metadata, EXPORT: tags}
        names = self.sql.SQL(", ").join(map(self.sql.Identifier, columns))
        layout = self.existing_layout()  # a vector is copied as its bytes
        known = {self.id_column: layout.ids, **layout.metadata, EXPORT: "text"}
        kinds = ["bytea" if name == self.vector_column else _COPIED[known[name]] for name in columns]
        changed = (self.sql.Identifier(name) for name in columns if name != self.id_column)
        changes = [self.sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in changed]
        with self._cursor() as cursor:
            cursor.execute(self._query(_STAGE))
            with cursor.copy(self._query("COPY {incoming} ({names}) FROM STDIN (FORMAT BINARY)", names=names)) as copy:
                copy.set_types(kinds)
                for row in zip(*columns.values(), strict=True):
                    copy.write_row(row)
            cursor.execute(self._query(_MERGE, names=names, id=self._id, changes=self.sql.SQL(", ").join(changes)))

    def tags(self) -> dict[Any, str]:
        self._check_tagged(self._columns())
        query = self._query("SELECT {id}, {export} FROM {table} WHERE {export} IS NOT NULL", id=self._id)
        with self._cursor() as cursor:
            return dict(cursor.execute(query).fetchall())

    def _remove(self, ids: list[Any]) -> None:
        with self._cursor() as cursor:
            cursor.execute(self._query("DELETE FROM {table} WHERE {id} = ANY(%s)", id=self._id), (ids,))

    def _drop(self) -> None:
        with self._cursor() as cursor:
            cursor.execute(self._query("DROP TABLE {table}"))

    def swap(self, staged: Self) -> None:
        """Rename both tables in one transaction; who may read or change this one may do so with the other."""
        before = self._previous()
        with self._cursor() as cursor:
            for role, right in cursor.execute(_RIGHTS, (self._name.as_string(cursor),)).fetchall():
                grant = self.sql.SQL("GRANT {} ON {} TO {}")
                cursor.execute(grant.format(self.sql.SQL(right), staged._name, self.sql.SQL(role)))
            cursor.execute(before._query("DROP TABLE IF EXISTS {table}"))
            cursor.execute(self._renamed(before))
            cursor.execute(staged._renamed(self))

    def _restore(self, previous: Self) -> None:
        other = self._at(f"{self.table}_next")
        with self._cursor() as cursor:
            cursor.execute(other._query("DROP TABLE IF EXISTS {table}"))
            for one, two in ((self, other), (previous, self), (other, previous)):
                cursor.execute(one._renamed(two))

    def _renamed(self, other: Self) -> Any:
        return self._query("ALTER TABLE {table} RENAME TO {other}", other=self.sql.Identifier(other._parts[-1]))

    def count(self) -> int:
        with self._cursor() as cursor:
            return int(cursor.execute(self._query("SELECT count(*) FROM {table}")).fetchone()[0])

    def _search(self, Q: np.ndarray, k: int) -> Iterable[Sequence[tuple[Any, float]]]:
        has_whole_ids = self.existing_layout().ids == "int"
        id_ = self._id if has_whole_ids else self._column(self.id_column, "::text")
        query = self._query(_SEARCH, id=id_, vector=self._vector)
        with self._cursor(binary=True) as cursor:
            if k > _MOST_EF:  # more than a graph gives: all rows are scored
                cursor.execute("SET LOCAL enable_indexscan = off")
            cursor.execute(f"SET LOCAL hnsw.ef_search = {min(max(_LEAST_EF, k), _MOST_EF)}")
            for q in Q:
                yield cursor.execute(query, {"q": _literal(q), "k": k}).fetchall()

    def fetch(self, ids: Sequence[Any]) -> Rows:
        layout = self.existing_layout()
        query = self._selection(layout) + self._query(" WHERE {id} = ANY(%s)", id=self._id)
        with self._cursor(binary=True) as cursor:
            return _received(cursor.execute(query, (list(ids),)).fetchall(), layout)

    def scan(self, batch: int | None = None) -> Iterator[Rows]:
        """All rows, in batches that a cursor of the server reads."""
        layout, size = self.existing_layout(), batch or self.batch
        with self._cursor(name="likewise", binary=True) as cursor:
            cursor.itersize = size
            rows = iter(cursor.execute(self._selection(layout)))
            while part := list(islice(rows, size)):
                yield _received(part, layout)

    def build_index(self) -> None:
        """An HNSW graph for inner products, unless there is one; PostgreSQL keeps it up to date."""
        width = self.existing_layout().width
        if width > _MOST_INDEXED:
            raise LikewiseError(f"vectors have {width} columns; an HNSW index of pgvector takes {_MOST_INDEXED}")
        with self._cursor() as cursor:
            if cursor.execute(_GRAPHS, (self._name.as_string(cursor),)).fetchone() is None:
                cursor.execute(self._query("CREATE INDEX ON {table} USING hnsw ({v} vector_ip_ops)", v=self._vector))

    def close(self) -> None:
        self._connection.close()

    # -- parts of statements ------------------------------------------------------------------------------------------

    @property
    def _parts(self) -> list[str]:
        return self.table.split(".", 1)

    @property
    def _name(self) -> Any:
        return self.sql.Identifier(*self._parts)

    @property
    def _id(self) -> Any:
        return self.sql.Identifier(self.id_column)

    @property
    def _vector(self) -> Any:
        return self.sql.Identifier(self.vector_column)

    def _query(self, text: str, **parts: Any) -> Any:
        names = {"table": self._name, "export": self.sql.Identifier(EXPORT), "incoming": self.sql.Identifier(_INCOMING)}
        return self.sql.SQL(text).format(**names, **parts)

    def _column(self, name: str, kind: str) -> Any:
        return self.sql.SQL("{} " + kind).format(self.sql.Identifier(name))

    def _selection(self, layout: Layout) -> Any:
        """All columns that are read; what is neither a number nor text is read as text."""
        kinds = {self.id_column: layout.ids, **layout.metadata}
        cast = {"int": "::bigint", "float": "::double precision", "text": "::text"}
        columns = [self._column(name, cast[kind]) for name, kind in kinds.items()]
        columns.insert(1, self._column(self.vector_column, "::vector"))
        return self._query("SELECT {columns} FROM {table}", columns=self.sql.SQL(", ").join(columns))

    # -- the connection -----------------------------------------------------------------------------------------------

    def _columns(self) -> dict[str, str]:
        """The type of each column as PostgreSQL spells it; nothing if there is no such table."""
        with self._cursor() as cursor:
            return dict(cursor.execute(_COLUMNS, (self._name.as_string(cursor),)).fetchall())

    def _width(self, kind: str) -> int:
        """The width of the vectors: by the type of their column, or by a row where the type does not say."""
        if (match := re.search(r"\((\d+)\)", kind)) is not None:
            return int(match[1])
        query = self._query(
            "SELECT vector_dims({v}::vector) FROM {table} WHERE {v} IS NOT NULL LIMIT 1", v=self._vector
        )
        with self._cursor() as cursor:
            row = cursor.execute(query).fetchone()
        return 0 if row is None else int(row[0])

    @contextmanager
    def _cursor(self, **options: Any) -> Iterator[Any]:
        """A cursor in one transaction; an error of the server is one sentence."""
        import psycopg

        try:
            with self._connection.transaction(), self._connection.cursor(**options) as cursor:
                yield cursor
        except psycopg.Error as error:
            raise LikewiseError(f"PostgreSQL, table {self.table!r}: {reason_of(error)}") from error


_COLUMNS = """SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_DESCRIPTION = "SELECT obj_description(to_regclass(%s), 'pg_class')"
_GRAPHS = """SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
WHERE indrelid = to_regclass(%s) AND amname = 'hnsw'"""
_RIGHTS = """SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END, privilege_type
FROM pg_class, aclexplode(relacl) WHERE pg_class.oid = to_regclass(%s) AND grantee <> relowner"""
# A temporary table that a batch is copied into; it is gone after each transaction.
_STAGE = "CREATE TEMPORARY TABLE {incoming} (LIKE {table}) ON COMMIT DROP"
_MERGE = """INSERT INTO {table} ({names}) SELECT {names} FROM {incoming}
ON CONFLICT ({id}) DO UPDATE SET {changes}"""
_SEARCH = """SELECT {id}, -({vector} <#> %(q)s::vector) FROM {table}
ORDER BY {vector} <#> %(q)s::vector LIMIT %(k)s"""


def _kind(spelling: str) -> Kind:
    return "int" if spelling in _INTEGERS else "float" if spelling in _NUMBERS else "text"


def _literal(q: np.ndarray) -> str:
    return "[" + ",".join(map(repr, q.tolist())) + "]"


def _sent(vectors: np.ndarray) -> list[bytes]:
    """Vectors as pgvector sends and receives them: the width, two bytes of nothing, and big-endian floats."""
    head = len(vectors[0]).to_bytes(2, "big") + b"\0\0"
    return [head + row.tobytes() for row in vectors.astype(">f4")]


def _received(rows: Sequence[tuple[Any, ...]], layout: Layout) -> Rows:
    ids, vectors, *rest = zip(*rows, strict=True) if rows else ([], [], *([] for _ in layout.metadata))
    V = np.frombuffer(b"".join(row[4:] for row in vectors), ">f4").astype(np.float32).reshape(len(ids), layout.width)
    return Rows(list(ids), V, dict(zip(layout.metadata, map(list, rest), strict=True)))
