"""`likewise evaluate`: how well a model ranks, compared with raw cosine or with the model that it would replace."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from typer import Argument, Exit, Option

from likewise.cli.console import emit_json, note, print_table, results, working
from likewise.cli.options import (
    AsJson,
    Data,
    DropInvalid,
    FeatureName,
    LabelColumn,
    Labels,
    MetadataColumns,
    Metric,
    check_writable,
    labelled,
    load_model,
    load_table,
    model_first,
)  # fmt: skip
from likewise.errors import LikewiseError
from likewise.utils.wording import plural

WORSE = 4  # exit code of --against for a model that ranks clearly worse
_CLEAR = 0.05  # largest p-value of a clear difference
_SHOWN = 5  # classes that lose most, on a terminal


def evaluate(
    model: Annotated[Path, Argument(metavar="MODEL", help="A file that likewise fit wrote.")],
    data: Data,
    labels: Labels = None,
    label_column: LabelColumn = None,
    features: FeatureName = None,
    metadata: MetadataColumns = None,
    drop_invalid: DropInvalid = False,
    gallery: Annotated[
        str | None, Option("--gallery", "--train", metavar="DATA", help="Rank these rows instead of the queries' own.")
    ] = None,
    gallery_labels: Annotated[Path | None, Option(metavar="FILE", help="Labels of the gallery, one per row.")] = None,
    k: Annotated[list[int] | None, Option(help="Depths of P@k, R@k, nDCG@k. [dim]Default: 1, 10.[/]")] = None,
    metric: Metric = "map",
    queries: Annotated[
        int | None,
        Option("--queries", "--sample", help="Number of queries, drawn at random. [dim]Default: all.[/]", min=1),
    ] = None,
    seed: Annotated[int, Option(help="Seed of that draw.")] = 0,
    against: Annotated[
        Path | None, Option(metavar="OLD", help="Compare with this model; exit with 4 if MODEL is clearly worse.")
    ] = None,
    report: Annotated[
        Path | None, Option(metavar="PAGE.html", help="Write the ROC and reliability curves to a page.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how well a model ranks, compared with raw cosine.

    Every row is a query and ranks all other rows (itself left out); with --gallery the rows rank another table instead,
    for instance the training set. A row is relevant if it has the query's label. Queries without any relevant row are
    left out and counted. Rows that the model learned from are counted too: scores of training rows are optimistic.
    The interval is a bootstrap over queries, the p-value a paired sign-flip test against raw cosine, both of --metric.

    For verification it prints the scores from which on pairs are accepted, at shares of false accepts that the rows
    allow. Of a calibrated model it prints how far its probabilities are off, and where some classes were not seen in
    training, how well it tells them from known ones.

    --against OLD is a gate before a new model goes into use: both models rank the same rows, without those that either
    learned from. It prints both figures and the classes that lose most. It exits with 4 if the metric is lower and
    the p-value of the paired test below 0.05, else with 0.

    [bold]Examples[/bold]

    \b
      likewise evaluate model.likewise test.csv
      likewise evaluate model.likewise test.npy --labels test.txt --k 1 --k 5 --k 20
      likewise evaluate model.likewise test.npz --gallery train.npz
      likewise evaluate model.likewise big.features --sample 1000
      likewise evaluate model.likewise test.npz --report test.html
      likewise evaluate new.likewise --against old.likewise test.parquet
      likewise evaluate model.likewise test.parquet --json | jq .model.mAP
    """
    check_writable(report, data, labels, gallery, option="--report")
    if against is not None and report is not None:
        raise LikewiseError("--report is for one model: leave it out with --against")
    first, data = model_first(str(model), data)
    fitted = load_model(model := Path(first))
    options: dict[str, Any] = {"ks": tuple(k or (1, 10)), "metric": metric, "n_queries": queries, "random_state": seed}
    width = getattr(fitted, "n_features_in_", None)
    read = partial(load_table, names=False, width=width, drop_invalid=drop_invalid)
    table = read(data, labels, label_column, features, None, metadata)
    if queries is not None and gallery is None and against is None and isinstance(table.X, np.memmap):
        return _report(model, fitted, *_from_disk(fitted, table, options), report, as_json)
    queried, ranked = labelled(table), None
    if gallery is not None:
        ranked = labelled(read(gallery, gallery_labels, label_column, features, None, metadata))
        if (queried.y.dtype.kind in "iu") != (ranked.y.dtype.kind in "iu"):  # a file may hold '3', the other 3
            queried, ranked = (replace(side, y=side.y.astype(str)) for side in (queried, ranked))
    _note_unseen_classes(fitted, queried)
    if against is not None:
        return _gate((model, against), (fitted, load_model(against)), queried, ranked, options, as_json)
    with working(f"measuring {queried.X.shape[0]:,} queries"):
        learned, raw = (_measure(side, queried, ranked, options) for side in (fitted, None))
    return _report(model, fitted, queried, ranked, learned, raw, report, as_json)


