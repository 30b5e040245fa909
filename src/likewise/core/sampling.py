"""Drawing rows so that every class is there in proportion."""

from __future__ import annotations

import numpy as np

from likewise.core.targets import class_starts

__all__ = ["draw_landmarks"]


def draw_landmarks(codes: np.ndarray, n_classes: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Places of about `size` items in label order, every class in proportion and none without."""
    starts = class_starts(codes, n_classes)
    counts = np.diff(starts)
    share = np.minimum(np.maximum(1, np.rint(counts * min(1.0, size / len(codes))).astype(int)), counts)
    return np.concatenate(
        [first + rng.permutation(count)[:m] for first, count, m in zip(starts, counts, share, strict=False)]
    )
