"""`likewise demo`: a folder half of whose labels are hidden, ranked by cosine, by what was learned, and by an index."""

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
from likewise.utils.wording import plural

if TYPE_CHECKING:
    from likewise.rows import FeatureStore

STAMPS = Path("/usr/share/tuxpaint/stamps")  # where Debian's tuxpaint-stamps-default puts some 800 pictures
_MARK = ".likewise-demo"  # a folder that has it is ours: its files may be replaced
_FILES = ("strips.png", "demo.likewise")
_SHOWN = 6  # queries in the picture
_PLACES = 8  # results of each
_LEAST = 10  # pictures of a class: three of them are then held out, so that each has two others to find
_HELD_OUT = 0.3
_VARIANT = re.compile(r"_(mirror|flip|mirror_flip)$")


@dataclass
class Ranking:
    """Query and gallery vectors of the held-out rows, and mean average precision by the kind of the query's label."""

    label: str
    Q: np.ndarray
    G: np.ndarray
    taught: float
    new: float


@dataclass
class DemoData:
    """Labelled rows, which of their labels are hidden, and how to show a row."""

    noun: str
    X: Any
    y: np.ndarray
    hidden: np.ndarray
    image: Callable[[int], Any]


def demo(
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="Output folder.")] = Path("likewise-demo"),
    pictures: Annotated[
        Path | None,
        Option(
            metavar="DIR", help="Pictures in folders that name them. [dim]Default: the stamps of Tux Paint, if any.[/]"
        ),
    ] = None,
    digits: Annotated[bool, Option("--digits", help="Handwritten digits only; needs no files.")] = False,
    seed: Annotated[int, Option(help="Seed of the hidden labels, the split and the queries shown.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Learn what is similar from a folder half of whose labels are hidden, and show results before and after.

    The pictures are those of --pictures, or of Debian's package tuxpaint-stamps-default where it is installed; labels
    are their folders. Half of the labels are hidden, and 30 % of the pictures of every label are held out: these rank
    each other, and are what is measured and shown. Without pictures the demo runs on the digits of scikit-learn.

    Writes [bold]strips.png[/bold] (the results of a few queries before and after), [bold]demo.likewise[/bold] (the
    learned model) and, of pictures, their features and an [bold].index[/bold] of all of them.

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
    taken = next((name for name in names if (output / name).exists()), None)
    if taken and not any((output / mark).is_file() for mark in (_MARK, "demo.likewise")):
        raise LikewiseError(f"{output} has a {taken} already: choose another folder with --output")
    atomic_write(output / _MARK, b"This folder was made by likewise demo.\n")
    data, store = (None, None) if digits else _of_pictures(folder, output, seed, insisted=pictures is not None)
    data = data or _of_digits(seed)
    model, rankings, test = measured(data, seed)
    from likewise.utils.reporting.pictures import write_png

    files = {name: output / name for name in _FILES}
    picture, change = _strips(data, rankings, test, seed)
    write_png(files["strips.png"], picture)
    model.save(files["demo.likewise"])
    share = None
    if store is not None:
        from likewise.search import Index

        with working("indexing all pictures"):
            index = Index.build(model, store, n_neighbors="auto")
            files["index"], share = index.save(store.path.with_suffix(".index")), index.taught_share
    facts = {
        "data": data.noun,
        "labels": len(set(data.y.tolist())),
        "hidden": [str(name) for name in data.hidden],
        "n_learned": model.n_samples_,
        "n_test": len(test),
        "methods": [{"label": one.label, "taught": one.taught, "new": one.new} for one in rankings],
        "change": change,
        "taught_share": share,
        "files": {name: str(path) for name, path in files.items()},
    }
    emit_json(facts) if as_json else _show(facts)


def measured(data: DemoData, seed: int) -> tuple[Any, list[Ranking], np.ndarray]:
    """A model of the labels that are not hidden, the held-out rows ranked in three ways, and their row numbers."""
    from likewise import SimilarityLearner
    from likewise.evaluate import evaluate
    from likewise.learn.cosine import Cosine
    from likewise.rivals.compare.run import row_part
    from likewise.search import Index

    part = row_part(np.unique(data.y, return_inverse=True)[1], _HELD_OUT, np.random.default_rng(seed))
    is_taught = ~np.isin(data.y, data.hidden)
    train = part.train[is_taught[part.train]]
    T, y = data.X[part.held], data.y[part.held]
    with working(f"learning from {plural(len(train), 'labelled row')}"):
        model = SimilarityLearner(random_state=seed).fit(data.X[train], data.y[train])
        in_index = Index.build(model, T).model  # tells rows of taught labels from others
    rankings = []
    for label, one in (("cosine", Cosine().fit(T)), ("learned", model), ("learned, in an index", in_index)):
        Q, G = one.transform_query(T), one.transform(T)
        evaluation = evaluate(Q, G, y)
        known = is_taught[part.held][evaluation.queries]
        taught, new = (float(evaluation.values[some].mean()) for some in (known, ~known))
        rankings.append(Ranking(label, Q, G, taught, new))
    return model, rankings, part.held


def _hidden(labels: np.ndarray, seed: int) -> np.ndarray:
    """Half of the labels, drawn at random."""
    return np.sort(np.random.default_rng(seed).permutation(np.unique(labels))[::2])


def _of_digits(seed: int) -> DemoData:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    images = np.rint(255 - X.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)  # dark on white
    return DemoData("digits", X, y, _hidden(y, seed), images.__getitem__)


def _of_pictures(
    folder: Path, output: Path, seed: int, insisted: bool
) -> tuple[DemoData, FeatureStore] | tuple[None, None]:
    """The pictures below a folder and their features; what `output` has from an earlier run is not done again.

    None if the reader of pictures is not installed and the user did not ask for pictures.
    """
    from likewise.pictures import extract_folder, load_image
    from likewise.pictures.folder import find_images
    from likewise.pictures.images import shrink
    from likewise.rows import FeatureStore
    from likewise.rows.store import escape, table_to_csv

    # Without mirrored and flipped copies of others: the same picture would be counted twice.
    stems = {image.path: str(Path(image.path).with_suffix("")) for image in find_images(folder, [output])[0]}
    originals = set(stems.values())
    paths = [
        path for path, stem in stems.items() if (plain := _VARIANT.sub("", stem)) == stem or plain not in originals
    ]
    labels = dict(zip(paths, folder_labels(paths), strict=True))
    names = np.unique([label for label in labels.values() if label])
    if len(names) < 4:
        raise LikewiseError(
            f"--pictures {folder} has {plural(len(names), 'sub-folder')} of {_LEAST} pictures or more: "
            "expected at least four, one for each label"
        )
    hidden = _hidden(names, seed)
    lines = [(escape(path), "" if label in hidden else escape(label)) for path, label in labels.items()]
    table, place = output / f"{_name(folder)}.csv", output / f"{_name(folder)}.features"
    atomic_write(table, table_to_csv(("path", "label"), lines))
    try:
        with working(f"extracting features of the pictures in {folder}"):
            extract_folder(folder, place, labels=table)
    except MissingExtraError as error:
        if insisted:
            raise
        note(f"{error}; the demo runs on handwritten digits")
        return None, None
    store = FeatureStore.open(place)
    y = np.array([labels[item.path] for item in store.items])
    rows = np.flatnonzero(y != "")  # pictures of small folders take no part in what is measured

    def image(row: int) -> Any:
        return shrink(load_image(store.image_path(rows[row]), 96), 192)

    return DemoData("pictures", np.asarray(store.features[rows]), y[rows], hidden, image), store


def _name(folder: Path) -> str:
    return folder.resolve().name or "pictures"


def folder_labels(paths: Sequence[str]) -> list[str]:
    """The first two folders of each path, as animals/birds; "" where fewer than ten pictures share them."""
    labels = ["/".join(path.split("/")[:-1][:2]) for path in paths]
    counts = Counter(labels)
    return [label if counts[label] >= _LEAST else "" for label in labels]


def _strips(data: DemoData, rankings: list[Ranking], test: np.ndarray, seed: int) -> tuple[Any, dict[str, int]]:
    """Results of a few queries before and after, and how many held-out rows have more right ones, or fewer."""
    from likewise.utils.reporting.pictures import Panel, choose_queries, nearest, retrieval_strips

    y, pair, everyone = data.y[test], (rankings[0], rankings[-1]), np.arange(len(test))
    neighbours = [nearest(one.Q, one.G, min(_PLACES, len(test) - 1), exclude=everyone) for one in pair]
    hits = [(y[rows] == y[:, None]).sum(axis=1) for rows in neighbours]
    chosen, _ = choose_queries(hits, y, _SHOWN, seed)
    panels = [
        Panel(f"{when}: {one.label}", rows[chosen], f"mAP {one.taught:.3f} taught, {one.new:.3f} new")
        for when, one, rows in zip(("before", "after"), pair, neighbours, strict=True)
    ]
    gallery: Any = {j: data.image(test[j]) for panel in panels for j in np.unique(panel.rows)}
    picture = retrieval_strips([data.image(test[i]) for i in chosen], gallery, panels, y[chosen], y)
    return picture, {"more": int((hits[1] > hits[0]).sum()), "fewer": int((hits[1] < hits[0]).sum())}


def _show(facts: dict[str, Any]) -> None:
    noun, hidden, files, change = facts["data"], len(facts["hidden"]), facts["files"], facts["change"]
    say(f"{facts['labels']} labels, {hidden} of them hidden; learned from {facts['n_learned']:,} {noun} of the others")
    say(f"mAP of {facts['n_test']:,} held-out {noun} that rank each other, by whether their label was taught:")
    rows = [(one["label"], f"{one['taught']:.3f}", f"{one['new']:.3f}") for one in facts["methods"]]
    print_table(("", "taught", "new"), rows)
    say("An index sees which of its rows have a label that was not taught, and ranks these by a map for new ones.")
    say(f"In it {change['more']} {noun} have more right results among the first {_PLACES} than by cosine, and")
    say(f"{change['fewer']} have fewer; {files['strips.png']} shows {_SHOWN}, drawn at random.")
    called, installed = Path(sys.argv[0]), shutil.which("likewise")
    here = called.stem == "likewise" and (installed is None or Path(installed).resolve() != called.resolve())
    program = str(called) if here else "likewise"
    commands = {"every method on your own rows": ["compare", "train.csv"]}
    if "index" in files:
        commands = {
            "search them, and teach it what you mean": ["serve", files["index"]],
            "the same for your own pictures": ["PHOTOS/"],
            "other methods on these": ["compare", str(Path(files["index"]).with_suffix(".features"))],
        }
    say("\nNext:")
    lines = {shlex.join([program, *words]): text for text, words in commands.items()}
    width = max(map(len, lines))
    say("\n".join(f"  {line:<{width}}  # {text}" for line, text in lines.items()))
