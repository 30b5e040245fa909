"""Dense SIFT against its definition, one patch and one pixel at a time."""

from __future__ import annotations

import numpy as np
import pytest
from tests.pictures.conftest import picture

from likewise.pictures.sift import FLOOR, dense_sift, orientation_maps, starts


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
