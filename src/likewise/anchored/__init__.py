"""AnchoredSLR, the recommended estimator: its map, and the choosing of its settings."""

from likewise.anchored.estimator import AnchoredSLR

__all__ = ["AnchoredSLR"]
