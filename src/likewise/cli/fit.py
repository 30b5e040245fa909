"""`likewise fit`: learn a similarity from rows and labels."""

import hashlib
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option

from likewise.cli.console import INTERRUPTED, emit_json, held_out_line, note, say, working
from likewise.cli.options import (
    AsJson,
    Data,
    DropInvalid,
    FeatureName,
    LabelColumn,
    Labels,
    MetadataColumns,
    check_writable,
    labelled,
    load_table,
)  # fmt: skip
from likewise.errors import InterruptedFitWarning, LikewiseError
from likewise.utils.arrays import in_memory
from likewise.utils.wording import plural, short

# Panels of the help, by the methods and inputs that options belong to.
_anchored = partial(Option, rich_help_panel="Options of anchored")
_slr = partial(Option, rich_help_panel="Options of slr")
_large = partial(Option, rich_help_panel="Options of large data")
_paired = partial(Option, rich_help_panel="Options of --relevance")
_RELEVANCE = (
    "CSV, TSV or Parquet: query, item[, grade]; query, item, clicked[, position, session, time, weight]; "
    "anchor, positive, negative; a, b, link."
)


def fit(
    data: Data,
    output: Annotated[Path, Option("--output", "-o", metavar="MODEL", help="Model file to write.")],
    labels: Labels = None,
    label_column: LabelColumn = None,
    features: FeatureName = None,
    metadata: MetadataColumns = None,
    drop_invalid: DropInvalid = False,
    method: Annotated[
        str | None,
        Option(
            help="anchored (recommended), slr (the paper's), slr-fixed, or a baseline such as lda. [dim]Default: "
            "anchored; with --relevance the one method that learns from it.[/]"
        ),
    ] = None,
    relevance: Annotated[Path | None, _paired(metavar="FILE", help=_RELEVANCE)] = None,
    gallery: Annotated[
        str | None, _paired(metavar="DATA", help="Items of --relevance, if they are not in DATA.")
    ] = None,
    side: Annotated[
        str | None, _paired(help="both, or query: an index of raw rows stays as it is. [dim]Default: both.[/]")
    ] = None,
    half_life: Annotated[
        float | None, _paired(metavar="DAYS", help="Days after which a click counts half; needs a time.")
    ] = None,
    kernel: Annotated[str | None, _anchored(help="auto, linear or rbf.")] = None,
    n_landmarks: Annotated[
        int | None,
        _anchored(help="Landmarks of the kernel, for faster queries. [dim]Default: as many as memory holds.[/]"),
    ] = None,
    components: Annotated[
        int | None,
        _anchored(help="Width of the vectors, which are rotated and cut. [dim]Default: by classes and columns.[/]"),
    ] = None,
    scaling: Annotated[str | None, _anchored(help="auto, unit, roots (of the columns) or standard (columns).")] = None,
    posterior: Annotated[bool, _anchored("--posterior", help="Compare probabilities of the known classes.")] = False,
    rank: Annotated[int | None, _slr(help="Rank of the similarity. [dim]Default: 100.[/]")] = None,
    whole: Annotated[bool, _slr("--whole", help="Learn the whole matrix instead of a rank.")] = False,
    max_iter: Annotated[int | None, _slr(help="Iterations. [dim]Default: 10.[/]")] = None,
    alpha: Annotated[float | None, _slr(help="Ridge, in units of the mean eigenvalue of XᵀX.")] = None,
    compress: Annotated[str | None, _slr(help="gaussian, sample or landmarks.")] = None,
    compress_size: Annotated[int | None, _slr(help="Rows to compress to; required with --compress.")] = None,
    tol: Annotated[float | None, _slr(help="Stop when the loss falls by no more than this share.")] = None,
    memory_limit: Annotated[
        str | None, _large(metavar="SIZE", help="Memory limit when fitting from disk. [dim]Default: 1GB.[/]")
    ] = None,
    checkpoint: Annotated[
        Path | None, _large(metavar="FILE", help="Checkpoint file; an existing one is resumed.")
    ] = None,
    dask: Annotated[
        str | None, _large(metavar="ADDRESS", help="Fit on the cluster of this Dask scheduler, which reads the file.")
    ] = None,
    seed: Annotated[int | None, Option(help="Seed of everything random. [dim]Default: 0.[/]")] = None,
    test: Annotated[
        str | None, Option(metavar="DATA", help="Evaluate mAP on this table too; stored in the model file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn a similarity from rows and labels, and save it as one file.

    Rows without a label are left out; cosine and euclid need no labels. Ctrl-C stops the learning, keeps the last full
    iteration and saves that.

    [bold]Examples[/bold]

    \b
      likewise fit train.csv -o model.likewise
      likewise fit train.npy --labels train.txt -o model.likewise --kernel linear
      likewise fit embeddings.npy -o model.likewise --method cosine
      likewise fit train.npz -o model.likewise --method slr --rank 64 --alpha 0.1 --test test.npz
      likewise fit big.npz -o big.likewise --method slr --compress landmarks --compress-size 2000
      likewise fit big.features -o big.likewise --memory-limit 1GB
      likewise fit big.features -o big.likewise --method slr --checkpoint big.checkpoint --dask tcp://10.0.0.1:8786
      likewise fit queries.npz --relevance clicks.csv --gallery items.npz -o model.likewise
      likewise fit photos.features --relevance links.csv -o model.likewise --side query
      cat train.csv | likewise fit - -o model.likewise --json
    """
    settings = {"temperature": "auto"} if posterior else None
    options: dict[str, Any] = {
        "rank": rank, "max_iter": max_iter, "alpha": alpha, "compress": compress, "compress_size": compress_size,
        "tol": tol, "random_state": seed, "kernel": kernel, "n_landmarks": n_landmarks, "n_components": components,
        "scaling": scaling, "settings": settings, "side": side,
    }  # fmt: skip
    parameters = {name: value for name, value in options.items() if value is not None}
    _check_method(method, relevance, gallery, half_life)
    inputs = (data, labels, relevance, gallery, test)
    check_writable(output, *inputs, checkpoint)
    check_writable(checkpoint, *inputs, option="--checkpoint")
    column = None
    if relevance is None:
        model = _model(method := method or "anchored", parameters, whole)
        reading: dict[str, Any] = {"metadata": metadata, "names": False, "drop_invalid": drop_invalid}
        table = load_table(data, labels, label_column, features, **reading)
        rows, column = training_rows(model, table, memory_limit, dask, checkpoint), table.known.get("label")
    else:
        rows = _related_rows(data, gallery, features, relevance, half_life)
        model = _model(method := "relevance", parameters, whole)
    for name, value in (("memory-limit", memory_limit), ("checkpoint", checkpoint)):
        if value is not None and not _takes_rows(model):
            raise LikewiseError(f"--{name} has no meaning for the method {method}")
    seconds, stopped = _fit(model, rows)
    source: dict[str, Any] = {"path": data, "rows": rows.shape[0], "columns": rows.shape[1]}
    if Path(data).is_file():
        with open(data, "rb") as file:
            source["checksum"] = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    model.provenance_ |= {"source": source, "label_column": column}
    metrics = {}
    if test is not None:
        held_out = labelled(load_table(test, None, label_column, features, None, metadata, width=model.n_features_in_))
        with working("measuring"):
            metrics = {"mAP": model.score(held_out.X, held_out.y), "n_test": float(held_out.X.shape[0])}
    model.save(output, metrics)
    summary = _summary(model, method, rows, output, seconds, metrics)
    if as_json:
        emit_json(summary)
    else:
        _show(summary, relevance_line(model) if method == "relevance" else None)
    if stopped:
        raise Exit(INTERRUPTED)


def _check_method(method: str | None, relevance: Path | None, gallery: str | None, half_life: float | None) -> None:
    """Raise for a method that does not learn from the given labels or relevance."""
    for name, value in (("gallery", gallery), ("half-life", half_life)):
        if relevance is None and value is not None:
            raise LikewiseError(f"--{name} has a meaning only with --relevance")
    if relevance is None and (method or "").lower() == "relevance":
        raise LikewiseError("--method relevance needs --relevance: it learns from judgements, not from labels")
    if relevance is not None and (method or "relevance").lower() != "relevance":
        raise LikewiseError(f"--method {method} learns from labels: leave it out with --relevance")


def methods(with_rivals: bool = True) -> dict[str, tuple[type, dict[str, Any]]]:
    """Methods by their names on the command line: a class, and the parameters that the name implies."""
    from likewise import SLR, RelevanceLearner, SimilarityLearner, rivals
    from likewise.learn.base import SimilarityModel

    classes: dict[str, tuple[type, dict[str, Any]]] = {
        "anchored": (SimilarityLearner, {}),
        "slr": (SLR, {}),
        "slr-fixed": (SLR, {"adaptive": False}),
        "relevance": (RelevanceLearner, {}),
    }
    for name in rivals.__all__ if with_rivals else ():  # each is imported here
        candidate = getattr(rivals, name)
        if isinstance(candidate, type) and issubclass(candidate, SimilarityModel):
            classes[name.lower()] = (candidate, {})
    return classes


_OPTIONS = {"random_state": "seed", "settings": "posterior", "n_components": "components"}


def _model(method: str, parameters: dict[str, Any], whole: bool) -> Any:
    """An unfitted model; an option that its class does not have is an error."""
    classes = methods(with_rivals=False)
    classes = classes if method.lower() in classes else methods()
    if method.lower() not in classes:
        raise LikewiseError(f"--method {method} is not known: expected one of {', '.join(classes)}")
    if whole and "rank" in parameters:
        raise LikewiseError("--whole and --rank exclude each other: the whole matrix has no rank to choose")
    kind, preset = classes[method.lower()]
    accepted = set(kind().get_params())
    parameters = {**parameters, "rank": None} if whole else parameters
    for name in parameters.keys() - accepted:
        option = "whole" if whole and name == "rank" else _OPTIONS.get(name, name.replace("_", "-"))
        raise LikewiseError(f"--{option} has no meaning for the method {method}")
    return kind(**preset, **parameters)


# -- The rows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingRows:
    """The arguments of `fit`, and facts about them."""

    arguments: dict[str, Any]
    source: str
    shape: tuple[int, int]
    n_classes: int | None = None
    client: Any = None  # of a Dask cluster, to be closed after the fit


def _takes_rows(model: Any) -> bool:
    """Whether a model learns from rows that `open_rows` opened, wherever they are."""
    from likewise import SLR, SimilarityLearner

    return isinstance(model, SLR | SimilarityLearner)


def training_rows(
    model: Any, table: Any, memory_limit: str | None = None, dask: str | None = None, checkpoint: Path | None = None
) -> TrainingRows:
    """The labelled rows of a table, opened if the model takes them so; all rows for a model that needs no labels.

    The workers of a Dask cluster must see the file under the same name.
    """
    source = table.source
    if dask is None and not model.__sklearn_tags__().target_tags.required:
        return TrainingRows({"X": table.X}, source, table.X.shape)
    if dask is None and not _takes_rows(model):
        table = labelled(table)
        return TrainingRows({"X": table.X, "y": table.y}, source, table.X.shape, len(set(table.y.tolist())))
    from likewise.learn.engines import open_rows
    from likewise.rows.sources import NpyFile

    client = None
    file: Any = NpyFile.of_memmap(table.X) if hasattr(table.X, "filename") else None
    if dask is not None and (file is None or not _takes_rows(model)):
        raise LikewiseError(f"--dask is for a .npy file or a folder of features, by slr or anchored; not for {source}")
    for text in table.label_notes():
        note(text)
    if dask is not None:
        from likewise.learn.engines.dask import connected, dask_rows

        with working(f"connecting to {dask}"):
            client = connected(dask)
        rows = open_rows(dask_rows(file), table.y, checkpoint=checkpoint)
    else:
        if model.get_params().get("compress") == "gaussian":  # mixes all rows
            table = replace(table, X=in_memory(table.X))
        with _naming(source):
            rows = open_rows(table, memory_limit=memory_limit, checkpoint=checkpoint)
    return TrainingRows({"X": rows}, source, (rows.n_rows, rows.n_features), len(rows.classes), client)


def _related_rows(
    data: str, gallery: str | None, features: str | None, relevance: Path, half_life: float | None
) -> TrainingRows:
    """Rows, gallery and relevance; ids are the names of rows, or row numbers where rows have none."""
    from likewise.rows import read_relevance

    table = load_table(data, features=features)
    items = table if gallery is None else load_table(gallery, features=features)
    ids = {"query_ids": table.ids or table.names, "item_ids": items.ids or items.names}
    relevant = read_relevance(relevance, **ids, shape=(table.X.shape[0], items.X.shape[0]), half_life=half_life)
    for side, rows in (("", table), *([("--gallery ", items)] if gallery is not None else [])):
        if rows.ids is None and rows.names is None:
            note(f"{side}{rows.source} has no column of names: ids are row numbers, counted from 0")
    note(f"{relevance}: {relevant.summary}")
    arguments = {"X": table.X, "y": relevant} | ({} if gallery is None else {"gallery": items.X})
    return TrainingRows(arguments, table.source, table.X.shape)


@contextmanager
def _naming(source: str) -> Iterator[None]:
    """Add the name of the file to errors of scikit-learn's validation, which speak of X alone."""
    try:
        yield
    except ValueError as error:
        first = (str(error).splitlines() or [""])[0].rstrip(".")
        if ("NaN" in first or "infinity" in first) and source not in first:
            raise LikewiseError(f"{source}: {first}; likewise doctor tells more") from error
        raise


def _fit(model: Any, rows: TrainingRows) -> tuple[float, bool]:
    """Fit with a progress bar on a terminal; returns the seconds and whether Ctrl-C ended it early."""
    shows_bar = sys.stderr.isatty() and "verbose" in model.get_params()
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _naming(rows.source), nullcontext() if shows_bar else working(f"learning from {rows.shape[0]:,} rows"):
                if shows_bar:
                    model.set_params(verbose=1)
                model.fit(**rows.arguments)
                if shows_bar:
                    model.set_params(verbose=0)
        finally:
            if rows.client is not None:
                rows.client.close()
    for warning in caught:
        note(f"warning: {warning.message}")
    return time.perf_counter() - began, any(issubclass(warning.category, InterruptedFitWarning) for warning in caught)


# -- The report -------------------------------------------------------------------------------------------------------


def _summary(
    model: Any, method: str, rows: TrainingRows, output: Path, seconds: float, metrics: dict[str, float]
) -> dict[str, Any]:
    history = getattr(model, "history_", None) or []
    return {
        "model": str(output),
        "method": method.lower(),
        "rows": rows.shape[0],
        "columns": rows.shape[1],
        "classes": rows.n_classes,
        "pairs": getattr(rows.arguments.get("y"), "n_known", None),
        "setting": getattr(model, "setting_", None),
        "rank": getattr(model, "rank_", None),
        "iterations": getattr(model, "n_iter_", None),
        "loss": history[-1]["loss"] if history else None,
        "seconds": round(seconds, 3),
        "held_out": model.held_out_,
        "learned": getattr(model, "learned_", None),
        "recall@10": getattr(model, "recall_", None),
        "mAP": metrics.get("mAP"),
    }


def _show(summary: dict[str, Any], worth: str | None) -> None:
    nouns = {"rows": "row", "columns": "column", "classes": "class", "pairs": "known pair"}
    counts = [plural(summary[name], noun) for name, noun in nouns.items() if summary[name] is not None]
    say(f"{summary['method']} on {', '.join(counts)}")
    setting = summary["setting"] or {}
    if not setting.get("adaptation"):  # how much rows are trusted matters only to a map that adapts
        setting = {name: value for name, value in setting.items() if name != "trust"}
    parts = [f"rank {summary['rank']}"] if summary["rank"] is not None else []
    parts += [plural(summary["iterations"], "iteration")] if summary["iterations"] else []
    parts += [f"loss {summary['loss']:.4g} a pair"] if summary["loss"] is not None else []
    shares = {name: value["share"] for name, value in setting.items() if isinstance(value, dict)}
    parts += [f"{name} used by {share:.0%}" for name, share in shares.items() if share]
    plain = {name: value for name, value in setting.items() if value and name not in shares}
    parts += [f"{name.replace('_', ' ')} {short(value)}" for name, value in plain.items()]
    say(", ".join([*parts, f"{summary['seconds']:.2f} s"]))
    if worth or summary["held_out"]:
        say(worth or held_out_line(summary["held_out"]))
    if summary["recall@10"] is not None:
        say(f"recall@10 against whole vectors {summary['recall@10']:.4f}, of rows of this fit")
    if summary["mAP"] is not None:
        say(f"test mAP {summary['mAP']:.4f}")
    say(f"saved {summary['model']}")


def relevance_line(model: Any) -> str | None:
    """What a model that learned from relevance is worth on held-out queries, or how many more it would need."""
    held, n = model.held_out_, model.n_samples_
    if held is None:
        few = f"{plural(n, 'query')} {'is' if n == 1 else 'are'} too few to tell: the ranking stays as it is; "
        return None if model.learned_ else f"{few}at least 10 are needed"
    if not model.learned_ and held["needed"]:
        more = held["needed"] - n
        return f"{n:,} queries are too few to tell: the ranking stays as it is; about {more:,} more would tell"
    if not model.learned_:
        return f"held-out queries do not gain ({held['queries']:,} queries): the ranking stays as it is"
    first = 0 if model.n_gallery_features_ == model.n_features_in_ else 1  # between two widths there is no raw cosine
    views = {name: " -> ".join(map(_short, held[name][first:])) for name in ("known", "new") if name in held}
    parts = [f"{name} items {values}" for name, values in views.items()]
    return f"{held['measure']} of {', '.join(parts)} ({held['queries']:,} queries, held out)"


def _short(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")
