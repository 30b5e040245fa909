"""`likewise features`: extract a folder of images to a feature store."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from likewise.errors import LikewiseError

SKIPPED = 1  # exit code of --strict if images were skipped


def features(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Folder of images.", show_default=False)],
    output: Annotated[
        Path, Option("--output", "-o", metavar="NAME.features", help="Output folder.", show_default=False)
    ],
    extractor: Annotated[str, Option("--extractor", "-e", help="See above.")] = "efficientnet-lite0",
    labels: Annotated[Path | None, Option(metavar="FILE.csv", help="CSV of paths and labels.")] = None,
    fit_on: Annotated[
        Path | None, Option(metavar="FILE.txt", help="llc: images to learn from, one per line; default: all.")
    ] = None,
    words: Annotated[int | None, Option(help="llc: codebook size; default: 2048.")] = None,
    components: Annotated[int | None, Option(help="llc: number of PCA components; default: 1000.")] = None,
    no_pca: Annotated[bool, Option("--no-pca", help="llc: keep the pooled codes, without PCA.")] = False,
    size: Annotated[int | None, Option(help="onnx, pixels: side in pixels.")] = None,
    mean: Annotated[str | None, Option(help="onnx: mean of pixels in 0..1, one number or R,G,B.")] = None,
    std: Annotated[str | None, Option(help="onnx: standard deviation of pixels in 0..1, one number or R,G,B.")] = None,
    crop: Annotated[float | None, Option(help="onnx: share of the shorter side kept; default: 0.875.")] = None,
    stretch: Annotated[
        bool | None, Option("--stretch/--no-stretch", help="onnx: keep all of both sides instead of a square.")
    ] = None,
    output_name: Annotated[str | None, Option(help="onnx: output to use; default: the first.")] = None,
    dtype: Annotated[str | None, Option(help="float32 or float16; default: that of the extractor.")] = None,
    max_pixels: Annotated[int, Option(help="Skip images with more pixels.")] = 100_000_000,
    workers: Annotated[int | None, Option(help="Threads; default: one per core.")] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace a store with other settings.")] = False,
    strict: Annotated[bool, Option("--strict", help="Exit with 1 if any file was skipped.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Turn a folder of images into features, one row per image.

    The first folder below FOLDER is the label, unless --labels gives a CSV of paths and labels. Reads jpg, png, webp,
    gif, bmp and tiff at any depth. Run again, it computes only new and changed images; a killed run is resumed. Files
    that could not be read are listed in [bold]skipped.csv[/bold] in the output.

    [bold]Extractors[/bold]

    \b
      efficientnet-lite0   1,280 features of a neural network; no download at run time (default)
      llc                  dense SIFT, locality-constrained coding, spatial pyramid, PCA; learned from your images
      onnx:MODEL.onnx      any image model in ONNX format
      timm:NAME            any timm model, if timm is installed
      pixels               the pixels of small pictures

    [bold]Examples[/bold]

    \b
      likewise features PHOTOS -o photos.features
      likewise features PHOTOS -o photos.features --labels labels.csv --dtype float16
      likewise features PHOTOS -o llc.features --extractor llc --fit-on train.txt
      likewise features PHOTOS -o mine.features --extractor onnx:model.onnx --size 256 --mean 0.5 --std 0.5
    """
    from likewise.features import extract_folder, make_extractor

    if no_pca and components is not None:
        raise LikewiseError("--no-pca and --components exclude each other: expected one of them")
    asked: dict[str, Any] = {
        "n_words": words, "n_components": components, "size": size, "mean": _numbers("mean", mean),
        "std": _numbers("std", std), "crop": crop, "stretch": stretch, "output": output_name, "n_jobs": workers,
    }  # fmt: skip
    parameters = {name: value for name, value in asked.items() if value is not None}
    if no_pca:
        parameters["n_components"] = None
    made = make_extractor(extractor, **parameters)
    with _bar(quiet) as progress:
        summary = extract_folder(folder, output, made, labels, fit_on, dtype, max_pixels, overwrite, progress)
    print(json.dumps(vars(summary)) if as_json else _sentence(summary))
    if summary.n_skipped:
        reasons = output / "skipped.csv"
        print(f"likewise: {summary.n_skipped} skipped; the reasons are in {reasons}", file=sys.stderr)
    if strict and summary.n_skipped:
        raise typer.Exit(SKIPPED)


def _numbers(name: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise LikewiseError(f"--{name} {text!r} is not a number; expected one, or three separated by commas") from error


def _sentence(summary: Any) -> str:
    shape = f"{summary.n_items:,} images × {summary.n_features:,} features, {summary.n_classes:,} labels"
    changes = f"{summary.n_new:,} new, {summary.n_reused:,} unchanged, {summary.n_removed:,} removed"
    rate = f"; {summary.seconds:.1f} s, {summary.images_per_second:.1f} images/s" if summary.n_new else ""
    return f"{summary.store}: {shape} ({changes}{rate})"


@contextmanager
def _bar(quiet: bool) -> Iterator[Any]:
    """A progress bar on stderr with images per second and the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=None, rate="")

        def progress(stage: str, done: int, total: int) -> None:
            row = bar.tasks[0]
            if stage != row.description:
                bar.reset(task, total=total or None, description=stage, rate="")
            speed = bar.tasks[0].finished_speed or bar.tasks[0].speed
            rate = f"{speed:.1f} images/s" if speed and total else ""
            bar.update(task, total=total or None, completed=done, description=stage, rate=rate)

        yield progress
