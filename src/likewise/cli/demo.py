"""`likewise demo`: learn from labelled pictures, or from digits, and show how results change."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from typer import Option

from likewise.cli.console import emit_json, note, print_table, say, working
from likewise.cli.options import AsJson
from likewise.errors import LikewiseError, MissingExtraError
from likewise.utils.files import atomic_write, make_folder
from likewise.utils.wording import listed, plural

if TYPE_CHECKING:
    from PIL.Image import Image

    from likewise.rivals.compare import Outcome, Standing
    from likewise.rows import FeatureStore

STAMPS = Path("/usr/share/tuxpaint/stamps")  # where Debian's tuxpaint-stamps-default puts some 800 pictures
METHODS = {
    "pictures": ("cosine", "lda", "ridge", "slr", "anchored"),
    "digits": ("cosine", "lda", "slr-fixed", "slr", "anchored"),
}
BEFORE, AFTER = "cosine", "SimilarityLearner"
_MARK = ".likewise-demo"  # a folder that has it is ours: its files may be replaced
_FILES = ("strips.png", "demo.likewise")
_SHOWN = 6  # queries in the picture
_LEAST = 10  # pictures of a class: three of them are then held out, so that each has two others to find
_VARIANT = re.compile(r"_(mirror|flip|mirror_flip)$")


def demo(
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="Output folder.")] = Path("likewise-demo"),
    pictures: Annotated[
        Path | None,
        Option(
            metavar="DIR", help="Pictures in folders that name them. [dim]Default: the stamps of Tux Paint, if any.[/]"
        ),
    ] = None,
    digits: Annotated[bool, Option("--digits", help="Handwritten digits only; needs no files.")] = False,
    seed: Annotated[int, Option(help="Seed of the split and of the queries shown.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Learn what is similar from labelled pictures, compare with the usual methods, show results before and after.

    The pictures are those of --pictures, or of Debian's package tuxpaint-stamps-default where it is installed; labels
    are their folders. 30 % are held out: they are what is measured and shown. Without pictures the demo runs on the
    handwritten digits of scikit-learn.

    Writes [bold]strips.png[/bold] (the results of a few queries before and after learning), [bold]demo.likewise[/bold]
    (the learned model) and, of pictures, their features and an [bold].index[/bold] of all of them, which likewise serve
    shows as a page to search and teach. likewise compare --output writes a report of such a comparison.

    [bold]Examples[/bold]

    \b
      likewise demo
      likewise demo --pictures /usr/share/tuxpaint/stamps
      likewise demo --digits --output /tmp/demo --seed 3
      likewise demo --json
    """
    if digits and pictures:
        raise LikewiseError("--digits and --pictures exclude each other: expected one")
    folder = pictures or STAMPS
    if not digits and pictures is None and not STAMPS.is_dir():
        note(f"no pictures: {STAMPS} (Debian's tuxpaint-stamps-default) does not exist; the demo runs on digits")
        digits = True
    make_folder(output)  # before learning, so that a wrong path is reported at once
    names = [*_FILES, *([] if digits else [f"{_name(folder)}.csv"])]
    taken = [name for name in names if (output / name).exists()]
    if taken and not any((output / mark).is_file() for mark in (_MARK, "demo.likewise")):
        raise LikewiseError(f"{output} has a {taken[0]} already: choose another folder with --output")
    atomic_write(output / _MARK, b"This folder was made by likewise demo.\n")
    store = None if digits else _extracted(folder, output, insisted=pictures is not None)
    run = _of_digits(seed) if store is None else _of_pictures(store, seed)
    image, caption = _strips(run, seed)
    from likewise.utils.reporting.pictures import write_png

    after, files = run.outcome(AFTER), {name: output / name for name in _FILES}
    write_png(files["strips.png"], image)
    after.runs[0].model.save(files["demo.likewise"], {"mAP": after.score})
    if store is not None:
        from likewise.search import Index

        with working("indexing all pictures"):
            index = Index.build(after.runs[0].model, store, n_neighbors="auto")
            files["index"] = index.save(store.path.with_suffix(".index"))
    if as_json:
        written = {name: str(path) for name, path in files.items()}
        emit_json({"data": run.noun, "caption": caption, **run.standing.to_dict(), "files": written})
    else:
        _show(run, caption, files)


def _name(folder: Path) -> str:
    return folder.resolve().name or "pictures"


# -- The data ---------------------------------------------------------------------------------------------------------


@dataclass
class DemoRun:
    """The comparison of methods on labelled rows, what they are called, and how to show one."""

    noun: str
    standing: Standing
    X: Any
    y: np.ndarray
    image: Callable[[int], Any]
    places: tuple[int, ...]

    def outcome(self, label: str) -> Outcome:
        return next(outcome for outcome in self.standing.outcomes if outcome.label == label)


def _compared(noun: str, X: Any, y: np.ndarray, image: Any, places: tuple[int, ...], seed: int) -> DemoRun:
    from likewise.rivals.compare import compare

    with working(f"learning on 70 % of the {noun}"):
        options: dict[str, Any] = {"unseen": False, "mixed": False, "max_rows": None, "keep_models": True}
        comparison = compare(X, y, methods=METHODS[noun], random_state=seed, **options)
    assert comparison.seen is not None
    return DemoRun(noun, comparison.seen, X, y, image, places)


def _of_digits(seed: int) -> DemoRun:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    images = np.rint(255 - X.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)  # dark on white
    # A held-out digit has about 53 others of its class: these places show the whole of a good ranking.
    return _compared("digits", X, y, images.__getitem__, (1, 2, 3, 5, 10, 20, 30, 40, 50), seed)


