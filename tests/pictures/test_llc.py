"""LLC features: learned from its images, saved whole, equal by every way to compute them."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from tests.pictures.conftest import contents, picture
from tests.pictures.test_efficientnet import real_images
from tests.processes import Python

from likewise.errors import LikewiseError
from likewise.evaluate import mean_average_precision
from likewise.learn.slr import SLR
from likewise.pictures import LLC, DualPCA, Pixels, extract_folder, llc, load_extractor, pipeline
from likewise.pictures.llc import FLOOR, dense_sift, llc_weights, max_pool, nearest_words, orientation_maps, starts
from likewise.rows import FeatureStore

SMALL = {"n_words": 12, "n_components": 4, "n_descriptors": 500}


@pytest.fixture
def paths(photos: Path) -> list[Path]:
    return sorted(photos.rglob("*.png"))


def test_pooled_codes_have_length_one_and_the_pyramids_width(paths: list[Path]) -> None:
    codes = LLC(**{**SMALL, "n_components": None}).fit_transform(paths)
    assert codes.shape == (12, 12 * 21)
    np.testing.assert_allclose(np.linalg.norm(codes, axis=1), 1, atol=1e-3)
    assert (codes >= 0).all()


def test_fit_then_transform_is_fit_transform(paths: list[Path]) -> None:
    extractor = LLC(**SMALL).fit(paths)
    np.testing.assert_array_equal(extractor.transform(paths), LLC(**SMALL).fit_transform(paths))
    assert extractor.get_feature_names_out().tolist() == ["llc0", "llc1", "llc2", "llc3"]


def test_the_reduction_is_the_pca_of_the_pooled_codes(paths: list[Path]) -> None:
    codes = LLC(**{**SMALL, "n_components": None}).fit_transform(paths)
    np.testing.assert_allclose(LLC(**SMALL).fit_transform(paths), DualPCA(4).fit_transform(codes), atol=1e-6)


def test_arrays_and_files_of_the_same_pixels_agree(paths: list[Path]) -> None:
    extractor = LLC(**SMALL).fit(paths)
    numbers = [int(path.stem) for path in paths]
    np.testing.assert_array_equal(
        extractor.transform(paths), extractor.transform([picture(number) for number in numbers])
    )


def test_other_images_than_the_fitted_ones_change_nothing(paths: list[Path]) -> None:
    extractor = LLC(**SMALL).fit(paths[:8])
    before = extractor.checksum()
    extractor.transform(paths)
    assert extractor.checksum() == before
    np.testing.assert_allclose(extractor.transform(paths)[3], extractor.transform(paths[3:4])[0], atol=1e-6)


def test_a_saved_extractor_gives_the_same_rows(paths: list[Path], tmp_path: Path) -> None:
    extractor = LLC(**SMALL).fit(paths)
    extractor.save(tmp_path / "e.safetensors")
    loaded = load_extractor(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(loaded.transform(paths), extractor.transform(paths))
    assert loaded.checksum() == extractor.checksum()


def test_it_works_in_a_pipeline_with_slr(paths: list[Path]) -> None:
    labels = [path.parent.name for path in paths]
    model = make_pipeline(LLC(**SMALL), SLR(rank=3)).fit(paths, labels)
    assert 0 < model.score(paths, labels) <= 1
    assert clone(model).get_params()["llc__n_words"] == 12


def test_before_fit_it_says_so(paths: list[Path]) -> None:
    with pytest.raises(NotFittedError):
        LLC().transform(paths)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_words": 0}, "'n_words' parameter of LLC must be an int in the range [1, inf). Got 0"),
        ({"n_neighbors": 20, "n_words": 10}, "n_neighbors=20 is above n_words=10"),
        ({"n_words": 5000}, "fewer than n_words=5000; expected more images or fewer words"),
    ],
)
def test_parameters_that_cannot_be_are_refused(paths: list[Path], options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        LLC(**{**SMALL, **options}).fit(paths)  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_an_image_smaller_than_a_patch_is_refused_in_words(paths: list[Path]) -> None:
    extractor = LLC(**SMALL).fit(paths)
    with pytest.raises(LikewiseError, match="image 1 of X is 40 × 9 pixels, smaller than a patch of 16 pixels"):
        extractor.transform([picture(0), np.zeros((9, 40, 3), np.uint8)])
    with pytest.raises(LikewiseError, match="smaller than a patch of 16 pixels when its longer side is reduced to 300"):
        extractor.transform([np.zeros((20, 2000, 3), np.uint8)])


def test_a_flat_image_has_finite_features(paths: list[Path]) -> None:
    extractor = LLC(**SMALL).fit(paths)
    assert np.isfinite(extractor.transform(np.full((1, 40, 40, 3), 7, np.uint8))).all()


def test_the_number_of_threads_changes_nothing(paths: list[Path]) -> None:
    one, three = (LLC(**SMALL, n_jobs=n).fit_transform(paths) for n in (1, 3))
    np.testing.assert_array_equal(one, three)


# ---------------------------------------------------------------------------------------------------------------------
# In a store


def test_a_store_learns_from_the_listed_images_alone(photos: Path, paths: list[Path], tmp_path: Path) -> None:
    chosen = [f"{path.parent.name}/{path.name}" for path in paths[:8]]
    (tmp_path / "train.txt").write_text("\n".join(chosen))
    extract_folder(photos, tmp_path / "s.features", LLC(**SMALL), fit_on=tmp_path / "train.txt")
    direct = LLC(**SMALL).fit([photos / path for path in chosen])
    opened = FeatureStore.open(tmp_path / "s.features")
    assert opened.extractor().checksum() == direct.checksum()
    np.testing.assert_allclose(opened.features, direct.transform(paths), atol=1e-5)


def test_another_list_to_learn_from_is_another_store(photos: Path, paths: list[Path], tmp_path: Path) -> None:
    extract_folder(photos, tmp_path / "s.features", LLC(**SMALL))
    (tmp_path / "train.txt").write_text("\n".join(f"{path.parent.name}/{path.name}" for path in paths[:8]))
    with pytest.raises(LikewiseError, match="was made by another extractor or with other settings"):
        extract_folder(photos, tmp_path / "s.features", LLC(**SMALL), fit_on=tmp_path / "train.txt")


def test_new_images_go_through_what_was_learned_before(photos: Path, tmp_path: Path) -> None:
    from tests.pictures.conftest import save

    extract_folder(photos, tmp_path / "s.features", LLC(**SMALL))
    before = FeatureStore.open(tmp_path / "s.features").extractor().checksum()
    save(photos / "a" / "new.png", picture(77))
    summary = extract_folder(photos, tmp_path / "s.features", LLC(**SMALL))
    opened = FeatureStore.open(tmp_path / "s.features")
    assert (summary.n_new, summary.n_reused) == (1, 12)
    assert opened.extractor().checksum() == before
    row = opened.paths.index("a/new.png")
    np.testing.assert_allclose(
        opened.extractor().transform([photos / "a" / "new.png"])[0], opened.features[row], atol=1e-6
    )


def test_unreduced_codes_are_stored_in_half_precision_and_can_be_reduced_later(photos: Path, tmp_path: Path) -> None:
    extract_folder(photos, tmp_path / "codes.features", LLC(**{**SMALL, "n_components": None}))
    extract_folder(photos, tmp_path / "s.features", LLC(**SMALL))
    codes, reduced = (FeatureStore.open(tmp_path / f"{name}.features").features for name in ("codes", "s"))
    assert codes.dtype == np.float16
    np.testing.assert_allclose(DualPCA(4).fit_transform(codes), reduced, atol=1e-6)


def test_too_small_images_are_left_out_of_a_store(photos: Path, tmp_path: Path) -> None:
    from tests.pictures.conftest import save

    save(photos / "a" / "tiny.png", picture(1, 8, 8))
    summary = extract_folder(photos, tmp_path / "s.features", LLC(**SMALL))
    assert (summary.n_items, summary.n_skipped) == (12, 1)
    skipped = (FeatureStore.open(tmp_path / "s.features").version / "skipped.csv").read_text()
    assert "is 8 × 8 pixels, smaller than a patch of 16 pixels" in skipped


KILLED = """
import os, signal, sys
from likewise.pictures import LLC, extract_folder, pipeline
pipeline.BATCH = 3
photos, store, stage = sys.argv[1:]
def progress(name, done, total):
    if name == stage and (done > 6 or not total):
        os.kill(os.getpid(), signal.SIGKILL)
