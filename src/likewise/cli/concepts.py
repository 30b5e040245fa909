"""`likewise concepts`: the labels that were given on an index, as saved searches."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from likewise.cli.console import emit_json, print_table, say
from likewise.cli.options import AsJson, check_writable, open_index
from likewise.utils.wording import plural


def concepts(
    index: Annotated[Path, Argument(metavar="INDEX", help="Index that was taught.", show_default=False)],
    csv: Annotated[
        Path | None, Option(metavar="FILE.csv", help="Write all items with a label, and those that fit it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the labels that were given: how many items have each, how many others fit, and how many of them are new.

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
    found = saved_searches(Teacher(loaded, Feedback(index)))
    if csv is not None:
        to_csv(loaded, [part for one in found for part in one.parts], csv)
    facts = [
        {
            "label": one.name,
            "items": len(one.labelled),
            "fitting": None if one.fitting is None else len(one.fitting),
            "new": len(one.new),
        }
        for one in found
    ]
    if as_json:
        emit_json({"concepts": facts})
    elif not facts:
        say(f"no label was given on {index}: likewise serve {index} opens the page")
    else:
        cells = [["–" if value is None else str(value) for value in fact.values()] for fact in facts]
        print_table(("label", "items", "others that fit", "new"), cells)
    if csv is not None and not as_json:
        say(f"{plural(len(facts), 'label')} listed in {csv}")
