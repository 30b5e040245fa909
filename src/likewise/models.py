"""Every model there is, by name: what `likewise.load` can read."""

from __future__ import annotations

import os
from importlib import import_module

from likewise.base import SimilarityModel, _models

__all__ = ["load", "model_class"]

_HOMES = (
    "likewise.slr",
    "likewise.anchored",
    "likewise.mapping",
    "likewise.baselines",
    "likewise.retrieval.taught",
)


def load(path: str | os.PathLike[str]) -> SimilarityModel:
    """Read any saved model, whatever its class."""
    _import_all()
    return SimilarityModel.load(path)


def model_class(name: str) -> type[SimilarityModel]:
    """The class of a model by its name."""
    _import_all()
    return _models()[name]


def _import_all() -> None:
    for home in _HOMES:
        import_module(home)
