"""Data sets by name, from files that are written here."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

from likewise.errors import LikewiseError
from likewise.paper.datasets import load_dataset
from likewise.rows import FeatureStore


def test_digits_need_no_path_and_have_pictures() -> None:
    data = load_dataset("digits")
    assert data.X.shape == (1797, 64)
    assert data.picture is not None
    assert data.picture(5).shape == (8, 8)
    assert data.classes[data.y[5]] == "5"


def test_a_subset_keeps_rows_and_pictures_together() -> None:
    data = load_dataset("digits")
    part = data.subset(np.array([900, 3, 40]))
    assert data.picture is not None
    assert part.picture is not None
    for place, row in enumerate((3, 40, 900)):
        np.testing.assert_array_equal(part.X[place], data.X[row])
        np.testing.assert_array_equal(part.picture(place), data.picture(row))


def test_newsgroups_are_sparse_rows_with_labels(tmp_path: Path) -> None:
    X = sp.random(30, 50, 0.2, format="csr", random_state=0, dtype=np.float32)
    y = np.repeat([0, 1, 2], 10).astype(np.int8)
    file = tmp_path / "news.npz"
    np.savez(file, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y, classes=["a", "b", "c"])
    data = load_dataset("newsgroups20", file)
    assert sp.issparse(data.X)
    np.testing.assert_array_equal(data.y, y)


def test_any_feature_store_is_a_data_set(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    FeatureStore.write(tmp_path / "mine.features", X, ["b", "a", "b", "a", "b", "a"])
    data = load_dataset(str(tmp_path / "mine.features"))
    assert data.name == "mine"
    assert data.classes == ["a", "b"]
    np.testing.assert_array_equal(data.y, [1, 0, 1, 0, 1, 0])
    np.testing.assert_array_equal(data.X, X)


def test_pictures_follow_their_rows_where_some_have_no_label(tmp_path: Path) -> None:
    for i, name in enumerate("abc"):
        Image.fromarray(np.full((4, 5, 3), 60 * i, np.uint8)).save(tmp_path / f"{name}.png")
    names = [f"{name}.png" for name in "abc"]
    facts = {"root": str(tmp_path)}
    FeatureStore.write(tmp_path / "mine.features", np.eye(3), ["", "cat", "dog"], names, facts)
    data = load_dataset(str(tmp_path / "mine.features"))
    assert data.picture is not None
    assert [int(data.picture(row)[0, 0, 0]) for row in range(len(data.y))] == [60, 120]


def test_a_folder_of_pictures_needs_its_features_first(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(LikewiseError, match=r"photos is not a folder of features: likewise features .* comes first"):
        load_dataset("caltech101", tmp_path / "photos")


@pytest.mark.parametrize(
    ("name", "path", "message"),
    [
        ("digit", None, "DATASET 'digit' is neither digits nor a path: expected a feature store or a table"),
        ("caltech101", "nowhere", "PATH nowhere does not exist: expected a feature store or a table with labels"),
    ],
)
def test_what_is_missing_is_said(name: str, path: str | None, message: str) -> None:
    with pytest.raises(LikewiseError, match=message):
        load_dataset(name, path)


def test_the_real_newsgroups(data_folder: Path) -> None:
    data = load_dataset("newsgroups20", data_folder / "newsgroups20.npz")
    assert data.X.shape == (19_997, 30_465)
    assert len(data.classes) == 20
