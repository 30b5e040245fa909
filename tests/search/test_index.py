"""The index: what it is built from, what it finds, how it grows, what its folder is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.search.conftest import Digits

from likewise.errors import LikewiseError
from likewise.pictures import Pixels
from likewise.rows import FeatureStore, Table
from likewise.search import Index


@pytest.fixture
def pictures(tmp_path: Path, fitted: dict[str, Any], digits: Digits) -> Index:
    """An index of pictures, with the extractor that made their features."""
    from PIL import Image

    from likewise.pictures import extract_folder
    from likewise.rivals import Cosine

    for number, row in enumerate(digits[2][:20]):
        path = tmp_path / "photos" / str(digits[3][number]) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((row.reshape(8, 8) * 15).astype(np.uint8)).resize((32, 32)).save(path)
    extract_folder(tmp_path / "photos", tmp_path / "photos.features", Pixels(size=8))
    store = FeatureStore.open(tmp_path / "photos.features")
    return Index.build(Cosine(centre=True).fit(np.asarray(store.features)), tmp_path / "photos.features")


# ---------------------------------------------------------------------------------------------------------------------
# Building


def test_ids_are_row_numbers_unless_items_carry_their_own(fitted: dict[str, Any], digits: Digits) -> None:
    G = digits[2][:5]
    assert Index.build(fitted["lda"], G).ids.tolist() == [0, 1, 2, 3, 4]
    index = Index.build(fitted["lda"], G, ["a", "b", "c", "d", "e"])
    assert index.search(G[2], k=1).ids.tolist() == [["c"]]
    frame = [{"id": 10 * i, "label": None if i else "x", "path": f"{i}.png"} for i in range(5)]
    index = Index.build(fitted["lda"], G, frame)
    assert index.ids.tolist() == [0, 10, 20, 30, 40]
    assert index.labels is not None
    assert index.labels.tolist() == ["x", None, None, None, None]
    assert index.image_path(3) == Path("3.png")


def test_a_table_a_data_frame_a_file_and_a_store_say_what_rows_are_called(
    fitted: dict[str, Any], digits: Digits, tmp_path: Path
) -> None:
    import pandas as pd

    _, _, G, y = digits
    G, y = G[:6], y[:6]
    np.savez(tmp_path / "g.npz", X=G, y=y)
    store = FeatureStore.write(tmp_path / "g.features", G, y, [f"{i}.png" for i in range(6)])
    for source, items in (
        (Table(G, y), None),
        (tmp_path / "g.npz", None),
        (store, None),
        (str(tmp_path / "g.features"), None),
        (G, pd.DataFrame({"label": y})),
    ):
        index = Index.build(fitted["lda"], source, items)
        assert index.labels is not None
        assert [str(label) for label in index.labels] == [str(label) for label in y]


@pytest.mark.parametrize(
    ("gallery", "items", "message"),
    [
        (np.ones(4), None, r"gallery has shape \(4,\) and type float64; expected rows of numbers"),
        (np.ones((2, 64)), [1, 1], "items has the id 1 twice; expected ids that are all different"),
        (np.ones((2, 64)), [1, 2, 3], "items has 3 ids; expected 2, one per row of the gallery"),
        (np.ones((2, 64)), "ab", "items is str; expected ids, a table, or columns id, label and path"),
        (sp.csr_array(np.ones((2, 64))), None, "gallery is sparse; an index holds dense rows"),
    ],
)
def test_what_cannot_be_indexed_is_said_in_a_sentence(
    fitted: dict[str, Any], gallery: Any, items: Any, message: str
) -> None:
    with pytest.raises(LikewiseError, match=message):
        Index.build(fitted["lda"], gallery, items)


# ---------------------------------------------------------------------------------------------------------------------
# Searching


def test_a_row_finds_others_and_its_numbers_find_itself(index: Index) -> None:
    hits = index.search(rows=[4, 9], k=5)
    rows, scores = hits.rows, hits.scores
    assert rows.shape == scores.shape == (2, 5)
    assert not (rows == [[4], [9]]).any()
    others = index.search(index.raw[[4, 9]], k=6).rows
    assert others[:, 0].tolist() == [4, 9]
    np.testing.assert_array_equal(others[:, 1:], rows)


def test_before_is_the_cosine_of_the_raw_rows(index: Index) -> None:
    X = index.raw.astype(np.float64) / np.linalg.norm(index.raw.astype(np.float64), axis=1, keepdims=True)
    S = X[[7]] @ X.T
    S[0, 7] = -1
    hits = index.search(rows=[7], k=10, space="raw")
    rows, scores = hits.rows, hits.scores
    np.testing.assert_allclose(scores[0], -np.sort(-S[0])[:10], atol=1e-6)
    np.testing.assert_array_equal(rows[0], index.search(index.raw[7], k=11, space="raw").rows[0][1:])


def test_k_is_at_most_the_number_of_items(index: Index) -> None:
    assert index.search(index.raw[:2], k=10_000).ids.shape == (2, len(index))
    assert index.search(rows=[0], k=10_000).rows.shape == (1, len(index) - 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda i: i.search(np.ones((2, 3))), r"queries has shape \(2, 3\) and type float64; expected rows of 64 num"),
        (lambda i: i.search(np.ones((2, 64)), k=0), "k=0; expected a whole number of at least 1"),
        (lambda i: i.search(rows=[len(i)]), "row 597 is not in the index; expected 0 to 596"),
        (lambda i: i.search(rows=["a"]), "expected row numbers"),
        (lambda i: i.space().rank(np.ones((1, 2)), 3), "expected vectors of width"),
        (lambda i: i.search(), "expected either queries or rows"),
        (lambda i: i.search(rows=[1], space="other"), "space='other'; expected 'learned' or 'raw'"),
        (lambda i: i.minus([-5]), "the index has no item with the id -5"),
        (lambda i: i.minus(list(range(597))), "removing all 597 items would leave an empty index"),
        (lambda i: i.embed(["a.png"]), "the index was built from numbers, not from pictures"),
        (lambda i: i.search(np.full((1, 64), np.nan)), "NaN"),
    ],
)
def test_wrong_questions_get_a_sentence(index: Index, call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(index)


def test_a_picture_goes_through_the_extractor_that_the_index_carries(pictures: Index, tmp_path: Path) -> None:
    pictures.save(tmp_path / "p.index")
    shutil.rmtree(tmp_path / "photos.features")
    loaded = Index.load(tmp_path / "p.index")
    assert loaded.extractor is not None
    assert loaded.extractor["name"] == "pixels"
    file = loaded.image_path(3)
    assert file is not None
    rows = loaded.embed([file, file.read_bytes()])
    np.testing.assert_allclose(rows, np.asarray(loaded.raw)[[3, 3]], atol=1e-6)
    assert loaded.search(rows, k=1).ids.tolist() == [[loaded.ids[3]], [loaded.ids[3]]]
    assert loaded.ids[3] == loaded.paths[3]


# ---------------------------------------------------------------------------------------------------------------------
# Growing and shrinking


@pytest.mark.parametrize("approximate", [False, "hnsw"])
def test_adding_and_removing_is_as_if_it_had_been_built_so(
    fitted: dict[str, Any], digits: Digits, approximate: Any
) -> None:
    _, _, G, y = digits
    index = Index.build(fitted["kernel"], G[:100], {"label": y[:100]}, approximate=approximate, new_items=0)
    index.search(G[:1], k=1)
    index = index.plus(G[100:120])
    index = index.minus([5, 7, 110])
    remaining = [i for i in range(120) if i not in (5, 7, 110)]
    assert index.ids.tolist() == remaining
    assert index.labels is not None
    assert index.labels.tolist() == [y[i] if i < 100 else None for i in remaining]
    fresh = Index.build(fitted["kernel"], G[remaining], remaining, new_items=0)
    if not approximate:
        np.testing.assert_array_equal(index.search(G[:40], k=10).ids, fresh.search(G[:40], k=10).ids)
    index = index.plus(G[120:121])
    assert index.ids[-1] == 120


def test_two_items_cannot_have_one_id(index: Index) -> None:
    with pytest.raises(LikewiseError, match="the id 3 twice"):
        index.plus(index.raw[:1], [3])
    assert len(index) == 597
