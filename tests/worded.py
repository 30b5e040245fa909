"""Pictures whose words are known: rows that EfficientNet-Lite0's own classifier takes for classes of our choice."""

from __future__ import annotations

from typing import Any

import numpy as np

from likewise.rivals import Cosine
from likewise.search import Index

CLASSES = {"beagle": 162, "tabby": 281, "sports car": 817, "banana": 954, "pizza": 963}  # places in ImageNet's order
EACH = 6


def rows_of(numbers: list[int], seed: int = 0) -> np.ndarray:
    """Rows along the weights of these classes, with noise."""
    from likewise.pictures.efficientnet import classifier

    weights, _ = classifier()
    noise = np.random.default_rng(seed).normal(0, 0.02, (len(numbers), weights.shape[1]))
    return np.asarray(12 * weights[numbers] / np.linalg.norm(weights[numbers], axis=1)[:, None] + noise, np.float32)


def worded_index(labels: Any = None, **items: Any) -> Index:
    """An index of EACH rows of every class, in the order of CLASSES."""
    X = rows_of([number for number in CLASSES.values() for _ in range(EACH)])
    known: dict[str, Any] = {"path": [f"{row:03d}.jpg" for row in range(len(X))], **items}
    index = Index.build(Cosine(centre=True).fit(X), X, {**known, **({} if labels is None else {"label": labels})})
    index.extractor = {"name": "efficientnet-lite0"}
    return index


def class_of(row: int) -> str:
    return list(CLASSES)[row // EACH]
