"""Qdrant: a collection with the dot product, in a folder or on a server."""

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from likewise.errors import LikewiseError, optional
from likewise.search.stores.base import EXPORT, AliasedStore, Layout, Rows, kind_of_values, reason_of, without_password

_NAMESPACE = uuid.UUID("5f1c1f0e-3f0b-5c6e-9a53-6c1b7f6a2d11")  # any, but always the same
_SAMPLE = 1000  # points whose payloads say what the columns are: a collection has no schema


class QdrantStore(AliasedStore):
    """A collection of Qdrant. Points are named by integers, or by UUIDs made of ids, which are in the payload."""

    batch: ClassVar[int] = 500

    def __init__(self, place: str, table: str = "likewise", *, api_key: str | None = None, **columns: str) -> None:
        super().__init__(table, **columns)
        self._models = optional("qdrant_client.models", "Qdrant", "qdrant")
        client = optional("qdrant_client", "Qdrant", "qdrant").QdrantClient
        try:
            self._client = client(url=place, api_key=api_key) if "://" in place else client(path=os.fspath(place))
        except Exception as error:  # as in `_call`; a folder in use by another process is a RuntimeError
            place, reason = (without_password(text) for text in (place, reason_of(error)))
            raise LikewiseError(f"cannot open Qdrant at {place}: {reason}") from error

    def layout(self) -> Layout | None:
        if (checked := self._checked()) is None:
            return None
        points, _ = self._call("scroll", self.table, limit=_SAMPLE, with_payload=True)
        kinds = {name: kind_of_values(point.payload.get(name) for point in points) for name in self._columns(points)}
        ids = kind_of_values(map(self._id, points))
        return Layout(int(checked[1].size), ids, kinds, _card_in(checked[0]))

    def card(self) -> dict[str, Any] | None:
        checked = self._checked()
        return None if checked is None else _card_in(checked[0])

    def _checked(self) -> tuple[Any, Any] | None:
        """The configuration of the collection and of its vectors; None if there is no such collection."""
        if not self._call("collection_exists", self.table):
            return None
        config = self._call("get_collection", self.table).config
        vectors = config.params.vectors
        vector = vectors.get(self.vector_column) if isinstance(vectors, dict) else vectors
        if vector is None:
            raise LikewiseError(f"the collection {self.table!r} has no dense vector {self.vector_column!r}")
        if vector.distance != self._models.Distance.DOT:
            ranks = f"the collection {self.table!r} ranks by {vector.distance.value}"
            raise LikewiseError(f"{ranks}, which would change the length of vectors; expected Dot")
        return config, vector

    def _check(self, existing: Layout, layout: Layout) -> None:
        """Payloads take any column, and an empty collection ids of any kind."""
        super()._check(existing, Layout(layout.width, layout.ids if self.count() else existing.ids))

    def _create(self, layout: Layout) -> None:
        vectors = self._models.VectorParams(size=layout.width, distance=self._models.Distance.DOT)
        exact = self._models.HnswConfigDiff(m=0)  # no graph until build_index: all points are scored
        metadata = None if layout.card is None else {"likewise": layout.card}
        self._call("create_collection", self.table, vectors_config=vectors, hnsw_config=exact, metadata=metadata)
        self._write_batches()

    def _write_batches(self) -> None:
        """In a folder each point is a transaction of SQLite; its log is synchronised from time to time, not each time.

        A power cut may lose the last points, and the next export writes them again.
        """
        collections = getattr(getattr(self._client, "_client", None), "collections", {})
        storage = getattr(collections.get(self.table), "storage", None)
        if (connection := getattr(storage, "storage", None)) is not None:
            for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "wal_autocheckpoint=20000"):
                connection.execute(f"PRAGMA {pragma}")

    def _upsert(self, rows: Rows, tags: list[str | None]) -> None:
        columns = {**rows.metadata, self.id_column: rows.ids}
        payloads = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        for payload, tag in zip(payloads, tags, strict=True):
            payload |= {} if tag is None else {EXPORT: tag}
        names, vectors = [_point(name) for name in rows.ids], rows.vectors.tolist()
        points = self._models.Batch(ids=names, vectors=vectors, payloads=payloads)
        self._call("upsert", self.table, points=points, wait=True)

    def tags(self) -> dict[Any, str]:
        points = self._points(10 * self.batch, with_payload=[self.id_column, EXPORT])
        return {self._id(p): p.payload[EXPORT] for part in points for p in part if EXPORT in (p.payload or {})}

    def _remove(self, ids: list[Any]) -> None:
        points = self._models.PointIdsList(points=[_point(name) for name in ids])
        self._call("delete", self.table, points_selector=points, wait=True)

    def _drop(self) -> None:
        self._call("delete_collection", self.table)

    def _aliases(self) -> dict[str, str]:
        return {alias.alias_name: alias.collection_name for alias in self._call("get_aliases").aliases}

    def _set_aliases(self, tables: Mapping[str, str]) -> None:
        m, existing = self._models, self._aliases()
        changes = [m.DeleteAliasOperation(delete_alias=m.DeleteAlias(alias_name=n)) for n in tables if n in existing]
        for alias, table in tables.items():
            created = m.CreateAlias(alias_name=alias, collection_name=table)
            changes.append(m.CreateAliasOperation(create_alias=created))
        self._call("update_collection_aliases", change_aliases_operations=changes)

    def count(self) -> int:
        return int(self._call("count", self.table, exact=True).count)

    def _search(self, Q: np.ndarray, k: int) -> Iterable[Sequence[tuple[Any, float]]]:
        if (checked := self._checked()) is None:
            raise LikewiseError(f"there is no table {self.table!r}")
        is_named = isinstance(checked[0].params.vectors, dict)
        options = {"limit": k, "with_payload": [self.id_column], "using": self.vector_column if is_named else None}
        for q in Q:
            points = self._call("query_points", self.table, query=q.tolist(), **options).points
            yield [(self._id(point), point.score) for point in points]

    def fetch(self, ids: Sequence[Any]) -> Rows:
        width = self.existing_layout().width
        points = [_point(name) for name in ids]
        return self._rows(self._call("retrieve", self.table, ids=points, with_payload=True, with_vectors=True), width)

    def scan(self, batch: int | None = None) -> Iterator[Rows]:
        width = self.existing_layout().width
        for points in self._points(batch or self.batch, with_payload=True, with_vectors=True):
            yield self._rows(points, width)

    def _points(self, size: int, **options: Any) -> Iterator[Sequence[Any]]:
        after = None
        while True:
            points, after = self._call("scroll", self.table, limit=size, offset=after, **options)
            if points:
                yield points
            if after is None:
                return

    def build_index(self) -> None:
        """An HNSW graph, which a server builds; in a folder all points are scored, always."""
        self.existing_layout()
        self._call("update_collection", self.table, hnsw_config=self._models.HnswConfigDiff(m=16))

    def close(self) -> None:
        self._client.close()

    def _columns(self, points: Sequence[Any]) -> list[str]:
        """The names in the payloads of some points."""
        names = dict.fromkeys(name for point in points for name in point.payload)
        return [name for name in names if name not in (self.id_column, EXPORT)]

    def _rows(self, points: Sequence[Any], width: int) -> Rows:
        vectors = [p.vector[self.vector_column] if isinstance(p.vector, dict) else p.vector for p in points]
        metadata = {name: [p.payload.get(name) for p in points] for name in self._columns(points)}
        return Rows(list(map(self._id, points)), np.array(vectors, np.float32).reshape(len(points), width), metadata)

    def _id(self, point: Any) -> Any:
        """The id in the payload; the point's own where somebody else wrote it."""
        return point.payload.get(self.id_column, point.id)

    def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """A call of the client; its errors become one sentence."""
        try:
            return getattr(self._client, name)(*arguments, **options)
        except Exception as error:  # the client's errors have no common class but this one
            raise LikewiseError(f"Qdrant, collection {self.table!r}: {reason_of(error)}") from error


def _card_in(config: Any) -> dict[str, Any] | None:
    card = (getattr(config, "metadata", None) or {}).get("likewise")
    return card if isinstance(card, dict) and "id" in card else None


def _point(name: Any) -> int | str:
    """A point's own id: Qdrant takes only whole numbers that are not negative, and UUIDs."""
    return name if isinstance(name, int) and name >= 0 else str(uuid.uuid5(_NAMESPACE, str(name)))