def _from_disk(model: Any, queried: Any, options: dict[str, Any]) -> tuple[Any, None, Any, Any]:
    """Some queries against all rows of a file, which are read in blocks and never held."""
    from likewise.learn.engines import open_rows
    from likewise.learn.evaluation import evaluate_rows

    for text in queried.label_notes():
        note(text)
    _note_unseen_classes(model, queried)
    with working(f"measuring {options['n_queries']:,} queries"):
        rows = open_rows(queried)
        learned, raw = (evaluate_rows(side, rows, **options) for side in (model, None))
    return queried, None, learned, raw


def _measure(model: Any, queried: Any, ranked: Any, options: dict[str, Any]) -> Any:
    """The evaluation of a model, or of the cosine of the rows as they came."""
    from sklearn.preprocessing import normalize

    from likewise.evaluate import evaluate as measured

    gallery, y = (queried, None) if ranked is None else (ranked, ranked.y)
    if model is not None:
        return measured(model.transform_query(queried.X), model.transform(gallery.X), queried.y, y, **options)
    return measured(normalize(queried.X), normalize(gallery.X), queried.y, y, **options)


def _note_unseen_classes(model: Any, queried: Any) -> None:
    known = getattr(model, "classes_", None)
    if known is None:
        return
    names = set(map(str, np.unique(queried.y).tolist())) - {""}
    unseen = len(names - set(map(str, known.tolist())))
    if unseen:
        seen = "was not seen" if unseen == 1 else "were not seen"
        note(f"{unseen} of {plural(len(names), 'class')} in {queried.source} {seen} in training")


def _difference(new: Any, old: Any) -> dict[str, Any]:
    """The difference of two evaluations of the same queries, its interval, and the p-value of a paired test."""
    from likewise.evaluate import paired_test

    test, metric = paired_test(new.values, old.values), new.metric
    return {metric: test.difference, f"{metric}_interval": list(test.interval), "p_value": test.p_value}


def _report(
    path: Path, model: Any, queried: Any, ranked: Any, learned: Any, raw: Any, page: Path | None, as_json: bool
) -> None:
    """A model compared with the cosine of the raw rows, and how well it verifies pairs and knows unknown classes."""
    metric, is_known = learned.metric, model.learned_from(queried.X)
    others = learned.values[~is_known[learned.queries]]
    of_others = float(others.mean()) if len(others) else None
    known = {"rows": int(is_known.sum()), f"{metric}_of_others": of_others} if is_known.any() else None
    pairs = _pairs_of(model, queried.X, queried.y, *((None, None) if ranked is None else (ranked.X, ranked.y)))
    outcome: dict[str, Any] = {
        "file": str(path),
        "queries": queried.source,
        "gallery": queried.source if ranked is None else ranked.source,
        "model": learned.summary(),
        "raw_cosine": raw.summary(),
        "gain": _difference(learned, raw),
        "metric": metric,
        "learned_from": known,
        "pairs": pairs.summary(),
        "open_set": _open_set(model, queried.X, queried.y, learned),
    }
    if page is not None:
        note(f"curves in {_write_page(page, path.name, queried.source, pairs)}")
    if as_json:
        return emit_json(outcome)
    console, n_excluded, of_what = results(), outcome["model"]["n_excluded"], "model"
    _print_size(outcome["model"], queried.source)
    if n_excluded:
        were = "was" if n_excluded == 1 else "were"
        console.print(f"{plural(n_excluded, 'query')} without a relevant row {were} left out")
    if known is not None and of_others is None:
        of_what = "model, of rows it learned from"
        console.print("the model learned from all of these rows: this does not test it")
    elif known is not None:
        console.print(f"the model learned from {known['rows']:,} of these rows; {metric} of the others {of_others:.4f}")
    _print_figures((of_what, "raw cosine"), outcome["model"], outcome["raw_cosine"])
    _print_difference(f"{metric} gain", metric, outcome["gain"])
    return _show_pairs(outcome)


def _print_size(summary: dict[str, Any], source: str, more: str = "") -> None:
    results().print(f"{plural(summary['n_queries'], 'query')} from {source}{more}", markup=False, soft_wrap=True)


