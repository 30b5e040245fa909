"""Fashion-MNIST is read from its idx files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from benchmarks.fashion_mnist import load_fashion_mnist


@pytest.mark.parametrize("compressed", [True, False])
def test_fashion_mnist_is_read_from_idx_files(tmp_path: Path, compressed: bool) -> None:
    rng = np.random.default_rng(0)
    images = {part: rng.integers(0, 256, (n, 28, 28), dtype=np.uint8) for part, n in (("train", 6), ("t10k", 3))}
    for part, pixels in images.items():
        _write_idx(tmp_path / f"{part}-images-idx3-ubyte", pixels, compressed)
        _write_idx(tmp_path / f"{part}-labels-idx1-ubyte", np.arange(len(pixels), dtype=np.uint8), compressed)
    X, y = load_fashion_mnist(tmp_path)
    assert y.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    np.testing.assert_allclose(X[7] * 255, images["t10k"][1].ravel(), rtol=1e-6)


def _write_idx(path: Path, values: np.ndarray, compressed: bool) -> None:
    header = np.array([0x0800 + values.ndim, *values.shape], dtype=">i4").tobytes()
    content = header + values.tobytes()
    if compressed:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)
