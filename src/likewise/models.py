"""Every model there is, by name: what `likewise.load` can read."""

from __future__ import annotations

import os
from importlib import import_module

from likewise.base import SimilarityModel

__all__ = ["load"]

_HOMES = ("likewise.slr", "likewise.anchored", "likewise.mapping", "likewise.baselines")


def load(path: str | os.PathLike[str]) -> SimilarityModel:
    """Read any saved model, whatever its class."""
    for home in _HOMES:
        import_module(home)
    return SimilarityModel.load(path)
