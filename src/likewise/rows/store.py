"""A feature store: a folder; its current version has `features.npy`, `items.csv` and `meta.json`, plain files.

`features.npy` is memory-mapped, so a store may be larger than memory. `items.csv` has one row per feature row: `path`
(relative to the folder the images came from), `label`, the `size` and `mtime_ns` of the file when it was read, the
`hash` of its bytes, which finds a renamed file again, when the picture was `taken`, and the `stamp` of the file. Names
are bytes on most systems, and a CSV is text: a byte that is not UTF-8 is written `\\xNN`, a newline `\\n`, a carriage
return `\\r`, and a backslash `\\\\`; `escape` and `unescape` do this.
"""

import csv
import hashlib
import json
import os
import re
import shutil
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from likewise.errors import FileFormatError, LikewiseError
from likewise.rows.npy import mapped
from likewise.utils.files import StrPath, atomic_write, link, locked
from likewise.utils.versions import META, Versions
from likewise.utils.wording import csv_text

FEATURES, ITEMS, SKIPPED, EXTRACTOR = "features.npy", "items.csv", "skipped.csv", "extractor.safetensors"
CHECKSUMS = "checksums.json"  # of blocks of features.npy, and of the other files
_BLOCK = 1 << 24  # bytes
WORK = ".work"  # folder of a run that is not finished
REQUEST = "request.json"  # in it: the settings of that run
STORE = Versions(
    kind="a feature store",
    pointer="CURRENT.features",
    parts=frozenset({META, FEATURES, ITEMS, SKIPPED, EXTRACTOR, CHECKSUMS}),
    format=2,
    required={"n_items": int},
    optional={
        "n_features": int, "n_classes": int, "n_unlabelled": int, "n_skipped": int, "dtype": str,
        "root": str | None, "labels": str | None, "extractor": dict | None, "request": dict | None,
    },
)  # fmt: skip

COLUMNS = ("path", "label", "size", "mtime_ns", "hash", "taken", "stamp")


class Item(NamedTuple):
    """One row of a store; `size` and `mtime_ns` are -1, the others "", for an item that came from no file.

    `hash` is the blake2b of the file's bytes (16 bytes, in hex), `taken` is its EXIF date as YYYY-MM-DDTHH:MM:SS, and
    `stamp` is what tells the file from one that was put in its place with the same size and time.
    """

    path: str
    label: str
    size: int = -1
    mtime_ns: int = -1
    hash: str = ""
    taken: str = ""
    stamp: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class FeatureStore:
    """Features on disk with their items and the extractor that made them.

    Attributes
    ----------
    features : memory-mapped array of shape (n, d), float32 or float16
    items : list of `Item`, one per row
    labels : array of str, "" where an item has none; None if no item has one
    paths : list of str, relative to `root`
    meta : what `meta.json` holds: the extractor, its parameters and checksum, counts
    version : the folder that the files were read from; it is removed when the store is replaced
    """

    path: Path
    version: Path
    features: np.ndarray
    items: list[Item]
    meta: dict[str, Any]

    @classmethod
    def open(cls, path: StrPath) -> Self:
        """Open the store in the folder `path` for reading."""
        path = Path(path)
        return STORE.read(path, lambda version: cls._read(path, version))

    @classmethod
    def _read(cls, path: Path, version: Path) -> Self:
        meta = STORE.read_facts(version)
        items = list(_iterate_items(version / ITEMS))
        features = read_features(version / FEATURES)
        if not len(features) == len(items) == meta["n_items"]:
            raise FileFormatError(
                f"{path} has {len(features)} rows in features.npy, {len(items)} in items.csv and {meta['n_items']} in "
                "meta.json: run `likewise features` on it again"
            )
        return cls(path, version, features, items, meta)

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
            raise LikewiseError(
                f"features has shape {features.shape} and type {features.dtype}; expected rows of numbers"
            )
        features = np.ascontiguousarray(features, dtype=np.float16 if features.dtype == np.float16 else np.float32)
        n = len(features)
        names = [str(i) for i in range(n)] if paths is None else [os.fspath(p) for p in paths]
        texts = [""] * n if labels is None else ["" if label is None else str(label) for label in labels]
        for name, values in (("labels", texts), ("paths", names)):
            if len(values) != n:
                raise LikewiseError(f"{name} has {len(values)} entries; expected {n}, one per row of features")
        items = [Item(*pair) for pair in zip(names, texts, strict=True)]
        facts = {"root": None, **(meta or {}), **describe(items, features.shape[1], features.dtype)}
        check_free(path)
        with locked(path):
            with STORE.replace(path) as new:
                atomic_write(new / FEATURES, lambda file: np.save(file, features, allow_pickle=False))
                atomic_write(new / ITEMS, items_to_csv(items))
                if extractor is not None:
                    extractor.save(new / EXTRACTOR)
                    facts["extractor"] = extractor.describe()
                atomic_write(new / META, STORE.facts_to_json(facts))
                write_checksums(new)
            shutil.rmtree(path / WORK, ignore_errors=True)
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

    @property
    def extractor_file(self) -> Path | None:
        """The file of the extractor, if the store has one."""
        version = STORE.current(self.path)
        return version / EXTRACTOR if version is not None and (version / EXTRACTOR).is_file() else None

    def extractor(self, trust: bool = False) -> Any:
        """The extractor that made these features, so that a query image can go through exactly the same one.

        One that runs a model of others has to be known on this machine, or trusted.
        """
        file = self.extractor_file
        if file is None:
            raise LikewiseError(f"{self.path} carries no extractor: its features did not come from images")
        # By name: whoever only reads rows needs no extractors, and this room does not import theirs.
        return import_module("likewise.pictures.base").load_extractor(file, trust)


