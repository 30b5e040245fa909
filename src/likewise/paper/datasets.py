"""The data sets of the experiments: the two of the paper, three public ones, or any feature store or table."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from likewise.errors import FileFormatError, LikewiseError
from likewise.pictures.images import load_image, shrink
from likewise.rows import read_table
from likewise.rows.store import FeatureStore, is_store

Picture = Callable[[int], np.ndarray]

NAMES = ("caltech101", "imagenet50", "fashion-mnist", "digits", "newsgroups20")
FASHION = Path("/usr/share/datasets/fashion-mnist")  # of the Debian package dataset-fashion-mnist


@dataclass(frozen=True)
class Dataset:
    """Rows X with class codes y, and facts for the report.

    `picture(row)` returns the uint8 image of a row, if there are images; `facts` describe the features.
    """

    name: str
    X: Any
    y: np.ndarray
    classes: list[str]
    source: str
    picture: Picture | None = None
    facts: dict[str, str] = field(default_factory=dict)

    def subset(self, rows: np.ndarray) -> Self:
        rows, picture = np.sort(rows), self.picture
        shown = None if picture is None else lambda row: picture(int(rows[row]))
        return replace(self, X=self.X[rows], y=self.y[rows], picture=shown)


def load_dataset(
    name: str, path: str | Path | None = None, work: Path | None = None, extractor: str = "llc"
) -> Dataset:
    """A data set by a name of `NAMES` and its path, or the feature store or table at the path `name`.

    The features of a folder of pictures are extracted to the folder `work` first.
    """
    expected = f"expected {', '.join(NAMES)}, or the path of a feature store"
    work, path = work or Path(), None if path is None else Path(path)
    if name not in NAMES:
        if path is not None:
            raise LikewiseError(f"unknown DATASET {name!r}: {expected}")
        if not Path(name).exists():
            raise LikewiseError(f"DATASET {name!r} is neither known nor a path: {expected}")
        return _features(Path(name).resolve().stem, Path(name), work, extractor)
    if path is not None and not path.exists():
        raise LikewiseError(f"PATH {path} does not exist")
    if name == "digits":
        return _digits()
    if name == "fashion-mnist":
        return _fashion(path or FASHION)
    if path is None:
        needed = "a folder of pictures, one folder per class, or a feature store"
        needed = "an .npz of tf-idf rows in CSR format with their labels under y" if name == "newsgroups20" else needed
        raise LikewiseError(f"{name} needs PATH: {needed}")
    if name == "newsgroups20":
        return replace(_table(name, path)[0], facts={"features": "tf-idf"})
    return _features(name, path, work, extractor)


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    images = np.rint(255 - X.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    classes, facts = [str(c) for c in range(10)], {"features": "8 x 8 pixels"}
    return Dataset("digits", X.astype(np.float32), y, classes, "scikit-learn", images.__getitem__, facts)


def _features(name: str, path: Path, work: Path, extractor: str) -> Dataset:
    """A feature store, any table, or a folder of pictures with one folder per class, whose features are extracted."""
    if path.is_dir() and not is_store(path) and not any(path.glob("*.npy")):
        from likewise.pictures import extract_folder, make_extractor

        store = work / f"{extractor.split(':')[0]}.features"
        # LLC without PCA, which the protocol applies
        parameters: dict[str, Any] = {"n_components": None} if extractor == "llc" else {}
        extract_folder(path, store, make_extractor(extractor, **parameters))
        path = store
    return _store(name, path) if is_store(path) else _table(name, path)[0]


def _store(name: str, path: Path) -> Dataset:
    store = FeatureStore.open(path)
    dataset, names = _table(name, path)
    extractor = store.meta.get("extractor", {}).get("name")
    facts = {} if extractor is None else {"features": str(extractor)}
    if store.root is None or not store.image_path(0).is_file():
        return replace(dataset, facts=facts)
    place = {item: row for row, item in enumerate(store.paths)}  # rows without a label are not in the data set
    paths = [store.image_path(place[name]) for name in names]
    return replace(dataset, facts=facts, picture=lambda row: shrink(load_image(paths[row], at_least=128), 128))


def _table(name: str, path: Path) -> tuple[Dataset, list[str]]:
    """The labelled rows of any table or feature store, and their names."""
    table = read_table(path).labelled()
    classes, y = np.unique(np.asarray(table.y), return_inverse=True)
    return Dataset(name, table.X, y, [str(c) for c in classes], path.name), table.names or []


def _fashion(folder: Path) -> Dataset:
    if not folder.is_dir():
        raise LikewiseError(
            "fashion-mnist needs PATH, the folder of its four idx files, or the Debian package dataset-fashion-mnist"
        )
    images = np.concatenate([_idx(folder, f"{part}-images-idx3-ubyte") for part in ("train", "t10k")])
    y = np.concatenate([_idx(folder, f"{part}-labels-idx1-ubyte") for part in ("train", "t10k")]).astype(np.int64)
    X = images.reshape(len(images), -1).astype(np.float32) / 255
    facts = {"features": "28 x 28 pixels"}
    return Dataset("fashion-mnist", X, y, list(_GARMENTS), "Fashion-MNIST", lambda row: 255 - images[row], facts)


_GARMENTS = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


def _idx(folder: Path, name: str) -> np.ndarray:
    """An array of bytes in idx format, compressed or not: a magic number ending with ndim, the shape, the bytes."""
    path = next((path for path in (folder / f"{name}.gz", folder / name) if path.is_file()), None)
    if path is None:
        raise LikewiseError(f"{folder} has neither {name}.gz nor {name}")
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        header = np.frombuffer(content, ">i4", content[3] + 1)
        return np.frombuffer(content, np.uint8, offset=4 * len(header)).reshape(header[1:])
    except (OSError, EOFError, ValueError, IndexError) as error:
        raise FileFormatError(f"{path} is not an idx file, or it is damaged: {error}") from error
