"""An index brought up to date: what is new, changed and gone; versions that are kept, and the way back."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.search.conftest import Digits

from likewise.errors import LikewiseError
from likewise.search import Index
from likewise.search.storage import rollback
from likewise.search.updating import Changes, updated


def _table(X: np.ndarray, y: np.ndarray, rows: list[int], ids: bool = True) -> tuple[np.ndarray, dict[str, Any]]:
    named = {"sku": [f"sku-{row:06d}" for row in rows]} if ids else {}
    return X[rows].astype(np.float32), {**named, "label": y[rows].tolist(), "price": [row % 7 for row in rows]}


def _built(model: Any, X: np.ndarray, items: dict[str, Any], **options: Any) -> Index:
    import pandas as pd

    frame = pd.DataFrame({"id": items["sku"], **{name: items[name] for name in ("label", "price")}})
    return Index.build(model, X, frame, new_items=0, **options)


@pytest.mark.parametrize("neighbors", [0, 5])
def test_an_update_is_the_index_built_from_the_new_rows(fitted: dict[str, Any], digits: Digits, neighbors: int) -> None:
    _, _, G, y = digits
    model = fitted["anchored"]
    old = _built(model, *_table(G, y, list(range(200))), n_neighbors=neighbors)
    X, items = _table(G, y, [*range(10, 200), *range(220, 230)])
    X[3] += 1  # other features
    items["price"][5] = 1000  # other metadata alone
    whole = _built(model, X, items, n_neighbors=neighbors)
    new, changes = updated(old, whole_gallery(whole))
    assert changes == Changes(new=10, changed=2, gone=10, embedded=11, other_model=False)
    assert changes
    assert sorted(new.ids) == sorted(whole.ids)
    order = new.rows_of(whole.ids)
    np.testing.assert_allclose(new.vectors[order], whole.vectors, atol=1e-5)
    np.testing.assert_array_equal(new.raw[order], whole.raw)
    assert new.metadata is not None
    assert new.metadata.rows(new.rows_of(["sku-000015"])) == [{"price": 1000}]
    assert not updated(new, whole_gallery(whole))[1]


def whole_gallery(index: Index) -> Any:
    """The rows of an index as another one is built from them."""
    from likewise.search.gallery import GalleryRows

    return GalleryRows(index.raw, index.items)


def test_another_model_embeds_all_rows(fitted: dict[str, Any], digits: Digits) -> None:
    _, _, G, y = digits
    old = _built(fitted["anchored"], *_table(G, y, list(range(50))))
    new, changes = updated(old, whole_gallery(old), fitted["lda"])
    assert changes == Changes(0, 0, 0, embedded=50, other_model=True)
    assert new.model.identity == fitted["lda"].identity


@pytest.mark.parametrize("neighbors", [0, 5])
def test_another_model_keeps_the_number_of_neighbours(fitted: dict[str, Any], digits: Digits, neighbors: int) -> None:
    _, _, G, _ = digits
    X = np.vstack([G, G + 0.1])[:600].astype(np.float32)  # enough rows for "auto" to take some
    old = Index.build(fitted["lda"], X, {"id": [f"sku-{row}" for row in range(600)]}, n_neighbors=neighbors)
    new, changes = updated(old, whole_gallery(old), fitted["anchored"])
    assert changes.other_model
    assert new.neighbors == old.neighbors


def test_rows_without_ids_cannot_be_recognised(fitted: dict[str, Any], digits: Digits) -> None:
    _, _, G, y = digits
    old = _built(fitted["anchored"], *_table(G, y, list(range(50))))
    with pytest.raises(LikewiseError, match="the gallery has no ids: an update needs a column of ids"):
        updated(old, G[:60].astype(np.float32))
    plain = Index.build(fitted["anchored"], G[:50].astype(np.float32))
    with pytest.raises(LikewiseError, match="the index has no ids"):
        updated(plain, G[:60].astype(np.float32))


def test_added_rows_take_their_ids_from_the_column_of_the_index(
    fitted: dict[str, Any], digits: Digits, tmp_path: Path
) -> None:
    import pandas as pd

    _, _, G, y = digits
    features = {f"x{i}": G[:30, i].astype(np.float32) for i in range(G.shape[1])}
    frame = pd.DataFrame({"sku": [f"sku-{row}" for row in range(30)], **features, "label": y[:30]})
    for name, part in (("old", frame[:20]), ("new", frame[20:]), ("unnamed", frame[20:].drop(columns="sku"))):
        part.to_parquet(tmp_path / f"{name}.parquet")
    from likewise.rows import read_table

    built = Index.build(fitted["anchored"], read_table(tmp_path / "old.parquet", id_column="sku"))
    built.save(tmp_path / "a.index")
    index = Index.load(tmp_path / "a.index")
    assert index.metadata is None  # ids are stored once, and have the name of their column too
    assert index.search(rows=[0], where='sku == "sku-3"').ids.tolist() == [["sku-3"]]
    assert index.plus(tmp_path / "new.parquet").ids[-1] == "sku-29"
    assert index.plus(G[20:21].astype(np.float32), {"sku": ["another"]}).ids[-1] == "another"
    for rows, items in ((tmp_path / "unnamed.parquet", None), (G[:1], None), (G[:1], {"id": ["other"]})):
        with pytest.raises(LikewiseError, match="sku"):
            index.plus(rows, items)
    with pytest.raises(LikewiseError, match="the ids of the index are like 'sku-0', and those of the new rows like 7"):
        index.plus(G[:1], [7])


def test_a_version_in_use_and_the_one_before_stay_and_a_rollback_returns_to_it(index: Index, tmp_path: Path) -> None:
    folder = tmp_path / "a.index"
    for n in (100, 90, 80, 70):
        index.minus(index.ids[n:]).save(folder)
        if n == 90:
            reader = Index.load(folder)
            files = list(reader.hold.version.iterdir()) if reader.hold else []
    assert all(path.is_file() for path in files)
    assert len(list(folder.glob("version-*"))) == 3
    del reader
    gc.collect()
    index.minus(index.ids[60:]).save(folder)
    assert not any(path.exists() for path in files)
    assert len(list(folder.glob("version-*"))) == 2
    rollback(folder)
    assert len(Index.load(folder)) == 70
    rollback(folder)
    assert len(Index.load(folder)) == 60


def test_there_may_be_nothing_to_go_back_to_or_only_damage(index: Index, tmp_path: Path) -> None:
    folder = tmp_path / "a.index"
    index.save(folder)
    with pytest.raises(LikewiseError, match=r"a\.index has no earlier version to go back to"):
        rollback(folder)
    first = next(folder.glob("version-*"))
    index.save(folder)
    (first / "vectors.npy").write_bytes(b"")
    with pytest.raises(LikewiseError, match=r"vectors\.npy has been altered or damaged"):
        rollback(folder)
    assert len(Index.load(folder)) == len(index)
    with pytest.raises(LikewiseError, match="is not an index"):
        rollback(tmp_path)
