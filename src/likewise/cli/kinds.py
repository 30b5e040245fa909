"""What a path is: pictures, features, a table, a model or an index; and what to say if another kind is expected."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from likewise.errors import LikewiseError

Kind = Literal["pictures", "features", "table", "model", "index"]

_NAMES: dict[Kind, str] = {
    "pictures": "a folder of pictures",
    "features": "a folder of features",
    "table": "a table",
    "model": "a model",
    "index": "an index",
}
_TABLES = (".npz", ".npy", ".csv", ".tsv", ".parquet", ".svm", ".svmlight", ".libsvm")
_MOST = 2_000  # files to look at in a folder before it is called no folder of pictures


def kind_of(path: str | os.PathLike[str]) -> Kind | None:
    """What a path is; None for a path that does not exist, and for anything else."""
    path = Path(path)
    return _kind_of_folder(path) if path.is_dir() else _kind_of_file(path)


def _kind_of_folder(path: Path) -> Kind | None:
    from likewise.rows.store import is_store

    if is_store(path) or any(path.glob("*.npy")):
        return "features"
    from likewise.search.storage import is_index  # after the common case: a fit imports no search

    if is_index(path):
        return "index"
    return "pictures" if _has_pictures(path) else None


def _kind_of_file(path: Path) -> Kind | None:
    from likewise.learn.model_file import is_model_file

    if not path.is_file():  # a pipe is left to its reader
        return None
    if is_model_file(path):
        return "model"
    return "table" if any(suffix in _TABLES for suffix in path.suffixes) else None


def _has_pictures(folder: Path) -> bool:
    from likewise.pictures.images import EXTENSIONS

    files: Iterator[str] = (name for _, _, names in os.walk(folder) for name in names)
    return any(os.path.splitext(name)[1].lower() in EXTENSIONS for name in islice(files, _MOST))


def expect(wanted: Iterable[Kind], path: str | os.PathLike[str]) -> None:
    """Raise for a path that is surely of another kind, in a sentence that says what it is and what to do."""
    wanted, kind = list(wanted), kind_of(path)
    if kind is None or kind in wanted:
        return
    advice = _advice(kind, wanted[0], Path(path))
    raise LikewiseError(f"{path} is {_NAMES[kind]}, and {_NAMES[wanted[0]]} is expected: {advice}")


def expect_rows(path: str | os.PathLike[str]) -> None:
    """Raise for what is no features and no table."""
    expect(("features", "table"), path)


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
    """Two paths with the model in front, in whichever order they came: a model file is unmistakable."""
    swapped = kind_of(second) == "model" and kind_of(first) != "model"
    return (second, first) if swapped else (first, second)


def open_index(folder: Path, root: Path | None = None) -> Any:
    """Load an index; `root` is where its pictures are now, and is kept with it."""
    from likewise.search.storage import repoint
    from likewise.teach import load_index

    expect(("index",), folder)
    if root is not None:
        repoint(folder, root)
    return load_index(folder)
