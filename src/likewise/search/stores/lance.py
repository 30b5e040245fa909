"""LanceDB: a table in a folder. Its distance "dot" is 1 minus the inner product."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from likewise.errors import LikewiseError, optional
from likewise.search.stores import base
from likewise.search.stores.base import EXPORT, Layout, Rows, Store, card_of_text, reason_of


class LanceStore(Store):
    """A table of LanceDB; each batch is one version of it."""

    batch: ClassVar[int] = 5000

    def __init__(self, place: str, table: str = "likewise", **columns: str) -> None:
        super().__init__(table, **columns)
        lancedb = optional("lancedb", "LanceDB", "lancedb")
        self._database = self._explained(lambda: lancedb.connect(place))
        self._table = self._opened()

    def _opened(self) -> Any:
        if self.table not in self._explained(lambda: self._database.list_tables(limit=1_000_000).tables):
            return None
        return self._explained(lambda: self._database.open_table(self.table))

    def _at(self, table: str) -> Self:
        other = super()._at(table)
        other._table = other._opened()
        return other

    def layout(self) -> Layout | None:
        if self._table is None:
            return None
        fields = {field.name: field.type for field in self._table.schema}
        kinds = {name: base.kind_of_type(kind) for name, kind in fields.items()}
        metadata = {name: kinds[name] for name in self._metadata(fields)}
        card = card_of_text((self._table.schema.metadata or {}).get(b"likewise", b"").decode())
        return Layout(fields[self.vector_column].list_size, kinds[self.id_column], metadata, card)

    def create(self, layout: Layout) -> None:
        super().create(layout)
        self._check_tagged(self._table.schema.names)
        self._check_metric()

    def _create(self, layout: Layout) -> None:
        columns = base.schema(layout, self.id_column, self.vector_column, EXPORT)
        self._table = self._explained(lambda: self._database.create_table(self.table, schema=columns))

    def _upsert(self, rows: Rows, tags: list[str | None]) -> None:
        import pyarrow as pa

        columns = base.schema(self.existing_layout(), self.id_column, self.vector_column, EXPORT)
        batch = pa.Table.from_batches([base.record_batch(rows, columns, **{EXPORT: tags})])
        merge = self._table.merge_insert(self.id_column).when_matched_update_all().when_not_matched_insert_all()
        self._explained(lambda: merge.execute(batch))

    def tags(self) -> dict[Any, str]:
        self._check_tagged(self._table.schema.names)
        table = self._selected([self.id_column, EXPORT], f"{EXPORT} IS NOT NULL")
        return dict(zip(*(table[name].to_pylist() for name in (self.id_column, EXPORT)), strict=True))

    def _remove(self, ids: list[Any]) -> None:
        self._explained(lambda: self._table.delete(self._one_of(ids)))

    def settle(self) -> None:
        """Join the small files that batches leave."""
        self._explained(lambda: self._table.optimize())

    def _drop(self) -> None:
        self._explained(lambda: self._database.drop_table(self.table))

    def swap(self, staged: Self) -> None:
        """Overwrite this table by the other one, which is one new version of it, after a copy has been made."""
        self._previous()._become(self)
        self._become(staged)
        staged._drop()

    def _restore(self, previous: Self) -> None:
        other = self._at(f"{self.table}_next")
        other._become(self)
        self._become(previous)
        previous._become(other)
        other._drop()

    def _become(self, other: Self) -> None:
        """Overwrite this table by a copy of another one, with its index."""
        rows, columns = other._explained(other._table.search().to_batches), other._table.schema
        self._table = self._explained(
            lambda: self._database.create_table(self.table, rows, schema=columns, mode="overwrite")
        )
        if other._explained(other._table.list_indices):
            self.build_index()

    def count(self) -> int:
        self.existing_layout()
        return int(self._explained(lambda: self._table.count_rows()))

    def _search(self, Q: np.ndarray, k: int) -> Iterable[Sequence[tuple[Any, float]]]:
        self.existing_layout()
        self._check_metric()
        for q in Q:
            query = self._table.search(q, vector_column_name=self.vector_column).distance_type("dot")
            query = query.select([self.id_column, "_distance"]).limit(k)
            hits = self._explained(query.to_arrow)
            scores = 1 - hits["_distance"].to_numpy().astype(np.float64)
            yield list(zip(hits[self.id_column].to_pylist(), scores, strict=True))

    def fetch(self, ids: Sequence[Any]) -> Rows:
        layout = self.existing_layout()
        table = self._selected([self.id_column, self.vector_column, *layout.metadata], self._one_of(ids))
        return self._rows(table, layout)

    def scan(self, batch: int | None = None) -> Iterator[Rows]:
        layout = self.existing_layout()
        query = self._table.search().select([self.id_column, self.vector_column, *layout.metadata])
        for part in self._explained(lambda: query.to_batches(batch_size=batch or self.batch)):
            if part.num_rows:
                yield self._rows(part, layout)

    def _rows(self, batch: Any, layout: Layout) -> Rows:
        """Rows of a record batch or a table; vectors in lists of any kind."""
        import pyarrow as pa

        column = batch.column(batch.schema.get_field_index(self.vector_column))
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        flat = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
        kinds = {self.id_column: layout.ids, **layout.metadata}
        places = {name: batch.schema.get_field_index(name) for name in kinds}
        values = {name: base.of_kind(batch.column(places[name]).to_pylist(), kind) for name, kind in kinds.items()}
        ids = values.pop(self.id_column)
        return Rows(ids, flat.reshape(len(ids), layout.width), values)

    def build_index(self) -> None:
        """An HNSW graph for inner products."""
        from lancedb.index import HnswSq

        self.existing_layout()
        self._explained(lambda: self._table.create_index(self.vector_column, config=HnswSq(distance_type="dot")))

    def close(self) -> None:
        """Nothing stays open."""

    def _check_metric(self) -> None:
        """Raise for an index by another metric, which would not be used."""
        for index in self._table.list_indices():
            metric = getattr(self._table.index_stats(index.name), "distance_type", None)
            if self.vector_column in index.columns and metric not in (None, "dot"):
                raise LikewiseError(
                    f"the table {self.table!r} has an index by {metric}, which would change the length of vectors; "
                    "expected dot"
                )

    def _selected(self, columns: list[str], where: str) -> Any:
        return self._explained(lambda: self._table.search().where(where).select(columns).to_arrow())

    def _one_of(self, ids: Sequence[Any]) -> str:
        return f"`{self.id_column}` IN ({', '.join(map(_literal, ids)) or 'NULL'})"

    def _explained(self, work: Callable[[], Any]) -> Any:
        """Run a call of LanceDB; its errors become one sentence."""
        try:
            return work()
        except (ValueError, RuntimeError, OSError) as error:
            raise LikewiseError(f"LanceDB, table {self.table!r}: {reason_of(error)}") from error


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
