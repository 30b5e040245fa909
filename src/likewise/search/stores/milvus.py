"""Milvus: a collection with the inner product, on a server or in a file of milvus-lite."""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from likewise.errors import LikewiseError, optional
from likewise.search.stores import base
from likewise.search.stores.base import EXPORT, AliasedStore, Kind, Layout, Rows, card_of_text, reason_of

_PATIENCE = 600.0  # seconds to wait for an index to be built
_ID, _TEXT = 1024, 65_535  # bytes of the longest id, and of the longest value that a field can have
_INDEX = "vector"


class MilvusStore(AliasedStore):
    """A collection of Milvus, loaded and ready to search."""

    _nouns: ClassVar[tuple[str, str]] = ("collection", "field")

    def __init__(
        self, place: str | os.PathLike[str], table: str = "likewise", *, token: str = "", **columns: str
    ) -> None:
        super().__init__(table, **columns)
        place, pymilvus = os.fspath(place), optional("pymilvus", "Milvus", "milvus")
        try:
            self.client = pymilvus.MilvusClient(uri=place, token=token)
        except (pymilvus.MilvusException, OSError) as error:
            place, reason = (base.without_password(text) for text in (place, reason_of(error)))
            raise LikewiseError(f"cannot reach Milvus at {place}: {reason}") from error
        self._load()

    def _load(self) -> None:
        if self.client.has_collection(self.table):
            self._call("load_collection", self.table)

    def _at(self, table: str) -> Self:
        other = super()._at(table)
        other._load()
        return other

    def layout(self) -> Layout | None:
        if not self.client.has_collection(self.table):
            return None
        description = self._call("describe_collection", self.table)
        fields = {field["name"]: field for field in description["fields"]}
        metadata = {name: _kind(fields[name]) for name in self._metadata(fields)}
        names = self._call("list_indexes", self.table, field_name=self.vector_column)
        metrics = {(self._call("describe_index", self.table, name) or {}).get("metric_type", "IP") for name in names}
        if metrics - {"IP"}:
            ranks = f"the collection {self.table!r} ranks by {metrics.pop()}"
            raise LikewiseError(f"{ranks}, which would change the length of vectors; expected IP")
        card = card_of_text(description["properties"].get("likewise"))
        return Layout(int(fields[self.vector_column]["params"]["dim"]), _kind(fields[self.id_column]), metadata, card)

    def _create(self, layout: Layout) -> None:
        """A collection with an exact index, which gives the same results as `Index`."""
        from pymilvus import DataType

        kinds = {"int": DataType.INT64, "float": DataType.DOUBLE, "text": DataType.VARCHAR}
        schema = self.client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(self.id_column, kinds[layout.ids], is_primary=True, **_limit(layout.ids, _ID))
        schema.add_field(self.vector_column, DataType.FLOAT_VECTOR, dim=layout.width)
        for name, kind in {**layout.metadata, EXPORT: "text"}.items():
            schema.add_field(name, kinds[kind], nullable=True, **_limit(kind, _TEXT))
        card = {} if layout.card is None else {"likewise": json.dumps(layout.card)}
        self._call(
            "create_collection", self.table, schema=schema, index_params=self._parameters("FLAT"), properties=card
        )

    def _upsert(self, rows: Rows, tags: list[str | None]) -> None:
        layout = self.existing_layout()
        columns = {self.id_column: rows.ids, self.vector_column: rows.vectors.tolist(), **rows.metadata}
        columns = {name: base.of_kind(column, layout.metadata.get(name, "int")) for name, column in columns.items()}
        if any(field["name"] == EXPORT for field in self._call("describe_collection", self.table)["fields"]):
            columns[EXPORT] = tags
        data = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        self._call("upsert", self.table, data=data)

    def tags(self) -> dict[Any, str]:
        rows = self._query(f"{EXPORT} is not null", [self.id_column, EXPORT])
        return {row[self.id_column]: row[EXPORT] for row in rows}

    def _remove(self, ids: list[Any]) -> None:
        self._call("delete", self.table, filter=self._one_of(ids))

    def _aliases(self) -> dict[str, str]:
        names = [name for name in (self.table, f"{self.table}_before") if self.client.has_collection(name)]
        tables = {name: self._call("describe_collection", name)["collection_name"] for name in names}
        return {name: table for name, table in tables.items() if name != table}

    def _set_aliases(self, tables: Mapping[str, str]) -> None:
        existing = self._aliases()
        for alias, table in tables.items():
            self._call("alter_alias" if alias in existing else "create_alias", table, alias)

    def count(self) -> int:
        self.existing_layout()
        return int(self._query("", ["count(*)"])[0]["count(*)"])

    def _search(self, Q: np.ndarray, k: int) -> Iterable[Sequence[tuple[Any, float]]]:
        self.existing_layout()
        options = {"search_params": {"metric_type": "IP"}, "consistency_level": "Strong", "limit": k}
        results = self._call("search", self.table, data=list(Q), anns_field=self.vector_column, **options)
        return [[(hit[self.id_column], hit["distance"]) for hit in hits] for hits in results]

    def fetch(self, ids: Sequence[Any]) -> Rows:
        layout = self.existing_layout()
        records = self._query(self._one_of(ids), [self.id_column, self.vector_column, *layout.metadata]) if ids else []
        metadata = {name: [row.get(name) for row in records] for name in layout.metadata}
        V = np.array([row[self.vector_column] for row in records], np.float32).reshape(len(records), layout.width)
        return Rows([row[self.id_column] for row in records], V, metadata)

    def scan(self, batch: int | None = None) -> Iterator[Rows]:
        """All rows, in batches: first their ids, because milvus-lite does not list rows in the order of ids."""
        size = batch or self.batch
        everything = f'{self.id_column} != ""' if self.existing_layout().ids == "text" else f"{self.id_column} > -1e19"
        ids = [row[self.id_column] for row in self._query(everything, [self.id_column])]
        for start in range(0, len(ids), size):
            yield self.fetch(ids[start : start + size])

    def build_index(self) -> None:
        """An HNSW graph for inner products."""
        self.existing_layout()
        self._call("release_collection", self.table)
        self._call("drop_index", self.table, _INDEX)
        self._call("create_index", self.table, self._parameters("HNSW", params={"M": 16, "efConstruction": 200}))
        self._call("load_collection", self.table)
        self.settle()

    def settle(self) -> None:
        """Wait until the index is built; before that a search may miss rows."""
        until = time.monotonic() + _PATIENCE
        self._call("flush", self.table)
        while True:
            state = self._call("describe_index", self.table, _INDEX) or {}
            if str(state.get("state", "Finished")) in ("Finished", "3") and not state.get("pending_index_rows"):
                return
            if time.monotonic() > until:
                raise LikewiseError(f"Milvus did not finish the index of {self.table!r} in {_PATIENCE:.0f} s")
            time.sleep(0.2)

    def _drop(self) -> None:
        for alias in self._call("list_aliases", self.table)["aliases"]:
            self._call("drop_alias", alias)
        self._call("drop_collection", self.table)

    def close(self) -> None:
        """Close the connection to the server, or the file."""
        self.client.close()

    def _parameters(self, kind: str, **options: Any) -> Any:
        parameters = self.client.prepare_index_params()
        parameters.add_index(self.vector_column, index_name=_INDEX, index_type=kind, metric_type="IP", **options)
        return parameters

    def _query(self, condition: str, fields: list[str]) -> Any:
        return self._call("query", self.table, filter=condition, output_fields=fields, consistency_level="Strong")

    def _one_of(self, ids: Sequence[Any]) -> str:
        return f"{self.id_column} in {json.dumps(list(ids), ensure_ascii=False)}"

    def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """A call of the client; its errors become one sentence."""
        from pymilvus.exceptions import MilvusException

        try:
            return getattr(self.client, name)(*arguments, **options)
        except MilvusException as error:
            raise LikewiseError(f"Milvus, collection {self.table!r}: {reason_of(error)}") from error


def _limit(kind: Kind, most: int) -> dict[str, int]:
    return {"max_length": most} if kind == "text" else {}


def _kind(field: Any) -> Kind:
    from pymilvus import DataType

    if field["type"] in (DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64):
        return "int"
    return "float" if field["type"] in (DataType.FLOAT, DataType.DOUBLE) else "text"