def _print_figures(names: tuple[str, str], one: dict[str, Any], other: dict[str, Any]) -> None:
    """Two summaries next to each other."""
    figures = [name for name in one if not name.startswith("n_") and name not in ("file", "id")]
    rows = [(name.replace("_", " "), _figure(one[name]), _figure(other[name])) for name in figures]
    print_table(("", *names), rows)


def _print_difference(text: str, metric: str, difference: dict[str, Any]) -> None:
    interval = _figure(difference[f"{metric}_interval"])
    results().print(f"{text} {difference[metric]:+.4f}, 95 % interval {interval}, p = {difference['p_value']:.2g}")


def _figure(value: float | list[float]) -> str:
    return " to ".join(f"{v:.4f}" for v in value) if isinstance(value, list) else f"{value:.4f}"


# -- A new model against the one in use --------------------------------------------------------------------------------


def _gate(
    paths: tuple[Path, Path], models: tuple[Any, Any], queried: Any, ranked: Any, options: dict[str, Any], as_json: bool
) -> None:
    """Compare two models on rows that neither learned from, and exit with 4 if the first is clearly worse."""
    is_new = ~(models[0].learned_from(queried.X) | models[1].learned_from(queried.X))
    n_known, source = int(np.count_nonzero(~is_new)), queried.source
    if not is_new.any():
        raise LikewiseError(f"the models learned from all rows of {source}: expected some that neither has seen")
    if n_known:
        queried = replace(queried, X=queried.X[is_new], y=queried.y[is_new], names=None, ids=None, metadata=None)
    with working(f"measuring {queried.X.shape[0]:,} queries"):
        new, old = (_measure(model, queried, ranked, options) for model in models)
    difference, metric = _difference(new, old), new.metric
    is_clear = difference["p_value"] < _CLEAR
    verdict = "equal" if not is_clear else "better" if difference[metric] > 0 else "worse"
    names, code, counts = np.unique(queried.y.astype(str)[new.queries], return_inverse=True, return_counts=True)
    of_new, of_old = (np.bincount(code, e.values) / counts for e in (new, old))
    classes = [
        {"class": str(names[c]), "n_queries": int(counts[c]), "new": float(of_new[c]), "old": float(of_old[c])}
        for c in np.argsort(of_new - of_old, kind="stable")  # those that lose most first
    ]
    outcome: dict[str, Any] = {"verdict": verdict, "metric": metric}
    for name, path, model, evaluation in zip(("new", "old"), paths, models, (new, old), strict=True):
        outcome[name] = {"file": str(path), "id": model.identity, **evaluation.summary()}
    outcome |= {"difference": difference, "classes": classes, "queries": source, "n_learned_left_out": n_known}
    emit_json(outcome) if as_json else _show_gate(outcome)
    if verdict == "worse":
        raise Exit(WORSE)


def _show_gate(outcome: dict[str, Any]) -> None:
    new, old, metric, left_out = outcome["new"], outcome["old"], outcome["metric"], outcome["n_learned_left_out"]
    more = f"; {plural(left_out, 'row')} that a model learned from left out" if left_out else ""
    _print_size(new, outcome["queries"], more)
    _print_figures((f"new {new['id']}", f"old {old['id']}"), new, old)
    losers = [one for one in outcome["classes"] if one["new"] < one["old"]][:_SHOWN]
    if losers:
        print_table(
            ("classes that lose most", "queries", f"new {metric}", f"old {metric}"),
            [(one["class"], str(one["n_queries"]), _figure(one["new"]), _figure(one["old"])) for one in losers],
        )
    words = {"better": "clearly better", "equal": "no clear difference", "worse": "clearly worse"}[outcome["verdict"]]
    _print_difference(f"{words}: {metric}", metric, outcome["difference"])


# -- Pairs: verification, calibration, and unknown classes -------------------------------------------------------------


class Pairs(NamedTuple):
    """Verification by scores, and the reliability of the probabilities of a calibrated model at even odds."""

    verification: Any
    reliability: Any

    def summary(self) -> dict[str, Any] | None:
        """Plain values, ready for JSON; None if no two rows match, or all do."""
        if self.verification is None:
            return None
        error = None if self.reliability is None else self.reliability.error
        return {**self.verification.summary(), "calibration_error": error}


