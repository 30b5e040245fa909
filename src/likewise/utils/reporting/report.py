"""Reports: parts of one self-contained HTML page, without scripts, in light and dark; blocks also as Markdown."""

import base64
import platform
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import PackageNotFoundError, version
from math import isnan
from pathlib import Path
from string import Template
from typing import Any

import likewise


def page(title: str, lead: str, parts: Sequence[str]) -> str:
    """A page from a title, a lead sentence and parts made by the functions below."""
    template = Template((Path(__file__).parent / "page.html").read_text("utf-8"))
    return template.substitute(title=escape(title), lead=escape(lead), body="\n".join(parts))


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def code(text: str) -> str:
    return f"<pre><code>{escape(text)}</code></pre>"


def definitions(entries: dict[str, Any]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in entries.items())
    return f"<dl>{rows}</dl>"


def figure(png: bytes, caption: str, alt: str, width: int | None = None) -> str:
    """An embedded picture; `width` in CSS pixels makes a large picture sharp on a dense screen."""
    data = base64.b64encode(png).decode("ascii")
    size = "" if width is None else f' width="{width}"'
    image = f'<img alt="{escape(alt, quote=True)}"{size} src="data:image/png;base64,{data}">'
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str | float]],
    *,
    bar: str | None = None,
    best: int | None = None,
    marked: Collection[int] = (),
    full: float = 1.0,
    digits: dict[str, int] | None = None,
    numeric: Collection[str] = (),
) -> str:
    """A table; column `bar`, with values from 0 to `full`, is also drawn; rows `best` and `marked` are highlighted.

    A nan is shown as a dash, without a bar.
    """
    digits = digits or {}
    kinds = [' class="number"' if name in digits or name in numeric else "" for name in columns]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for kind, name in zip(kinds, columns, strict=True))
    lines = []
    for place, row in enumerate(rows):
        shown = [escape(_written(value, digits.get(name))) for name, value in zip(columns, row, strict=True)]
        cells = "".join(f"<td{kind}>{text}</td>" for kind, text in zip(kinds, shown, strict=True))
        drawn = "" if bar is None else _bar(float(row[list(columns).index(bar)]) / full)
        opening = '<tr class="best">' if place == best or place in marked else "<tr>"
        lines.append(f"{opening}{cells}{drawn}</tr>")
    head += "" if bar is None else "<th></th>"
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _bar(share: float) -> str:
    width = 0.0 if isnan(share) else min(max(share, 0.0), 1.0)
    return f'<td class="bar"><div style="width:{100 * width:.1f}%"></div></td>'


def _written(value: str | float, digits: int | None) -> str:
    if digits is None:
        return str(value)
    return "–" if isnan(float(value)) else f"{float(value):.{digits}f}"


def versions(*packages: str) -> dict[str, str]:
    """The versions of likewise, of Python and of these packages."""
    return {"likewise": likewise.__version__, "Python": platform.python_version(), **dict(map(_version, packages))}


def _version(package: str) -> tuple[str, str]:
    try:
        return package, version(package)
    except PackageNotFoundError:
        return package, "not installed"


# -- Blocks, written as HTML or as Markdown ---------------------------------------------------------------------------


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


def _markdown_table(block: TableBlock) -> str:
    rows = [block.columns, ["---", *["---:"] * (len(block.columns) - 1)]]
    for place, row in enumerate(block.rows):
        rows.append([f"**{cell}**" if cell else cell for cell in row] if place == block.best else row)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def to_html(title: str, lead: str, blocks: Sequence[Block]) -> str:
    """The document as one HTML file, with its pictures embedded."""
    return page(title, lead, [*map(_html, blocks)])


def _html(block: Block) -> str:
    match block:
        case Heading(text):
            return heading(text)
        case Text(text):
            return paragraph(text)
        case Code(text):
            return code(text)
        case Facts(entries):
            return definitions(entries)
        case Picture(path, caption, width):
            return figure(path.read_bytes(), caption, caption.split(".")[0], width)
        case TableBlock(columns, rows, best):
            return table(columns, rows, best=best, numeric=list(columns)[1:])
