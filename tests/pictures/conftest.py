"""Small images of every kind, drawn by the tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from likewise.rows import FeatureStore


def picture(seed: int, height: int = 48, width: int = 64) -> np.ndarray:
    """A colourful picture with edges in it: a few random rectangles over a gradient."""
    rng = np.random.default_rng(seed)
    image = np.linspace(0, 120, width)[None, :, None] + np.linspace(0, 80, height)[:, None, None] + np.zeros(3)
    for _ in range(6):
        y, x = rng.integers(0, height - 4), rng.integers(0, width - 4)
        image[y : y + rng.integers(4, height), x : x + rng.integers(4, width)] = rng.integers(0, 256, 3)
    return image.astype(np.uint8)


def save(path: Path, image: np.ndarray, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path, **options)
    return path


def save_photos(folder: Path) -> Path:
    """Twelve images in three folders."""
    for number in range(12):
        save(folder / "abc"[number % 3] / f"{number:02d}.png", picture(number))
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return save_photos(tmp_path / "photos")


def contents(store: Path) -> dict[str, bytes]:
    """Every file of a store by name; versions that are not the current one are left in."""
    version = FeatureStore.open(store).version.name
    files = {str(p.relative_to(store)): p.read_bytes() for p in sorted(store.rglob("*")) if p.is_file()}
    files.pop("CURRENT.features")
    return {name.replace(version, "current"): data for name, data in files.items()}
