"""Databases that hold the vectors of an index: PostgreSQL with pgvector, Qdrant, LanceDB and Milvus, one contract."""

from likewise.search.stores.base import Layout, Rows, Store, open_store
from likewise.search.stores.exporting import Exported, export_to, pull

__all__ = ["Exported", "Layout", "Rows", "Store", "export_to", "open_store", "pull"]
