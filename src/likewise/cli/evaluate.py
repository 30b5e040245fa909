"""`likewise evaluate`: how well a model ranks, beside raw cosine."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from likewise.cli import confidence
from likewise.cli.console import emit_json, note, results, working
from likewise.cli.options import (
    AsJson,
    Data,
    FeatureName,
    LabelColumn,
    Labels,
    MetadataColumns,
    check_writable,
    labelled,
    load_model,
    load_rows,
    model_first,
)
from likewise.utils.wording import plural


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file that likewise fit wrote.", show_default=False)],
    data: Data,
    labels: Labels = None,
    label_column: LabelColumn = None,
    features: FeatureName = None,
    metadata: MetadataColumns = None,
    gallery: Annotated[
        str | None,
        typer.Option("--gallery", "--train", metavar="DATA", help="Rank these rows instead of the queries' own."),
    ] = None,
    gallery_labels: Annotated[
        Path | None, typer.Option("--gallery-labels", metavar="FILE", help="Labels of the gallery, one per row.")
    ] = None,
    k: Annotated[
        list[int] | None, typer.Option("--k", help="Depths of P@k, R@k, nDCG@k. [dim]Default: 1, 10.[/]")
    ] = None,
    queries: Annotated[
        int | None,
        typer.Option("--queries", "--sample", help="Number of queries, drawn at random. [dim]Default: all.[/]", min=1),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of that draw.")] = 0,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="PAGE.html", help="Write the ROC and reliability curves to a page."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how well a model ranks, with raw cosine beside it.

    Every row is a query and ranks all other rows (itself left out); with --gallery the rows rank another table instead,
    for instance the training set. A row is relevant if it has the query's label. Queries without any relevant row are
    left out and counted. Rows that the model learned from are counted too: it may know them by heart. The interval is a
    bootstrap over queries, the p-value a paired sign-flip test against raw cosine.

    For verification it prints the scores from which on pairs are accepted, at shares of false accepts that the rows
    allow. Of a calibrated model it prints how far its probabilities are off, and where some classes were not seen in
    training, how well it tells them from known ones.

    [bold]Examples[/bold]

    \b
      likewise evaluate model.likewise test.csv
      likewise evaluate model.likewise test.npy --labels test.txt --k 1 --k 5 --k 20
      likewise evaluate model.likewise test.npz --gallery train.npz
      likewise evaluate model.likewise big.features --sample 1000
      likewise evaluate model.likewise test.npz --report test.html
      likewise evaluate model.likewise test.parquet --json | jq .model.mAP
    """
    check_writable(report, data, labels, gallery, option="--report")
    first, data = model_first(str(model), data)
    fitted = load_model(model := Path(first))
    options: dict[str, Any] = {"ks": tuple(k or (1, 10)), "n_queries": queries, "random_state": seed}
    width = getattr(fitted, "n_features_in_", None)
    table = load_rows(data, labels, label_column, features, None, metadata, width=width)
    if queries is not None and gallery is None and isinstance(table.X, np.memmap):
        _report(model, fitted, *_from_disk(fitted, table, options), report, as_json)
        return
    asked, ranked = labelled(table), None
    if gallery is not None:
        reading = (label_column, features, None, metadata)
        ranked = labelled(load_rows(gallery, gallery_labels, *reading, width=width))
    _note_unseen_classes(fitted, asked)
    with working(f"measuring {asked.X.shape[0]:,} queries"):
        learned, raw = _measure(fitted, asked, ranked, options)
    _report(model, fitted, asked, ranked, learned, raw, report, as_json)


def _from_disk(model: Any, asked: Any, options: dict[str, Any]) -> tuple[Any, None, Any, Any]:
    """Some queries against all rows of a file, which are read in blocks and never held."""
    from likewise.evaluate.out_of_core import evaluate_rows
    from likewise.learn.engines import open_rows

    for text in asked.label_notes():
        note(text)
    _note_unseen_classes(model, asked)
    with working(f"measuring {options['n_queries']:,} queries"):
        rows = open_rows(asked)
        learned, raw = (evaluate_rows(side, rows, **options) for side in (model, None))
    return asked, None, learned, raw


