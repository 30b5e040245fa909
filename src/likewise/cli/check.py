"""`likewise check`, `backup` and `restore`: whether files are sound, and the way back where they are not."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from likewise.cli.console import SERIOUS, emit_json, note, say, working
from likewise.cli.options import AsJson, check_writable, kind_of, load_model
from likewise.errors import LikewiseError
from likewise.utils.wording import plural

_SHOWN = 20  # parked steps; --json has all

IndexFolder = Annotated[Path, Argument(metavar="INDEX", help="Folder of an index.")]


def check(
    path: Annotated[Path, Argument(metavar="INDEX|FEATURES|MODEL", help="What is to be checked.")],
    repair: Annotated[bool, Option("--repair", help="Bring back what is damaged, from what is sound.")] = False,
    place: Annotated[
        tuple[str, str] | None,
        Option("--place", metavar="OLD NEW", help="The item that was called OLD is the one called NEW now."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check every file of an index, of features or of a model, and repair what is damaged.

    Of an index: which version is current, checksums, the journal of marks, pictures that are missing, and steps that do
    not count because the item they are about is not in the index. --place says which item it is now.

    --repair makes the newest version that is sound the current one, computes vectors again if only these are damaged,
    and saves the marks that can be read of a damaged journal. An index of likewise PHOTOS is built again from its
    features if no version is sound. It never removes a mark. Of features, rows that are damaged are computed again by
    the next run of likewise features.

    The exit code is 1 if something is damaged or missing, and 0 after it was repaired.

    [bold]Examples[/bold]

    \b
      likewise check photos.index
      likewise check photos.index --repair
      likewise check photos.index --place old/cat.jpg new/cat.jpg
    """
    kind = kind_of(path)
    if place and kind != "index":
        raise LikewiseError(f"--place is for an index, and {path} is not one")
    with working(f"checking {path}"):
        if kind == "index":
            card = _checked_index(path, repair, place)
        elif kind == "features":
            card = _checked_features(path, repair)
        elif kind == "model":
            card = _card(path)
            try:
                load_model(path)
            except LikewiseError as error:
                card["damaged"] = [str(error)]
        else:
            what = "is something else" if path.exists() else "does not exist"
            raise LikewiseError(f"{path} {what}: expected an index, features or a model")
    emit_json(card) if as_json else say("\n".join(_lines(card)))
    if card["damaged"] or card.get("missing"):
        raise Exit(SERIOUS)


def backup(
    index: IndexFolder, output: Annotated[Path, Option("--output", "-o", metavar="FILE.zip", help="File to write.")]
) -> None:
    """Save what cannot be computed again: marks, labels, lessons, undo lists of keywords, and settings.

    The index may be served meanwhile. Pictures, features and models are not in it: copy these as any files.

    [bold]Examples[/bold]

    \b
      likewise backup photos.index -o photos-backup.zip
      likewise backup photos.index -o "backups/$(date +%F).zip"
      likewise restore photos-backup.zip photos.index
      likewise check photos.index
    """
    from likewise.teach.backup import back_up

    check_writable(output, index)
    say(f"{output}: {_contents(back_up(index, output))}")


def restore(
    file: Annotated[Path, Argument(metavar="FILE.zip", help="What likewise backup wrote.")], index: IndexFolder
) -> None:
    """Bring marks, labels and lessons of a backup to an index of the same items, whatever its features or its model.

    Items are recognised by their ids, pictures by their names and contents too. Lessons are learned again where the
    model is another one. An index with steps that the backup has not is left as it is.

    [bold]Examples[/bold]

    \b
      likewise index photos.features -o photos.index
      likewise restore photos-backup.zip photos.index
      likewise check photos.index
    """
    from likewise.teach import Feedback, load_index
    from likewise.teach.backup import parked, restore

    restored = restore(file, index)
    say(f"{index}: {_contents(restored)}")
    settings = [f"{name}={value}" for name, value in restored.settings.items() if value and name != "source"]
    if settings:
        note(f"settings of the index before: {', '.join(settings)}")
    with working(f"learning {index}"):
        loaded = load_index(index)
    n = len(parked(loaded, Feedback(index)))
    if n:
        note(f"{plural(n, 'step')} about items that are not in {index}; likewise check {index} lists them")


