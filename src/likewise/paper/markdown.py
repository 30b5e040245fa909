"""A document made of blocks, written as Markdown and as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from likewise.reporting import report

__all__ = ["Block", "Code", "Facts", "Heading", "Picture", "TableBlock", "Text", "to_html", "to_markdown"]


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Code:
    text: str


@dataclass(frozen=True)
class Facts:
    """Names and their values."""

    entries: dict[str, str]


@dataclass(frozen=True)
class Picture:
    """A PNG file beside the document; `width` in CSS pixels."""

    path: Path
    caption: str
    width: int | None = None


@dataclass(frozen=True)
class TableBlock:
    """Rows of text; the first column is left-aligned, the others right-aligned; row `best` is highlighted."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    best: int | None = None


Block = Heading | Text | Code | Facts | Picture | TableBlock


def to_markdown(title: str, lead: str, blocks: Sequence[Block]) -> str:
    """The document as Markdown, with links to its pictures."""
    return "\n\n".join([f"# {title}", lead, *map(_markdown, blocks)]) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text):
            return f"## {text}"
        case Text(text):
            return text
        case Code(text):
            return f"```\n{text}\n```"
        case Facts(entries):
            return "\n".join(f"- {name}: {value}" for name, value in entries.items())
        case Picture(path, caption, _):
            return f"![{caption.split('.')[0]}]({path.name})\n\n*{caption}*"
        case TableBlock():
            return _markdown_table(block)


def _markdown_table(table: TableBlock) -> str:
    lines = [_bar(table.columns), _bar(["---", *["---:"] * (len(table.columns) - 1)])]
    for place, row in enumerate(table.rows):
        lines.append(_bar([f"**{cell}**" if cell else cell for cell in row] if place == table.best else row))
    return "\n".join(lines)


def _bar(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def to_html(title: str, lead: str, blocks: Sequence[Block]) -> str:
    """The document as one HTML file, with its pictures embedded."""
    return report.page(title, lead, [_html(block) for block in blocks])


def _html(block: Block) -> str:
    match block:
        case Heading(text):
            return report.heading(text)
        case Text(text):
            return report.paragraph(text)
        case Code(text):
            return report.code(text)
        case Facts(entries):
            return report.definitions(entries)
        case Picture(path, caption, width):
            return report.figure(path.read_bytes(), caption, caption.split(".")[0], width)
        case TableBlock(columns, rows, best):
            return report.table(columns, rows, best=best, numeric=list(columns)[1:])