def _pairs_of(model: Any, X: Any, y: Any, G: Any, y_g: Any) -> Pairs:
    """Pairs of rows of X with each other or with those of G, at most two million."""
    from likewise.evaluate.calibration import balanced, reliability
    from likewise.evaluate.verification import some_pairs, verification

    scores, same = some_pairs(model, X, y, G, y_g)
    if same.all() or not same.any():
        return Pairs(None, None)
    curve = None
    if model.calibration_ is not None:
        learned = bool(G is not None and model.learned_from(G).any())
        P = model.calibration.probability(scores, int(learned), base_rate=0.5)
        curve = reliability(P, same, sample_weight=balanced(same))
    return Pairs(verification(scores, same), curve)


def _open_set(model: Any, X: Any, y: Any, learned: Any) -> dict[str, float] | None:
    """AUROC of rows of unknown classes against known ones, and the metric of the latter; None if there are no such."""
    from sklearn.metrics import roc_auc_score

    classes = getattr(model, "classes_", None)
    if classes is None or not model.knows_classes:
        return None
    is_known = np.isin(np.asarray(y).astype(str), np.asarray(classes).astype(str))
    if is_known.all() or not is_known.any():
        return None
    novelty = model.novelty(X)
    of_known = learned.values[is_known[learned.queries]]
    return {
        "AUROC": float(roc_auc_score(~is_known, novelty)),
        "known_marked": float((novelty[is_known] > 1).mean()),
        "unknown_marked": float((novelty[~is_known] > 1).mean()),
        f"{learned.metric}_of_known": float(of_known.mean()) if len(of_known) else float("nan"),
    }


def _show_pairs(outcome: dict[str, Any]) -> None:
    """Print the verification, and how well unknown classes are recognised."""
    from rich.table import Table as Grid

    console, pairs, unknown = results(), outcome["pairs"], outcome["open_set"]
    if pairs is not None:
        error = pairs["calibration_error"]
        off = "" if error is None else f", probabilities off by {error:.4f}"
        console.print(f"pairs: AUROC {pairs['AUROC']:.4f}, equal error rate {pairs['EER']:.4f}{off}")
        grid = Grid("false accepts", "true accepts", "from score")
        for step in pairs["thresholds"]:
            grid.add_row(f"{step['false_accept']:.2%}", f"{step['true_accept']:.2%}", f"{step['score']:.4f}")
        if pairs["thresholds"]:
            console.print(grid)
    if unknown is not None:
        console.print(
            f"unknown classes: AUROC {unknown['AUROC']:.4f}; marked as unlike anything known are "
            f"{unknown['unknown_marked']:.1%} of them and {unknown['known_marked']:.1%} of the known, "
            f"whose {outcome['metric']} is {unknown[outcome['metric'] + '_of_known']:.4f}"
        )


def _write_page(path: Path, model: str, source: str, pairs: Pairs) -> Path:
    """The ROC curve, and the reliability curve of a calibrated model."""
    import tempfile

    from likewise.utils.files import atomic_write
    from likewise.utils.reporting.charts import Line, chart
    from likewise.utils.reporting.report import Picture, TableBlock, to_html

    if pairs.verification is None:
        raise LikewiseError(f"{source} has no two rows that match, or none that do not: there is no curve to draw")
    accepted, matching = pairs.verification.curve
    with tempfile.TemporaryDirectory(prefix="likewise-") as scratch:
        lines = [Line("pairs", accepted, matching, markers=False), _diagonal("chance")]
        roc = chart(
            Path(scratch) / "roc.png", lines, "share of other pairs accepted", "share of matching pairs accepted"
        )
        blocks: list[Any] = [Picture(roc, f"ROC. Area {pairs.verification.auroc:.4f}.", 720)]
        rows = [
            [f"{t.false_accept:.2%}", f"{t.true_accept:.2%}", f"{t.score:.4f}"] for t in pairs.verification.thresholds
        ]
        blocks.append(TableBlock(["false accepts", "true accepts", "from score"], rows))
        if pairs.reliability is not None:
            curve = pairs.reliability
            lines = [Line("pairs at even odds", curve.stated, curve.observed), _diagonal("as stated")]
            drawn = chart(Path(scratch) / "reliability.png", lines, "stated probability", "share that match")
            caption = f"Reliability. Expected calibration error {curve.error:.4f}."
            blocks.append(Picture(drawn, caption, 720))
        page = to_html(f"Pairs by {model}", f"Rows of {source}.", blocks)
    return atomic_write(path, page.encode())


def _diagonal(name: str) -> Any:
    from likewise.utils.reporting.charts import Line

    return Line(name, (0.0, 1.0), (0.0, 1.0), style="--", markers=False)
