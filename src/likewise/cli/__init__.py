"""The command line: one verb a module, each calling the public API only.

A verb is a module of this package with a function `register(app)`. Heavy imports belong inside the functions, so that
`likewise --help` answers at once.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Annotated

import typer

from likewise import __version__
from likewise.cli.console import Verbs

__all__ = ["app", "main"]

# In the order in which one uses them, which is also the order of the help.
VERBS = ("demo", "features", "fit", "evaluate", "compare", "index", "search", "serve", "doctor", "paper")

_EPILOG = (
    "Exit codes: 0 done; 1 doctor found something serious; 2 bad input or usage; 3 a fault of likewise; "
    "130 stopped by Ctrl-C."
)

app = typer.Typer(
    name="likewise",
    cls=Verbs,
    help='Learn from examples what "similar" means, and rank by it.',
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"likewise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="LIKEWISE_DEBUG", help="Show the whole traceback of an error.")
    ] = False,
) -> None:
    """Options before the verb; `Verbs` reads `debug` from the context."""


for _verb in VERBS:
    if find_spec(f"likewise.cli.{_verb}") is not None:
        import_module(f"likewise.cli.{_verb}").register(app)


def main() -> None:
    """Run the command line."""
    app(prog_name="likewise")
