"""The data sets of `open_gallery`: features and class codes of pictures, words and tables; and the same, changed.

Pictures are those of `LIKEWISE_DATA`/caltech101.tar, at most 60 of a class; newsgroups are 6,000 texts of
`LIKEWISE_DATA`/newsgroups20.npz. Features are computed once and stored in the folder WORK.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageFilter
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, TruncatedSVD

from benchmarks.comparisons import drawn
from benchmarks.fashion_mnist import load_fashion_mnist
from likewise.errors import LikewiseError
from likewise.paper.datasets import load_dataset
from likewise.pictures import make_extractor
from likewise.rows import read_table
from likewise.utils.files import atomic_write, make_folder

WORK = Path("build") / "open-gallery"
PER_CLASS = 60  # pictures
CHANGED = (40, 30)  # classes, and pictures of each, that are changed: features take most of the time
ROWS = 6_000  # of the other sets
Rows = tuple[np.ndarray, np.ndarray]
Change = Callable[[Image.Image], Image.Image]


def blurred(picture: Image.Image) -> Image.Image:
    return picture.filter(ImageFilter.GaussianBlur(max(picture.size) / 100))


def cropped(picture: Image.Image) -> Image.Image:
    w, h = picture.size
    return picture.crop((w // 5, h // 5, w - w // 5, h - h // 5))


def half_size(picture: Image.Image) -> Image.Image:
    return picture.resize((max(1, picture.width // 2), max(1, picture.height // 2)))


CHANGES: dict[str, Change] = {
    "blurred": blurred,
    "grey": lambda picture: picture.convert("L").convert("RGB"),
    "cropped": cropped,
    "half size": half_size,
}


class Source(NamedTuple):
    """Rows and class codes; rows of the same items that are searched; whether the first of a class are learned from."""

    X: np.ndarray
    y: np.ndarray
    searched: np.ndarray
    in_order: bool = False


def load(name: str) -> Source:
    """A set by its name, a shift by its name, or a labelled table or feature store by its path."""
    if name in SHIFTS:
        base, change = SHIFTS[name]
        X, y, _, _ = load(base)
        if change is None:
            return Source(X, y, X, in_order=True)
        changed = stored(name.replace(" ", "-"), change)[0]
        rows = np.arange(len(y)) if len(changed) == len(y) else _first_rows(y, *CHANGED)
        return Source(X[rows], y[rows], changed)
    X, y = _rows(name)
    return Source(X, y, X)


def _rows(name: str) -> Rows:
    if name not in SETS:
        table = read_table(name).labelled()
        X, y = np.asarray(table.X, np.float32), np.unique(table.y, return_inverse=True)[1]
        rows = drawn(len(y), ROWS)
        return X[rows], y[rows]
    return stored(name.replace(", ", "-"), SETS[name])


def _first_rows(y: np.ndarray, classes: int, per_class: int) -> np.ndarray:
    """The first rows of the first classes, class by class."""
    return np.concatenate([np.flatnonzero(y == c)[:per_class] for c in range(classes)])


def stored(name: str, make: Callable[[], Rows]) -> Rows:
    """What `make` returns, computed once."""
    path = WORK / f"{name}.npz"
    if not path.exists():
        X, y = make()
        content = io.BytesIO()
        np.savez(content, X=X.astype(np.float32), y=y)
        make_folder(WORK)
        atomic_write(path, content.getvalue())
    with np.load(path) as file:
        return file["X"], file["y"]


def data(name: str) -> Path:
    """A file of the folder that LIKEWISE_DATA names."""
    path = Path(os.environ.get("LIKEWISE_DATA", ".")) / name
    if not path.is_file():
        raise LikewiseError(f"{path} does not exist: set LIKEWISE_DATA to the folder of {name}")
    return path


def pictures(extractor: str, change: Change | None = None) -> Rows:
    """Features of the pictures, or of changed pictures, if the extractor does not learn from them."""
    sources: list[bytes] = []
    names: list[str] = []
    classes, per_class = (None, PER_CLASS) if change is None else CHANGED
    with tarfile.open(data("caltech101.tar")) as archive:
        files = sorted((file for file in archive.getmembers() if file.isfile()), key=lambda file: file.name)
        for file in files:
            name = Path(file.name).parent.name
            if names.count(name) < per_class and (name in names or len(set(names)) != classes):
                content = archive.extractfile(file)
                assert content is not None
                sources.append(content.read())
                names.append(name)
    model = make_extractor(extractor)
    if model.learns:
        model.fit(sources)
    if change is not None:
        sources = [_saved(change(Image.open(io.BytesIO(source)).convert("RGB"))) for source in sources]
    return model.transform(sources), np.unique(names, return_inverse=True)[1]


def _saved(picture: Image.Image) -> bytes:
    content = io.BytesIO()
    picture.save(content, "png")
    return content.getvalue()


def newsgroups(words: float = 1.0) -> Rows:
    """Leading directions of tf-idf rows, by the time of the message; `words` is the share of a text that is left."""
    path = data("newsgroups20.npz")
    dataset = load_dataset("newsgroups20", path)
    with np.load(path) as file:
        number = np.array([int(name.rsplit("/")[1]) for name in file["files"]])
    rows = drawn(len(dataset.y), ROWS)
    rows = rows[np.argsort(number[rows], kind="stable")]
    X, y = dataset.X[rows], dataset.y[rows]
    svd = TruncatedSVD(300, random_state=0).fit(X)
    if words < 1:
        X = X.copy()
        X.data[np.random.default_rng(0).random(X.nnz) > words] = 0
    return svd.transform(X), y


def _fashion() -> Rows:
    X, y = load_fashion_mnist()
    rows = drawn(len(y), ROWS)
    return PCA(200, random_state=0).fit_transform(X[rows]), y[rows]


SETS: dict[str, Callable[[], Rows]] = {
    "Caltech101, EfficientNet": lambda: pictures("efficientnet-lite0"),
    "newsgroups": newsgroups,
    "Caltech101, LLC": lambda: pictures("llc"),
    "Fashion-MNIST": _fashion,
    "digits": lambda: load_digits(return_X_y=True),
}


# Rows of the same items, changed; None searches the later half of each class, and learns from the earlier one.
SHIFTS: dict[str, tuple[str, Callable[[], Rows] | None]] = {
    **{
        f"pictures {name}": ("Caltech101, EfficientNet", partial(pictures, "efficientnet-lite0", change))
        for name, change in CHANGES.items()
    },
    "pictures of the end of each class": ("Caltech101, EfficientNet", None),
    "texts without half of their words": ("newsgroups", partial(newsgroups, 0.5)),
    "later texts": ("newsgroups", None),
}