def _of_pictures(store: FeatureStore, seed: int) -> DemoRun:
    """The labelled pictures; those without a label take no part."""
    from likewise.pictures import load_image
    from likewise.pictures.images import shrink

    names = np.array([item.label for item in store.items])
    labelled = np.flatnonzero(names != "")

    def image(row: int) -> Any:
        return shrink(load_image(store.image_path(labelled[row]), 96), 192)

    return _compared("pictures", store.features[labelled], names[labelled], image, (1, 2, 3, 4, 5, 6, 7, 8), seed)


def _extracted(folder: Path, output: Path, insisted: bool) -> FeatureStore | None:
    """Features of the pictures below a folder, with labels; what `output` has from an earlier run is not done again.

    None if the reader of pictures is not installed and the user did not ask for pictures.
    """
    from likewise.pictures import extract_folder
    from likewise.pictures.folder import find_images
    from likewise.rows import FeatureStore
    from likewise.rows.store import escape, table_to_csv

    # Without mirrored and flipped copies of others: the same picture would be counted twice.
    stems = {image.path: str(Path(image.path).with_suffix("")) for image in find_images(folder, [output])[0]}
    originals = set(stems.values())
    paths = [
        path for path, stem in stems.items() if (plain := _VARIANT.sub("", stem)) == stem or plain not in originals
    ]
    labels = folder_labels(paths)
    n_labels = len(set(labels) - {""})
    if n_labels < 2:
        raise LikewiseError(
            f"--pictures {folder} has {plural(n_labels, 'sub-folder')} of {_LEAST} pictures or more: "
            "expected at least two, one for each label"
        )
    table = output / f"{_name(folder)}.csv"
    atomic_write(table, table_to_csv(("path", "label"), zip(map(escape, paths), map(escape, labels), strict=True)))
    store = output / f"{_name(folder)}.features"
    try:
        with working(f"extracting features of the pictures in {folder}"):
            extract_folder(folder, store, labels=table)
    except MissingExtraError as error:
        if insisted:
            raise
        note(f"{error}; the demo runs on handwritten digits")
        return None
    return FeatureStore.open(store)


def folder_labels(paths: Sequence[str]) -> list[str]:
    """The first two folders of each path, as animals/birds; "" where fewer than ten pictures share them."""
    labels = ["/".join(path.split("/")[:-1][:2]) for path in paths]
    counts = Counter(labels)
    return [label if counts[label] >= _LEAST else "" for label in labels]


# -- The results ------------------------------------------------------------------------------------------------------


def _strips(run: DemoRun, seed: int) -> tuple[Image, str]:
    """Results before and after learning, and a caption that says how the queries were chosen."""
    from likewise.utils.reporting.pictures import Panel, choose_queries, nearest, retrieval_strips

    test = run.standing.parts[0].test
    Q, y = run.X[test], run.y[test]
    places = [place for place in run.places if place < len(test)]
    pair = (run.outcome(BEFORE), run.outcome(AFTER))
    models = [outcome.runs[0].model for outcome in pair]
    everyone, shown = np.arange(len(test)), np.array(places) - 1
    sides = [(model.transform_query(Q), model.transform(Q)) for model in models]
    neighbours = [nearest(*side, places[-1], exclude=everyone)[:, shown] for side in sides]
    hits = [(y[rows] == y[:, None]).sum(axis=1) for rows in neighbours]
    chosen, differing = choose_queries(hits, y, _SHOWN, seed)
    panels = [
        Panel(f"{when}: {o.label}", rows[chosen], f"mAP {o.score:.3f}", [f"#{p}" for p in places])
        for when, o, rows in zip(("before", "after"), pair, neighbours, strict=True)
    ]
    gallery: Any = {j: run.image(test[j]) for panel in panels for j in np.unique(panel.rows)}
    picture = retrieval_strips([run.image(test[i]) for i in chosen], gallery, panels, y[chosen], y)
    better, worse = int((hits[1] > hits[0]).sum()), int((hits[1] < hits[0]).sum())
    ranks = f"1 to {places[-1]}" if len(places) == places[-1] else listed([*map(str, places)])
    caption = (
        f"All {run.noun} shown are held out: no method has learned from them. Queries are framed green, results with "
        f"the query's label red, others blue. Results are shown at ranks {ranks}. The {len(chosen)} queries are a "
        f"seeded random draw, {differing} of them among those where the number of hits at these ranks differs, "
        f"whichever method is better. Of all {len(test)} held-out {run.noun}, learning gives more hits for {better}, "
        f"fewer for {worse} and as many for {len(test) - better - worse}. mAP judges the whole ranking; at rank 1 "
        f"alone, {BEFORE} is right for {pair[0].figures['P@1']:.1%} of the {run.noun} and {AFTER} for "
        f"{pair[1].figures['P@1']:.1%}."
    )
    return picture, caption


def _show(run: DemoRun, caption: str, files: dict[str, Path]) -> None:
    standing = run.standing
    counts = f"{standing.n_train:,} to learn from and {standing.n_test:,} held out, which rank each other"
    say(f"{run.noun}: {len(set(run.y.tolist()))} labels; {counts}")
    figures = [(o.label, o.score, o.figures["P@1"], o.seconds) for o in standing.outcomes]
    rows = [[label, *(f"{value:.3f}" for value in values)] for label, *values in figures]
    print_table(("method", "mAP", "P@1", "seconds"), rows)
    say(caption)
    for path in files.values():
        say(f"wrote {path}")
    if "index" in files:
        called, installed = Path(sys.argv[0]), shutil.which("likewise")
        here = called.stem == "likewise" and (installed is None or Path(installed).resolve() != called.resolve())
        line = shlex.join([str(called) if here else "likewise", "serve", str(files["index"])])
        say(f"\nTo search them, and to teach it what you mean:\n\n  {line}\n")
