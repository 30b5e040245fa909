"""Labels in files of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from likewise.errors import LikewiseError
from likewise.tables import read_labels, read_table

X = np.array([[1.5, -2.0, 0.25], [3.0, 4.0, 5.0], [6.0, 7.5, 8.0], [0.0, 1.0, 2.0]])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("y.txt", "cat\ndog\ncat\n"),
        ("y.csv", "path,label\n1.jpg,cat\n2.jpg,dog\n3.jpg,cat\n"),
        ("y.csv", "cat\ndog\ncat\n"),
        ("y.csv", "label\ncat\ndog\ncat\n"),
        ("y.tsv", "path\tlabel\n1\tcat\n2\tdog\n3\tcat\n"),
    ],
)
def test_labels_are_read_in_order(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert read_labels(tmp_path / name).tolist() == ["cat", "dog", "cat"]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("y.csv", "a,b\n1,2\n", "{} has the columns a, b: name one with --label-column"),
        ("y.csv", "", "the labels file {} is empty"),
        ("y.csv", "path,label\n1.jpg,cat\n2.jpg\n", "row 3 of {} has no cell 2, where its label should be"),
        ("y.json", "[]", "the labels file {} ends with .json: expected .npy, .csv, .tsv or .txt"),
    ],
)
def test_malformed_labels_get_a_sentence(name: str, content: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(LikewiseError) as caught:
        read_labels(path)
    assert str(caught.value) == sentence.format(path)


def test_labels_of_another_length_get_a_sentence(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.arange(3))
    with pytest.raises(LikewiseError, match="has 4 rows but 3 labels: expected one per row"):
        read_table(tmp_path / "X.npy", labels=tmp_path / "y.npy")
