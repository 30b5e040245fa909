"""`likewise index`: a model and its gallery in one folder, to be searched, served and taught."""

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from shutil import rmtree
from typing import Annotated, Any

import numpy as np
from typer import Argument, Option

from likewise.cli.console import emit_json, note, say, working
from likewise.cli.options import (
    AsJson,
    DropInvalid,
    FeatureName,
    IdColumn,
    LabelColumn,
    Labels,
    MetadataColumns,
    check_writable,
    kind_of,
    load_model,
    load_table,
    model_first,
    open_index,
)  # fmt: skip
from likewise.errors import LikewiseError
from likewise.utils.wording import plural

RESUMABLE_FROM = 1_000_000  # items of an index whose steps are kept


def index(
    first: Annotated[
        str,
        Argument(
            metavar="MODEL|GALLERY",
            help="Model written by likewise fit; or the gallery alone, to rank by cosine; with --rollback an index.",
        ),
    ],
    second: Annotated[str | None, Argument(metavar="GALLERY", help="A folder of features, or any table.")] = None,
    *,
    output: Annotated[Path | None, Option("--output", "-o", metavar="NAME.index", help="Folder to write.")] = None,
    update: Annotated[
        bool, Option("--update", help="Bring the index up to date: rows by id, only changed ones embedded.")
    ] = False,
    rollback: Annotated[
        bool, Option("--rollback", help="Go back to the version before the last write; again: forward.")
    ] = False,
    labels: Labels = None,
    label_column: LabelColumn = None,
    features: FeatureName = None,
    id_column: IdColumn = None,
    metadata: MetadataColumns = None,
    drop_invalid: DropInvalid = False,
    approximate: Annotated[
        str | None,
        Option(metavar="KIND", help="hnsw, ivf, ivfpq, or auto, where exact is slow. [dim]Default: exact.[/]"),
    ] = None,
    neighbors: Annotated[
        str | None,
        Option(metavar="K", help="Neighbours that smooth vectors and queries: auto, or K. [dim]Default: none.[/]"),
    ] = None,
    new_items: Annotated[
        str, Option(metavar="SHARE", help="Share of items of classes that MODEL was not taught: auto, or 0 to 1.")
    ] = "auto",
    export: Annotated[list[Path] | None, Option(metavar="FILE", help="Also export, as likewise export does.")] = None,
    as_json: AsJson = False,
) -> None:
    """Index a gallery, so that it can be searched, with a model or without one.

    Without a model items are ranked by the cosine of their features, and can be taught on the page of likewise serve.

    The index is a folder that holds everything search and serve need: the model, the vectors and raw features of the
    gallery, its labels and paths, and the extractor if the features came from images. An existing index is replaced
    only once the new one is complete. A gallery in a folder of features or a .npy file may be larger than memory; from
    a million items on, a command that was killed continues where it was when it is run again.

    --update compares the gallery with NAME.index by ids: rows that are new, changed or gone are counted, and only those
    with other features are embedded; all are, if MODEL is another one. A running likewise serve takes over within
    seconds. The version before stays on disk for --rollback.

    Of a .csv or .parquet file, the column id (or --id) holds the ids, and the columns that are not features are kept as
    metadata: likewise search --where and the page filter by them, and the page shows them.

    Search is exact by default. --approximate builds an HNSW graph (hnsw), inverted lists (ivf), or lists with codes of
    some bytes per vector (ivfpq), and prints their recall@10 against exact search on your own gallery. auto stays exact
    if one exact search takes less than 50 ms.

    --neighbors smooths vectors and queries by their nearest neighbours in the gallery, which usually ranks better here,
    but queries that are made elsewhere, by the model alone, are not smoothed. With auto the labels of the gallery
    choose how many; without labels it is 10, or none for fewer than 500 items. --update keeps what the index has.

    A gallery may hold items of classes that MODEL was not taught. They are recognised by comparing the gallery with
    labelled rows, and ranked by a map for new classes; --new-items 0 takes all items for taught ones.

    [bold]Examples[/bold]

    \b
      likewise index photos.features -o photos.index
      likewise index photos.likewise photos.features -o photos.index
      likewise index docs.likewise docs.parquet -o docs.index --update
      likewise index docs.index --rollback
      likewise index docs.likewise docs.parquet -o docs.index --id doc_id
      likewise index shoes.csv --metadata price,size -o shoes.index
      likewise index model.likewise items.parquet -o items.index --approximate hnsw
      likewise index model.likewise gallery.npy --labels gallery.txt -o gallery.index --neighbors auto
      likewise index model.likewise photos.features -o photos.index --export photos.faiss --export model.onnx
    """
    from likewise.search.exports import export as write
    from likewise.search.storage import is_index
    from likewise.teach import save_index
    from likewise.words.search import Words, has_words

    if rollback:
        return _roll_back(Path(first), second, output, as_json)
    if output is None:
        raise LikewiseError("--output is missing; expected -o NAME.index")
    if approximate not in (None, "auto", "hnsw", "ivf", "ivfpq"):
        raise LikewiseError(f"--approximate {approximate}: expected hnsw, ivf, ivfpq or auto")
    exports = export or []
    for number, path in enumerate(exports):
        check_writable(path, first, second, labels, output, *exports[:number], option="--export")
    began = time.perf_counter()
    if second is None and kind_of(first) == "model":
        raise LikewiseError(f"no gallery: expected likewise index {first} GALLERY -o NAME.index")
    model, gallery = (None, first) if second is None else model_first(first, second)
    if neighbors is None:
        neighbors = "auto" if update and is_index(output) else "0"  # an update keeps those of the index
    if neighbors != "auto" and not neighbors.isdecimal():
        raise LikewiseError(f"--neighbors {neighbors}: expected auto, a number of neighbours, or 0 for none")
    try:
        share = new_items if new_items == "auto" else float(new_items)
    except ValueError:
        raise LikewiseError(f"--new-items {new_items}: expected auto, or a share from 0 to below 1") from None
    n_neighbors = neighbors if neighbors == "auto" else int(neighbors)
    options: dict[str, Any] = {"approximate": approximate, "n_neighbors": n_neighbors, "new_items": share}
    reading: dict[str, Any] = {
        "labels": labels, "label_column": label_column, "features": features, "id_column": id_column,
        "metadata": metadata, "drop_invalid": drop_invalid,
    }  # fmt: skip
    steps, changes = None, None
    if update and is_index(output):
        built, changes = _updated(model, gallery, reading, output, options)
    else:
        rows = _gallery(gallery, reading)
        steps = _workspace(rows, output)
        built = _built(model, rows, gallery, {**options, "approximate": approximate or False, "workspace": steps})
    with working(f"writing {output}"):
        if changes is None or changes:
            save_index(built, output)
        if steps is not None:
            rmtree(steps)
        if has_words(built):
            _ = Words(built).gallery  # learned now, so that the first search by words is fast
        written = [str(write(built, path)) for path in exports]
    summary = _summary(built, output, written, time.perf_counter() - began)
    if changes is not None:
        summary["changes"] = changes._asdict()
    emit_json(summary) if as_json else say(_sentence(summary))


