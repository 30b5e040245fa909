"""Options that several verbs share, which kind of thing a path is, and how files are read."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
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
Data = Annotated[str, Argument(metavar="DATA", help=f"Rows with labels: {_FORMATS}.", show_default=False)]
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
    wanted, kind = list(wanted), kind_of(path)
    if kind is None or kind in wanted:
        return
    advice = _advice(kind, wanted[0], Path(path))
    raise LikewiseError(f"{path} is {_NAMES[kind]}, and {_NAMES[wanted[0]]} is expected: {advice}")


def _advice(kind: Kind, wanted: Kind, path: Path) -> str:
    base = path.with_suffix("") if path.suffix else path
    steps = {
        "pictures": f"likewise features {path} -o {path.name}.features comes first; likewise {path}/ does all of it",
        "model": "it was learned from features; give those, or a table",
        "index": f"likewise search {path} and likewise serve {path} open it",
    }
    makes = {
        "model": f"likewise fit {path} -o {base.name}.likewise makes one from it",
        "index": f"likewise index {path} -o {base.name}.index makes one from it",
    }
    if wanted == "index" and kind == "model":
        return f"likewise index {path} FEATURES -o {base.name}.index makes one from it and features"
    if kind in ("features", "table") and wanted in makes:
        return makes[wanted]
    return steps[kind]


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


# Panels of the help of `likewise fit`.
_large = partial(Option, rich_help_panel="Options of large data")
_paired = partial(Option, rich_help_panel="Options of --relevance")

MemoryLimit = Annotated[
    str | None,
    _large("--memory-limit", metavar="SIZE", help="Memory limit when fitting from disk. [dim]Default: 1GB.[/]"),
]
Checkpoint = Annotated[
    Path | None, _large("--checkpoint", metavar="FILE", help="Checkpoint file; an existing one is resumed.")
]
Dask = Annotated[
    str | None,
    _large("--dask", metavar="ADDRESS", help="Fit on the cluster of this Dask scheduler, which reads the file."),
]


@dataclass(frozen=True)
class TrainingRows:
    """The arguments of `fit`, their source, and facts about them."""

    X: Any
    y: Any
    source: str
    shape: tuple[int, int]
    n_classes: int | None = None
    gallery: Any = None
    close: Callable[[], object] = lambda: None
    label_column: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Of `fit`."""
        values = {"X": self.X, "y": self.y, "gallery": self.gallery}
        return {name: value for name, value in values.items() if name == "X" or value is not None}


load_rows = partial(load_table, names=False)  # to learn from or to measure: names would only take memory


def takes_rows(model: Any) -> bool:
    """Whether a model learns from rows that `open_rows` opened, wherever they are."""
    from likewise import SLR, SimilarityLearner

    return isinstance(model, SLR | SimilarityLearner)


def training_rows(
    model: Any, table: Any, memory_limit: str | None, dask: str | None, checkpoint: Path | None = None
) -> TrainingRows:
    """The labelled rows of a table, opened if the model takes them so; all rows for a model that needs no labels."""
    column = table.known.get("label")
    if dask is not None:
        return replace(_on_cluster(model, table, dask, checkpoint), label_column=column)
    if not model.__sklearn_tags__().target_tags.required:
        return TrainingRows(table.X, None, table.source, table.X.shape)
    if not takes_rows(model):
        table = labelled(table)
        return TrainingRows(
            table.X, table.y, table.source, table.X.shape, len(set(table.y.tolist())), label_column=column
        )
    from likewise.learn.engines import open_rows
    from likewise.utils.arrays import in_memory

    for text in table.label_notes():
        note(text)
    if model.get_params().get("compress") == "gaussian":  # mixes all rows
        table = replace(table, X=in_memory(table.X))
    with naming(table.source):
        opened = _opened(open_rows(table, memory_limit=memory_limit, checkpoint=checkpoint), table.source)
    return replace(opened, label_column=column)


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Add the name of the file to errors of scikit-learn's validation, which speak of X alone."""
    try:
        yield
    except ValueError as error:
        first = (str(error).splitlines() or [""])[0].rstrip(".")
        if ("NaN" in first or "infinity" in first) and source not in first:
            raise LikewiseError(f"{source}: {first}; likewise doctor tells more") from error
        raise


def _on_cluster(model: Any, table: Any, address: str, checkpoint: Path | None) -> TrainingRows:
    """The same for the workers of a Dask cluster, which must see the file under the same name."""
    from likewise.learn.engines import open_rows
    from likewise.learn.engines.dask import connected, dask_rows
    from likewise.rows.sources import NpyFile

    file = NpyFile.of_memmap(table.X) if hasattr(table.X, "filename") else None
    if file is None or not takes_rows(model):
        raise LikewiseError(
            f"--dask is for a .npy file or a folder of features, by slr or anchored; not for {table.source}"
        )
    for text in table.label_notes():
        note(text)
    with working(f"connecting to {address}"):
        client = connected(address)
    return replace(
        _opened(open_rows(dask_rows(file), table.y, checkpoint=checkpoint), table.source), close=client.close
    )


def _opened(rows: Any, source: str) -> TrainingRows:
    return TrainingRows(rows, None, source, (rows.n_rows, rows.n_features), len(rows.classes))


Relevance = Annotated[
    Path | None,
    _paired(
        "--relevance",
        metavar="FILE",
        help="CSV, TSV or Parquet: query, item[, grade]; query, item, clicked[, position, session, time, weight]; "
        "anchor, positive, negative; a, b, link.",
    ),
]
Gallery = Annotated[
    str | None, _paired("--gallery", metavar="DATA", help="Items of --relevance, if they are not in DATA.")
]
Side = Annotated[
    str | None, _paired("--side", help="both, or query: an index of raw rows stays as it is. [dim]Default: both.[/]")
]
HalfLife = Annotated[
    float | None, _paired("--half-life", metavar="DAYS", help="Days after which a click counts half; needs a time.")
]


def related_rows(
    data: str, gallery: str | None, features: str | None, relevance: Path, half_life: float | None
) -> TrainingRows:
    """Read rows, gallery and relevance; ids are the names of rows, or row numbers where rows have none."""
    from likewise.rows import read_relevance

    table = load_table(data, features=features)
    items = table if gallery is None else load_table(gallery, features=features)
    relevant = read_relevance(
        relevance,
        query_ids=table.ids or table.names,
        item_ids=items.ids or items.names,
        shape=(table.X.shape[0], items.X.shape[0]),
        half_life=half_life,
    )
    for side, rows in (("", table), *([("--gallery ", items)] if gallery is not None else [])):
        if rows.ids is None and rows.names is None:
            note(f"{side}{rows.source} has no column of names: ids are row numbers, counted from 0")
    note(f"{relevance}: {relevant.summary}")
    return TrainingRows(table.X, relevant, table.source, table.X.shape, gallery=None if gallery is None else items.X)


def share(text: str) -> float:
    """10% or 0.1 as a number."""
    try:
        value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise LikewiseError(f"--at-most-wrong {text}: expected a share between 0 and 1, such as 10% or 0.1")
    return value
