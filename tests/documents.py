"""A small Parquet of documents: ids, typed columns with missing values, and embeddings."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np

N = 60
TOPICS = ("space", "cars", "food")


def columns() -> dict[str, list[Any]]:
    """The columns of the documents, as Python values."""
    rows = range(N)
    return {
        "id": [f"doc-{7100 + row}" for row in rows],
        "title": [f"Title {row}" for row in rows],
        "text": [f"All about {TOPICS[row % 3]}, part {row}" for row in rows],
        "topic": [TOPICS[row % 3] for row in rows],
        "price": [None if row % 7 == 3 else 1.5 * row for row in rows],
        "size": [None if row % 11 == 5 else row // 2 for row in rows],
        "sold": [None if row % 5 == 4 else row % 2 == 0 for row in rows],
        "made on": [None if row % 9 == 8 else dt.date(2024, 1, 1) + dt.timedelta(days=row) for row in rows],
        "url": [f"https://example.org/{row}" for row in rows],
    }


def embeddings() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N, 6)).astype(np.float32)


def write_parquet(path: Path, /, **changed: list[Any]) -> Path:
    """The documents with their embeddings as a Parquet file of several row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({**columns(), "embedding": embeddings().tolist(), **changed})
    pq.write_table(table, path, row_group_size=16)
    return path
