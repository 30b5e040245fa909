"""`likewise learn` and `likewise suggest`: learn from marks and labels, and which items to mark next."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from likewise.cli.console import emit_json, note, print_table, results, say, working
from likewise.cli.options import AsJson, Trust, check_writable, open_index
from likewise.errors import LikewiseError
from likewise.utils.wording import plural


def learn(
    index: Annotated[Path, Argument(metavar="INDEX", help="Index that was taught on the page.", show_default=False)],
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="MODEL", help="Write the taught model and leave the index as it is."),
    ] = None,
    feedback: Annotated[
        Path | None, Option(metavar="FILE.csv", help="More marks and labels, as the page exports them.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn from the marks and labels of an index, as the button Learn on its page does.

    The lesson is kept with the index: search and serve use it from then on. With --output it becomes a model file
    instead, which can serve another folder: likewise index taught.likewise other.features.

    --feedback adds the marks of a file, by the ids of the items; without --output they are kept with the index too.

    [bold]Examples[/bold]

    \b
      likewise learn photos.index
      likewise learn photos.index -o taught.likewise
      likewise learn photos.index --feedback feedback.csv
    """
    from likewise.teach import Feedback, Teacher

    check_writable(output)
    loaded = open_index(index)
    journal = Feedback(index)
    if output is not None:
        journal = journal.in_memory()
    teacher = Teacher(loaded, journal)
    if feedback is not None and (unknown := teacher.take(feedback)):
        note(f"{plural(unknown, 'line')} of {feedback} about items that are not in {index} left out")
    _check_taught(teacher, index)
    with working(f"learning from {plural(len(teacher.events), 'step')}"):
        lesson = teacher.learn("likewise learn")
    if output is not None:
        lesson.model.save(output)
    card = {**teacher.card(lesson.event), "index": str(index), "model": None if output is None else str(output)}
    emit_json(card) if as_json else _report_lesson(card)


def _check_taught(teacher: Any, index: Path) -> None:
    state = teacher.state()
    if state.parked:
        note(f"{plural(state.parked, 'step')} about items that are no longer in {index} left out")
    if not state.marks and not state.labels:
        raise LikewiseError(f"{index} has no marks and labels to learn from: likewise serve {index} opens the page")


def _report_lesson(card: dict[str, Any]) -> None:
    console = results()
    lessons = f"{plural(card['marks'], 'mark')} and {plural(card['labels'], 'label')}"
    console.print(f"lesson {card['number']}: {lessons}, {card['seconds']:.2f} s")
    moved, agrees = card["moved"], card["agrees"]
    if moved["queries"]:
        console.print(
            f"{plural(moved['items'], 'new result')} on the first pages of {plural(moved['queries'], 'query')}"
        )
    if agrees is not None:
        statements = plural(
            agrees["of"], "statement" if card["labels"] else "mark"
        )  # a label says no to the other labels
        console.print(f"agrees with {agrees['count']} of {statements} when each is left out in turn")
    for concept in card["concepts"]:
        expected, marks = concept["expected"], f"{concept['right']} right, {concept['wrong']} wrong"
        if expected is not None:
            low, high = round(100 * expected["low"]), round(100 * expected["high"])
            marks = f"{low} to {high} % right among the first {concept['of']} unmarked; {marks}"
        console.print(f"{concept['name']}: {marks}; {concept['next']}", markup=False, soft_wrap=True)
    if card["model"] is not None:
        console.print(f"saved {card['model']}", markup=False, soft_wrap=True)


# ---------------------------------------------------------------------------------------------------------------------
# What to mark next


def suggest(
    index: Annotated[Path, Argument(metavar="INDEX", help="Index to teach.", show_default=False)],
    label: Annotated[str | None, Option(metavar="LABEL", help="Teach this label.")] = None,
    query: Annotated[str | None, Option(metavar="ROW|IMAGE", help="Teach what belongs to this row or picture.")] = None,
    n: Annotated[int, Option("--n", "-n", help="Number of items.", min=1)] = 10,
    trust: Trust = False,
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
    loaded = open_index(index, trust=trust)
    teacher = Teacher(loaded, Feedback(index))
    concept: dict[str, Any] = {"label": label, "query": None if query is None else _query(loaded, query)}
    with working(f"comparing the items of {index}"):
        suggestions = teacher.suggest(n, **concept)
    if as_json:
        emit_json({"suggestions": [_described(loaded, suggestion) for suggestion in suggestions]})
    elif not suggestions:
        say("nothing to suggest: every item was marked or labelled")
    else:
        rows = [(str(loaded.ids[s.row]), str(s.row), s.reason, f"{100 * s.gain:.1f} %") for s in suggestions]
        print_table(("item", "row", "why", "tells"), rows)


def _query(index: Any, query: str) -> Any:
    """A row number, or the raw numbers of a picture."""
    if query.isdecimal():
        return int(query)
    if not Path(query).exists():
        raise LikewiseError(f"--query {query} does not exist; expected a row of the index or an image file")
    return index.embed([Path(query)])[0]


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