def _roll_back(folder: Path, second: str | None, output: Path | None, as_json: bool) -> None:
    from likewise.search.storage import rollback

    if second is not None or output is not None:
        raise LikewiseError(f"--rollback takes an index alone: likewise index {folder} --rollback")
    rollback(folder)
    index = open_index(folder)
    summary = {"index": str(folder), "n_items": len(index), "model": index.model.identity}
    emit_json(summary) if as_json else say(
        f"{folder} is what it was before the last write: {plural(len(index), 'item')}, model {index.model.identity}"
    )


def _updated(
    model: str | None, gallery: str, reading: dict[str, Any], output: Path, options: dict[str, Any]
) -> tuple[Any, Any]:
    """The index in the folder, brought up to date with the gallery, and what has changed."""
    from likewise.search import Index
    from likewise.search.updating import updated

    index = Index.load(output)
    rows = _gallery(gallery, {**reading, "id_column": reading["id_column"] or index.items.id_column})
    fitted = index.model if model is None else load_model(Path(model))
    with working(f"updating {output}"):
        return updated(index, rows, fitted, **options)


def _gallery(path: str, reading: dict[str, Any]) -> Any:
    """A feature store, which stays on disk, or a table."""
    from likewise.rows.store import FeatureStore, is_store

    is_plain = not any(value for name, value in reading.items() if name != "drop_invalid")
    return FeatureStore.open(path) if is_store(Path(path)) and is_plain else load_table(path, **reading)


