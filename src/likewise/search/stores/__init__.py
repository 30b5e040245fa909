"""Databases that hold the vectors of an index: PostgreSQL with pgvector, Qdrant, LanceDB and Milvus, one contract."""

from likewise.search.stores.address import open_store
from likewise.search.stores.base import Layout, Rows, Store
from likewise.search.stores.exporting import Exported, export_to
from likewise.search.stores.pulling import pull

__all__ = ["Exported", "Layout", "Rows", "Store", "export_to", "open_store", "pull"]
