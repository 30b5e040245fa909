"""`likewise features`: extract a folder of images to a feature store."""

import json
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from likewise.cli.console import note, say
from likewise.errors import LikewiseError
from likewise.pictures import EXTRACTORS
from likewise.utils.wording import plural

SKIPPED = 1  # exit code of --strict if images were skipped


def features(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Folder of images.")],
    output: Annotated[Path, Option("--output", "-o", metavar="NAME.features", help="Output folder.")],
    extractor: Annotated[str, Option("--extractor", "-e", help="See above.")] = "efficientnet-lite0",
    labels: Annotated[
        str,
        Option(
            metavar="folders|keywords|none|FILE",
            help="Labels: the folders' names, keywords in XMP and IPTC, none, or a CSV of paths and labels.",
        ),
    ] = "folders",
    fit_on: Annotated[
        Path | None, Option(metavar="FILE.txt", help="llc: images to learn from, one per line; default: all.")
    ] = None,
    words: Annotated[int | None, Option(help="llc: codebook size; default: 2048.")] = None,
    components: Annotated[int | None, Option(help="llc: number of PCA components; default: 1000.")] = None,
    no_pca: Annotated[bool, Option("--no-pca", help="llc: keep the pooled codes, without PCA.")] = False,
    size: Annotated[int | None, Option(help="onnx, pixels: side in pixels.")] = None,
    mean: Annotated[str | None, Option(help="onnx: mean of pixels in 0..1, one number or R,G,B.")] = None,
    std: Annotated[str | None, Option(help="onnx: standard deviation of pixels in 0..1, one number or R,G,B.")] = None,
    crop: Annotated[float | None, Option(help="onnx: share of the shorter side kept.")] = None,
    stretch: Annotated[
        bool | None, Option("--stretch/--no-stretch", help="onnx: keep all of both sides instead of a square.")
    ] = None,
    output_name: Annotated[str | None, Option(help="onnx: output to use, if it has several.")] = None,
    tokens: Annotated[str | None, Option(help="onnx: first or mean, of an output that is tokens.")] = None,
    dtype: Annotated[str | None, Option(help="float32 or float16; default: that of the extractor.")] = None,
    max_pixels: Annotated[int, Option(help="Skip images with more pixels.")] = 100_000_000,
    workers: Annotated[int | None, Option(help="Threads; default: one per core.")] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace a store with other settings.")] = False,
    strict: Annotated[bool, Option("--strict", help="Exit with 1 if any file was skipped.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Turn a folder of images into features, one row per image.

    The first folder below FOLDER is the label, unless --labels says keywords or none, or gives a CSV of paths and
    labels. Reads jpg, png, webp, gif, bmp, tiff, heic and avif at any depth. Run again, it computes only new and
    changed images, and knows renamed ones; a killed run is resumed. Files that could not be read are listed in
    [bold]skipped.csv[/bold] in the output.

    [bold]Extractors[/bold]

    \b
      EXTRACTORS

    [bold]Examples[/bold]

    \b
      likewise features PHOTOS -o photos.features
      likewise features PHOTOS -o photos.features --labels labels.csv --dtype float16
      likewise features PHOTOS -o photos.features --labels keywords
      likewise features PHOTOS -o llc.features --extractor llc --fit-on train.txt
      likewise features PHOTOS -o mine.features -e onnx:model.onnx --size 256 --mean 0.5 --std 0.5 --crop 1
    """
    from likewise.pictures import extract_folder, make_extractor
    from likewise.utils.progress import stage_bar

    if no_pca and components is not None:
        raise LikewiseError("--no-pca and --components exclude each other: expected one of them")
    options: dict[str, Any] = {
        "n_words": words, "n_components": components, "size": size, "mean": _numbers("mean", mean),
        "std": _numbers("std", std), "crop": crop, "stretch": stretch, "output": output_name, "tokens": tokens,
        "n_jobs": workers,
    }  # fmt: skip
    parameters = {name: value for name, value in options.items() if value is not None}
    if no_pca:
        parameters["n_components"] = None
    model = make_extractor(extractor, **parameters)
    with stage_bar("images", not quiet) as progress:
        summary = extract_folder(folder, output, model, labels, fit_on, dtype, max_pixels, overwrite, progress)
    print(json.dumps(vars(summary))) if as_json else say(_sentence(summary))
    if summary.n_several_keywords:
        note(keywords_sentence(summary))
    if summary.n_skipped:
        note(skipped_sentence(summary))
    if strict and summary.n_skipped:
        raise Exit(SKIPPED)


assert features.__doc__ is not None
features.__doc__ = features.__doc__.replace(
    "EXTRACTORS", "\n      ".join(f"{usage:<20} {description}" for _, usage, description in EXTRACTORS)
)


def _numbers(name: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise LikewiseError(f"--{name} {text!r} is not a number; expected one, or three separated by commas") from error


def keywords_sentence(summary: Any) -> str:
    """How many pictures have a label of several keywords, and which it is."""
    several = plural(summary.n_several_keywords, "picture")
    return f"{several} with several keywords: the label is the one on most pictures, but not on all"


def skipped_sentence(summary: Any) -> str:
    """How many files were skipped, and why."""
    reasons = ", ".join(f"{count:,} {kind}" for kind, count in summary.skipped.items())
    from likewise.rows import FeatureStore

    details = FeatureStore.open(summary.store).version / "skipped.csv"
    return f"skipped {plural(summary.n_skipped, 'file')}: {reasons} (details: {details})"


def _sentence(summary: Any) -> str:
    shape = f"{plural(summary.n_items, 'image')} × {plural(summary.n_features, 'feature')}"
    renamed = f"{summary.n_renamed:,} renamed, " if summary.n_renamed else ""
    unchanged = summary.n_reused - summary.n_renamed
    changes = f"{summary.n_new:,} new, {renamed}{unchanged:,} unchanged, {summary.n_removed:,} removed"
    rate = f"; {summary.seconds:.1f} s, {summary.images_per_second:.1f} images/s" if summary.n_new else ""
    return f"{summary.store}: {shape}, {plural(summary.n_classes, 'label')} ({changes}{rate})"
