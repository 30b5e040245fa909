"""Rows whose classes overlap."""

import numpy as np

DTYPES = [np.float32, np.float64]


def clustered(n=120, d=8, classes=6, dtype=np.float64, seed=0):
    """Rows around class means, with their labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return (rng.normal(size=(classes, d))[y] + rng.normal(size=(n, d))).astype(dtype), y
