"""`likewise export` and `likewise pull`: from an index to a file or a vector database, and from there to a file."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from likewise.cli.console import emit_json, say, working
from likewise.cli.options import AsJson, check_writable, kind_of, load_model, open_index
from likewise.errors import LikewiseError
from likewise.utils.wording import plural

_PLACES = "postgresql://…, qdrant:PATH, lancedb:PATH or milvus:PATH"
Table = Annotated[str, Option("--table", metavar="NAME", help="Table or collection of the database.")]
IdColumn = Annotated[str, Option("--id-column", metavar="NAME", help="Column of the ids.")]
VectorColumn = Annotated[str, Option("--vector-column", metavar="NAME", help="Column of the vectors.")]


def export(
    index: Annotated[str, Argument(metavar="INDEX", help="Index folder written by likewise index; for .onnx a model.")],
    place: Annotated[str | None, Argument(metavar="PLACE", help="The same as --to.")] = None,
    to: Annotated[str | None, Option(metavar="PLACE", help=f"A file, {_PLACES}; see below.")] = None,
    table: Table = "likewise",
    approximate: Annotated[
        bool, Option("--approximate", help="Then build the HNSW index of the database. [dim]Default: exact search.[/]")
    ] = False,
    id_column: IdColumn = "id",
    vector_column: VectorColumn = "vector",
    rollback: Annotated[
        bool, Option("--rollback", help="Exchange the table of this database and the one that it replaced.")
    ] = False,
    drop_previous: Annotated[
        bool, Option("--drop-previous", help="Remove the table that the one of this database replaced.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the vectors of an index to a file or into a vector database.

    Files are .parquet and .arrow (id, vector, label, path), .npz (vectors, ids), .faiss, and .onnx: the model alone,
    which turns rows into vectors of queries and of items wherever ONNX runs.

    A database gets one row per item: id, vector, label and path, and likewise_export, by which the next export sees
    which rows differ: it writes those, removes those gone, and leaves rows that you added yourself. Batches are written
    in one transaction each; an export that was stopped goes on when it is run again. Vectors of another model go into a
    new table, which replaces the old one in one step; the old one is kept for --rollback until the next model or
    --drop-previous. Passwords belong into PGPASSWORD or ~/.pgpass, QDRANT_API_KEY and MILVUS_TOKEN.

    [bold]Examples[/bold]

    \b
      likewise export items.index items.parquet
      likewise export model.likewise query.onnx
      likewise export items.index --to postgresql://me@localhost/shop --table items --approximate
      likewise export items.index --to qdrant:http://localhost:6333 --table items
      likewise export items.index --to lancedb:items.lancedb --table items
      likewise export postgresql://me@localhost/shop --table items --rollback
    """
    if rollback or drop_previous:
        return _previous_table(index, table, to or place, rollback, drop_previous, as_json)
    if (to := to or place) is None:
        raise LikewiseError(f"PLACE is missing; expected a file, {_PLACES}")
    from likewise.search.exports import export as write
    from likewise.search.stores.base import scheme_of, without_password
    from likewise.utils.files import atomic_write

    began, folder, path = time.perf_counter(), Path(index), Path(to)
    if scheme_of(to) is None and ":" in to and not path.suffix:
        raise LikewiseError(f"{without_password(to)} is not a store; expected {_PLACES}")
    summary: dict[str, Any] = {"file": str(path)}
    if scheme_of(to) is not None:
        summary = _to_store(folder, to, approximate, table, id_column=id_column, vector_column=vector_column)
    elif path.suffix.lower() == ".onnx" and kind_of(folder) == "model":
        check_writable(path, folder, option="PLACE")
        model = load_model(folder)
        atomic_write(path, model.to_onnx())
        summary |= {"columns": int(model.n_features_in_), "model": model.identity}
    else:
        check_writable(path, folder, option="--to")
        opened = open_index(folder)
        with working(f"writing {path}"):
            write(opened, path)
        summary |= {"rows": len(opened), "width": opened.vectors.shape[1]}
    summary["seconds"] = round(time.perf_counter() - began, 3)
    return emit_json(summary) if as_json else say(_sentence(summary))


def _previous_table(address: str, table: str, place: str | None, rollback: bool, drop: bool, as_json: bool) -> None:
    """Go back to the table that the last new model replaced, or remove it."""
    from likewise.search.stores import open_store
    from likewise.search.stores.base import without_password

    if place is not None or (rollback and drop):
        raise LikewiseError("--rollback and --drop-previous take the address of a database, and exclude each other")
    with open_store(address, table) as store:
        done = "went back to the table before"
        if rollback:
            store.rollback()
        else:
            done = "removed the table before" if store.drop_previous() else "no table before it to remove"
        card = store.existing_layout().card
    model = None if card is None else card["id"]
    summary = {"store": without_password(address), "table": table, "done": done, "model": model}
    return emit_json(summary) if as_json else say(f"{summary['store']} {table}: {done}; it has model {model}")


def _to_store(folder: Path, address: str, approximate: bool, table: str, **columns: str) -> dict[str, Any]:
    from likewise.search.stores import export_to, open_store
    from likewise.search.stores.base import without_password

    index = open_index(folder)
    with open_store(address, table, **columns) as store:
        done = export_to(index, store, approximate=approximate, verbose=int(sys.stderr.isatty()))
    place = {"store": without_password(address), "table": table, "rows": len(index), "width": index.vectors.shape[1]}
    return {**place, **vars(done), "approximate": approximate}


def _sentence(summary: dict[str, Any]) -> str:
    if "columns" in summary:
        return f"{summary['file']}: input rows of {summary['columns']:,} columns, outputs query and gallery"
    rows = f"{plural(summary['rows'], 'row')} × {summary['width']:,}"
    if "file" in summary:
        return f"{summary['file']}: {rows}; {summary['seconds']:.1f} s"
    counts = f"{summary['written']:,} written, {summary['kept']:,} there already, {summary['removed']:,} removed"
    if summary["swapped"]:
        counts += ", in a new table for this model; the one before is kept"
    return f"{summary['store']} {summary['table']}: {rows}; {counts}; {summary['seconds']:.1f} s"


def pull(
    place: Annotated[str, Argument(metavar="PLACE", help=f"{_PLACES}.")],
    output: Annotated[Path, Option("--output", "-o", metavar="FILE", help="File to write: .parquet or .npz.")],
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
        summary = {"store": without_password(place), "table": table, "file": str(output), "rows": rows, "width": width}
        return emit_json({**summary, "columns": columns, "seconds": seconds})
    metadata = f", with {', '.join(columns)}" if columns else ""
    return say(f"{output}: {plural(rows, 'row')} × {width:,}{metadata}; {seconds:.1f} s")
