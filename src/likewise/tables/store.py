"""A feature store: a folder with `features.npy`, `items.csv` and `meta.json` that a person can open.

`features.npy` is memory-mapped, so a store may be larger than memory. `items.csv` has one row per feature row: `path`
(relative to the folder the images came from), `label`, and the `size` and `mtime_ns` of the file when it was read.
Names are bytes on most systems, and a CSV is text: a byte that is not UTF-8 is written `\\xNN`, a newline `\\n`, a
carriage return `\\r`, and a backslash `\\\\`; `escape` and `unescape` do this.
"""

import csv
import io
import json
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

import likewise
from likewise.errors import FileFormatError, LikewiseError
from likewise.utils.files import StrPath, atomic_write, locked, make_folder

FORMAT = 1
EXTRACTOR = "extractor.safetensors"
COLUMNS = ("path", "label", "size", "mtime_ns")


class Item(NamedTuple):
    """One row of a store; `size` and `mtime_ns` are -1 for an item that did not come from a file."""

    path: str
    label: str
    size: int = -1
    mtime_ns: int = -1


class FeatureStore:
    """Features on disk with their items and the extractor that made them.

    Attributes
    ----------
    features : memory-mapped array of shape (n, d), float32 or float16
    items : list of `Item`, one per row
    labels : array of str, "" where an item has none; None if no item has one
    paths : list of str, relative to `root`
    meta : what `meta.json` holds: the extractor, its parameters and checksum, counts
    """

    def __init__(self, path: Path, features: np.ndarray, items: list[Item], meta: dict[str, Any]) -> None:
        self.path = path
        self.features = features
        self.items = items
        self.meta = meta

    @classmethod
    def open(cls, path: StrPath) -> Self:
        """Open the store in the folder `path` for reading."""
        path = Path(path)
        meta = read_meta(path)
        items = list(_iterate_items(path / "items.csv"))
        features = read_features(path / "features.npy")
        if not len(features) == len(items) == meta["n_items"]:
            raise FileFormatError(
                f"{path} has {len(features)} rows in features.npy, {len(items)} in items.csv and {meta['n_items']} in "
                "meta.json: a run was interrupted; run `likewise features` on it again"
            )
        return cls(path, features, items, meta)

    @classmethod
    def write(
        cls,
        path: StrPath,
        features: Any,
        labels: Sequence[Any] | np.ndarray | None = None,
        paths: Sequence[Any] | None = None,
        meta: dict[str, Any] | None = None,
        extractor: Any = None,
    ) -> Self:
        """Make a store from arrays, one row of `features` per item; `paths` default to the row numbers."""
        path = Path(path)
        features = np.asarray(features)
        if features.ndim != 2 or features.dtype.kind not in "biuf":
            said = f"features has shape {features.shape} and type {features.dtype}"
            raise LikewiseError(f"{said}; expected rows of numbers")
        features = np.ascontiguousarray(features, dtype=np.float16 if features.dtype == np.float16 else np.float32)
        items = _make_items(len(features), labels, paths)
        facts = {"root": None, **(meta or {}), **describe(items, features.shape[1], features.dtype)}
        make_folder(path)
        with locked(path):
            for name in ("meta.json", EXTRACTOR, "skipped.csv"):  # what was there has nothing to do with these rows
                (path / name).unlink(missing_ok=True)
            atomic_write(path / "features.npy", lambda file: np.save(file, features, allow_pickle=False))
            atomic_write(path / "items.csv", items_to_csv(items))
            if extractor is not None:
                extractor.save(path / EXTRACTOR)
                facts["extractor"] = extractor.describe()
            atomic_write(path / "meta.json", meta_to_json(facts))
        return cls.open(path)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"FeatureStore({str(self.path)!r}: {len(self)} items, {self.features.shape[1]} features)"

    @property
    def labels(self) -> np.ndarray | None:
        """Labels as an array of str ("" where an item has none), or None if no item has a label."""
        labels = [item.label for item in self.items]
        return np.array(labels, dtype=str) if any(labels) else None

    @property
    def paths(self) -> list[str]:
        return [item.path for item in self.items]

    @property
    def root(self) -> Path | None:
        """The folder the images came from, if they came from one."""
        root = self.meta.get("root")
        return None if root is None else Path(unescape(root))

    def image_path(self, row: int) -> Path:
        """Where the image of a row was when it was read."""
        return (self.root or Path()) / self.items[row].path

    def extractor(self) -> Any:
        """The extractor that made these features, so that a query image can go through exactly the same one."""
        file = self.path / EXTRACTOR
        if not file.is_file():
            raise LikewiseError(f"{self.path} carries no extractor: its features did not come from images")
        # By name: whoever only reads rows needs no extractors, and this room does not import theirs.
        return import_module("likewise.features.base").load_extractor(file)


