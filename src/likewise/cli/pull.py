"""`likewise pull`: the rows of a vector database in a file, to learn from or to index."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from likewise.cli.console import emit_json, say
from likewise.cli.export import IdColumn, Table, VectorColumn
from likewise.cli.options import AsJson, check_writable
from likewise.utils.wording import plural


def pull(
    place: Annotated[
        str,
        typer.Argument(
            metavar="PLACE", help="postgresql://…, qdrant:PATH, lancedb:PATH or milvus:PATH.", show_default=False
        ),
    ],
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="File to write: .parquet or .npz.", show_default=False)
    ],
    table: Table = "likewise",
    id_column: IdColumn = "id",
    vector_column: VectorColumn = "vector",
    as_json: AsJson = False,
) -> None:
    """Read the ids, vectors and other columns of a table into a file that likewise fit and likewise index take.

    Parquet is written in batches, so that a table may be larger than memory. Columns that are neither numbers nor text
    are written as text.

    [bold]Examples[/bold]

    \b
      likewise pull postgresql://me@localhost/shop --table items --vector-column embedding -o items.parquet
      likewise fit items.parquet --features vector --label-column topic -o items.likewise
      likewise pull qdrant:http://localhost:6333 --table items -o items.npz
    """
    from likewise.search.stores import open_store
    from likewise.search.stores import pull as write
    from likewise.search.stores.base import without_password

    check_writable(output)
    began = time.perf_counter()
    with open_store(place, table, id_column=id_column, vector_column=vector_column) as store:
        rows = write(store, output, verbose=int(sys.stderr.isatty()))
        width, columns = store.existing_layout().width, list(store.existing_layout().metadata)
    seconds = round(time.perf_counter() - began, 3)
    if as_json:
        found = {"store": without_password(place), "table": table, "file": str(output), "rows": rows, "width": width}
        return emit_json({**found, "columns": columns, "seconds": seconds})
    metadata = f", with {', '.join(columns)}" if columns else ""
    return say(f"{output}: {plural(rows, 'row')} × {width:,}{metadata}; {seconds:.1f} s")
