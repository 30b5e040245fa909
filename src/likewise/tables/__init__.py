"""Reading what people have: `.npz`, `.npy` + labels, `.csv`, `.parquet`, svmlight, folders of features, stdin."""

import warnings
from importlib import import_module
from typing import Any

from likewise.tables.reading import read_labels, read_table
from likewise.tables.table import Table

__all__ = ["Table", "read_labels", "read_table"]


def __getattr__(name: str) -> Any:
    """`read_relevance` moved to `likewise.data`."""
    if name != "read_relevance":
        raise AttributeError(f"module 'likewise.tables' has no attribute {name!r}")
    warnings.warn(
        "likewise.tables.read_relevance is now likewise.data.read_relevance", DeprecationWarning, stacklevel=2
    )
    return import_module("likewise.data").read_relevance
