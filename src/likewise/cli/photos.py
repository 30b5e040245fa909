"""From a folder of pictures to its index, with questions, progress and sentences: for `likewise PHOTOS`."""

import sys
from pathlib import Path
from typing import Any

import typer

from likewise.cli.console import held_out_line, note, working
from likewise.cli.features import keywords_sentence, skipped_sentence
from likewise.cli.kinds import expect
from likewise.errors import LikewiseError
from likewise.utils.wording import plural


def index_of(path: Path, output: Path | None, labels: str | None, extractor: str | None, refit: bool) -> Path:
    """The folder of the index to serve: the path itself, or what was made of its pictures or features."""
    from likewise.search.storage import is_index

    if is_index(path):
        given = {"--output": output, "--labels": labels, "--extractor": extractor, "--refit": refit or None}
        for option, value in given.items():
            if value is not None:
                raise LikewiseError(f"{option} is for a folder of pictures, and {path} is an index")
        return path
    expect(("index", "pictures", "features"), path)
    from likewise.serve.library import PhotoLibrary

    library = PhotoLibrary(path, output, note, working, verbose=int(sys.stderr.isatty()))
    if library.places.photos is not None:
        _extract(library, labels, extractor)
    elif labels is not None or extractor is not None:
        option = "labels" if extractor is None else "extractor"
        raise LikewiseError(f"--{option} is for a folder of pictures, and {path} is a folder of features")
    built = library.build(refit)
    if built.learned:
        note(f"learned from {plural(built.n_learned, 'labelled picture')}")
    if built.held_out:
        note(held_out_line(built.held_out))
    return built.folder


def _extract(library: Any, labels: str | None, extractor: str | None) -> None:
    from likewise.utils.progress import stage_bar

    choice, known = library.choose_labels(labels, _use_as_labels), library.n_skipped
    with stage_bar("images") as progress:
        summary = library.extract(choice, extractor, progress)
    note(_changes(summary))
    if summary.n_several_keywords and not summary.n_reused:
        note(keywords_sentence(summary))
    if summary.n_skipped and summary.n_skipped != known:  # the same every time would be noise
        note(skipped_sentence(summary))


def _use_as_labels(seen: Any) -> bool:
    """Ask on a terminal; elsewhere say what was chosen."""
    if sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
        return typer.confirm(f"{seen.sentence}: use them as labels?", default=True, err=True)
    note(f"{seen.sentence}: used as labels (--labels none leaves them out)")
    return True


def _changes(summary: Any) -> str:
    """What has changed since the last time, or how many pictures there are."""
    pictures = plural(summary.n_items, "picture")
    if not summary.n_reused:
        return f"{pictures} read in {summary.seconds:.1f} s"
    counts = {"new": summary.n_new, "renamed": summary.n_renamed, "gone": summary.n_removed}
    changes = [f"{count:,} {word}" for word, count in counts.items() if count]
    return f"{pictures}: {', '.join(changes) if changes else 'none new, none gone'}"
