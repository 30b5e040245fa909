"""Fashion-MNIST, from its four idx files or from the Debian package dataset-fashion-mnist."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np

from likewise.errors import LikewiseError

FOLDER = Path("/usr/share/datasets/fashion-mnist")  # of the Debian package


def load_fashion_mnist(folder: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """70,000 rows of 28 × 28 pixels from 0 to 1, and their classes; the folder may be in FASHION_MNIST."""
    folder = folder or Path(os.environ.get("FASHION_MNIST", FOLDER))
    images = np.concatenate([_idx(folder, f"{part}-images-idx3-ubyte") for part in ("train", "t10k")])
    y = np.concatenate([_idx(folder, f"{part}-labels-idx1-ubyte") for part in ("train", "t10k")]).astype(np.int64)
    return images.reshape(len(images), -1).astype(np.float32) / 255, y


def _idx(folder: Path, name: str) -> np.ndarray:
    """An array of bytes in idx format, compressed or not: a magic number ending with ndim, the shape, the bytes."""
    path = next((path for path in (folder / f"{name}.gz", folder / name) if path.is_file()), None)
    if path is None:
        raise LikewiseError(f"{folder} has neither {name}.gz nor {name}")
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    header = np.frombuffer(content, ">i4", content[3] + 1)
    return np.frombuffer(content, np.uint8, offset=4 * len(header)).reshape(header[1:])