def _contents(backup: Any) -> str:
    lists = f", {plural(backup.undo_lists, 'undo list')} of keywords" if backup.undo_lists else ""
    return f"{plural(backup.steps, 'mark or label')}, {plural(backup.lessons, 'lesson')}{lists}"


def _card(path: Path) -> dict[str, Any]:
    return {"path": str(path), "damaged": [], "repaired": []}


def _checked_index(folder: Path, repair: bool, where: tuple[str, str] | None) -> dict[str, Any]:
    from likewise.search.repair import problem_of
    from likewise.teach import Feedback, load_index
    from likewise.teach.backup import marks_problem, parked, place, repair_marks

    card = _card(folder)
    for problem, mend in ((marks_problem, repair_marks), (problem_of, _repaired)):
        text = problem(folder)
        if text is not None and repair:
            card["repaired"].append(mend(folder))
            text = problem(folder)
        card["damaged"] += [] if text is None else [text]
    if card["damaged"]:
        return card
    index, feedback = load_index(folder), Feedback(folder)
    if where is not None:
        card["repaired"].append(
            f"{plural(place(index, feedback, *where), 'step')} about {where[0]} now about {where[1]}"
        )
    missing = [path for row in range(len(index)) if (path := index.image_path(row)) is not None and not path.is_file()]
    steps = parked(index, feedback)
    return {
        **card, "items": len(index), "steps": len(feedback.events()), "lessons": len(feedback.lessons),
        "missing": [str(path) for path in missing],
        "parked": [{"item": step.reference.id, "step": step.event.words, "who": step.event.who} for step in steps],
    }  # fmt: skip


def _repaired(folder: Path) -> str:
    """Repair an index; one of a library of which no version can be repaired is built again from its features."""
    from likewise.rows.store import is_store
    from likewise.search.repair import library_of
    from likewise.search.repair import repair as repair_index
    from likewise.serve.library import update_library

    try:
        return repair_index(folder)
    except LikewiseError:
        photos, features = library_of(folder), folder.with_suffix(".features")
        if photos is None or not photos.is_dir() or not is_store(features):
            raise
        built = update_library(photos, folder, refit=True)
        return f"built again from {photos} and {features}, {'learned again' if built.learned else 'without a model'}"


def _checked_features(folder: Path, repair: bool) -> dict[str, Any]:
    from likewise.rows.store import is_store, problem_of_features, repair_features

    if not is_store(folder):
        raise LikewiseError(f"{folder} has no checksums: expected features that likewise features wrote")
    card, problem = _card(folder), problem_of_features(folder)
    if problem is not None and repair:
        card["repaired"].append(repair_features(folder))
        problem = problem_of_features(folder)
    return {**card, "damaged": [] if problem is None else [problem]}


def _lines(card: dict[str, Any]) -> list[str]:
    path = card["path"]
    lines = [f"damaged: {text}" for text in card["damaged"]] + [f"repaired: {text}" for text in card["repaired"]]
    if not card["damaged"] and "items" in card:
        nouns = {"items": "item", "steps": "mark or label", "lessons": "lesson"}
        counts = [plural(card[name], noun) for name, noun in nouns.items()]
        lines.append(f"{path} is sound: {', '.join(counts)}")
    elif not card["damaged"]:
        lines.append(f"{path} is sound")
    if missing := card.get("missing"):
        lines.append(f"{plural(len(missing), 'picture')} missing, such as {missing[0]}; --root DIR of search and serve")
    steps = card.get("parked", [])
    if steps:
        text = "about items that are not in the index, which --place OLD NEW places:"
        lines.append(f"{plural(len(steps), 'step')} {text}")
    lines += [f"  {step['item']}: {step['step']}{' by ' * bool(step['who'])}{step['who']}" for step in steps[:_SHOWN]]
    return lines + ([f"  and {len(steps) - _SHOWN:,} more: --json"] if len(steps) > _SHOWN else [])
