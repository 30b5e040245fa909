"""`likewise learn`: learn from the marks and labels that were given on the page."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from likewise.cli.console import emit_json, note, results, working
from likewise.cli.options import AsJson, check_writable, open_index
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
    from likewise.teach.feedback import feedback_from_csv

    check_writable(output)
    loaded = open_index(index)
    journal = Feedback(index)
    if output is not None:
        journal = journal.in_memory()
    if feedback is not None:
        events, strange = feedback_from_csv(feedback, loaded)
        journal.extend(events)
        if strange:
            note(f"{plural(strange, 'line')} of {feedback} about items that are not in {index} left out")
    teacher = Teacher(loaded, journal)
    _check(teacher, index)
    with working(f"learning from {plural(len(teacher.events), 'step')}"):
        lesson = teacher.learn("likewise learn")
    if output is not None:
        lesson.model.save(output)
    card = {**teacher.card(lesson.event), "index": str(index), "model": None if output is None else str(output)}
    emit_json(card) if as_json else _report(card)


def _check(teacher: Any, index: Path) -> None:
    said = teacher.state()
    if said.parked:
        note(f"{plural(said.parked, 'step')} about items that are no longer in {index} left out")
    if not said.marks and not said.labels:
        raise LikewiseError(f"{index} has no marks and labels to learn from: likewise serve {index} opens the page")


def _report(card: dict[str, Any]) -> None:
    console = results()
    given = f"{plural(card['marks'], 'mark')} and {plural(card['labels'], 'label')}"
    console.print(f"lesson {card['number']}: {given}, {card['seconds']:.2f} s")
    moved, agrees, figures = card["moved"], card["agrees"], card["mAP"]
    if moved["queries"]:
        console.print(
            f"{plural(moved['items'], 'new result')} on the first pages of {plural(moved['queries'], 'query')}"
        )
    if agrees is not None:
        said = plural(agrees["of"], "statement" if card["labels"] else "mark")  # a label says no to the other labels
        console.print(f"agrees with {agrees['count']} of {said} when each is left out in turn")
    if card["still_wrong"]:
        console.print(f"{plural(len(card['still_wrong']), 'item')} marked wrong still among the first ten")
    if figures is not None:
        console.print(
            f"mAP {figures['before']:.4f} before, {figures['after']:.4f} after, on {plural(figures['items'], 'item')} "
            "that neither the model nor the lesson has learned from"
        )
    elif card["note"]:
        console.print(card["note"], markup=False)
    if card["model"] is not None:
        console.print(f"saved {card['model']}", markup=False, soft_wrap=True)
