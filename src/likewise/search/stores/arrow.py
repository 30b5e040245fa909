"""Rows as Arrow's record batches, for Parquet, Arrow files and LanceDB."""

import json
from typing import Any

import numpy as np

from likewise.errors import optional
from likewise.search.stores.base import Kind, Layout, Rows, of_kind


def schema(layout: Layout, id_column: str = "id", vector_column: str = "vector", *extra: str) -> Any:
    """Ids, vectors as lists of one width, and metadata; `extra` columns are text; with the card of the model."""
    pa = optional("pyarrow", "Arrow and Parquet", "parquet")
    kinds = {"int": pa.int64(), "float": pa.float64(), "text": pa.string()}
    columns = [(id_column, kinds[layout.ids]), (vector_column, pa.list_(pa.float32(), layout.width))]
    columns += [(name, kinds[kind]) for name, kind in layout.metadata.items()]
    card = None if layout.card is None else {"likewise": json.dumps(layout.card)}
    return pa.schema([*columns, *((name, pa.string()) for name in extra)], metadata=card)


def record_batch(rows: Rows, of: Any, **extra: Any) -> Any:
    """Rows of a schema; `extra` has more columns."""
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(rows.vectors, np.float32).ravel())
    columns = {**rows.metadata, **extra}
    vectors = pa.FixedSizeListArray.from_arrays(flat, type=of.field(1).type)
    rest = [pa.array(columns.get(field.name, [None] * len(rows)), field.type) for field in list(of)[2:]]
    return pa.record_batch([pa.array(rows.ids, of.field(0).type), vectors, *rest], schema=of)


def rows_of(batch: Any, layout: Layout, id_column: str = "id", vector_column: str = "vector") -> Rows:
    """Rows of a record batch or table; vectors in lists of any kind."""
    import pyarrow as pa

    column = batch.column(batch.schema.get_field_index(vector_column))
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    flat = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    names = {name: batch.schema.get_field_index(name) for name in (id_column, *layout.metadata)}
    values = {
        name: of_kind(batch.column(number).to_pylist(), layout.metadata.get(name, layout.ids))
        for name, number in names.items()
    }
    ids = values.pop(id_column)
    return Rows(ids, flat.reshape(len(ids), layout.width), values)


def kind_of_type(type_: Any) -> Kind:
    """The kind of an Arrow type; all but numbers is text."""
    import pyarrow as pa

    return "int" if pa.types.is_integer(type_) else "float" if pa.types.is_floating(type_) else "text"
