"""What comes in: tables in every format, feature stores, and files of labels, relevance and pairs."""

from likewise.rows.reading import read_labels, read_table
from likewise.rows.relevance import Relevance
from likewise.rows.relevance_files import read_relevance
from likewise.rows.store import FeatureStore, Item
from likewise.rows.table import Table

__all__ = [
    "FeatureStore", "Item", "Relevance", "Table", "read_labels", "read_relevance", "read_table",
]  # fmt: skip