def escape(name: str) -> str:
    r"""A file name as one line of valid UTF-8: undecodable bytes, newlines and backslashes become \xNN, \n, \r, \\."""
    name = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return re.sub("[\ud800-\udfff]", _escape_surrogate, name)


def _escape_surrogate(match: re.Match[str]) -> str:
    code = ord(match.group())
    # surrogateescape maps the byte NN to U+DCNN; any other lone surrogate is not a byte and keeps its own number
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


_ESCAPES = re.compile(r"\\(?:([\\nr])|x([0-9a-f]{2})|u(d[89a-f][0-9a-f]{2}))")


def unescape(text: str) -> str:
    """The name that `escape` was given."""
    return _ESCAPES.sub(_unescape_one, text)


def _unescape_one(match: re.Match[str]) -> str:
    letter, byte, surrogate = match.groups()
    if letter:
        return {"\\": "\\", "n": "\n", "r": "\r"}[letter]
    return chr(0xDC00 + int(byte, 16)) if byte else chr(int(surrogate, 16))


def items_to_csv(items: Iterable[Item]) -> bytes:
    rows = ((escape(item.path), escape(item.label), item.size, item.mtime_ns) for item in items)
    return table_to_csv(COLUMNS, rows)


def table_to_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """A header and rows as CSV in UTF-8 with plain newlines."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue().encode()


def _iterate_items(path: Path) -> Iterator[Item]:
    """The rows of an `items.csv`."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            if tuple(next(rows, ())) != COLUMNS:
                raise ValueError(f"its columns are not {', '.join(COLUMNS)}")
            for name, label, size, time in rows:
                yield Item(unescape(name), unescape(label), int(size), int(time))
    except FileNotFoundError as error:
        raise FileFormatError(f"{path.parent} is not a feature store: it has no {path.name}") from error
    except (ValueError, csv.Error, OSError) as error:
        raise FileFormatError(f"{path} cannot be read as items: {error}") from error


def read_labels(path: Path) -> np.ndarray | None:
    """The labels of an `items.csv` ("" where there is none, None if there is not one), without its other columns."""
    numbers: dict[str, int] = {}
    codes = array("l")
    for item in _iterate_items(path):
        codes.append(numbers.setdefault(item.label, len(numbers)))
    if set(numbers) <= {""}:
        return None
    return np.array(list(numbers))[np.frombuffer(codes, dtype=f"i{codes.itemsize}")]


def read_meta(path: Path) -> dict[str, Any]:
    """The content of `meta.json` of the store in the folder `path`."""
    if not path.exists():
        raise LikewiseError(f"{path} does not exist")
    if not is_store(path):
        raise FileFormatError(f"{path} is not a feature store: it has no meta.json")
    try:
        meta: dict[str, Any] = json.loads((path / "meta.json").read_text("utf-8"))
        newest, _ = int(meta["format"]), int(meta["n_items"])
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise FileFormatError(f"{path / 'meta.json'} is damaged: {error!r}") from error
    if newest > FORMAT:
        raise FileFormatError(
            f"{path} has format {newest}; likewise {likewise.__version__} reads up to {FORMAT}: upgrade likewise"
        )
    return meta


def meta_to_json(meta: dict[str, Any]) -> bytes:
    """`meta.json` as bytes; nothing in it depends on when or how fast a run was."""
    meta = {"format": FORMAT, "likewise": likewise.__version__, **meta}
    return (json.dumps(meta, indent=2, sort_keys=True, ensure_ascii=True) + "\n").encode()


def describe(items: Sequence[Item], n_features: int, dtype: Any) -> dict[str, Any]:
    """The counts of a store."""
    labels = {item.label for item in items} - {""}
    return {
        "n_items": len(items),
        "n_features": int(n_features),
        "n_classes": len(labels),
        "n_unlabelled": sum(not item.label for item in items),
        "dtype": np.dtype(dtype).name,
    }


def is_store(path: Path) -> bool:
    return (path / "meta.json").is_file()


def read_features(path: Path) -> np.ndarray:
    """The rows of a `features.npy`, memory-mapped."""
    try:
        features = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise FileFormatError(f"{path.parent} is not a feature store: it has no {path.name}") from error
    except (ValueError, OSError, EOFError) as error:
        raise FileFormatError(f"{path} is damaged or truncated: {error}") from error
    if features.ndim != 2 or features.dtype not in (np.float32, np.float16):
        raise FileFormatError(f"{path} has shape {features.shape} and type {features.dtype}; expected rows of floats")
    return features


def _make_items(n: int, labels: Any, paths: Any) -> list[Item]:
    names = [str(i) for i in range(n)] if paths is None else [os.fspath(p) for p in paths]
    texts = [""] * n if labels is None else ["" if label is None else str(label) for label in labels]
    for name, values in (("labels", texts), ("paths", names)):
        if len(values) != n:
            raise LikewiseError(f"{name} has {len(values)} entries; expected {n}, one per row of features")
    return [Item(*pair) for pair in zip(names, texts, strict=True)]
