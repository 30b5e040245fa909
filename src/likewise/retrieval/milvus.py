"""The same search in a Milvus collection: on a server, or in a file with milvus-lite."""

import os
import time
from typing import Any, Self

import numpy as np

from likewise.base import SimilarityModel
from likewise.errors import LikewiseError, MissingExtraError
from likewise.retrieval.index import Index

_BATCH = 1000
_PATIENCE = 600.0  # seconds to wait for an index to be built
_TEXT = 1024  # longest id, label or path


class MilvusIndex:
    """A gallery in a Milvus collection, searched by raw rows through a model.

    The collection holds the gallery side of the model under the inner-product metric (a cosine collection would
    normalise the vectors), with ids, labels and paths. From an `Index` with neighbours it holds the smoothed vectors;
    queries and rows added later stay plain.

    Examples
    --------
    >>> index = MilvusIndex.build(model, X, uri="photos.db")         # doctest: +SKIP
    >>> ids, scores = index.search(X[:5], k=10)                      # doctest: +SKIP
    >>> MilvusIndex(model, "http://milvus:19530", "likewise")        # doctest: +SKIP
    """

    def __init__(
        self, model: SimilarityModel, uri: str | os.PathLike[str], collection: str = "likewise", *, token: str = ""
    ) -> None:
        self.model = model
        self.collection = collection
        self.client = _client(uri, token)
        if not self.client.has_collection(collection):
            raise LikewiseError(f"{os.fspath(uri)} has no collection {collection!r}: build it first")
        self.client.load_collection(collection)
        fields = self.client.describe_collection(collection)["fields"]
        width = next(int(field["params"]["dim"]) for field in fields if field["name"] == "vector")
        if width != model._n_features_out:
            raise LikewiseError(
                f"the collection {collection!r} holds vectors of width {width}; the model makes {model._n_features_out}"
            )

    @classmethod
    def build(
        cls,
        model: SimilarityModel,
        gallery: Any,
        items: Any = None,
        *,
        uri: str | os.PathLike[str],
        collection: str = "likewise",
        token: str = "",
        overwrite: bool = False,
    ) -> Self:
        """Put a gallery, as `Index.build` takes it, or an `Index` itself, into a new collection."""
        index = gallery if isinstance(gallery, Index) else Index.build(model, gallery, items)
        client = _client(uri, token)
        if client.has_collection(collection):
            if not overwrite:
                raise LikewiseError(f"{os.fspath(uri)} already has a collection {collection!r}: set overwrite=True")
            client.drop_collection(collection)
        _create(client, collection, index)
        _insert(client, collection, index)
        _wait(client, collection)
        return cls(model, uri, collection, token=token)

    def search(self, queries: Any, k: int = 10, *, filter: str = "") -> tuple[np.ndarray, np.ndarray]:
        """Ids and scores, both (n, k), best first; `filter` is a Milvus expression on `label` or `path`."""
        if k < 1:
            raise LikewiseError(f"k={k!r}; expected a whole number of at least 1")
        Q = np.asarray(self.model.transform_query(np.atleast_2d(np.asarray(queries, np.float32))), np.float32)
        hits = self.client.search(
            self.collection,
            data=list(Q),
            anns_field="vector",
            limit=int(k),
            filter=filter,
            search_params={"metric_type": "IP"},
            consistency_level="Strong",
        )
        least = min((len(found) for found in hits), default=0)
        ids = np.array([[hit["id"] for hit in found[:least]] for found in hits])
        return ids, np.array([[hit["distance"] for hit in found[:least]] for found in hits], np.float32)

    def add(self, rows: Any, items: Any) -> None:
        """Add raw rows; `items` holds their ids, because a collection does not say which ids are free."""
        if items is None:
            raise LikewiseError("items is None: expected the ids of the rows that are added")
        index = Index.build(self.model, np.atleast_2d(np.asarray(rows)), items)
        _insert(self.client, self.collection, index)

    def remove(self, ids: Any) -> None:
        """Remove the items with these ids."""
        wanted = [value.item() if isinstance(value, np.generic) else value for value in np.atleast_1d(ids)]
        self.client.delete(self.collection, ids=wanted)

    def __len__(self) -> int:
        found = self.client.query(self.collection, output_fields=["count(*)"], consistency_level="Strong")
        return int(found[0]["count(*)"])

    def close(self) -> None:
        """Close the connection to the server, or the file."""
        self.client.close()


def _client(uri: str | os.PathLike[str], token: str) -> Any:
    try:
        from pymilvus import MilvusClient
        from pymilvus.exceptions import MilvusException
    except ImportError as error:
        raise MissingExtraError("Milvus", "milvus") from error
    try:
        return MilvusClient(uri=os.fspath(uri), token=token)
    except (MilvusException, OSError) as error:
        raise LikewiseError(f"cannot reach Milvus at {os.fspath(uri)}: {str(error).splitlines()[0]}") from error


def _create(client: Any, collection: str, index: Index) -> None:
    """A collection with an exact inner-product index, which gives the same results as `Index`."""
    from pymilvus import DataType

    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    if index.ids.dtype.kind == "i":
        schema.add_field("id", DataType.INT64, is_primary=True)
    else:
        schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=_TEXT)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=index.vectors.shape[1])
    for name in ("label", "path"):
        schema.add_field(name, DataType.VARCHAR, max_length=_TEXT)
    parameters = client.prepare_index_params()
    parameters.add_index("vector", index_name="vector", index_type="FLAT", metric_type="IP")
    client.create_collection(collection, schema=schema, index_params=parameters)


def _insert(client: Any, collection: str, index: Index) -> None:
    for start in range(0, len(index), _BATCH):
        rows = range(len(index))[start : start + _BATCH]
        client.insert(collection, data=[_entity(index, row) for row in rows])


def _entity(index: Index, row: int) -> dict[str, Any]:
    label = None if index.labels is None else index.labels[row]
    path = None if index.paths is None else index.paths[row]
    return {
        "id": index.ids[row].item() if index.ids.dtype.kind == "i" else index.ids[row],
        "vector": index.vectors[row].tolist(),
        "label": "" if label is None else str(label),
        "path": "" if path is None else str(path),
    }


def _wait(client: Any, collection: str) -> None:
    """Wait until the index is built; before that a search may miss rows."""
    until = time.monotonic() + _PATIENCE
    client.flush(collection)
    while True:
        state = client.describe_index(collection, "vector") or {}
        if str(state.get("state", "Finished")) in ("Finished", "3") and not state.get("pending_index_rows"):
            return
        if time.monotonic() > until:
            raise LikewiseError(f"Milvus did not finish the index of {collection!r} in {_PATIENCE:.0f} s")
        time.sleep(0.2)
