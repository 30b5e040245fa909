"""Code that searches an existing column of raw rows by q @ M: the gallery is not written again."""

from likewise.errors import LikewiseError
from likewise.search.stores.address import SCHEMES

_NEEDED = {
    "postgresql": "psycopg",
    "qdrant": "from qdrant_client import QdrantClient",
    "lancedb": "lancedb",
    "milvus": "from pymilvus import MilvusClient",
}

_CALLS = {
    "postgresql": """\
# An index for inner products: CREATE INDEX ON {table} USING hnsw ({vector} vector_ip_ops)
SQL = {sql!r}
found = psycopg.connect({place!r}).execute(SQL, {{"q": str((q @ M).tolist()), "k": 10}}).fetchall()""",
    "qdrant": """\
# The collection must rank by Distance.DOT.
found = QdrantClient({place!r}).query_points({table!r}, query=(q @ M).tolist(), limit=10{using}).points""",
    "lancedb": """\
search = lancedb.connect({place!r}).open_table({table!r}).search(q @ M, vector_column_name={vector!r})
found = search.distance_type("dot").limit(10).to_list()""",
    "milvus": """\
# The collection must have the metric type IP.
found = MilvusClient({place!r}).search({table!r}, data=[q @ M], anns_field={vector!r}, limit=10)""",
}
_PLACES = {
    "postgresql": "postgresql://user@host/database",
    "qdrant": "http://localhost:6333",
    "lancedb": "items.lancedb",
    "milvus": "http://localhost:19530",
}


def query_map_code(
    scheme: str, source: str, table: str, *, id_column: str = "id", vector_column: str = "vector"
) -> str:
    """Python that searches the raw rows of a table by q @ M; `source` is the expression that gives M."""
    if scheme not in SCHEMES:
        raise LikewiseError(f"{scheme!r} is no store; expected {', '.join(SCHEMES)}")
    needed = _NEEDED[scheme]
    lines = [needed if needed.startswith("from") else f"import {needed}", "", f"M = {source}", "q = ...  # a raw row"]
    parts = {"place": _PLACES[scheme], "table": table, "vector": vector_column, "sql": ""}
    parts["using"] = "" if vector_column == "vector" else f", using={vector_column!r}"  # of a collection with several
    if scheme == "postgresql":
        parts |= {"table": _quoted(table), "vector": _quoted(vector_column)}
        parts["sql"] = search_sql(table, id_column, vector_column)
    return "\n".join([*lines, _CALLS[scheme].format(**parts)])


def search_sql(table: str, id_column: str = "id", vector_column: str = "vector") -> str:
    """The statement that ranks a column by inner products; pgvector's <#> is their negative."""
    v, name = _quoted(vector_column), _quoted(id_column)
    order = f"{v} <#> %(q)s::vector"
    # Printed, not run; names are quoted.
    return f"SELECT {name}, -({order}) AS score FROM {_quoted(table)} ORDER BY {order} LIMIT %(k)s"  # nosec B608


def _quoted(name: str) -> str:
    """An identifier of SQL; a dot is between the schema and the table, and % is doubled for psycopg."""
    return ".".join('"' + part.replace('"', '""').replace("%", "%%") + '"' for part in name.split(".", 1))
