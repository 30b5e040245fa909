"""svmlight files: sparse rows and labels as they were written, and a sentence for everything else."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from likewise.errors import FileFormatError, LikewiseError
from likewise.tables import read_table
from likewise.tables.svmlight import widened

X = sp.csr_array(np.array([[0.5, 0, 2], [0, 0, 1.25], [3, 1, 0], [0, 4, 0]]))
Y = np.array([1, 2, 1, -1])


def _written(path: Path, zero_based: bool = False) -> Path:
    with gzip.open(path, "wb") if path.suffix == ".gz" else path.open("wb") as file:
        dump_svmlight_file(X, Y, file, zero_based=zero_based)
    return path


@pytest.mark.parametrize("name", ["a.svm", "a.svmlight", "a.libsvm", "a.SVM", "a.svm.gz"])
@pytest.mark.parametrize("zero_based", [False, True])
def test_rows_and_labels_come_back_sparse(name: str, zero_based: bool, tmp_path: Path) -> None:
    table = read_table(_written(tmp_path / name, zero_based))
    assert sp.issparse(table.X)
    assert table.X.dtype == np.float32
    np.testing.assert_array_equal(table.X.toarray(), X.toarray())
    assert table.y is not None
    assert table.y.tolist() == Y.tolist()


def test_columns_counted_from_zero_are_remarked_on(tmp_path: Path) -> None:
    path = _written(tmp_path / "a.svm", zero_based=True)
    expected = f"{path}: its columns are counted from 0; files to compare it with must be as well"
    assert read_table(path).notes == [expected]
    assert read_table(_written(tmp_path / "b.svm")).notes == []


def test_a_narrower_file_takes_the_width_of_the_model_and_no_other_format_does(tmp_path: Path) -> None:
    table = widened(read_table(_written(tmp_path / "a.svm")), 7)
    assert table.X.shape == (4, 7)
    np.testing.assert_array_equal(table.X.toarray()[:, :3], X.toarray())
    np.savez(tmp_path / "a.npz", X=X.toarray(), y=Y)
    assert widened(read_table(tmp_path / "a.npz"), 7).X.shape == (4, 3)


def test_what_is_no_svmlight_file_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("cat 1:2\n")
    with pytest.raises(FileFormatError, match=r"a\.svm is not an svmlight file, or it is damaged: could not convert"):
        read_table(path)
    path.write_text("1\n2\n")
    with pytest.raises(LikewiseError, match=r"a\.svm has no column:value pair: expected lines such as 1 3:0\.5 7:2"):
        read_table(path)
    damaged = _written(tmp_path / "b.svm.gz")
    damaged.write_bytes(damaged.read_bytes()[:-12])
    with pytest.raises(FileFormatError, match=r"b\.svm\.gz is not an svmlight file, or it is damaged"):
        read_table(damaged)
