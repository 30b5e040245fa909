"""`likewise apply`: write a label into the library, as a list or as keywords in XMP sidecars, and take it back."""

import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from likewise.cli.console import emit_json, note, say
from likewise.cli.options import AsJson, AtMostWrong, Root, check_writable, open_index, share
from likewise.errors import LikewiseError
from likewise.utils.wording import listed, plural

_LEAST_SURE = 20


def apply(
    index: Annotated[Path | None, Argument(metavar="INDEX", help="Index of pictures.")] = None,
    label: Annotated[str | None, Argument(metavar="LABEL", help="A label that its pictures have.")] = None,
    at_most_wrong: AtMostWrong = None,
    xmp: Annotated[bool, Option("--xmp", help="Write the label as a keyword into XMP sidecars.")] = False,
    csv: Annotated[Path | None, Option(metavar="FILE", help="Write a list of the pictures.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Say what would be written, and write nothing.")] = False,
    undo: Annotated[Path | None, Option(metavar="LIST", help="Take back the writes in an undo list.")] = None,
    undo_list: Annotated[
        Path | None, Option(metavar="FILE", help="Undo list of --xmp. [dim]Default: next to INDEX.[/]")
    ] = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Write a label into your photo library: all pictures that have it, as a CSV list or as keywords in XMP sidecars.

    Labels come from folders, keywords or a file, and from the page of likewise serve. Without --csv and --xmp nothing
    is written: the pictures are counted.

    --at-most-wrong 10% adds the pictures without a label that belong to it too, as far as no more of them are wrong on
    average; the least sure are listed. It needs a calibrated index: one that was fitted by labels, or taught with at
    least 8 right and 8 wrong marks. Pictures marked wrong on the page, or with another label, are left out.

    --xmp adds the label to the sidecar of each picture ([bold]photo.jpg.xmp[/bold], or an existing
    [bold]photo.xmp[/bold]). Pictures are never changed, and of a sidecar only the keywords; one that cannot be read is
    left alone and counted. An undo list is written first: --undo LIST takes back exactly what was added.

    [bold]Examples[/bold]

    \b
      likewise apply photos.index cat
      likewise apply photos.index cat --csv cats.csv
      likewise apply photos.index cat --at-most-wrong 10%
      likewise apply photos.index cat --xmp --dry-run
      likewise apply photos.index cat --xmp
      likewise apply --undo photos.cat.undo.sqlite
    """
    if undo is not None:
        if any((index, label, at_most_wrong, xmp, csv, dry_run, undo_list)):
            raise LikewiseError("--undo LIST takes no other options: the list has the label and the sidecars")
        return _take_back(undo, as_json)
    if index is None or label is None:
        raise LikewiseError("INDEX and LABEL are missing: likewise apply photos.index cat; or --undo LIST")
    from likewise.teach import Feedback, Teacher
    from likewise.teach.concepts import grown, labelled, pictures_of, to_csv

    check_writable(csv, index, option="--csv")
    loaded = open_index(index, root)
    if at_most_wrong is None:
        concept = labelled(loaded, label)
    else:
        concept = grown(Teacher(loaded, Feedback(index)), label, share(at_most_wrong))
    wrong, unsure = concept.about_wrong, concept.least_sure(_LEAST_SURE).tolist()
    facts: dict[str, Any] = {
        "label": concept.name,
        "pictures": len(concept),
        "about_wrong": None if wrong is None else round(wrong, 1),
        "least_sure": [str(loaded.image_path(row) or loaded.ids[row]) for row in unsure],
        "dry_run": dry_run,
        "csv": None if csv is None else str(csv),
        "xmp": None,
    }
    if xmp:
        from likewise.pictures.sidecars import apply_keyword, default_undo_list
        from likewise.utils.progress import progress_bar

        journal, pictures = undo_list or default_undo_list(index, label), pictures_of(loaded, concept)
        text = "looking at sidecars" if dry_run else "keywords"
        with progress_bar(text, len(pictures), sys.stderr.isatty()) as progress:
            facts["xmp"] = _counts(apply_keyword(pictures, concept.name, None if dry_run else journal, progress))
        facts["undo"] = str(journal) if not dry_run and journal.exists() else None
    if csv is not None and not dry_run:
        to_csv(loaded, concept, csv)
    emit_json(facts) if as_json else _report(facts)
    return None


def _take_back(undo: Path, as_json: bool) -> None:
    from likewise.pictures.sidecars import n_writes, undo_keyword
    from likewise.utils.progress import progress_bar

    total = n_writes(undo) if undo.is_file() else 0
    with progress_bar("taking back", total, sys.stderr.isatty()) as progress:
        done = _counts(undo_keyword(undo, progress))
    if done["damaged"]:
        note(f"{plural(done['damaged'], 'line')} of {undo} that cannot be read passed over")
    if as_json:
        return emit_json(done)
    kinds = {"deleted": "deleted", "restored": "as before", "edited": "with others' changes kept", "untouched": "left"}
    counts = [f"{done[name]:,} {words}" for name, words in kinds.items() if done[name]]
    return say(f"{plural(total, 'sidecar')} in {undo}: {', '.join(counts) if counts else 'nothing to take back'}")


def _counts(outcome: Any) -> dict[str, Any]:
    """The counts of an outcome; a note for each kind of sidecar that was left alone, with the first of them."""
    facts: dict[str, Any] = outcome.facts()
    for kind, count in facts["skipped"].items():
        first = next(entry for entry in outcome.skipped if entry.kind == kind)
        note(f"{count:,} left alone, {kind}; the first: {first.path} ({first.reason})")
    return facts


def _report(facts: dict[str, Any]) -> None:
    wrong, unsure = facts["about_wrong"], facts["least_sure"]
    about = "" if wrong is None else f", about {wrong:.0f} wrong; look at the least sure {len(unsure)}:"
    say(f"{facts['label']}: {plural(facts['pictures'], 'picture')}{about}")
    for path in unsure:
        say(f"  {path}")
    if facts["xmp"] is not None:
        done, would = facts["xmp"], "would be " * facts["dry_run"]
        parts = [f"{done['created']:,} {would}new", f"{done['changed']:,} {would}changed"]
        if done["already"]:
            parts.append(f"{done['already']:,} had the keyword already")
        back = f"; likewise apply --undo {facts['undo']} takes it back" if facts.get("undo") else ""
        say(f"sidecars: {listed(parts)}{back}")
    if facts["csv"] is not None and not facts["dry_run"]:
        say(f"listed in {facts['csv']}")
    if facts["csv"] is None and facts["xmp"] is None:
        note("nothing was written: --csv FILE writes a list, --xmp keywords into sidecars")
