"""`likewise demo`: learn on real pictures or on digits, compare methods, show results before and after."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from likewise.cli.console import emit_json, note, print_table, results, working
from likewise.cli.options import AsJson, check_own_folder
from likewise.errors import LikewiseError, MissingExtraError
from likewise.utils.files import atomic_write, make_folder

if TYPE_CHECKING:
    from likewise.cli.demonstration import Demonstration

_MARK = ".likewise-demo"  # a folder that has it is ours: its files may be replaced


def demo(
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="Output folder.")] = Path("likewise-demo"),
    pictures: Annotated[
        Path | None,
        Option(
            metavar="DIR", help="Pictures in folders that name them. [dim]Default: the stamps of Tux Paint, if any.[/]"
        ),
    ] = None,
    digits: Annotated[bool, Option("--digits", help="Handwritten digits only; needs no files.")] = False,
    open_: Annotated[bool, Option("--open", help="Open the page with the pictures in the browser.")] = False,
    port: Annotated[int, Option(help="Port of that page; 0 picks a free one.", min=0, max=65535)] = 8000,
    seed: Annotated[int, Option(help="Seed of the split and of the queries shown.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Learn what is similar from labelled pictures, compare with the usual methods, show results before and after.

    The pictures are those of --pictures, or of Debian's package tuxpaint-stamps-default where it is installed; labels
    are their folders. 30 % are held out: they are what is measured and shown. Without pictures the demo runs on the
    handwritten digits of scikit-learn.

    Writes [bold]strips.png[/bold] (the results of a few queries before and after learning), [bold]report.html[/bold]
    (one self-contained page), [bold]demo.likewise[/bold] (the learned model) and, of pictures, their features and an
    [bold].index[/bold] of all of them, which likewise serve, or --open, shows as a page to search and teach.

    [bold]Examples[/bold]

    \b
      likewise demo
      likewise demo --pictures /usr/share/tuxpaint/stamps --open
      likewise demo --digits --output /tmp/demo --seed 3
      likewise demo --json
    """
    folder = _chosen(pictures, digits, open_)
    make_folder(output)  # before learning, so that a wrong path is reported at once
    check_own_folder(output, (_MARK, "demo.likewise"), ("strips.png", "report.html", "demo.likewise", *_tables(folder)))
    atomic_write(output / _MARK, b"This folder was made by likewise demo.\n")
    found = None if folder is None else _of_pictures(folder, output, seed, insisted=bool(pictures or open_))
    with working("learning on 70 % of the digits"):
        second = _of_digits(seed)
    shown, others = (second, []) if found is None else (found[0], [second])
    command = shlex.join(["likewise", *_words(folder if found else None), "--output", str(output), "--seed", str(seed)])
    files = shown.write(output, command, others) | ({} if found is None else {"index": found[1]})
    _emit(shown, others, files) if as_json else _show(shown, others, files)
    if open_:
        _serve(files["index"], port)


def _tables(folder: Path | None) -> list[str]:
    """The file of labels that is written for a folder of pictures."""
    return [] if folder is None else [f"{folder.resolve().name or 'pictures'}.csv"]


def _chosen(pictures: Path | None, digits: bool, open_: bool) -> Path | None:
    """The folder of pictures to use; None for digits, with a sentence if there are just no pictures."""
    from likewise.cli.demo_pictures import STAMPS

    if digits and (pictures or open_):
        raise LikewiseError(f"--digits and --{'pictures' if pictures else 'open'} exclude each other: expected one")
    if digits or pictures is not None or STAMPS.is_dir():
        return None if digits else pictures or STAMPS
    missing = f"{STAMPS} (Debian's tuxpaint-stamps-default) does not exist"
    if open_:
        raise LikewiseError(f"--open needs pictures, and {missing}: give a folder with --pictures")
    note(f"no pictures: {missing}; the demo runs on handwritten digits")
    return None


def _words(folder: Path | None) -> list[str]:
    return ["demo", "--digits"] if folder is None else ["demo", "--pictures", str(folder)]


def _of_digits(seed: int) -> Demonstration:
    from likewise.cli.demo_digits import digit_models, digits
    from likewise.cli.demonstration import demonstrate

    return demonstrate(digits(seed), digit_models(seed), seed)


def _of_pictures(folder: Path, output: Path, seed: int, insisted: bool) -> tuple[Demonstration, Path] | None:
    """The demonstration and its index; None if what reads pictures is not installed and nobody insisted on them."""
    from likewise.cli import demo_pictures
    from likewise.cli.demonstration import demonstrate

    try:
        with working(f"extracting features of the pictures in {folder}"):
            store = demo_pictures.extracted(folder, output)
    except MissingExtraError as error:
        if insisted:
            raise
        note(f"{error}; the demo runs on handwritten digits")
        return None
    with working("learning on 70 % of the pictures"):
        shown = demonstrate(demo_pictures.pictures(store, seed), demo_pictures.picture_models(seed), seed)
    with working("indexing all pictures"):
        return shown, demo_pictures.indexed(shown.learned.model, store)


def _serve(index: Path, port: int) -> None:
    from likewise.cli.serve import serve

    serve(index, port=port)


def _show(shown: Demonstration, others: list[Demonstration], files: dict[str, Path]) -> None:
    console = results()
    for one in (shown, *others):
        _print_figures(one)
    for path in files.values():
        console.print(f"wrote {path}", markup=False, soft_wrap=True)
    if "index" in files:
        line = shlex.join([_program(), "serve", str(files["index"])])
        console.print(f"\nTo search them, and to teach it what you mean:\n\n  {line}\n", markup=False, soft_wrap=True)


def _print_figures(shown: Demonstration) -> None:
    data = shown.data
    results().print(
        f"{data.noun}: {len(set(data.y.tolist()))} labels; {len(data.X):,} to learn from and {len(data.Q):,} held out, "
        "which rank each other",
        soft_wrap=True,
    )
    rows = [[name, *(f"{value:.3f}" for value in values)] for name, *values in shown.rows()]
    print_table(("method", "mAP", "P@1", "seconds"), rows)


def _program() -> str:
    """How this program can be called again: `likewise` if the shell finds this one, else its path."""
    called = Path(sys.argv[0])
    found = shutil.which("likewise")
    if called.stem != "likewise" or (found is not None and Path(found).resolve() == called.resolve()):
        return "likewise"
    return str(called)


def _emit(shown: Demonstration, others: list[Demonstration], files: dict[str, Path]) -> None:
    emit_json(
        {
            "data": shown.data.noun,
            **_figures(shown),
            "seed": shown.seed,
            "caption": shown.caption,
            **{other.data.noun: _figures(other) for other in others},
            "files": {name: str(path) for name, path in files.items()},
        }
    )


def _figures(shown: Demonstration) -> dict[str, Any]:
    return {
        "n_train": len(shown.data.X),
        "n_test": len(shown.data.Q),
        "n_labels": len(set(shown.data.y.tolist())),
        "methods": [{"method": run.name, **run.figures, "seconds": run.seconds} for run in shown.runs],
    }
