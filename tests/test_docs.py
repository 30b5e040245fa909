"""What the documents say is so: their Python runs, their commands exist, their figures are the ones printed."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer

from likewise.cli import app
from likewise.cli.demo import _of_digits, measured
from tools import fill_pages

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _blocks(page: Path, language: str) -> list[tuple[int, str, str]]:
    """Code blocks with the number of their first line, and the packages that they need beyond ours."""
    text = page.read_text()
    found = re.finditer(rf"^```{language}(?: needs=(\S+))?\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [(text[: match.start(2)].count("\n") + 1, match[2], match[1] or "") for match in found]


def _missing(needs: str) -> list[str]:
    """Those packages that are not installed."""
    return [name for name in needs.split(",") if name and find_spec(name.partition(".")[0]) is None]


def _tiered(page: Path) -> Any:
    """The README belongs to the first tier, the pages of the site to the second."""
    return (
        page if page.name == "README.md" else pytest.param(page, marks=[pytest.mark.second, pytest.mark.timeout(900)])
    )


@pytest.mark.parametrize(
    "page", [_tiered(page) for page in PAGES if _blocks(page, "python")], ids=lambda page: page.name
)
def test_the_python_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    if "DATABASE_URL" in page.read_text():
        if "DATA" in page.read_text().replace("DATABASE_URL", ""):
            request.getfixturevalue("data_folder")  # its texts would be downloaded
        monkeypatch.setenv("DATABASE_URL", request.getfixturevalue("server"))
    namespace: dict[str, object] = {"__name__": "__main__"}
    left_out: list[str] = []
    for line, block, needs in _blocks(page, "python"):
        left_out += _missing(needs)
        if not _missing(needs):
            padded = "\n" * (line - 1) + block  # so that a traceback names the line of the page
            exec(compile(padded, str(page), "exec", dont_inherit=True), namespace)
    if left_out:
        pytest.skip(f"the other blocks ran; not installed: {', '.join(left_out)}")


@pytest.mark.parametrize("page", [page for page in PAGES if _blocks(page, "sh")], ids=lambda page: page.name)
def test_the_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    verbs = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    commands = [
        shlex.split(line, comments=True)
        for _, block, _ in _blocks(page, "sh")
        for line in block.splitlines()
        if line.startswith("likewise ")
    ]
    for _, verb, *rest in commands:
        verb = "serve" if verb.endswith("/") else verb  # likewise PHOTOS/ serves a folder
        assert verb in verbs, f"likewise {verb}"
        known = {name for parameter in verbs[verb].params for name in parameter.opts}
        for word in rest:
            assert not word.startswith("-") or word == "-" or word in known, f"likewise {verb} {word}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_and_pictures_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not re.search(r"://|gallery/|api/", target):  # gallery and API are made with the site: make docs checks them
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", fill_pages.pages(), ids=lambda page: page.name)
def test_figures_are_those_of_the_stored_results(page: Path) -> None:
    assert fill_pages.filled(page.read_text()) == page.read_text(), "run python tools/fill_pages.py"
    assert "\n<!-- result: " not in page.read_text(), "a comment at the start of a line ends the paragraph"


def test_a_typed_figure_is_noticed() -> None:
    page = (ROOT / "docs" / "measured.md").read_text()
    assert fill_pages.filled(page.replace("94.8 ± 0.5", "94.9 ± 0.5")) == page
    readme = (ROOT / "README.md").read_text()
    assert fill_pages.filled(readme.replace("-->.665<", "-->.765<")) == readme


def test_stored_results_say_how_and_when_and_are_shown() -> None:
    shown = " ".join(page.read_text() for page in PAGES)
    for path in fill_pages.RESULTS.glob("*.json"):
        found = fill_pages.result(path.stem)
        assert all(found[key] for key in ("about", "command", "date", "machine")), path.name
        assert re.search(rf"<!-- results?: {re.escape(path.stem)}[ >]", shown), path.name


def test_every_page_is_in_the_contents_of_the_site() -> None:
    contents = "\n".join((ROOT / "docs" / name).read_text() for name in ("index.md", "paper.md"))
    entries = {
        found[1] or found[0] for found in re.findall(r"^([\w/-]+)$|^[^\n<]+ <([\w/-]+)>$", contents, re.MULTILINE)
    }
    pages = {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in PAGES[1:]}
    assert pages - {"index"} <= entries


def test_the_commands_of_make_are_in_the_makefile() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"^make ([a-z]+)", page.read_text(), flags=re.MULTILINE):
            assert target in targets


@pytest.mark.second
def test_the_table_of_digits_is_the_one_that_the_demo_prints() -> None:
    rows = fill_pages.result("demo-digits")["table"]["rows"]
    written = {name: (float(taught), float(new)) for name, taught, new in rows}
    printed = {ranking.label: (ranking.taught, ranking.new) for ranking in measured(_of_digits(0), 0)[1]}
    assert written.keys() == printed.keys()
    for name, figures in written.items():  # another machine's rounding may move a tie or two, not more
        assert printed[name] == pytest.approx(figures, abs=4e-3)