def _workspace(rows: Any, output: Path) -> Path | None:
    """The folder for the steps of a large index, which a later call goes on with; None for one that takes no time."""
    n = len(rows) if hasattr(rows, "features") else rows.X.shape[0]
    if n < RESUMABLE_FROM:
        return None
    steps = output.with_name(f"{output.name}.building")
    if steps.exists():
        note(f"going on with {steps}")
    return steps


def _built(model: str | None, rows: Any, gallery: str, options: dict[str, Any]) -> Any:
    """An index of the rows by a model, or by the cosine of the rows without one."""
    from likewise.learn.cosine import Cosine
    from likewise.search import Index

    if model is not None:
        fitted = load_model(Path(model))
    else:
        note("no model: items are ranked by the cosine of their features; teach it on the page of likewise serve")
        X = rows.features if hasattr(rows, "features") else rows.X
        fitted = Cosine().fit(X[:RESUMABLE_FROM] if isinstance(X, np.ndarray) else X)  # it takes the width alone
    shows_bar = sys.stderr.isatty()
    with nullcontext() if shows_bar else working(f"indexing {gallery}"):
        return Index.build(fitted, rows, **options, verbose=int(shows_bar))


def _summary(built: Any, output: Path, written: list[str], seconds: float) -> dict[str, Any]:
    labels = [] if built.labels is None else [label for label in built.labels if label is not None]
    bytes_per_item = None
    if built.approximate:  # with its lists, but without the vectors themselves
        bytes_per_item = round(next(output.glob("*/approximate.faiss")).stat().st_size / len(built), 1)
    if built.extractor is None:
        note("the gallery did not come from images: search it by --id or --row, not by picture")
    return {
        "index": str(output),
        "n_items": len(built),
        "n_features": built.raw.shape[1],
        "width": built.vectors.shape[1],
        "n_labelled": len(labels),
        "n_labels": len(set(labels)),
        "metadata": {} if built.metadata is None else built.metadata.kinds,
        "approximate": built.approximate,
        "recall": built.recall,
        "bytes_per_item": bytes_per_item,
        "taught_share": None if built.model.taught_share is None else round(built.taught_share, 3),
        "neighbors": 0 if built.neighbors is None else built.neighbors.k,
        "exports": written,
        "seconds": round(seconds, 3),
    }


def _sentence(summary: dict[str, Any]) -> str:
    shape = f"{plural(summary['n_items'], 'item')} × {summary['n_features']:,} features → {summary['width']:,}"
    text = f"{summary['index']}: {shape}, {plural(summary['n_labels'], 'label')}; {summary['seconds']:.1f} s"
    if "changes" in summary:
        rows = summary["changes"]
        text += f"\n{rows['new']:,} new, {rows['changed']:,} changed, {rows['gone']:,} gone"
        text += f"; {plural(rows['embedded'], 'row')} embedded" + (" by another model" if rows["other_model"] else "")
    if summary["approximate"]:
        text += f"\n{summary['approximate']}: recall@10 {100 * summary['recall']:.1f} %"
        text += f", {summary['bytes_per_item']:g} bytes per item"
    if summary["neighbors"]:
        text += f"\neach vector smoothed by its {summary['neighbors']} nearest neighbours"
    if summary["taught_share"] is not None:
        text += f"\nabout {100 * summary['taught_share']:.0f} % of the gallery is of taught classes"
    if summary["metadata"]:
        text += "\nmetadata: " + ", ".join(f"{name} ({kind})" for name, kind in summary["metadata"].items())
    return "\n".join([text, *(f"wrote {path}" for path in summary["exports"])])