def is_store(path: Path) -> bool:
    return (path / STORE.pointer).is_file()


# -- Checksums ---------------------------------------------------------------------------------------------------------


def write_checksums(version: Path) -> None:
    """Write the checksums of all files of a version; of `features.npy` one for each block."""
    files = sorted(path for path in version.iterdir() if path.name != CHECKSUMS and not path.match(".*.tmp"))
    sums = {"block": _BLOCK, "files": {path.name: _sums(path) for path in files}}
    atomic_write(version / CHECKSUMS, (json.dumps(sums, indent=2) + "\n").encode())


def _sums(path: Path) -> list[str]:
    """A checksum for each block of a file."""
    with open(path, "rb") as file:
        return [hashlib.blake2b(block, digest_size=16).hexdigest() for block in iter(lambda: file.read(_BLOCK), b"")]


def problem_of_features(folder: Path) -> str | None:
    """What is damaged in a feature store; None if nothing is."""
    try:
        store = FeatureStore.open(folder)
        damaged, rows = _damage(store)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # a LikewiseError is a ValueError
        return str(error) if isinstance(error, LikewiseError) else f"{folder} is damaged: {error}"
    if damaged:
        again = "likewise features --overwrite writes it again"
        return f"{store.version / damaged[0]} has been altered or damaged: its checksum does not match; {again}"
    if len(rows):
        text = f"{len(rows):,} rows of {store.version / FEATURES} from row {rows[0]} on are damaged"
        return f"{text}; likewise check {folder} --repair, then likewise features, compute them again"
    return None


def _damage(store: FeatureStore) -> tuple[list[str], np.ndarray]:
    """The files whose checksums do not match, and the rows with a byte in such a block of `features.npy`."""
    sums = json.loads((store.version / CHECKSUMS).read_bytes())["files"]
    damaged = [name for name, expected in sums.items() if name != FEATURES and _sums(store.version / name) != expected]
    n, width = len(store), store.features.strides[0]
    start = (store.version / FEATURES).stat().st_size - n * width
    rows = [np.arange(0)]
    for number, (now, expected) in enumerate(zip_longest(_sums(store.version / FEATURES), sums[FEATURES])):
        if now != expected:
            first, last = (number * _BLOCK - start) // width, ((number + 1) * _BLOCK - start - 1) // width
            rows.append(np.arange(max(0, first), min(last + 1, n)))
    return damaged, np.unique(np.concatenate(rows))


def repair_features(folder: Path) -> str:
    """Mark damaged rows, so that the next extraction computes them again; other damage raises."""
    store = FeatureStore.open(folder)
    _, rows = _damage(store)
    if not len(rows) or store.root is None:
        raise LikewiseError(f"{problem_of_features(folder)}; there is no picture to compute its rows from")
    items = list(store.items)
    for row in rows.tolist():
        items[row] = items[row]._replace(hash="", stamp="")
    sums = json.loads((store.version / CHECKSUMS).read_bytes())
    with locked(folder), STORE.replace(folder) as new:
        for path in store.version.iterdir():
            if path.name not in (ITEMS, CHECKSUMS):
                link(path, new / path.name)
        atomic_write(new / ITEMS, items_to_csv(items))
        sums["files"][ITEMS] = _sums(new / ITEMS)
        atomic_write(new / CHECKSUMS, (json.dumps(sums, indent=2) + "\n").encode())
    return f"likewise features {store.root} -o {folder} computes {len(rows):,} rows again"


