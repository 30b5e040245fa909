"""Fill what the pages take from files: figures from `docs/results/*.json`, and the lines of the decision page.

    python tools/fill_pages.py            # fill README.md and docs/
    python tools/fill_pages.py --check    # exit with 1 if a page and its files differ

A page names its source in comments, which no reader sees:

    <!-- results: comparisons rows=cosine;SimilarityLearner columns=digits -->  a table, or part of it, to <!-- end -->
    from <!-- result: photo-story before -->.635<!-- end -->                 one figure in a sentence
    by <!-- result: comparisons cosine;digits -->66.5<!-- end --> %          one cell of a table
    <!-- all results -->                                                     every file, with its command and date
    <!-- choosing -->                                                        src/likewise/rows/choosing.toml
"""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
CHOOSING = ROOT / "src" / "likewise" / "rows" / "choosing.toml"
_TABLE = re.compile(r"(<!-- (results: .+?|all results|choosing) -->\n).*?(\n<!-- end -->)", re.DOTALL)
_FIGURE = re.compile(r"(<!-- result: (\S+) (.+?) -->).*?(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """Every page that may have figures."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def result(name: str) -> dict[str, Any]:
    """One stored result: about, command, date, machine, and a table or figures by name."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def filled(text: str) -> str:
    """The page as it follows from its files."""
    text = _TABLE.sub(lambda found: found[1] + "\n" + _block(found[2]) + "\n" + found[3], text)
    return _FIGURE.sub(lambda found: found[1] + _figure(result(found[2]), found[3]) + found[4], text)


def _figure(stored: dict[str, Any], key: str) -> str:
    """A figure by its name, or a cell of a table by row;column, without what the table adds to it."""
    if "table" not in stored:
        return str(stored["figures"][key])
    row, column = key.split(";")
    cell = _row(stored["table"]["rows"], row)[stored["table"]["columns"].index(column)]
    return cell.strip("*= ").split(" ±")[0]


def _block(what: str) -> str:
    if what == "choosing":
        return choosing_table()
    if what == "all results":
        return all_results()
    name, *chosen = what.removeprefix("results: ").split(" ", 1)
    options = dict(re.findall(r"(\w+)=(.*?)(?= \w+=|$)", chosen[0] if chosen else ""))
    return results_table(result(name)["table"], **{key: value.split(";") for key, value in options.items()})


def results_table(table: dict[str, Any], rows: list[str] | None = None, columns: list[str] | None = None) -> str:
    """Markdown of a table, or of the rows and columns named, in the order named."""
    heads = table["columns"]
    kept = list(range(len(heads))) if columns is None else [0, *(heads.index(name) for name in columns)]
    lines = table["rows"] if rows is None else [_row(table["rows"], name) for name in rows]
    align = table.get("align", ["---"] * len(heads))
    return "\n".join(_line([row[i] for i in kept]) for row in (heads, align, *lines))


def _row(rows: list[list[str]], name: str) -> list[str]:
    return next(row for row in rows if row[0] == name)


def _line(cells: list[str]) -> str:
    return "|" + "|".join(cell if set(cell) <= set("-:") and cell else f" {cell} " for cell in cells) + "|"


def all_results() -> str:
    """Every stored result: what it is, the command, the date, the machine."""
    stored = [json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    rows = [[one["about"], f"`{one['command']}`", one["date"], one["machine"]] for one in stored]
    return results_table({"columns": ["what", "command", "date", "machine"], "rows": rows})


def choosing_table() -> str:
    """The numbered lines of the decision page."""
    lines = tomllib.loads(CHOOSING.read_text("utf-8"))["line"]
    rows = [[str(i), one["have"], one["use"], one["not"]] for i, one in enumerate(lines, 1)]
    return results_table({"columns": ["line", "you have", "use", "not if"], "rows": rows})


def main() -> None:
    changed = [page for page in pages() if filled(page.read_text("utf-8")) != page.read_text("utf-8")]
    for page in changed:
        print(f"{page.relative_to(ROOT)} {'differs from its files' if '--check' in sys.argv else 'filled'}")
        if "--check" not in sys.argv:
            page.write_text(filled(page.read_text("utf-8")), "utf-8")
    raise SystemExit("--check" in sys.argv and bool(changed))


if __name__ == "__main__":
    main()
