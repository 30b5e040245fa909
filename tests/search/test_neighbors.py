"""Smoothing by neighbours: the formula, the choice of k and power, and an index with them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import normalize
from tests.search.conftest import Digits

from likewise import SimilarityLearner
from likewise.errors import FileFormatError, LikewiseError
from likewise.evaluate import mean_average_precision
from likewise.search import Index, neighbors
from likewise.search import rank as search
from likewise.search.exports import export
from likewise.search.neighbors import Neighbors, SmoothedGallery, chosen, is_unit, nearest_others, smoothed
from likewise.search.rank import Exact
from likewise.teach import Teacher, load_index


def unit_rows(n: int, r: int, seed: int) -> np.ndarray:
    return normalize(np.random.default_rng(seed).normal(size=(n, r)) + 0.3).astype(np.float32)


def naive(z: np.ndarray, others: np.ndarray, k: int, power: float) -> np.ndarray:
    """The formula of the module, for one vector, written out."""
    z, others = z.astype(float), others.astype(float)
    nearest = sorted(others, key=lambda other: -(z @ other))[:k]
    weights = [max(z @ other, 0.0) ** power if z @ other > 0 else 0.0 for other in nearest]
    if sum(weights) > 0:
        z = z + sum(w * other for w, other in zip(weights, nearest, strict=True)) / sum(weights)
    return z / np.linalg.norm(z)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 30),
    r=st.integers(3, 8),
    k=st.integers(1, 12),
    power=st.sampled_from([0.0, 1.0, 3.0, 8.0, 20.5]),
    seed=st.integers(0, 10_000),
)
def test_gallery_and_queries_follow_the_formula(n: int, r: int, k: int, power: float, seed: int) -> None:
    V, Q = unit_rows(n, r, seed), unit_rows(5, r, seed + 1)
    expected = [naive(z, np.delete(V, i, axis=0), k, power) for i, z in enumerate(V)]
    np.testing.assert_allclose(smoothed(V, k, power), expected, atol=2e-5)
    np.testing.assert_allclose(smoothed(Q, k, power, gallery=V), [naive(z, V, k, power) for z in Q], atol=2e-5)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 30), k=st.integers(1, 12), copies=st.integers(1, 3), seed=st.integers(0, 10_000))
def test_a_query_from_the_gallery_is_not_its_own_neighbour(n: int, k: int, copies: int, seed: int) -> None:
    V = np.repeat(unit_rows(n, 6, seed), copies, axis=0)
    np.testing.assert_allclose(smoothed(V, k, gallery=V), smoothed(V, k), atol=1e-5)


def test_zero_and_opposite_vectors_stay_as_they_are() -> None:
    V = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], np.float32)
    np.testing.assert_array_equal(smoothed(V, 2), V)
    assert is_unit(V)
    assert not is_unit(2 * V)


def test_it_is_the_same_without_faiss(monkeypatch: pytest.MonkeyPatch) -> None:
    V = unit_rows(300, 8, 0)
    expected = smoothed(V, 5)
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert search.Exact(V)._faiss is None
    np.testing.assert_array_equal(smoothed(V, 5), expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Neighbors(0), "k=0; expected a whole number of neighbours, at least 1"),
        (lambda: Neighbors(True), "k=True; expected a whole number"),
        (lambda: Neighbors(3, -1.0), "power=-1.0; expected a number from 0 to 64"),
        (lambda: smoothed(np.eye(3), 2, float("nan")), "power=nan; expected a number"),
    ],
)
def test_impossible_settings_get_a_sentence(make, message: str) -> None:
    with pytest.raises(LikewiseError, match=message):
        make()


# ---------------------------------------------------------------------------------------------------------------------
# The choice


def choice(V: np.ndarray, labels=None) -> Neighbors | None:
    return chosen(V, nearest_others(Exact(V), 20), labels)


def unit_digits(digits: Digits, centred: bool) -> tuple[np.ndarray, np.ndarray]:
    X, y, G, y_g = digits
    rows, labels = np.concatenate([X, G]).astype(np.float32), np.concatenate([y, y_g])
    return normalize(rows - centred * rows.mean(axis=0)).astype(np.float32), labels


def test_the_power_rises_with_the_cosine_of_any_two_rows(digits: Digits) -> None:
    centred, raw = choice(unit_digits(digits, True)[0]), choice(unit_digits(digits, False)[0])
    assert centred is not None
    assert raw is not None
    assert (centred.k, round(centred.power, 1)) == (10, 8.0)
    assert raw.power > 20
    same = choice(np.tile(unit_rows(1, 4, 0), (500, 1)))
    assert same == Neighbors(10, 64.0)


def test_without_labels_fewer_than_500_rows_are_left_as_they_are() -> None:
    assert choice(unit_rows(499, 5, 0)) is None
    assert choice(unit_rows(500, 5, 0)) is not None
    assert SmoothedGallery.auto(unit_rows(499, 5, 0)) is None
    assert SmoothedGallery.auto(unit_rows(10, 5, 0), ["a", "b"] * 5) is None


def test_labels_that_neighbours_do_not_share_turn_it_off_and_others_choose_k() -> None:
    rng = np.random.default_rng(0)
    centres = normalize(rng.normal(size=(40, 5)))
    V = normalize(np.repeat(centres, 5, axis=0) + 0.05 * rng.normal(size=(200, 5))).astype(np.float32)
    one_of_each = np.tile(np.arange(5), 40)  # each label once in every cluster
    assert choice(V, one_of_each) is None
    result = choice(V, np.repeat(np.arange(40), 5))
    assert result is None or result.k == 5
    few = np.full(200, None, dtype=object)
    few[:30] = one_of_each[:30]
    assert choice(V, few) == choice(V)
    assert choice(V, np.arange(200)) == choice(V)  # no two rows share a label


@pytest.mark.parametrize("centred", [False, True])
def test_labels_of_small_classes_choose_what_loses_nothing(digits: Digits, centred: bool) -> None:
    V, y = unit_digits(digits, centred)
    gains = [_gain(*rows, rows[1]) for rows in (_subsample(V, y, 5, seed) for seed in range(8))]
    assert min(gains) >= -1e-9
    assert np.mean(gains) > 0.02


@pytest.mark.parametrize("noise", [0.3, 0.5, 0.7])  # at 0.7 the mAP is 0.7; pairs that are found more rarely may lose
@pytest.mark.parametrize("size", [2, 3, 5])
def test_classes_of_two_three_and_five_lose_nothing_without_labels(size: int, noise: float) -> None:
    gains = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        centres = np.repeat(normalize(rng.normal(size=(150, 16))), size, axis=0)
        V = normalize(centres + noise * rng.normal(size=centres.shape) / 4).astype(np.float32)
        gains.append(_gain(V, np.repeat(np.arange(150), size)))
    assert np.mean(gains) > -0.003


@pytest.mark.parametrize("centred", [False, True])
def test_small_galleries_are_left_alone_and_larger_ones_gain(digits: Digits, centred: bool) -> None:
    V, y = unit_digits(digits, centred)
    for size, least in ((60, 0.04), (100, 0.04)):
        gains = [_gain(*_subsample(V, y, size, seed)) for seed in range(8)]
        assert np.mean(gains) > least
    for size in (2, 3, 5, 20):  # too few rows to be touched
        assert _gain(*_subsample(V, y, size, 0)) == 0


def _subsample(V: np.ndarray, y: np.ndarray, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(len(y))
    rows = np.concatenate([order[y[order] == label][:size] for label in np.unique(y)])
    return V[rows], y[rows]


def _gain(V: np.ndarray, y: np.ndarray, labels: np.ndarray | None = None) -> float:
    """mAP gained, without labels unless they are given."""
    created = SmoothedGallery.auto(V, labels)
    Z = V if created is None else created.vectors
    return mean_average_precision(Z, Z, y) - mean_average_precision(V, V, y)


@pytest.fixture
def smooth(index: Index) -> Index:
    """The index of the digits, with neighbours."""
    return Index.build(index.model, index.raw, {"label": index.labels}, n_neighbors=7)


def same(a: Index, b: Index) -> None:
    """Both have the same vectors and find the same."""
    np.testing.assert_allclose(a.vectors, b.vectors, atol=1e-4)  # a kernel in float32
    np.testing.assert_allclose(a.plain_vectors, b.plain_vectors, atol=1e-4)
    assert a.neighbors == b.neighbors
    np.testing.assert_allclose(a.search(a.raw[:20], k=5).scores, b.search(a.raw[:20], k=5).scores, atol=1e-5)


# ---------------------------------------------------------------------------------------------------------------------
# Building and searching


def test_the_vectors_are_smoothed_and_the_plain_ones_kept(index: Index, smooth: Index) -> None:
    assert index.neighbors is None
    assert index.plain_vectors is index.vectors
    assert smooth.neighbors == Neighbors(7, 8.0)
    np.testing.assert_array_equal(smooth.plain_vectors, index.vectors)
    np.testing.assert_array_equal(smooth.vectors, smoothed(index.vectors, 7))
    other = Index.build(index.model, index.raw, n_neighbors=Neighbors(7, 2.0))
    np.testing.assert_array_equal(other.vectors, smoothed(index.vectors, 7, 2.0))


def test_a_row_searched_by_its_numbers_finds_what_it_finds_as_a_row(smooth: Index) -> None:
    by_row = smooth.search(rows=np.arange(50), k=9)
    by_numbers = smooth.search(smooth.raw[:50], k=10)
    np.testing.assert_allclose(by_numbers.scores[:, 1:], by_row.scores, atol=1e-5)
    np.testing.assert_allclose(smooth.space().embed(smooth.raw[:50]), smooth.vectors[:50], atol=1e-5)


def test_other_queries_are_smoothed_by_the_gallery(smooth: Index, digits: Digits) -> None:
    Q = digits[0][:20].astype(np.float32)
    expected = smoothed(smooth.model.transform_query(Q), 7, gallery=smooth.plain_vectors)
    np.testing.assert_allclose(smooth.space().embed(Q), expected, atol=1e-6)
    np.testing.assert_array_equal(smooth.search(Q, k=5).ids, smooth.space().rank(expected, 5)[0])


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_an_approximate_index_finds_nearly_the_same(smooth: Index, digits: Digits, kind: str, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    rough = Index.build(smooth.model, smooth.raw, approximate=kind, n_neighbors=7)
    np.testing.assert_array_equal(rough.vectors, smooth.vectors)
    Q = digits[0][:100].astype(np.float32)
    rough.save(tmp_path / "a.index")
    for result in (rough, load_index(tmp_path / "a.index")):
        agreement = (result.space().embed(Q) * smooth.space().embed(Q)).sum(axis=1)
        assert np.median(agreement) > 0.999


def test_auto_raises_the_map_of_held_out_rows(index: Index) -> None:
    chosen = Index.build(index.model, index.raw, {"label": index.labels}, n_neighbors="auto")
    unlabelled = Index.build(index.model, index.raw, n_neighbors="auto")
    y = np.asarray(index.labels).astype(str)
    scores = [mean_average_precision(i.vectors, i.vectors, y) for i in (index, unlabelled, chosen)]
    assert scores[1] > scores[0] + 0.02
    assert scores[2] >= scores[1]


def test_a_gallery_in_blocks_is_smoothed_as_a_whole(smooth: Index) -> None:
    blocks = (smooth.raw[i : i + 100] for i in range(0, len(smooth), 100))
    same(Index.build(smooth.model, blocks, {"label": smooth.labels}, n_neighbors=7), smooth)


def test_one_item_has_no_neighbours(fitted: dict[str, Any], digits: Digits) -> None:
    index = Index.build(fitted["anchored"], digits[2][:1], n_neighbors=5)
    np.testing.assert_allclose(index.vectors, index.plain_vectors, atol=1e-6)
    assert index.search(digits[2][:3], k=5).ids.tolist() == [[0], [0], [0]]
    index = index.plus(digits[2][1:4])
    same(index, Index.build(fitted["anchored"], digits[2][:4], n_neighbors=5))


@pytest.mark.parametrize("name", ["bilinear", "euclid"])
def test_a_model_that_is_no_cosine_refuses_a_number_and_ignores_auto(
    fitted: dict[str, Any], digits: Digits, name: str
) -> None:
    G = digits[2][:60]
    with pytest.raises(LikewiseError, match=r"n_neighbors=5 needs vectors of unit length, the same for queries and"):
        Index.build(fitted[name], G, n_neighbors=5)
    index = Index.build(fitted[name], G, n_neighbors="auto")
    assert index.neighbors is None
    np.testing.assert_array_equal(index.vectors, Index.build(fitted[name], G).vectors)


@pytest.mark.parametrize("value", [-1, True, "many", 2.5, None])
def test_what_is_no_number_of_neighbours_gets_a_sentence(fitted: dict[str, Any], digits: Digits, value: Any) -> None:
    with pytest.raises(LikewiseError, match=r"n_neighbors=.*; expected 'auto', a number of neighbours, or 0 for none"):
        Index.build(fitted["anchored"], digits[2][:60], n_neighbors=value)


# ---------------------------------------------------------------------------------------------------------------------
# Changing


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 40),
    added=st.integers(1, 10),
    k=st.integers(1, 12),
    copies=st.integers(1, 2),
    seed=st.integers(0, 10_000),
    data=st.data(),
)
def test_adding_and_taking_is_as_if_built_so(n: int, added: int, k: int, copies: int, seed: int, data: Any) -> None:
    V = normalize(np.random.default_rng(seed).normal(size=((n + added), 3))).astype(np.float32)
    V = np.repeat(V, copies, axis=0)
    created = SmoothedGallery.of(V[:n], Neighbors(k)).changed(np.arange(n), V[n:])
    remaining = np.array(sorted(data.draw(st.sets(st.integers(0, len(V) - 1), min_size=1))))
    for result, rows in ((created, V), (created.changed(remaining, V[:0]), V[remaining])):
        fresh = SmoothedGallery.of(rows, Neighbors(k))
        np.testing.assert_allclose(result.vectors, fresh.vectors, atol=1e-6)
        np.testing.assert_allclose(result.reach, fresh.reach, atol=1e-6)


def test_only_rows_with_another_neighbour_are_computed_again(monkeypatch: pytest.MonkeyPatch, smooth: Index) -> None:
    searched: list[int] = []
    result = neighbors.nearest_others
    monkeypatch.setattr(
        neighbors, "nearest_others", lambda engine, k, rows: searched.append(len(rows)) or result(engine, k, rows)
    )
    smooth = smooth.minus([3])
    smooth = smooth.plus(smooth.raw[:1] + 0.5)
    assert all(0 < rows < 60 for rows in searched)


def test_an_index_that_grew_and_shrank_equals_a_fresh_one(fitted: dict[str, Any], digits: Digits) -> None:
    G = digits[2].astype(np.float32)
    index = Index.build(fitted["kernel"], G[:200], n_neighbors=6, new_items=0)
    index.search(G[:1], k=1)
    index = index.plus(G[200:240])
    index = index.minus([5, 7, 110, 230])
    remaining = [i for i in range(240) if i not in (5, 7, 110, 230)]
    same(index, Index.build(fitted["kernel"], G[remaining], remaining, n_neighbors=6, new_items=0))
    assert index.search(rows=[0], k=3).rows.shape == (1, 3)


# ---------------------------------------------------------------------------------------------------------------------
# On disk, elsewhere, taught


def test_it_is_saved_and_loaded_and_still_grows(smooth: Index, tmp_path: Path) -> None:
    loaded = load_index(smooth.save(tmp_path / "a.index"))
    same(loaded, smooth)
    grown = [index.plus(smooth.raw[:3] + 1).minus([8]) for index in (loaded, smooth)]
    same(*grown)
    files = {path.name for path in next((tmp_path / "a.index").glob("version-*")).iterdir()}
    assert {"vectors.npy", "smoothed.npy", "reach.npy"} <= files


def test_numbers_of_numpy_are_saved_too(index: Index, tmp_path: Path) -> None:
    choice = Neighbors(np.int64(3), np.float32(2))  # type: ignore[arg-type]
    built = Index.build(index.model, index.raw, n_neighbors=choice)
    assert load_index(built.save(tmp_path / "a.index")).neighbors == Neighbors(3, 2.0)


def test_an_index_without_neighbours_has_the_files_it_had(index: Index, tmp_path: Path) -> None:
    folder = index.save(tmp_path / "a.index")
    version = next(folder.glob("version-*"))
    assert {path.name for path in version.iterdir()} == {
        "items.json", "meta.json", "model.likewise", "raw.npy", "vectors.npy",
    }  # fmt: skip
    assert "neighbors" not in (version / "meta.json").read_text()


def test_a_damaged_or_missing_file_of_smoothed_vectors_is_named(smooth: Index, tmp_path: Path) -> None:
    folder = smooth.save(tmp_path / "a.index")
    for name in ("smoothed.npy", "reach.npy"):
        file = next(folder.glob("version-*")) / name
        data = file.read_bytes()
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(FileFormatError, match=name):
            load_index(folder)
        file.unlink()
        with pytest.raises(FileFormatError, match=f"{name} is missing"):
            load_index(folder)
        file.write_bytes(data)
    np.save(next(folder.glob("version-*")) / "smoothed.npy", smooth.vectors[:5])
    with pytest.raises(FileFormatError, match="has 597 vectors and 5 smoothed ones"):
        load_index(folder, verify=False)


def test_an_export_holds_the_smoothed_vectors(smooth: Index, tmp_path: Path) -> None:
    with np.load(export(smooth, tmp_path / "a.npz")) as file:
        np.testing.assert_array_equal(file["vectors"], smooth.vectors)


def test_a_lesson_keeps_neighbours_and_learns_from_plain_vectors(index: Index, smooth: Index) -> None:
    lessons = []
    for each in (index, smooth):
        teacher = Teacher(each)
        teacher.mark(4, 9, True)
        teacher.label(20, "new")
        lessons.append(teacher.learn())
    plain, taught = lessons
    np.testing.assert_allclose(taught.index.plain_vectors, plain.index.vectors, atol=1e-6)
    assert taught.index.neighbors == smooth.neighbors
    same(taught.index, Index.build(taught.model, smooth.raw, n_neighbors=smooth.neighbors))
    assert taught.index.index is smooth
    np.testing.assert_allclose(np.linalg.norm(taught.index.vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(normalize(taught.index.vectors[:, : smooth.vectors.shape[1]]), smooth.vectors, atol=1e-5)


def test_a_taught_index_is_saved_grows_and_finds_its_own_rows(smooth: Index, tmp_path: Path) -> None:
    teacher = Teacher(smooth)
    teacher.mark(4, 9, True)
    taught = teacher.learn().index
    np.testing.assert_allclose(taught.space().embed(taught.raw[:50]), taught.vectors[:50], atol=1e-4)
    loaded = load_index(taught.save(tmp_path / "a.index"))
    same(loaded, taught)
    loaded = loaded.plus(smooth.raw[:3] + 1)
    loaded = loaded.minus([8])
    same(loaded, Index.build(taught.model, loaded.raw, loaded.ids, n_neighbors=7))


def test_labels_of_rows_that_the_model_learned_from_do_not_choose(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("likewise.search.index.smoothed_gallery", lambda m, V, n, labels, v: seen.append(labels))
    model = SimilarityLearner("linear").fit(index.raw[:300], index.labels[:300])
    Index.build(model, index.raw, {"label": index.labels}, n_neighbors="auto")
    assert [label is None for label in seen[0]] == [True] * 300 + [False] * (len(index) - 300)
