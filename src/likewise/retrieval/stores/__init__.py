"""Databases that hold the vectors of an index: PostgreSQL with pgvector, Qdrant, LanceDB and Milvus, one contract."""

from likewise.retrieval.stores.address import open_store
from likewise.retrieval.stores.base import Layout, Rows, Store
from likewise.retrieval.stores.exporting import Exported, export_to
from likewise.retrieval.stores.pulling import pull

__all__ = ["Exported", "Layout", "Rows", "Store", "export_to", "open_store", "pull"]
