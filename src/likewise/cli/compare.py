"""`likewise compare`: how well do the usual methods rank my data, and which should I use?"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from likewise.cli.console import emit_json, note, results
from likewise.cli.options import (
    AsJson,
    Data,
    FeatureName,
    LabelColumn,
    Labels,
    Metric,
    check_writable,
    labelled,
    load_table,
)

if TYPE_CHECKING:
    from likewise.rivals.compare import Comparison


def compare(
    data: Data,
    labels: Labels = None,
    label_column: LabelColumn = None,
    features: FeatureName = None,
    methods: Annotated[str | None, Option(metavar="NAMES", help="Only these methods, separated by commas.")] = None,
    splits: Annotated[int, Option(help="Number of random splits to average over.", min=1)] = 1,
    test_size: Annotated[float, Option(help="Share of each class that is held out.")] = 0.3,
    no_seen: Annotated[bool, Option("--no-seen", help="Leave out the table for known classes.")] = False,
    no_unseen: Annotated[bool, Option("--no-unseen", help="Leave out the table for new classes.")] = False,
    no_mixed: Annotated[bool, Option("--no-mixed", help="Leave out the table for both in one gallery.")] = False,
    metric: Metric = "map",
    max_rows: Annotated[int, Option(help="Sample larger data to this many rows; 0 uses all.", min=0)] = 10_000,
    small: Annotated[int, Option(help="Most training rows for NCA and the SVM.", min=0)] = 3_000,
    seed: Annotated[int, Option(help="Seed of the splits and all methods.", min=0)] = 0,
    output: Annotated[Path | None, Option("--output", "-o", metavar="HTML", help="Also write a report.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the usual methods with SimilarityLearner on your own data, and recommend one in a sentence.

    All learn from the same rows and tune their settings on them alone; then the held-out rows rank each other. Known
    classes: 30 % of the rows of each class are held out. New classes: half of the classes are. Both in one gallery:
    half of the classes are taught, and held-out rows of all are searched. Printed are mAP, or what --metric names, with
    a bootstrap interval, or that of taught and of new queries; P@1, nDCG@10, seconds to fit, the width of an index, and
    a paired test of SimilarityLearner against each
    method. Every cosine is ranked a second time with neighbours, in a block of its own. Cheap methods run first; on a
    terminal each row is printed as it finishes, with the time left. Large data is sampled by class. A method that fails
    is listed with the reason.

    [bold]Examples[/bold]

    \b
      likewise compare photos.features
      likewise compare embeddings.npz --splits 5 -o report.html
      likewise compare train.csv --methods cosine,lda,anchored --no-unseen --no-mixed
      likewise compare embeddings.npy --labels labels.txt --json | jq .recommendation
    """
    check_writable(output, data, labels)
    table = labelled(load_table(data, labels, label_column, features))
    import likewise
    from likewise.rivals.compare.rendering import show

    comparison = likewise.compare(
        table.X,
        table.y,
        methods=None if methods is None else [name.strip() for name in methods.split(",") if name.strip()],
        splits=splits,
        test_size=test_size,
        seen=not no_seen,
        unseen=not no_unseen,
        mixed=not no_mixed,
        metric=metric,
        max_rows=max_rows or None,
        small=small,
        random_state=seed,
        verbose=int(sys.stderr.isatty()),
    )
    emit_json({"source": table.source, **comparison.to_dict()}) if as_json else show(comparison, results())
    if output is not None:
        _write(output, comparison, table.source)


def _write(output: Path, comparison: Comparison, source: str) -> None:
    from likewise.utils.files import atomic_write

    command = shlex.join(["likewise", *sys.argv[1:]]) if Path(sys.argv[0]).stem in ("likewise", "__main__") else None
    page = comparison.to_html(f"{Path(source).name}: which similarity?", command)
    atomic_write(output, page.encode("utf-8", "backslashreplace"))
    note(f"wrote {output}")