def _report(
    path: Path, model: Any, asked: Any, ranked: Any, learned: Any, raw: Any, page: Path | None, as_json: bool
) -> None:
    y_q, y_g = _matched(asked.y, None if ranked is None else ranked.y)
    pairs = confidence.measured(model, asked.X, y_q, None if ranked is None else ranked.X, y_g)
    outcome = {**_outcome(path, asked, ranked, learned, raw), "learned_from": _learned_from(model, asked, learned)}
    outcome |= {"pairs": pairs.summary(), "open_set": confidence.open_set(model, asked.X, asked.y, learned)}
    if page is not None:
        note(f"curves in {confidence.write_page(page, path.name, asked.source, pairs)}")
    if as_json:
        emit_json(outcome)
        return
    _show(outcome)
    confidence.show(outcome)


def _learned_from(model: Any, asked: Any, learned: Any) -> dict[str, float | int | None] | None:
    """How many rows the model learned from, and the mAP of the other queries; None if it learned from none."""
    known = model.learned_from(asked.X)
    if not known.any():
        return None
    others = learned.average_precision[~known[learned.queries]]
    return {"rows": int(known.sum()), "mAP_of_others": float(others.mean()) if len(others) else None}


def _measure(model: Any, asked: Any, ranked: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """The evaluation of the model, and of the cosine of the rows as they came."""
    from sklearn.preprocessing import normalize

    from likewise.evaluate import evaluate as measured

    y_q, y_g = _matched(asked.y, None if ranked is None else ranked.y)
    G = asked.X if ranked is None else ranked.X
    learned = measured(model.transform_query(asked.X), model.transform(G), y_q, y_g, **options)
    Q = normalize(asked.X)
    raw = measured(Q, Q if ranked is None else normalize(ranked.X), y_q, y_g, **options)
    return learned, raw


def _matched(y_q: Any, y_g: Any) -> tuple[Any, Any]:
    """Labels of both sides as one type: a file may hold '3' where the other holds 3."""
    if y_g is None or (y_q.dtype.kind in "iu") == (y_g.dtype.kind in "iu"):
        return y_q, y_g
    return y_q.astype(str), y_g.astype(str)


def _note_unseen_classes(model: Any, asked: Any) -> None:
    known = getattr(model, "classes_", None)
    if known is None:
        return
    names = set(map(str, np.unique(asked.y).tolist())) - {""}
    unseen = len(names - set(map(str, known.tolist())))
    if unseen:
        seen = "was not seen" if unseen == 1 else "were not seen"
        note(f"{unseen} of {plural(len(names), 'class')} in {asked.source} {seen} in training")


def _outcome(path: Path, asked: Any, ranked: Any, learned: Any, raw: Any) -> dict[str, Any]:
    from likewise.evaluate import paired_test

    test = paired_test(learned.average_precision, raw.average_precision)
    return {
        "file": str(path),
        "queries": asked.source,
        "gallery": asked.source if ranked is None else ranked.source,
        "model": learned.summary(),
        "raw_cosine": raw.summary(),
        "gain": {"mAP": test.difference, "mAP_interval": list(test.interval), "p_value": test.p_value},
    }


def _show(outcome: dict[str, Any]) -> None:
    from rich.table import Table as Grid

    console = results()
    learned, raw = outcome["model"], outcome["raw_cosine"]
    console.print(f"{plural(learned['n_queries'], 'query')} from {outcome['queries']}", markup=False, soft_wrap=True)
    if learned["n_excluded"]:
        were = "was" if learned["n_excluded"] == 1 else "were"
        console.print(f"{plural(learned['n_excluded'], 'query')} without a relevant row {were} left out")
    known = outcome["learned_from"]
    if known is not None:
        new = known["mAP_of_others"]
        said = "all of these rows: this is no test of it" if new is None else f"{known['rows']:,} of these rows"
        console.print(f"the model learned from {said}" + ("" if new is None else f"; mAP of the others {new:.4f}"))
    by_heart = known is not None and known["mAP_of_others"] is None
    grid = Grid("", "model, of rows it learned from" if by_heart else "model", "raw cosine")
    for column in grid.columns[1:]:
        column.justify = "right"
    for name in [key for key in learned if not key.startswith("n_")]:
        grid.add_row(name.replace("_", " "), *(_figure(side[name]) for side in (learned, raw)))
    console.print(grid)
    gain = outcome["gain"]
    console.print(
        f"mAP gain {gain['mAP']:+.4f}, 95 % interval {_figure(gain['mAP_interval'])}, p = {gain['p_value']:.2g}"
    )


def _figure(value: float | list[float]) -> str:
    return " to ".join(f"{v:.4f}" for v in value) if isinstance(value, list) else f"{value:.4f}"