extract_folder(photos, store, LLC(**{settings}), progress=progress)
"""


@pytest.mark.second
def test_killed_and_run_again_gives_the_same_bytes(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "BATCH", 3)
    extract_folder(photos, tmp_path / "clean.features", LLC(**SMALL))
    script, stages = KILLED.replace("{settings}", repr(SMALL)), ("extracting", "learning from features", "writing")
    for stage in stages:
        with Python("-c", script, photos, tmp_path / f"{stage}.features", stage) as killed:
            assert killed.wait() == -signal.SIGKILL
        extract_folder(photos, tmp_path / f"{stage}.features", LLC(**SMALL))
        assert contents(tmp_path / f"{stage}.features") == contents(tmp_path / "clean.features"), stage


@pytest.mark.second
def test_on_real_images_it_ranks_better_than_pixels(data_folder: Path) -> None:
    images, labels = real_images(data_folder, 10, 6)
    scores = []
    for extractor in (LLC(n_words=128, n_components=50, n_descriptors=20_000), Pixels(16)):
        rows = extractor.fit_transform(images)
        rows = rows - rows.mean(axis=0)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        scores.append(mean_average_precision(rows, rows, labels))
    assert scores[0] > scores[1] + 0.1


def data(seed: int, n: int = 300, n_words: int = 40, d: int = 128) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    D, C = (np.abs(rng.normal(size=(rows, d))).astype(np.float32) for rows in (n, n_words))
    return D / np.linalg.norm(D, axis=1, keepdims=True), C / np.linalg.norm(C, axis=1, keepdims=True)


def test_the_nearest_words_are_the_nearest() -> None:
    D, C = data(0)
    words, dots = nearest_words(D, C, (C * C).sum(axis=1) / 2, 5)
    distances = ((D[:, None] - C[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(words, np.argsort(distances, axis=1)[:, :5])
    np.testing.assert_allclose(dots, np.take_along_axis(D @ C.T, words, axis=1), atol=1e-5)


def test_weights_solve_the_papers_equations() -> None:
    D, C = data(1)
    words, dots = nearest_words(D, C, (C * C).sum(axis=1) / 2, 5)
    weights = llc_weights(D, words, dots, C @ C.T, 1e-4)
    for d, chosen, w in zip(D.astype(float), words, weights, strict=True):
        Z = C[chosen].astype(float) - d
        cov = Z @ Z.T
        expected = np.linalg.solve(cov + 1e-4 * np.trace(cov) * np.eye(5), np.ones(5))
        np.testing.assert_allclose(w, expected / expected.sum(), atol=1e-4)


def test_weights_sum_to_one_even_for_a_descriptor_that_is_a_word() -> None:
    C = data(2)[1]
    words, dots = nearest_words(C, C, (C * C).sum(axis=1) / 2, 5)
    weights = llc_weights(C, words, dots, C @ C.T, 1e-4)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-9)
    assert (weights[:, 0] > 0.9).all()


def test_empty_descriptors_have_finite_codes() -> None:
    C = data(3)[1]
    D = np.zeros((4, 128), np.float32)
    words, dots = nearest_words(D, C, (C * C).sum(axis=1) / 2, 5)
    assert np.isfinite(llc_weights(D, words, dots, C @ C.T, 1e-4)).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 7), st.sampled_from([(1,), (1, 2, 4), (3,)]))
def test_pooling_takes_the_largest_weight_in_every_cell(
    seed: int, n: int, n_words: int, levels: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(seed)
    k = min(2, n_words)
    words = np.stack([rng.permutation(n_words)[:k] for _ in range(n)])
    weights, places = rng.normal(size=(n, k)), rng.random((n, 2))
    expected = []
    for level in levels:
        grid = np.zeros((level, level, n_words))
        for i in range(n):
            y, x = (places[i] * level).astype(int)
            for word, weight in zip(words[i], weights[i], strict=True):
                grid[y, x, word] = max(grid[y, x, word], weight)
        expected.append(grid.ravel())
    np.testing.assert_allclose(max_pool(words, weights, places, n_words, levels), np.concatenate(expected), rtol=1e-6)


def test_a_place_on_the_far_border_belongs_to_the_last_cell() -> None:
    pooled = max_pool(np.array([[0]]), np.array([[1.0]]), np.array([[1.0, 1.0]]), 1, (2,))
    assert pooled.tolist() == [0, 0, 0, 1]


# ---------------------------------------------------------------------------------------------------------------------
# Dense SIFT


def grey(seed: int, height: int = 40, width: int = 56) -> np.ndarray:
    return (picture(seed, height, width).mean(axis=2) / 255).astype(np.float32)


def slow_maps(image: np.ndarray) -> np.ndarray:
    height, width = image.shape
    maps = np.zeros((8, height, width))
    for y in range(height):
        for x in range(width):
            dx = float(image[y, min(x + 1, width - 1)]) - float(image[y, max(x - 1, 0)])
            dy = float(image[min(y + 1, height - 1), x]) - float(image[max(y - 1, 0), x])
            turn = np.arctan2(dy, dx) / (2 * np.pi) * 8
            for bin_ in range(8):
                distance = abs((turn - bin_ + 4) % 8 - 4)
                maps[bin_, y, x] += max(0.0, 1 - distance) * np.hypot(dx, dy)
    return maps


def slow_descriptor(maps: np.ndarray, top: int, left: int, patch: int) -> np.ndarray:
    """The 4 × 4 × 8 histogram of one patch by explicit sums."""
    cell, out = patch / 4, np.zeros((4, 4, 8))
    for y in range(maps.shape[1]):
        for x in range(maps.shape[2]):
            v, u = (y - top + 0.5) / cell - 0.5, (x - left + 0.5) / cell - 0.5  # in cells from the first cell's middle
            window = np.exp(-((v - 1.5) ** 2 + (u - 1.5) ** 2) / (2 * 2**2))
            for i in range(4):
                for j in range(4):
                    weight = max(0, 1 - abs(v - i)) * max(0, 1 - abs(u - j)) * window / cell**2
                    out[i, j] += weight * maps[:, y, x]
    d = out.ravel()
    length = np.linalg.norm(d)
    d = np.minimum(d / max(length, FLOOR), 0.2)
    return d / np.linalg.norm(d) * min(length / FLOOR, 1)


def test_orientation_maps_share_each_gradient_between_two_orientations() -> None:
    image = grey(0, 12, 17)
    np.testing.assert_allclose(orientation_maps(image), slow_maps(image), atol=1e-6)


@pytest.mark.parametrize("patch", [16, 24])
def test_descriptors_are_those_of_the_definition(patch: int) -> None:
    maps = orientation_maps(grey(1))
    D, centres = dense_sift(maps, patch, 8)
    for number in (0, len(D) // 2, len(D) - 1):
        top, left = (centres[number] - patch / 2).astype(int)
        np.testing.assert_allclose(D[number], slow_descriptor(maps.astype(float), top, left, patch), atol=2e-6)


def test_the_grid_has_the_right_places_and_lies_in_the_middle() -> None:
    assert starts(40, 16, 8).tolist() == [0, 8, 16, 24]
    assert starts(45, 16, 8).tolist() == [2, 10, 18, 26]
    assert starts(16, 16, 8).tolist() == [0]
    assert starts(15, 16, 8).tolist() == []
    assert starts(40, 16, 2**63).tolist() == [12]


def test_brightness_and_contrast_change_nothing() -> None:
    image = grey(2)
    D = dense_sift(orientation_maps(image), 16, 8)[0]
    same = dense_sift(orientation_maps(image * np.float32(0.8) + np.float32(0.1)), 16, 8)[0]
    strong = np.linalg.norm(D, axis=1) > 0.999
    strong &= np.linalg.norm(same, axis=1) > 0.999
    assert strong.sum() > len(D) / 2
    np.testing.assert_allclose(D[strong], same[strong], atol=1e-5)


def test_a_flat_image_has_empty_descriptors() -> None:
    assert not dense_sift(orientation_maps(np.full((32, 32), 0.5, np.float32)), 16, 8)[0].any()


def test_faint_noise_is_not_blown_up() -> None:
    noise = 0.5 + np.random.default_rng(0).normal(0, 1e-4, (32, 32)).astype(np.float32)
    assert np.linalg.norm(dense_sift(orientation_maps(noise), 16, 8)[0], axis=1).max() < 0.1


def test_a_mirrored_image_has_mirrored_descriptors() -> None:
    image = grey(3, 32, 40)
    D = dense_sift(orientation_maps(image), 16, 8)[0].reshape(3, 4, 4, 4, 8)
    M = dense_sift(orientation_maps(np.ascontiguousarray(image[:, ::-1])), 16, 8)[0].reshape(3, 4, 4, 4, 8)
    mirrored = M[:, ::-1, :, ::-1][..., [4, 3, 2, 1, 0, 7, 6, 5]]
    np.testing.assert_allclose(D, mirrored, atol=1e-5)


def rows(n: int = 60, d: int = 5000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    spectrum = 1 / np.arange(1, 41)
    return (rng.normal(size=(n, 40)) * spectrum @ rng.normal(size=(40, d)) + rng.normal(size=d)).astype(np.float32)


@pytest.mark.parametrize("exact", [True, False])
def test_projections_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch, exact: bool) -> None:
    monkeypatch.setattr(llc, "_EXACT", 2000 if exact else 0)
    X, Q = rows(), rows(seed=1)
    ours, theirs = DualPCA(10).fit(X), PCA(10, svd_solver="full").fit(X)
    A, B = ours.transform(Q), theirs.transform(Q)
    signs = np.sign((A * B).sum(axis=0))
    np.testing.assert_allclose(A * signs, B, atol=2e-3 * np.abs(B).max())
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-3)


def test_rows_on_disk_in_half_precision_give_nearly_the_same(tmp_path: Path) -> None:
    X = rows()
    np.save(tmp_path / "x.npy", X.astype(np.float16))
    disk = DualPCA(5).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    memory = DualPCA(5).fit(X.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(disk.transform(X), memory.transform(X))


def test_only_the_numbered_rows_are_learned_from() -> None:
    X = rows()
    some = np.array([1, 4, 5, 9, 20, 33])
    np.testing.assert_array_equal(DualPCA(4).fit(X, numbers=some).components_, DualPCA(4).fit(X[some]).components_)


def test_more_components_than_rank_are_lowered() -> None:
    X = rows(n=8)
    assert DualPCA(100).fit(X).components_.shape[0] == 7
    repeated = np.vstack([X, X])
    assert DualPCA(100).fit(repeated).transform(X).shape == (8, 7)


def test_output_columns_have_names() -> None:
    assert DualPCA(2).fit(rows()).get_feature_names_out().tolist() == ["dualpca0", "dualpca1"]


@pytest.mark.parametrize(
    ("components", "X", "words"),
    [
        (0, rows(), "'n_components' parameter of DualPCA must be an int in the range [1, inf). Got 0"),
        (3, rows(n=1), "PCA got 1 row; expected at least 2"),
        (3, np.ones((5, 9)), "all rows are equal; expected at least two different ones"),
        (3, np.ones(5), "Expected 2D array, got 1D array instead"),
    ],
)
def test_what_cannot_be_reduced_is_refused(components: int, X: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        DualPCA(components).fit(X)
    assert words in str(caught.value)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match="X has 3 features, but DualPCA is expecting 5000"):
        DualPCA(2).fit(rows()).transform(np.zeros((2, 3)))
