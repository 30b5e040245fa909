"""The command line: a module per verb, or for some that belong together, which calls the public API only.

A verb is a function of its name. Heavy imports go inside functions, so that `likewise --help` stays fast.
"""

import sys
from importlib import import_module
from inspect import getdoc
from io import TextIOWrapper
from typing import Annotated

import typer
from typer import Option

from likewise import __version__
from likewise.cli.console import Verbs

__all__ = ["app", "main"]

# In order of use, which is also their order in the help.
VERBS = (
    "demo", "features", "fit", "evaluate", "compare", "index", "search", "serve", "suggest", "learn", "concepts",
    "apply", "export", "pull", "show", "check", "backup", "restore", "doctor", "paper",
)  # fmt: skip
# Where the module has another name than the verb.
_MODULES = {"pull": "export", "suggest": "learn", "concepts": "learn", "backup": "check", "restore": "check"}

_HELP = """Learn from examples what "similar" means, and rank by it.

[bold]Three ways in[/bold]

\b
  likewise PHOTOS/                      pictures: a page to search and teach
  likewise fit train.csv -o m.likewise  embeddings: learn, then compare, index
  likewise paper digits --quick         the paper: its tables and figures
"""

_EPILOG = (
    "Exit codes: 0 success; 1 doctor or check found a serious problem; 2 bad input or usage; 3 a bug in likewise; "
    "4 evaluate --against found the new model clearly worse; 130 stopped by Ctrl-C."
)

app = typer.Typer(
    name="likewise",
    cls=Verbs,
    help=_HELP,
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(requested: bool) -> None:
    if requested:
        print(f"likewise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, Option("--debug", envvar="LIKEWISE_DEBUG", help="Show the full traceback of an error.")
    ] = False,
) -> None:
    """Options that precede the verb; `Verbs` reads `debug` from the context."""


for _verb in VERBS:
    _function = getattr(import_module(f"likewise.cli.{_MODULES.get(_verb, _verb)}"), _verb)
    # Each paragraph becomes one line, so that the terminal's own width breaks it.
    _paragraphs = (getdoc(_function) or "").split("\n\n")
    _help = "\n\n".join(text if "\b" in text else text.replace("\n", " ") for text in _paragraphs)
    app.command(_verb, help=_help)(_function)


def main() -> None:
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # a name of a file may hold any byte
    app(prog_name="likewise")
