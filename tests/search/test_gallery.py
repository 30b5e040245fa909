"""The rows of an index, from whatever holds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from likewise.errors import LikewiseError
from likewise.rows import FeatureStore, read_table
from likewise.search.gallery import as_gallery

X = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)


def test_stores_tables_and_paths_to_either_are_one(tmp_path: Path) -> None:
    store = FeatureStore.write(tmp_path / "x.features", X, list("aabbcc"), [f"{i}.png" for i in range(6)])
    np.savez(tmp_path / "x.npz", X=X, y=list("aabbcc"))
    for source in (store, store.path, tmp_path / "x.npz", read_table(tmp_path / "x.npz")):
        found = as_gallery(source)
        np.testing.assert_array_equal(found.raw, X)
        assert found.items.labels is not None
        assert list(found.items.labels) == list("aabbcc")
    assert as_gallery(store).items.paths is not None
    assert as_gallery(X).extractor is None


def test_blocks_are_shown_before_they_are_kept() -> None:
    seen: list[np.ndarray] = []
    found = as_gallery(iter([X[:2], X[2:]]), seen.append)
    np.testing.assert_array_equal(found.raw, X)
    assert [rows.shape for rows in seen] == [(1, 3)]


@pytest.mark.parametrize(
    ("rows", "message"), [(sp.csr_array(X), "gallery is sparse"), (X[0], r"gallery has shape \(3,\) and type float32")]
)
def test_what_is_no_gallery_is_refused(rows: object, message: str) -> None:
    with pytest.raises(LikewiseError, match=message):
        as_gallery(rows)
