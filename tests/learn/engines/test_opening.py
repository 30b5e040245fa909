"""Rows are opened where they are, from whatever holds them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from tests.planted import planted

from likewise import SLR
from likewise.errors import LikewiseError
from likewise.learn.engines.array_api import ArrayEngine
from likewise.learn.engines.disk import DEFAULT_LIMIT
from likewise.learn.engines.opening import Rows, is_out_of_core, open_rows
from likewise.rows import FeatureStore, Table, read_table


@pytest.mark.parametrize(
    "X", [np.ones((3, 2)), [[1, 2], [3, 4]], [[1.0]], [], sp.csr_array(np.eye(3)), ([1, 2], [3, 4]), [np.ones(3)], None]
)
def test_arrays_and_their_like_stay_in_memory(X: Any) -> None:
    assert not is_out_of_core(X)


def test_data_frames_stay_in_memory() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    assert not is_out_of_core(pandas.DataFrame({"a": [1, 2]}))
    assert not is_out_of_core(polars.DataFrame({"a": [1, 2]}))


def test_a_dask_array_without_a_client_says_what_to_do() -> None:
    da, distributed = pytest.importorskip("dask.array"), pytest.importorskip("distributed")
    assert distributed.client._get_global_client() is None
    with pytest.raises(LikewiseError, match=r"no Client is current: make a distributed\.Client first"):
        SLR(rank=2).fit(da.ones((9, 3)), np.arange(9) % 3)


X, Y = planted(90, 6, 3)


def _same(rows: Rows, X: np.ndarray = X) -> None:
    expected = SLR(rank=2, max_iter=2).fit(X, Y).similarity(X)
    assert np.abs(SLR(rank=2, max_iter=2).fit(rows).similarity(X) - expected).max() <= 1e-5 * np.abs(expected).max()


def _file(kind: str, folder: Path) -> Path:
    """X and Y in a file of a kind that brings its labels along."""
    path = folder / f"data.{kind}"
    if kind == "npz":
        np.savez(path, X=X, y=Y)
    elif kind == "csv":
        lines = [",".join([*map(repr, row.tolist()), str(label)]) for row, label in zip(X, Y, strict=True)]
        path.write_text("\n".join([",".join([*(f"f{i}" for i in range(6)), "label"]), *lines]))
    elif kind == "svm":
        dump_svmlight_file(X, Y, str(path), zero_based=False)
    elif kind == "features":
        FeatureStore.write(path, X, Y)
    elif kind == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({"embedding": X.tolist(), "label": Y.tolist()}), path)
    return path


@pytest.mark.parametrize(
    ("kind", "where_of_path"),
    [("npz", "memory"), ("csv", "memory"), ("svm", "memory"), ("parquet", "disk"), ("features", "disk")],
)
def test_a_file_with_labels_is_opened_by_its_name(tmp_path: Path, kind: str, where_of_path: str) -> None:
    path = _file(kind, tmp_path)
    tables = [read_table(path)] if kind != "features" else [read_table(path), FeatureStore.open(path)]
    for given_ in (path, str(path), *tables):
        rows = open_rows(given_)
        where = "memory" if kind == "parquet" and given_ is tables[0] else where_of_path
        assert (rows.where, rows.n_rows, rows.n_features, rows.classes.tolist()) == (where, 90, 6, [0, 1, 2])
        _same(rows)


def test_arrays_files_and_blocks_say_where_they_are(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "rows").write_bytes((tmp_path / "x.npy").read_bytes())
    table = pd.DataFrame(X, columns=list("abcdef"))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for given_, where in [
        (X, "memory"),
        (X.tolist(), "memory"),
        (sp.csr_array(X), "memory"),
        (table, "memory"),
        (mapped, "disk"),
        (mapped[:, ::2], "memory"),
        (tmp_path / "x.npy", "disk"),
        (tmp_path / "rows", "disk"),
        ([X[:50], X[50:]], "disk"),
        (lambda: iter([X[:50], X[50:]]), "disk"),
    ]:
        rows = open_rows(given_, Y)
        assert rows.where == where
        _same(rows) if rows.n_features == 6 else _same(rows, X[:, ::2])
    assert list(open_rows(table, Y).feature_names) == list("abcdef")
    assert open_rows(X, Y).feature_names is None


def test_tensors_and_devices_are_arrays() -> None:
    torch = pytest.importorskip("torch")
    for rows in (open_rows(torch.from_numpy(X), Y), open_rows(X, Y, device="cpu")):
        assert rows.where == "array"
        assert isinstance(rows.engine, ArrayEngine)
        _same(rows)


def test_a_limit_goes_with_the_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    assert open_rows(tmp_path / "x.npy", Y, memory_limit="200kB").memory_limit == 200_000
    assert open_rows(tmp_path / "x.npy", Y).memory_limit == DEFAULT_LIMIT


def test_rows_without_a_label_or_a_weight_are_not_there(tmp_path: Path) -> None:
    labels = np.where(np.arange(90) % 10 == 0, "", Y.astype(str))
    store = FeatureStore.write(tmp_path / "x.features", X, labels)
    labelled = labels != ""
    for rows in (open_rows(store), open_rows(Table(X, labels)), open_rows(X, Y, labelled.astype(float))):
        assert (rows.n_rows, rows.classes.tolist()) == (81, [0, 1, 2])
    with pytest.raises(LikewiseError, match="X has no labels: name a file with --labels"):
        open_rows(Table(X))


def test_what_cannot_be_opened_is_refused_in_words(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    for given_, y, options, message in [
        (tmp_path / "x.npy", None, {}, "y is None, and X brings no labels of its own: give one label per row"),
        (tmp_path / "x.npy", Y[:, None], {}, r"y has shape \(90, 1\): expected one label per row"),
        (tmp_path / "x.npy", Y, {"device": "cpu"}, "X is NpyFile: device is for arrays in memory"),
        (tmp_path / "none.npz", None, {}, r"none\.npz does not exist"),
        (X, Y, {"memory_limit": "much"}, "memory_limit='much': expected bytes"),
        (X, Y, {"device": 7}, "device=7: expected a torch device such as 'cuda', or None"),
        (X, None, {}, "requires y to be passed, but the target y is None"),
        (np.where(X > 0, X, np.nan), Y, {}, "contains NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            open_rows(given_, y, **options)
