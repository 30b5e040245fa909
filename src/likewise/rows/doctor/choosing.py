"""Which estimator: the lines of the decision page (docs/choosing.md) that concern the data."""

import tomllib
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

MANY_BYTES = 1 << 30  # of dense float32 rows: the memory limit of a fit


@dataclass(frozen=True)
class Line:
    """One line of docs/choosing.md: what someone has, what to use, and when not to."""

    number: int
    have: str
    use: str
    unless: str


def lines_for(facts: Set[str]) -> list[Line]:
    """The lines that any of the facts makes worth reading; facts are codes of findings and words of choosing.toml."""
    stored = tomllib.loads((Path(__file__).parent / "choosing.toml").read_text("utf-8"))["line"]
    return [
        Line(number, line["have"], line["use"], line["not"])
        for number, line in enumerate(stored, 1)
        if facts & set(line["when"])
    ]
