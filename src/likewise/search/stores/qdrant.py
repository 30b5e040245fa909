"""Qdrant: a collection with the dot product, in a folder or on a server."""

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from likewise.errors import LikewiseError, optional
from likewise.search.stores.base import (
    EXPORT,
    Layout,
    Rows,
    Store,
    check_fits,
    kind_of_values,
    reason_of,
    without_password,
)

_NAMESPACE = uuid.UUID("5f1c1f0e-3f0b-5c6e-9a53-6c1b7f6a2d11")  # any, but always the same
_SAMPLE = 1000  # points whose payloads say what the columns are: a collection has no schema


class QdrantStore(Store):
    """A collection of Qdrant. Points are named by integers, or by UUIDs made of ids, which are in the payload."""

    batch: ClassVar[int] = 500

    def __init__(self, place: str, table: str = "likewise", *, api_key: str | None = None, **columns: str) -> None:
        super().__init__(table, **columns)
        self._models = optional("qdrant_client.models", "Qdrant", "qdrant")
        self._client = _connected(place, api_key)

    def layout(self) -> Layout | None:
        """The columns of the collection; None if there is no such collection."""
        if not self._call("collection_exists", self.table):
            return None
        vectors = self._call("get_collection", self.table).config.params.vectors
        vector = vectors.get(self.vector_column) if isinstance(vectors, dict) else vectors
        if vector is None:
            raise LikewiseError(f"the collection {self.table!r} has no dense vector {self.vector_column!r}")
        if vector.distance != self._models.Distance.DOT:
            raise LikewiseError(
                f"the collection {self.table!r} ranks by {vector.distance.value}, which would change the length of "
                "vectors; expected Dot"
            )
        return self._sampled(int(vector.size))

    def create(self, layout: Layout) -> None:
        """Create the collection, or check that rows of this layout fit; payloads take any column."""
        existing = self.layout()
        if existing is None:
            self._create(layout)
        else:
            check_fits(self.table, existing, Layout(layout.width, layout.ids if self.count() else existing.ids))

    def _create(self, layout: Layout) -> None:
        vectors = self._models.VectorParams(size=layout.width, distance=self._models.Distance.DOT)
        exact = self._models.HnswConfigDiff(m=0)  # no graph until build_index: all points are scored
        self._call("create_collection", self.table, vectors_config=vectors, hnsw_config=exact)

    def _upsert(self, rows: Rows, export: str | None) -> None:
        points = self._models.Batch(
            ids=[_point(name) for name in rows.ids],
            vectors=rows.vectors.tolist(),
            payloads=[self._payload(rows, row, export) for row in range(len(rows))],
        )
        self._call("upsert", self.table, points=points, wait=True)

    def written(self, ids: Sequence[Any], export: str) -> set[Any]:
        """Those of the ids whose rows this export has written already."""
        points = [_point(name) for name in ids]
        stored = self._call("retrieve", self.table, ids=points, with_payload=[self.id_column, EXPORT])
        return {point.payload[self.id_column] for point in stored if point.payload.get(EXPORT) == export}

    def prune(self, export: str) -> int:
        """Remove the rows of other exports and return their number; rows of no export stay."""
        m = self._models
        ours = m.IsEmptyCondition(is_empty=m.PayloadField(key=EXPORT))
        other = m.Filter(must_not=[ours, m.FieldCondition(key=EXPORT, match=m.MatchValue(value=export))])
        n_removed = int(self._call("count", self.table, count_filter=other, exact=True).count)
        if n_removed:
            self._call("delete", self.table, points_selector=m.FilterSelector(filter=other), wait=True)
        return n_removed

    def count(self) -> int:
        """Number of points."""
        return int(self._call("count", self.table, exact=True).count)

    def _search(self, Q: np.ndarray, k: int) -> Iterable[Sequence[tuple[Any, float]]]:
        self.existing_layout()
        vectors = self._call("get_collection", self.table).config.params.vectors
        options = {"limit": k, "with_payload": [self.id_column]}
        options["using"] = self.vector_column if isinstance(vectors, dict) else None  # a dict: several named vectors
        for q in Q:
            points = self._call("query_points", self.table, query=q.tolist(), **options).points
            yield [(self._id(point), point.score) for point in points]

    def fetch(self, ids: Sequence[Any]) -> Rows:
        """The rows with these ids, those that exist, in no particular order."""
        width = self.existing_layout().width
        points = [_point(name) for name in ids]
        return self._rows(self._call("retrieve", self.table, ids=points, with_payload=True, with_vectors=True), width)

    def scan(self, batch: int | None = None) -> Iterator[Rows]:
        """All rows, in batches."""
        width, after = self.existing_layout().width, None
        while True:
            options = {"limit": batch or self.batch, "offset": after, "with_payload": True, "with_vectors": True}
            points, after = self._call("scroll", self.table, **options)
            if points:
                yield self._rows(points, width)
            if after is None:
                return

    def build_index(self) -> None:
        """An HNSW graph, which a server builds; in a folder all points are scored, always."""
        self.existing_layout()
        self._call("update_collection", self.table, hnsw_config=self._models.HnswConfigDiff(m=16))

    def close(self) -> None:
        """Close the connection, or the files."""
        self._client.close()

    def _payload(self, rows: Rows, row: int, export: str | None) -> dict[str, Any]:
        payload = {name: column[row] for name, column in rows.metadata.items()}
        return {**payload, self.id_column: rows.ids[row], **({} if export is None else {EXPORT: export})}

    def _sampled(self, width: int) -> Layout:
        """The columns of some payloads."""
        points, _ = self._call("scroll", self.table, limit=_SAMPLE, with_payload=True)
        names = dict.fromkeys(
            name for point in points for name in point.payload if name not in (self.id_column, EXPORT)
        )
        kinds = {name: kind_of_values(point.payload.get(name) for point in points) for name in names}
        return Layout(width, kind_of_values(map(self._id, points)), kinds)

    def _rows(self, points: Sequence[Any], width: int) -> Rows:
        names = dict.fromkeys(name for p in points for name in p.payload if name not in (self.id_column, EXPORT))
        vectors = [p.vector[self.vector_column] if isinstance(p.vector, dict) else p.vector for p in points]
        metadata = {name: [p.payload.get(name) for p in points] for name in names}
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


def _point(name: Any) -> int | str:
    """A point's own id: Qdrant takes only whole numbers that are not negative, and UUIDs."""
    return name if isinstance(name, int) and name >= 0 else str(uuid.uuid5(_NAMESPACE, str(name)))


def _connected(place: str, api_key: str | None) -> Any:
    from qdrant_client import QdrantClient

    try:
        if "://" in place:
            return QdrantClient(url=place, api_key=api_key)
        return QdrantClient(path=os.fspath(place))
    except Exception as error:  # as above; a folder in use by another process is a RuntimeError
        reason = without_password(reason_of(error))
        raise LikewiseError(f"cannot open Qdrant at {without_password(place)}: {reason}") from error
