"""`likewise fit`: learn a similarity from rows and labels."""

import hashlib
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options
from likewise.cli.console import INTERRUPTED, emit_json, held_out_line, note, say, working
from likewise.errors import InterruptedFitWarning, LikewiseError
from likewise.utils.wording import plural, short

# Panels of the help, by the methods that options belong to.
_anchored = partial(typer.Option, rich_help_panel="Options of anchored")
_slr = partial(typer.Option, rich_help_panel="Options of slr")


def fit(
    data: options.Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="Model file to write.", show_default=False)
    ],
    labels: options.Labels = None,
    label_column: options.LabelColumn = None,
    features: options.FeatureName = None,
    metadata: options.MetadataColumns = None,
    drop_invalid: options.DropInvalid = False,
    method: Annotated[
        str | None,
        typer.Option(
            help="anchored (recommended), slr (the paper's), slr-fixed, or a baseline such as lda. [dim]Default: "
            "anchored; with --relevance the one method that learns from it.[/]"
        ),
    ] = None,
    relevance: options.Relevance = None,
    gallery: options.Gallery = None,
    side: options.Side = None,
    half_life: options.HalfLife = None,
    kernel: Annotated[str | None, _anchored(help="auto, linear or rbf.")] = None,
    n_landmarks: Annotated[
        int | None,
        _anchored(
            "--n-landmarks",
            help="Landmarks of the kernel, for faster queries. [dim]Default: as many as memory holds.[/]",
        ),
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
    memory_limit: options.MemoryLimit = None,
    checkpoint: options.Checkpoint = None,
    dask: options.Dask = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random. [dim]Default: 0.[/]")] = None,
    test: Annotated[
        str | None,
        typer.Option("--test", metavar="DATA", help="Evaluate mAP on this table too; stored in the model file."),
    ] = None,
    as_json: options.AsJson = False,
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
    parameters = {
        "rank": rank,
        "max_iter": max_iter,
        "alpha": alpha,
        "compress": compress,
        "compress_size": compress_size,
        "tol": tol,
        "random_state": seed,
        "kernel": kernel,
        "n_landmarks": n_landmarks,
        "scaling": scaling,
        "settings": {"temperature": "auto"} if posterior else None,
        "side": side,
    }
    parameters = {name: value for name, value in parameters.items() if value is not None}
    _check_method(method, relevance, gallery, half_life)
    inputs = (data, labels, relevance, gallery, test)
    options.check_writable(output, *inputs, checkpoint)
    options.check_writable(checkpoint, *inputs, option="--checkpoint")
    if relevance is None:
        model = _model(method := method or "anchored", parameters, whole)
        table = options.load_rows(data, labels, label_column, features, None, metadata, drop_invalid=drop_invalid)
        rows = options.training_rows(model, table, memory_limit, dask, checkpoint)
    else:
        rows = options.related_rows(data, gallery, features, relevance, half_life)
        model = _model(method := "relevance", parameters, whole)
    for name, value in (("memory-limit", memory_limit), ("checkpoint", checkpoint)):
        if value is not None and not options.takes_rows(model):
            raise LikewiseError(f"--{name} has no meaning for the method {method}")
    seconds, stopped = _fit(model, rows)
    model.provenance_ |= _provenance(data, rows)
    metrics = {} if test is None else _measured(model, test, label_column, features, None, metadata)
    model.save(output, metrics)
    summary = _summary(model, method, rows, output, seconds, metrics)
    _report(summary, relevance_line(model) if method == "relevance" else None, as_json)
    if stopped:
        raise typer.Exit(INTERRUPTED)


def methods() -> dict[str, tuple[type, dict[str, Any]]]:
    """Every method by its name on the command line: a class, and the parameters that the name implies."""
    from likewise import rivals
    from likewise.learn.base import SimilarityModel

    classes = _methods_without_rivals()
    for name in rivals.__all__:
        candidate = getattr(rivals, name)
        if isinstance(candidate, type) and issubclass(candidate, SimilarityModel):
            classes[name.lower()] = (candidate, {})
    return classes


def _methods_without_rivals() -> dict[str, tuple[type, dict[str, Any]]]:
    """The methods that need no baseline to be imported."""
    from likewise import SLR, RelevanceLearner, SimilarityLearner

    return {
        "anchored": (SimilarityLearner, {}),
        "slr": (SLR, {}),
        "slr-fixed": (SLR, {"adaptive": False}),
        "relevance": (RelevanceLearner, {}),
    }


_OPTIONS = {"random_state": "seed", "settings": "posterior"}


def _model(method: str, parameters: dict[str, Any], whole: bool) -> Any:
    """An unfitted model; an option that its class does not have is an error."""
    classes = _methods_without_rivals()
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


def _fit(model: Any, rows: options.TrainingRows) -> tuple[float, bool]:
    """Fit with a progress bar on a terminal; returns the seconds and whether Ctrl-C ended it early."""
    shows_bar = sys.stderr.isatty() and "verbose" in model.get_params()
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with options.naming(rows.source):
                if shows_bar:
                    model.set_params(verbose=1).fit(**rows.arguments)
                    model.set_params(verbose=0)
                else:
                    with working(f"learning from {rows.shape[0]:,} rows"):
                        model.fit(**rows.arguments)
        finally:
            rows.close()
    for warning in caught:
        note(f"warning: {warning.message}")
    return time.perf_counter() - began, any(issubclass(warning.category, InterruptedFitWarning) for warning in caught)


def _provenance(data: str, rows: options.TrainingRows) -> dict[str, Any]:
    """Where the rows of a model came from, for its card."""
    source: dict[str, Any] = {"path": data, "rows": rows.shape[0], "columns": rows.shape[1]}
    if Path(data).is_file():
        with open(data, "rb") as file:
            source["checksum"] = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    return {"source": source, "label_column": rows.label_column}


def _measured(model: Any, test: str, *reading: str | None) -> dict[str, float]:
    table = options.labelled(options.load_table(test, None, *reading, width=model.n_features_in_))
    with working("measuring"):
        return {"mAP": model.score(table.X, table.y), "n_test": float(table.X.shape[0])}


def _summary(
    model: Any, method: str, rows: options.TrainingRows, output: Path, seconds: float, metrics: dict[str, float]
) -> dict[str, Any]:
    history = getattr(model, "history_", None) or []
    return {
        "model": str(output),
        "method": method.lower(),
        "rows": rows.shape[0],
        "columns": rows.shape[1],
        "classes": rows.n_classes,
        "pairs": getattr(rows.y, "n_known", None),
        "setting": getattr(model, "setting_", None),
        "rank": getattr(model, "rank_", None),
        "iterations": getattr(model, "n_iter_", None),
        "loss": history[-1]["loss"] if history else None,
        "seconds": round(seconds, 3),
        "held_out": getattr(model, "held_out_", None),
        "learned": getattr(model, "learned_", None),
        "mAP": metrics.get("mAP"),
    }


def _report(summary: dict[str, Any], worth: str | None, as_json: bool) -> None:
    if as_json:
        emit_json(summary)
        return
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
    if summary["mAP"] is not None:
        say(f"test mAP {summary['mAP']:.4f}")
    say(f"saved {summary['model']}")


# ---------------------------------------------------------------------------------------------------------------------
# Learning from clicks or grades


def _check_method(method: str | None, relevance: Path | None, gallery: str | None, half_life: float | None) -> None:
    """Raise for a method that does not learn from the given labels or relevance."""
    for name, value in (("gallery", gallery), ("half-life", half_life)):
        if relevance is None and value is not None:
            raise LikewiseError(f"--{name} has a meaning only with --relevance")
    if relevance is None and (method or "").lower() == "relevance":
        raise LikewiseError("--method relevance needs --relevance: it learns from judgements, not from labels")
    if relevance is not None and (method or "relevance").lower() != "relevance":
        raise LikewiseError(f"--method {method} learns from labels: leave it out with --relevance")


def relevance_line(model: Any) -> str | None:
    """What a model that learned from relevance is worth on held-out queries, or how many more it would need."""
    held, n = model.held_out_, model.n_samples_
    if held is None:
        few = f"{plural(n, 'query')} {'is' if n == 1 else 'are'} too few to tell: the ranking stays as it is; "
        return None if model.learned_ else f"{few}at least {FEWEST} are needed"
    if not model.learned_ and held["needed"]:
        more = held["needed"] - n
        return f"{n:,} queries are too few to tell: the ranking stays as it is; about {more:,} more would tell"
    if not model.learned_:
        return f"held-out queries do not gain ({held['queries']:,} queries): the ranking stays as it is"
    first = 0 if model.n_gallery_features_ == model.n_features_in_ else 1  # between two widths there is no raw cosine
    views = {name: " -> ".join(map(_short, held[name][first:])) for name in ("known", "new") if name in held}
    parts = [f"{name} items {values}" for name, values in views.items()]
    return f"{held['measure']} of {', '.join(parts)} ({held['queries']:,} queries, held out)"


FEWEST = 10  # queries that can be held out


def _short(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")
