"""`likewise index`: a model and its gallery in one folder, to be searched, served and taught."""

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli.console import emit_json, note, working
from likewise.cli.options import AsJson, FeatureName, LabelColumn, Labels, load_model, load_table
from likewise.errors import LikewiseError


def index(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model written by likewise fit.", show_default=False)],
    gallery: Annotated[
        str, typer.Argument(metavar="GALLERY", help="A folder of features, or any table.", show_default=False)
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="NAME.index", help="Folder to write.", show_default=False)
    ],
    labels: Labels = None,
    label_column: LabelColumn = None,
    features: FeatureName = None,
    approximate: Annotated[
        str | None, typer.Option(metavar="KIND", help="hnsw, ivf, or auto to choose by size. [dim]Default: exact.[/]")
    ] = None,
    neighbours: Annotated[
        str, typer.Option(metavar="K", help="Neighbours that smooth each vector: auto, a number, or 0 for none.")
    ] = "auto",
    export: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Also export to .faiss, .npz (vectors and ids) or .onnx (the model)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Index a gallery, so that it can be searched with a model.

    The index is a folder that holds everything search and serve need: the model, the vectors and raw features of the
    gallery, its labels and paths, and the extractor if the features came from images. An existing index is replaced
    only once the new one is complete.

    A gallery in a folder of features or a .npy file may be larger than memory: it is read in blocks, and only the
    vectors are held in memory.

    Search is exact by default. --approximate builds an HNSW graph (hnsw) or inverted lists (ivf), and prints their
    recall@10 against exact search on your own gallery.

    Vectors and queries are smoothed by their nearest neighbours in the gallery, which usually ranks better. By default
    the labels of the gallery choose how many; without labels it is 10, or none for fewer than 500 items. A model that
    is not a cosine is left as it is.

    [bold]Examples[/bold]

    \b
      likewise index photos.likewise photos.features -o photos.index
      likewise index model.likewise items.parquet -o items.index --approximate hnsw
      likewise index model.likewise gallery.npy --labels gallery.txt -o gallery.index --neighbours 0
      likewise index model.likewise photos.features -o photos.index --export photos.faiss --export model.onnx
    """
    from likewise.retrieval.exports import export as write

    if approximate not in (None, "auto", "hnsw", "ivf"):
        raise LikewiseError(f"--approximate {approximate}: expected hnsw, ivf or auto")
    began = time.perf_counter()
    fitted = load_model(model)
    built = _built(fitted, gallery, (labels, label_column, features), approximate, _neighbours(neighbours))
    with working(f"writing {output}"):
        built.save(output)
        written = [str(write(built, path)) for path in export or []]
    summary = _summary(built, output, written, time.perf_counter() - began)
    emit_json(summary) if as_json else print(_sentence(summary))


def _neighbours(word: str) -> int | str:
    if word != "auto" and not word.isdecimal():
        raise LikewiseError(f"--neighbours {word}: expected auto, a number of neighbours, or 0 for none")
    return word if word == "auto" else int(word)


def _built(model: Any, gallery: str, reading: tuple[Any, ...], approximate: str | None, neighbours: int | str) -> Any:
    from likewise.retrieval import Index

    kind: bool | str = {None: False, "auto": True}.get(approximate, approximate or False)
    is_table = any(reading) or not (Path(gallery) / "meta.json").is_file()
    rows, shows_bar = load_table(gallery, *reading) if is_table else gallery, sys.stderr.isatty()
    with nullcontext() if shows_bar else working(f"indexing {gallery}"):
        return Index.build(model, rows, approximate=kind, neighbours=neighbours, verbose=int(shows_bar))


def _summary(built: Any, output: Path, written: list[str], seconds: float) -> dict[str, Any]:
    labels = [] if built.labels is None else [label for label in built.labels if label is not None]
    if built.extractor is None:
        note("the gallery did not come from images: search it by row, not by picture")
    return {
        "index": str(output),
        "n_items": len(built),
        "n_features": built.raw.shape[1],
        "width": built.vectors.shape[1],
        "n_labelled": len(labels),
        "n_labels": len(set(labels)),
        "approximate": built.approximate,
        "recall": built.recall,
        "neighbours": 0 if built.neighbours is None else built.neighbours.k,
        "exports": written,
        "seconds": round(seconds, 3),
    }


def _sentence(summary: dict[str, Any]) -> str:
    shape = f"{summary['n_items']:,} items × {summary['n_features']:,} features → {summary['width']:,}"
    text = f"{summary['index']}: {shape}, {summary['n_labels']:,} labels; {summary['seconds']:.1f} s"
    if summary["approximate"]:
        text += f"\n{summary['approximate']}: recall@10 {100 * summary['recall']:.1f} %"
    if summary["neighbours"]:
        text += f"\neach vector smoothed by its {summary['neighbours']} nearest neighbours"
    return "\n".join([text, *(f"wrote {path}" for path in summary["exports"])])
