"""What `likewise evaluate` says of pairs: verification, calibration, and unknown classes."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from likewise.cli.console import results


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


def measured(model: Any, X: Any, y: Any, G: Any, y_g: Any) -> Pairs:
    """Pairs of rows of X with each other or with those of G, at most two million."""
    from likewise.evaluate.reliability import balanced, reliability
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


def open_set(model: Any, X: Any, y: Any, learned: Any) -> dict[str, float] | None:
    """AUROC of rows of unknown classes against known ones, and the mAP of the latter; None if there are no such."""
    from sklearn.metrics import roc_auc_score

    classes = getattr(model, "classes_", None)
    if classes is None or not model.knows_classes:
        return None
    is_known = np.isin(np.asarray(y).astype(str), np.asarray(classes).astype(str))
    if is_known.all() or not is_known.any():
        return None
    novelty = model.novelty(X)
    of_known = learned.average_precision[is_known[learned.queries]]
    return {
        "AUROC": float(roc_auc_score(~is_known, novelty)),
        "known_marked": float((novelty[is_known] > 1).mean()),
        "unknown_marked": float((novelty[~is_known] > 1).mean()),
        "mAP_of_known": float(of_known.mean()) if len(of_known) else float("nan"),
    }


def show(outcome: dict[str, Any]) -> None:
    """Print both."""
    from rich.table import Table as Grid

    console, pairs, strange = results(), outcome["pairs"], outcome["open_set"]
    if pairs is not None:
        console.print(f"pairs: AUROC {pairs['AUROC']:.4f}, equal error rate {pairs['EER']:.4f}{_said_of(pairs)}")
        grid = Grid("false accepts", "true accepts", "from score")
        for one in pairs["thresholds"]:
            grid.add_row(f"{one['false_accept']:.2%}", f"{one['true_accept']:.2%}", f"{one['score']:.4f}")
        if pairs["thresholds"]:
            console.print(grid)
    if strange is not None:
        console.print(
            f"unknown classes: AUROC {strange['AUROC']:.4f}; marked as unlike anything known are "
            f"{strange['unknown_marked']:.1%} of them and {strange['known_marked']:.1%} of the known, "
            f"whose mAP is {strange['mAP_of_known']:.4f}"
        )


def _said_of(pairs: dict[str, Any]) -> str:
    error = pairs["calibration_error"]
    return "" if error is None else f", probabilities off by {error:.4f}"


def write_page(path: Path, model: str, source: str, pairs: Pairs) -> Path:
    """The ROC curve, and the reliability curve of a calibrated model."""
    import tempfile

    from likewise.errors import LikewiseError
    from likewise.utils.files import atomic_write
    from likewise.utils.reporting.charts import Line, chart
    from likewise.utils.reporting.report import Picture, TableBlock, to_html

    if pairs.verification is None:
        raise LikewiseError(f"{source} has no two rows that match, or none that do not: there is no curve to draw")
    accepted, found = pairs.verification.curve
    with tempfile.TemporaryDirectory(prefix="likewise-") as scratch:
        lines = [Line("pairs", accepted, found, markers=False), _diagonal("chance")]
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
            lines = [Line("pairs at even odds", curve.stated, curve.found), _diagonal("as stated")]
            drawn = chart(Path(scratch) / "reliability.png", lines, "stated probability", "share that match")
            caption = f"Reliability. Expected calibration error {curve.error:.4f}."
            blocks.append(Picture(drawn, caption, 720))
        page = to_html(f"Pairs by {model}", f"Rows of {source}.", blocks)
    return atomic_write(path, page.encode())


def _diagonal(name: str) -> Any:
    from likewise.utils.reporting.charts import Line

    return Line(name, (0.0, 1.0), (0.0, 1.0), style="--", markers=False)
