"""`likewise demo`: learn on the digits of scikit-learn, compare methods, show results before and after."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from likewise.cli.console import emit_json, print_table, results, working
from likewise.cli.options import AsJson
from likewise.utils.files import make_folder

if TYPE_CHECKING:
    from likewise.cli.demonstration import Demonstration


def demo(
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="Output folder.")] = Path("likewise-demo"),
    seed: Annotated[int, Option(help="Seed of the split and of the queries shown.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Learn on handwritten digits, compare with the usual methods, and show results before and after.

    Takes seconds and needs no files. Writes [bold]strips.png[/bold] (the results of a few queries before and after
    learning), [bold]report.html[/bold] (one self-contained page) and [bold]demo.likewise[/bold] (the learned model).

    [bold]Examples[/bold]

    \b
      likewise demo
      likewise demo --output /tmp/demo --seed 3
      likewise demo --json
    """
    make_folder(output)  # before learning, so that a wrong path is reported at once
    with working("learning on 70 % of the digits"):
        from likewise.cli.demonstration import demonstrate

        shown = demonstrate(seed)
    command = shlex.join(["likewise", "demo", "--output", str(output), "--seed", str(seed)])
    files = shown.write(output, command)
    _emit(shown, files) if as_json else _show(shown, files)


def _show(shown: Demonstration, files: dict[str, Path]) -> None:
    console, data = results(), shown.data
    console.print(
        f"digits: {len(data.X):,} for training, {len(data.Q):,} for testing; each test digit ranks all others"
    )
    figures = [(run.figures["mAP"], run.figures["P@1"], run.seconds) for run in shown.runs]
    rows = [[run.name, *(f"{value:.3f}" for value in values)] for run, values in zip(shown.runs, figures, strict=True)]
    print_table(("method", "mAP", "P@1", "seconds"), rows)
    for path in files.values():
        console.print(f"wrote {path}", markup=False, soft_wrap=True)


def _emit(shown: Demonstration, files: dict[str, Path]) -> None:
    emit_json(
        {
            "n_train": len(shown.data.X),
            "n_test": len(shown.data.Q),
            "seed": shown.seed,
            "methods": [{"method": run.name, **run.figures, "seconds": run.seconds} for run in shown.runs],
            "caption": shown.caption,
            "files": {name: str(path) for name, path in files.items()},
        }
    )
