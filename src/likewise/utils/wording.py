"""Values, numbers, lists and tables as text."""

import csv
import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np


def mean_and_deviation(values: Sequence[float], digits: int = 1) -> str:
    """Mean ± sample standard deviation; only the value if there is one."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as a notebook shows it."""

    def line(cells: Sequence[Any], kind: str) -> str:
        texts = (f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells)
        return f"<tr>{''.join(f'<{kind}>{escape(text)}</{kind}>' for text in texts)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(columns, 'th')}</thead><tbody>{body}</tbody></table>"


def listed(parts: Sequence[str]) -> str:
    """A list as in a sentence: a, b and c."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else "none"


def plural(n: int, noun: str) -> str:
    """A number and its noun: 1 class, 2 classes, 3 queries."""
    many = f"{noun}es" if noun.endswith("s") else f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{n:,} {noun if n == 1 else many}"


def duration(seconds: float) -> str:
    """Seconds with three digits, and minutes from two on."""
    shown = f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.3g} s"
    return shown if seconds < 120 else f"{shown} ({seconds / 60:.1f} min)"


def short(value: Any) -> str:
    """The value of a setting: three digits of a number, yes or no, or the string itself."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a text begins that a spreadsheet evaluates


def csv_text(head: Sequence[str], lines: Iterable[Sequence[object]], *, guard: bool = True) -> str:
    """A table as CSV; `guard` puts an apostrophe in front of text that a spreadsheet would evaluate as a formula."""
    text = io.StringIO(newline="")
    plain, quoted = (csv.writer(text, lineterminator="\n", quoting=how) for how in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    for line in (head, *lines):
        cells = [f"'{v}" if guard and isinstance(v, str) and v.startswith(FORMULA) else v for v in line]
        has_return = any(isinstance(cell, str) and "\r" in cell for cell in cells)  # which some take for a new line
        (quoted if has_return else plain).writerow(cells)
    return text.getvalue()
