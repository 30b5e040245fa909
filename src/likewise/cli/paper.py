"""`likewise paper`: the tables and figures of the paper, on its data or on yours."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from likewise.cli.console import emit_json, note, print_table, say, working
from likewise.cli.options import AsJson

_ONLY = "Only some: table1, table3 (measured again), figure1 … 3, theorem, corollary, choices."


def paper(
    dataset: Annotated[str, Argument(metavar="DATASET", help="A name from above, or a path.")],
    path: Annotated[Path | None, Argument(metavar="[PATH]", help="Path of the data set.")] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="DIR", help="Output folder. [dim]Default: paper-DATASET.[/]")
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Few rows, two splits, short training.")] = False,
    methods: Annotated[str | None, Option(metavar="A,B,…", help="Only these methods. [dim]Default: all.[/]")] = None,
    splits: Annotated[
        int | None, Option(metavar="N", help="Number of 70/30 splits. [dim]Default: 5, quick 2.[/]")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Resume the run in the output folder.")] = False,
    only: Annotated[str | None, Option(metavar="A,B,…", help=_ONLY)] = None,
    rank: Annotated[int | None, Option(help="Rank of M. [dim]Default: 100.[/]", min=1)] = None,
    iterations: Annotated[
        int | None, Option("--iterations", "-T", help="Iterations T. [dim]Default: 10, imagenet50 5.[/]", min=1)
    ] = None,
    components: Annotated[
        int | None, Option(help="PCA components, 0 for no PCA. [dim]Default: 1000, text 300.[/]", min=0)
    ] = None,
    normalize: Annotated[bool, Option("--normalize/--no-normalize", help="Scale rows to unit length.")] = True,
    seed: Annotated[int, Option(help="Seed of the splits and of all methods.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Run the experiments of the paper: all rivals, tables and figures.

    DATASET is digits, which needs no files, or the path of a feature store or table with labels. Before a PATH it is a
    name for the report: caltech101 and imagenet50 bring the settings and the published figures of the paper.

    Writes [bold]report.md[/bold], [bold]report.html[/bold], [bold]cells.csv[/bold] and the figures to the output
    folder. Every result is stored at once; a killed run is resumed with --resume.

    [bold]Examples[/bold]

    \b
      likewise paper digits --quick
      likewise paper caltech101 caltech.features -o caltech
      likewise paper caltech101 caltech.features -o caltech --resume --methods LMNN --splits 1
      likewise paper caltech101 caltech.features -o caltech --resume --only table3
      likewise paper photos.features --methods Euclid,LDA,SLR
    """
    from likewise.utils.progress import progress_bar
    from likewise.utils.wording import plural

    with working(f"reading {dataset}"):
        from likewise.paper.run import pending, perform, prepare, write_report

        run = prepare(
            dataset, path, output, quick=quick, methods=methods, splits=splits, resume=resume, only=only,
            command=shlex.join(["likewise", *sys.argv[1:]]), rank=rank, n_iter=iterations,
            components=components, normalize=normalize, seed=seed,
        )  # fmt: skip
    if run.journal.damaged:
        note(f"{plural(run.journal.damaged, 'result')} in {run.journal.path} damaged, measured again")
    elif run.journal.moved is not None:
        note(f"the results of an earlier run were moved to {run.journal.moved}; --resume would have continued it")
    tasks, on_terminal = pending(run), sys.stderr.isatty()
    with progress_bar("the paper", len(tasks), enabled=on_terminal) as advance:
        for number, (task, done) in enumerate(perform(run, tasks), start=1):
            advance(1, str(task))
            if not on_terminal:
                scores = [f": mAP {100 * c.values['mAP']:.2f} %" for c in done.cells[-1:] if "mAP" in c.values]
                note(f"{number} of {len(tasks)}: {task}{''.join(scores)}")
    with working("writing the report"):
        files = write_report(run)
    _show(run, files, as_json)


def _show(run: Any, files: dict[str, Path], as_json: bool) -> None:
    """The methods of the tables with their mAP and training time, and the files."""
    from likewise.paper.tables import EXPERIMENT, TIMES
    from likewise.utils.wording import duration, mean_and_deviation

    names = run.journal.methods(EXPERIMENT, run.methods)
    scores = {name: [*run.journal.scores(EXPERIMENT, name).values()] for name in names}
    seconds = {name: run.journal.seconds(TIMES, name) for name in names}
    if as_json:
        facts = {"dataset": run.data.name, "rows": run.data.X.shape[0], "features": run.data.X.shape[1]}
        methods = [
            {"method": n, "mAP": sum(v) / len(v) / 100, "training_seconds": seconds[n], "splits": len(v)}
            for n, v in scores.items()
        ]
        paths = {name: str(path) for name, path in files.items()}
        return emit_json({**facts, "output": str(run.folder), "methods": methods, "files": paths})
    rows = [
        (name, mean_and_deviation(values), str(len(values)), "" if (t := seconds[name]) is None else duration(t))
        for name, values in scores.items()
    ]
    if rows:
        print_table(("method", "mAP %", "splits", "training"), rows)
    return say("\n".join(f"wrote {path}" for path in files.values()))
