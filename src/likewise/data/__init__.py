"""Rows and what is known of them, wherever they are: in memory, on disk, on a cluster, on a device."""

from likewise.data.relevance import Relevance
from likewise.data.relevance_files import read_relevance
from likewise.data.rows import Rows, open_rows
from likewise.data.shared_labels import SharedLabels

__all__ = ["Relevance", "Rows", "SharedLabels", "open_rows", "read_relevance"]
