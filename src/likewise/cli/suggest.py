"""`likewise suggest`: which items to mark next, and whether more marks are worth it."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from likewise.cli.console import emit_json, print_table, say, working
from likewise.cli.options import AsJson, open_index
from likewise.errors import LikewiseError


def suggest(
    index: Annotated[Path, Argument(metavar="INDEX", help="Index to teach.", show_default=False)],
    label: Annotated[str | None, Option(metavar="LABEL", help="Teach this label.")] = None,
    query: Annotated[str | None, Option(metavar="ROW|IMAGE", help="Teach what belongs to this row or picture.")] = None,
    n: Annotated[int, Option("--n", "-n", help="Number of items.", min=1)] = 10,
    as_json: AsJson = False,
) -> None:
    """Suggest the items whose marks would teach most, and say what ten more marks would bring.

    Without --label and --query, items are suggested for all that was taught so far, in turn; if that is nothing, items
    that represent most others, to start from.

    [bold]Examples[/bold]

    \b
      likewise suggest photos.index
      likewise suggest photos.index --label butterfly
      likewise suggest photos.index --query 17 -n 20 --json
      likewise suggest photos.index --query cat.jpg
    """
    from likewise.teach import Feedback, Teacher

    if label is not None and query is not None:
        raise LikewiseError("--label and --query were given; expected one of them")
    loaded = open_index(index)
    teacher = Teacher(loaded, Feedback(index))
    concept: dict[str, Any] = {"label": label, "query": None if query is None else _query(loaded, query)}
    with working(f"comparing the items of {index}"):
        found = teacher.suggest(n, **concept)
    if as_json:
        emit_json({"suggestions": [_described(loaded, suggestion) for suggestion in found]})
    else:
        _report(loaded, found)


def _query(index: Any, given: str) -> Any:
    """A row number, or the raw numbers of a picture."""
    if given.isdecimal():
        return int(given)
    if not Path(given).exists():
        raise LikewiseError(f"--query {given} does not exist; expected a row of the index or an image file")
    return index.embed([Path(given)])[0]


def _described(index: Any, suggestion: Any) -> dict[str, Any]:
    path, concept = index.image_path(suggestion.row), suggestion.concept
    return {
        "id": index.ids[suggestion.row],
        "row": suggestion.row,
        "concept": None if concept is None else concept.name,
        "why": suggestion.why,
        "reason": suggestion.reason,
        "gain": round(suggestion.gain, 6),
        "path": None if path is None else str(path),
    }


def _report(index: Any, found: list[Any]) -> None:
    if not found:
        say("nothing to suggest: every item was marked or labelled")
    else:
        rows = [(str(index.ids[s.row]), str(s.row), s.reason, f"{100 * s.gain:.1f} %") for s in found]
        print_table(("item", "row", "why", "tells"), rows)
