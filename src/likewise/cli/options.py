"""Options that several verbs share, which kind of thing a path is, and how files are read."""

import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from likewise.cli.console import note, working
from likewise.errors import LikewiseError

_FORMATS = ".npz, .npy, .csv, .tsv, .parquet, .svm, a folder of features, or - for CSV on standard input"

Root = Annotated[
    Path | None,
    Option("--root", metavar="DIR", help="Where the pictures are now, if their folder was moved; kept with the index."),
]
Trust = Annotated[bool, Option("--trust", help="Run the model of an extractor that was never used here, with limits.")]
Data = Annotated[str, Argument(metavar="DATA", help=f"Rows with labels: {_FORMATS}.")]
Labels = Annotated[
    Path | None, Option("--labels", metavar="FILE", help="Labels, one per row: .npy, .csv, .tsv or .txt.")
]
Metric = Annotated[
    Literal["map", "ndcg@10", "precision@10", "precision@1"], Option("--metric", help="The metric to compare by.")
]
LabelColumn = Annotated[
    str | None,
    Option(
        "--label-column", metavar="NAME", help="Column or .npz key of the labels. [dim]Default: label, y, target, …[/]"
    ),
]
FeatureName = Annotated[
    str | None,
    Option("--features", metavar="NAME", help="Parquet column or .npz key of the features, if there are several."),
]
IdColumn = Annotated[str | None, Option("--id", metavar="COLUMN", help="Column of the ids. [dim]Default: id.[/]")]
MetadataColumns = Annotated[
    str | None,
    Option("--metadata", metavar="A,B,…", help="Numeric columns that are metadata; text columns always are."),
]
DropInvalid = Annotated[bool, Option("--drop-invalid", help="Leave out rows with NaN or infinity.")]
Where = Annotated[
    str | None, Option("--where", metavar="CONDITION", help="Only items that pass, such as 'price < 20'.")
]
AsJson = Annotated[bool, Option("--json", help="Print the result as JSON.")]
AtMostWrong = Annotated[
    str | None,
    Option("--at-most-wrong", metavar="SHARE", help="Keep results of which no more are wrong on average, such as 10%."),
]
TextModel = Annotated[
    str | None, Option("--text", metavar="onnx:FILE", help="Text tower that belongs to the model of the features.")
]
TokenizerFile = Annotated[Path | None, Option("--tokenizer", metavar="FILE", help="The tokenizer.json of --text.")]


# ---------------------------------------------------------------------------------------------------------------------
# Kinds of paths

Kind = Literal["pictures", "features", "table", "model", "index"]

_NAMES: dict[Kind, str] = {
    "pictures": "a folder of pictures",
    "features": "a folder of features",
    "table": "a table",
    "model": "a model",
    "index": "an index",
}
_TABLES = (".npz", ".npy", ".csv", ".tsv", ".parquet", ".svm", ".svmlight", ".libsvm")
_MOST = 2_000  # files to look at in a folder before it counts as something else


def kind_of(path: str | os.PathLike[str]) -> Kind | None:
    """What a path is; None for a path that does not exist, and for anything else."""
    from likewise.learn.model_file import is_model_file
    from likewise.rows.store import is_store

    path = Path(path)
    if path.is_file():  # a pipe is left to its reader
        is_table = any(suffix in _TABLES for suffix in path.suffixes)
        return "model" if is_model_file(path) else "table" if is_table else None
    if is_store(path) or any(path.glob("*.npy")):
        return "features"
    from likewise.search.storage import is_left_of_index  # after the common case: a fit imports no search

    if is_left_of_index(path):
        return "index"
    from likewise.pictures.images import EXTENSIONS

    files = (name for _, _, names in os.walk(path) for name in names)
    has_pictures = any(os.path.splitext(name)[1].lower() in EXTENSIONS for name in islice(files, _MOST))
    return "pictures" if has_pictures else None


