"""`likewise learn`, `suggest` and `concepts`: learn from marks and labels, what to mark next, and saved labels."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from likewise.cli.console import emit_json, note, print_table, results, say, working
from likewise.cli.options import AsJson, Trust, check_writable, open_index
from likewise.errors import LikewiseError
from likewise.utils.wording import plural


def learn(
    index: Annotated[Path, Argument(metavar="INDEX", help="Index that was taught on the page.")],
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="MODEL", help="Write the taught model and leave the index as it is."),
    ] = None,
    feedback: Annotated[
        Path | None, Option(metavar="FILE.csv", help="More marks and labels, as the page exports them.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn from the marks and labels of an index, as the button Keep on its page does.

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
    loaded, journal = open_index(index), Feedback(index)
    teacher = Teacher(loaded, journal if output is None else journal.in_memory())
    if feedback is not None and (unknown := teacher.take(feedback)):
        note(f"{plural(unknown, 'line')} of {feedback} about items that are not in {index} left out")
    state = teacher.state()
    if state.parked:
        note(f"{plural(state.parked, 'step')} about items that are no longer in {index} left out")
    if not state.marks and not state.labels:
        raise LikewiseError(f"{index} has no marks and labels to learn from: likewise serve {index} opens the page")
    with working(f"learning from {plural(len(teacher.events), 'step')}"):
        lesson = teacher.learn("likewise learn")
    if output is not None:
        lesson.model.save(output)
    card = {**teacher.card(lesson.event), "index": str(index), "model": None if output is None else str(output)}
    emit_json(card) if as_json else _show_lesson(card)


def _show_lesson(card: dict[str, Any]) -> None:
    console = results()
    lessons = f"{plural(card['marks'], 'mark')} and {plural(card['labels'], 'label')}"
    console.print(f"lesson {card['number']}: {lessons}, {card['seconds']:.2f} s")
    for concept in card["concepts"]:
        expected, marks = concept["expected"], f"{concept['right']} right, {concept['wrong']} wrong"
        if expected is not None:
            low, high = round(100 * expected["low"]), round(100 * expected["high"])
            marks = f"{low} to {high} % right among the first {concept['of']} unmarked; {marks}"
        console.print(f"{concept['name']}: {marks}; {concept['next']}", markup=False, soft_wrap=True)
    if card["model"] is not None:
        console.print(f"saved {card['model']}", markup=False, soft_wrap=True)


def suggest(
    index: Annotated[Path, Argument(metavar="INDEX", help="Index to teach.")],
    label: Annotated[str | None, Option(metavar="LABEL", help="Teach this label.")] = None,
    query: Annotated[str | None, Option(metavar="ROW|IMAGE", help="Teach what belongs to this row or picture.")] = None,
    n: Annotated[int, Option("--n", "-n", help="Number of items.", min=1)] = 10,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Suggest the items whose marks would teach most, and say why.

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
        raise LikewiseError("--label and --query exclude each other: expected one")
    if query is not None and not query.isdecimal() and not Path(query).exists():
        raise LikewiseError(f"--query {query} does not exist; expected a row of the index or an image file")
    loaded = open_index(index, trust=trust)
    example = None if query is None else int(query) if query.isdecimal() else loaded.embed([Path(query)])[0]
    with working(f"comparing the items of {index}"):
        suggestions = Teacher(loaded, Feedback(index)).suggest(n, label=label, query=example)
    if as_json:
        emit_json({"suggestions": [_facts(loaded, suggestion) for suggestion in suggestions]})
    elif not suggestions:
        say("nothing to suggest: every item was marked or labelled")
    else:
        rows = [(str(loaded.ids[s.row]), str(s.row), s.reason, f"{100 * s.gain:.1f} %") for s in suggestions]
        print_table(("item", "row", "why", "tells"), rows)


def _facts(index: Any, suggestion: Any) -> dict[str, Any]:
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


def concepts(
    index: Annotated[Path, Argument(metavar="INDEX", help="Index that was taught.")],
    csv: Annotated[
        Path | None, Option(metavar="FILE.csv", help="Write all items with a label, and those that fit it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the labels of an index: how many items have each, how many others fit, and how many of them are new.

    Others fit if at most one in ten of them is expected to be wrong; new ones came after the last lesson. A label needs
    some eight right and eight wrong marks for that.

    [bold]Examples[/bold]

    \b
      likewise concepts photos.index
      likewise concepts photos.index --csv concepts.csv
      likewise concepts photos.index --json
    """
    from likewise.teach import Feedback, Teacher
    from likewise.teach.concepts import saved_searches, to_csv

    check_writable(csv, index, option="--csv")
    loaded = open_index(index)
    searches = saved_searches(Teacher(loaded, Feedback(index)))
    if csv is not None:
        to_csv(loaded, [part for search in searches for part in search.parts], csv)
    rows = [search.facts() for search in searches]
    if as_json:
        emit_json({"concepts": rows})
    elif not rows:
        say(f"no item of {index} was labelled: likewise serve {index} opens the page")
    else:
        cells = [["–" if value is None else str(value) for value in row.values()] for row in rows]
        print_table(("label", "items", "others that fit", "new"), cells)
    if csv is not None and not as_json:
        say(f"{plural(len(rows), 'label')} listed in {csv}")
