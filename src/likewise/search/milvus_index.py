"""The same search in a Milvus collection: on a server, or in a file with milvus-lite."""

import os
from typing import Any, Self

import numpy as np

from likewise.errors import LikewiseError
from likewise.learn.base import SimilarityModel
from likewise.search.index import Index
from likewise.search.stores.base import Store, as_ids
from likewise.search.stores.exporting import batches, export_to, metadata_of
from likewise.search.stores.milvus import MilvusStore


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
        self.store = MilvusStore(uri, collection, token=token)
        found = self.store.layout()
        if found is None:
            raise LikewiseError(f"{os.fspath(uri)} has no collection {collection!r}: build it first")
        if found.width != model._n_features_out:
            raise LikewiseError(
                f"the collection {collection!r} holds vectors of width {found.width}; "
                f"the model makes {model._n_features_out}"
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
        store = MilvusStore(uri, collection, token=token)
        if store.layout() is not None:
            if not overwrite:
                raise LikewiseError(f"{os.fspath(uri)} already has a collection {collection!r}: set overwrite=True")
            store.drop()
        export_to(index, store)
        return cls(model, uri, collection, token=token)

    @property
    def client(self) -> Any:
        """The client of pymilvus."""
        return self.store.client

    def search(self, queries: Any, k: int = 10, *, filter: str = "") -> tuple[np.ndarray, np.ndarray]:
        """Ids and scores, both (n, k), best first; `filter` is a Milvus expression on `label` or `path`."""
        if k < 1:
            raise LikewiseError(f"k={k!r}; expected a whole number of at least 1")
        Q = np.asarray(self.model.transform_query(np.atleast_2d(np.asarray(queries, np.float32))), np.float32)
        hits = self.store.search_where(Q, int(k), filter)
        least = min(map(len, hits), default=0)
        ids = as_ids([[name for name, _ in found[:least]] for found in hits])
        return ids, np.array([[score for _, score in found[:least]] for found in hits], np.float32)

    def add(self, rows: Any, items: Any) -> None:
        """Add raw rows; `items` holds their ids, because a collection does not say which ids are free."""
        if items is None:
            raise LikewiseError("items is None: expected the ids of the rows that are added")
        index = Index.build(self.model, np.atleast_2d(np.asarray(rows)), items)
        for batch in batches(index, metadata_of(index), Store.batch):
            self.store.upsert(batch.ids, batch.vectors, batch.metadata)  # type: ignore[arg-type]

    def remove(self, ids: Any) -> None:
        """Remove the items with these ids."""
        self.store.remove(np.atleast_1d(ids).tolist())

    def __len__(self) -> int:
        return self.store.count()

    def close(self) -> None:
        """Close the connection to the server, or the file."""
        self.store.close()