def expect(wanted: Iterable[Kind], path: str | os.PathLike[str]) -> None:
    """Raise if a path is of another kind; the message says which, and what to do."""
    wanted, kind, path = list(wanted), kind_of(path), Path(path)
    if kind is None or kind in wanted:
        return
    name = (path.with_suffix("") if path.suffix else path).name
    makes = {"model": f"fit {path} -o {name}.likewise", "index": f"index {path} -o {name}.index"}
    steps = {
        "pictures": f"likewise features {path} -o {path.name}.features comes first; likewise {path}/ does all of it",
        "model": "it was learned from features; give those, or a table",
        "index": f"likewise search {path} and likewise serve {path} open it",
    }
    if kind == "model" and wanted[0] == "index":
        advice = f"likewise index {path} FEATURES -o {name}.index makes one from it and features"
    elif kind in ("features", "table") and wanted[0] in makes:
        advice = f"likewise {makes[wanted[0]]} makes one from it"
    else:
        advice = steps[kind]
    raise LikewiseError(f"{path} is {_NAMES[kind]}, and {_NAMES[wanted[0]]} is expected: {advice}")


def model_first(first: str, second: str) -> tuple[str, str]:
    """Two paths with the model first, in whichever order they were given."""
    swapped = kind_of(second) == "model" and kind_of(first) != "model"
    return (second, first) if swapped else (first, second)


def open_index(folder: Path, root: Path | None = None, trust: bool = False) -> Any:
    """Load an index; `root` is where its pictures are now, and is stored with it; `trust` is of its extractor."""
    from likewise.search.storage import repoint
    from likewise.teach import load_index

    expect(("index",), folder)
    if root is not None:
        repoint(folder, root)
    index = load_index(folder)
    if trust and index.extractor is not None:
        index.image_extractor(trust=True)
    return index


# ---------------------------------------------------------------------------------------------------------------------
# Reading and checking files


def load_table(
    source: str,
    labels: Path | None = None,
    label_column: str | None = None,
    features: str | None = None,
    id_column: str | None = None,
    metadata: str | None = None,
    *,
    width: int | None = None,
    names: bool = True,
    drop_invalid: bool | None = None,
) -> Any:
    """Read a table and print its notes; `width` is the number of columns a model expects of sparse rows.

    Rows that are not finite are left out, an error, or, by default, not looked for.
    """
    from likewise.rows import read_table
    from likewise.rows.reading import widened

    expect(("features", "table"), source)
    with working(f"reading {source}"):
        columns = [] if metadata is None else [name.strip() for name in metadata.split(",") if name.strip()]
        reading: dict[str, Any] = {"labels": labels, "label_column": label_column, "features": features}
        table = read_table(source, **reading, names=names, id_column=id_column, metadata=columns)
        if drop_invalid is not None:
            table = table.finite(drop_invalid)
    for text in table.notes:
        note(text)
    return table if width is None else widened(table, width)


def labelled(table: Any) -> Any:
    """The labelled rows of a table, with a note if unlabelled rows were dropped."""
    rows = table.labelled()
    for text in rows.notes[len(table.notes) :]:
        note(text)
    return rows


def check_writable(output: Path | None, *inputs: str | Path | None, option: str = "--output") -> None:
    """Raise before minutes of work if its result cannot be written, or would replace one of the inputs."""
    if output is None:
        return
    if not output.parent.is_dir():
        raise LikewiseError(f"the folder {output.parent} of {option} does not exist")
    if output.is_dir():
        raise LikewiseError(f"{option} {output} is a folder: expected a file to write")
    for source in inputs:
        if source is not None and str(source) != "-" and _would_replace(output, Path(source)):
            raise LikewiseError(f"{option} {output} would replace the input {source}: choose another name")


def _would_replace(output: Path, source: Path) -> bool:
    """Whether a file to write is an input, under whatever name, or a file of a folder that is one."""
    if Path(os.path.realpath(output)) == Path(os.path.realpath(source)):
        return True
    if not output.exists() or not source.exists():
        return False
    if output.samefile(source):
        return True
    from likewise.learn.model_file import is_model_file

    inside = source.is_dir() and Path(os.path.realpath(output)).is_relative_to(os.path.realpath(source))
    return inside and not is_model_file(output)  # a model in the folder of its data may be replaced


def load_model(path: Path) -> Any:
    from likewise import load

    expect(("model",), path)
    return load(path)


def share(text: str) -> float:
    """10% or 0.1 as a number."""
    try:
        value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise LikewiseError(f"--at-most-wrong {text}: expected a share between 0 and 1, such as 10% or 0.1")
    return value
