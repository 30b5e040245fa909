"""Reading what people have: `.npz`, `.npy` + labels, `.csv`, `.parquet`, svmlight, folders of features, stdin."""

from likewise.tables.labels import read_labels
from likewise.tables.reading import read_table
from likewise.tables.relevance import read_relevance
from likewise.tables.table import Table

__all__ = ["Table", "read_labels", "read_relevance", "read_table"]
