"""Addresses of stores: `postgresql://…`, `qdrant:PATH`, `lancedb:PATH` and `milvus:PATH`; servers as `qdrant:http://…`."""

import os
import re

from likewise.errors import LikewiseError
from likewise.search.stores.base import Store

SCHEMES = ("postgresql", "qdrant", "lancedb", "milvus")
_PASSWORD = re.compile(r"(?<=://)([^/?#@:]*):.*@|((?:password|passfile|sslpassword)=)[^&\s]*", re.IGNORECASE)


def scheme_of(address: str) -> str | None:
    """The kind of store that an address names; None for anything else, such as a file."""
    scheme = "postgresql" if address == "postgres" or address.startswith("postgres:") else address.partition(":")[0]
    return scheme if scheme in SCHEMES else None


def without_password(address: str) -> str:
    """An address to print: its password is replaced by stars."""
    return _PASSWORD.sub(lambda found: f"{found[1]}:***@" if found[2] is None else f"{found[2]}***", address)


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
            f"{without_password(address)} is no store; expected postgresql://…, qdrant:, lancedb: or milvus:"
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