def check_free(folder: Path) -> None:
    """Refuse a file, and a folder that contains anything but a feature store or an unfinished one."""
    if folder.exists() and not folder.is_dir():
        raise LikewiseError(f"{folder} is a file; features are a folder")
    if folder.is_dir() and not is_ours(folder):
        raise LikewiseError(f"{folder} is a folder with other files in it; give features a folder of their own")


def is_ours(folder: Path) -> bool:
    """Whether a folder is empty, a feature store, or left by an interrupted run."""
    work = folder / WORK
    begun = (work / REQUEST).is_file() and b'"likewise"' in (work / REQUEST).read_bytes()
    if work.is_dir() and not begun and not all(path.name.startswith(f".{REQUEST}.") for path in work.iterdir()):
        return STORE.current(folder) is not None
    return STORE.is_free(folder, {WORK, SKIPPED} if begun else {WORK})


def escape(name: str) -> str:
    r"""A file name as one line of valid UTF-8: undecodable bytes, newlines and backslashes become \xNN, \n, \r, \\."""
    return printable(name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r"))


def printable(name: str) -> str:
    r"""A name as text that every file, terminal and browser takes: bytes that are not UTF-8 become \xNN."""

    def escaped(match: re.Match[str]) -> str:
        code = ord(match.group())
        # surrogateescape maps the byte NN to U+DCNN; any other lone surrogate is not a byte and keeps its own number
        return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"

    return re.sub("[\ud800-\udfff]", escaped, name)


_ESCAPES = re.compile(r"\\(?:([\\nr])|x([0-9a-f]{2})|u(d[89a-f][0-9a-f]{2}))")


def unescape(text: str) -> str:
    """The name that `escape` was given."""

    def character(match: re.Match[str]) -> str:
        letter, byte, surrogate = match.groups()
        if letter:
            return {"\\": "\\", "n": "\n", "r": "\r"}[letter]
        return chr(0xDC00 + int(byte, 16)) if byte else chr(int(surrogate, 16))

    return _ESCAPES.sub(character, text)


def items_to_csv(items: Iterable[Item]) -> bytes:
    rows = ((escape(item.path), escape(item.label), *item[2:]) for item in items)
    return table_to_csv(COLUMNS, rows)


def table_to_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """A header and rows as CSV in UTF-8 with plain newlines."""
    return csv_text(columns, rows, guard=False).encode("utf-8", "backslashreplace")


def _iterate_items(path: Path) -> Iterator[Item]:
    """The rows of an `items.csv`."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            columns = tuple(next(rows, ()))
            if columns != COLUMNS:
                raise ValueError(f"its columns are not {', '.join(COLUMNS)}")
            for row in rows:
                if len(row) != len(columns):
                    raise ValueError(f"line {rows.line_num} has {len(row)} columns; expected {len(columns)}")
                yield Item(unescape(row[0]), printable(unescape(row[1])), int(row[2]), int(row[3]), *row[4:])
    except FileNotFoundError as error:
        raise FileFormatError(f"{path.parent.parent} is damaged: {path} is missing") from error
    except (ValueError, csv.Error, OSError) as error:
        raise FileFormatError(f"{path} cannot be read as items: {error}") from error


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


def read_rows(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """The features of a store, memory-mapped, and its labels, without its other columns."""

    def read(version: Path) -> tuple[np.ndarray, np.ndarray | None]:
        features, numbers, codes = read_features(version / FEATURES), dict[str, int](), array("l")
        for item in _iterate_items(version / ITEMS):
            codes.append(numbers.setdefault(item.label, len(numbers)))
        if set(numbers) <= {""}:
            return features, None
        return features, np.array(list(numbers))[np.frombuffer(codes, dtype=f"i{codes.itemsize}")]

    return STORE.read(path, read)


def read_features(path: Path) -> np.ndarray:
    """The rows of a `features.npy`, memory-mapped."""
    try:
        features = mapped(path)
    except FileNotFoundError as error:
        raise FileFormatError(f"{path.parent.parent} is damaged: {path} is missing") from error
    if features.ndim != 2 or features.dtype not in (np.float32, np.float16):
        raise FileFormatError(f"{path} has shape {features.shape} and type {features.dtype}; expected rows of floats")
    return features
