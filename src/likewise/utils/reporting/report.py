"""Reports made of blocks: one self-contained HTML page, without scripts, in light and dark, or Markdown."""

import base64
import platform
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from string import Template
from typing import NamedTuple

import likewise


def versions(*packages: str) -> dict[str, str]:
    """The versions of likewise, of Python and of these packages."""
    installed = {"likewise": likewise.__version__, "Python": platform.python_version()}
    for package in packages:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            installed[package] = "not installed"
    return installed


class Heading(NamedTuple):
    text: str


class Text(NamedTuple):
    text: str


class Code(NamedTuple):
    text: str


class Facts(NamedTuple):
    """Names and their values."""

    entries: dict[str, str]


@dataclass(frozen=True)
class Picture:
    """A PNG file next to the document; `width` in CSS pixels."""

    path: Path
    caption: str
    width: int | None = None


@dataclass(frozen=True)
class TableBlock:
    """Rows of text: the first `text_columns` columns are left-aligned, the others right-aligned.

    Row `best` and the rows `marked` are highlighted. The numbers of column `bar`, from 0 to `full`, are also drawn.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    best: int | None = None
    marked: Collection[int] = ()
    bar: str | None = None
    full: float = 1.0
    text_columns: int = 1


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
        case TableBlock(columns):
            rows = [columns, ["---", *["---:"] * (len(columns) - 1)]]
            for place, row in enumerate(block.rows):
                rows.append([f"**{cell}**" if cell else cell for cell in row] if place == block.best else row)
            return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def to_html(title: str, lead: str, blocks: Sequence[Block]) -> str:
    """The document as one HTML file, with its pictures embedded."""
    template = Template((Path(__file__).parent / "page.html").read_text("utf-8"))
    return template.substitute(title=escape(title), lead=escape(lead), body="\n".join(map(html_of, blocks)))


def html_of(block: Block) -> str:
    """One block as HTML."""
    match block:
        case Heading(text):
            return f"<h2>{escape(text)}</h2>"
        case Text(text):
            return f"<p>{escape(text)}</p>"
        case Code(text):
            return f"<pre><code>{escape(text)}</code></pre>"
        case Facts(entries):
            rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in entries.items())
            return f"<dl>{rows}</dl>"
        case Picture(path, caption, width):
            data = base64.b64encode(path.read_bytes()).decode("ascii")
            size = "" if width is None else f' width="{width}"'
            alt = escape(caption.split(".")[0], quote=True)
            image = f'<img alt="{alt}"{size} src="data:image/png;base64,{data}">'
            return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"
        case TableBlock():
            return _html_table(block)


def _html_table(block: TableBlock) -> str:
    kinds = ["" if place < block.text_columns else ' class="number"' for place in range(len(block.columns))]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for kind, name in zip(kinds, block.columns, strict=True))
    head += "" if block.bar is None else "<th></th>"
    lines = []
    for place, row in enumerate(block.rows):
        cells = "".join(f"<td{kind}>{escape(text)}</td>" for kind, text in zip(kinds, row, strict=True))
        if block.bar is not None:
            text = row[list(block.columns).index(block.bar)]  # a dash has no bar
            share = 0.0 if text == "–" else min(max(float(text) / block.full, 0.0), 1.0)
            cells += f'<td class="bar"><div style="width:{100 * share:.1f}%"></div></td>'
        opening = '<tr class="best">' if place == block.best or place in block.marked else "<tr>"
        lines.append(f"{opening}{cells}</tr>")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
