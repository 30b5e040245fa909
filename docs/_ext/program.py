"""The `verbs` directive: every verb of `likewise` with its help, arguments and options, asked of the program itself."""

import re
from typing import Any

import typer
from sphinx.util.docutils import SphinxDirective

from likewise.cli import app as likewise

_MARKUP = re.compile(r"\[(/|/?(bold|italic|cyan|dim))\]")


def reference() -> str:
    """Markdown: one section per verb."""
    group = typer.main.get_command(likewise)
    return "\n\n".join(_section(name, command) for name, command in group.commands.items())  # type: ignore[attr-defined]


def _section(name: str, command: Any) -> str:
    context = command.context_class(command, info_name=name)
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    kinds = {kind: [p for p in shown if p.param_type_name == kind] for kind in ("argument", "option")}
    usage = " ".join(["likewise", name, *command.collect_usage_pieces(context)])
    tables = [_table(kind, parameters, context) for kind, parameters in kinds.items() if parameters]
    return "\n\n".join([f"## likewise {name}", f"```\n{usage}\n```", _prose(command.help or ""), *tables])


def _prose(text: str) -> str:
    """Paragraphs as Markdown; those that begin with a backspace are kept line by line, as in a terminal."""
    return "\n\n".join(_block(block) if block.startswith("\b") else _plain(block) for block in text.split("\n\n"))


def _block(block: str) -> str:
    lines = block.lstrip("\b\n").splitlines()
    return "\n".join(["```sh", *(line.removeprefix("  ") for line in lines), "```"])


def _plain(text: str) -> str:
    return " ".join(_MARKUP.sub("", text).split())


def _table(kind: str, parameters: list[Any], context: Any) -> str:
    records = [parameter.get_help_record(context) for parameter in parameters]
    rows = [f"| `{_cell(names)}` | {_cell(_plain(text))} |" for names, text in records]
    return "\n".join([f"| {kind} | |", "|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


class Program(SphinxDirective):
    """Parsed in the language of the page that it is on."""

    def run(self) -> list[Any]:
        return self.parse_text_to_nodes(reference(), allow_section_headings=True)


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("verbs", Program)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
