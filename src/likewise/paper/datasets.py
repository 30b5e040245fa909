"""The data of the experiments: the digits of scikit-learn, or any feature store or table with labels."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from likewise.errors import LikewiseError
from likewise.pictures.images import load_image, shrink
from likewise.rows import read_table
from likewise.rows.store import FeatureStore, is_store

Picture = Callable[[int], np.ndarray]


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


def load_dataset(name: str, path: str | Path | None = None) -> Dataset:
    """The digits of scikit-learn for "digits"; else the feature store or table at `path`, or at the path `name`."""
    if name == "digits" and path is None:
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        images = np.rint(255 - X.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
        digits, facts = [str(c) for c in range(10)], {"features": "8 x 8 pixels"}
        return Dataset(name, X.astype(np.float32), y, digits, "scikit-learn", images.__getitem__, facts)
    file = Path(name if path is None else path)
    if not file.exists():
        what = f"DATASET {name!r} is neither digits nor a path" if path is None else f"PATH {path} does not exist"
        raise LikewiseError(f"{what}: expected a feature store or a table with labels")
    if file.is_dir() and not is_store(file) and not any(file.glob("*.npy")):
        raise LikewiseError(
            f"{file} is not a folder of features: likewise features {file} -o NAME.features comes first"
        )
    table = read_table(file).labelled()
    classes, y = np.unique(np.asarray(table.y), return_inverse=True)
    title = file.resolve().stem if path is None else name
    dataset = Dataset(title, table.X, y, [str(c) for c in classes], file.name)
    if not is_store(file):
        return dataset
    store = FeatureStore.open(file)
    extractor = store.meta.get("extractor", {}).get("name")
    dataset = replace(dataset, facts={} if extractor is None else {"features": str(extractor)})
    if store.root is None or not store.image_path(0).is_file():
        return dataset
    place = {item: row for row, item in enumerate(store.paths)}  # rows without a label are not in the data set
    paths = [store.image_path(place[item]) for item in table.names or []]
    return replace(dataset, picture=lambda row: shrink(load_image(paths[row], at_least=128), 128))
