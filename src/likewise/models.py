"""Model classes by name: what a saved file names is found here, and imported when it is first needed."""

from __future__ import annotations

from importlib import import_module

__all__ = ["model_class", "register"]

# Where a class lives; one that is not listed is looked for among the baselines.
_HOMES = {
    "AnchoredSLR": "likewise.anchored",
    "EmbeddingMap": "likewise.mapping",
    "SLR": "likewise.slr",
    "Taught": "likewise.retrieval.taught",
}
_CLASSES: dict[str, type] = {}


def register(model: type) -> None:
    """Remember a class by its name; every subclass of `SimilarityModel` is registered when it is defined."""
    known = _CLASSES.get(model.__name__)
    if known is None or not _is_ours(known) or _is_ours(model):
        _CLASSES[model.__name__] = model


def model_class(name: str) -> type | None:
    """The class of this name; None if there is none."""
    import_module(_HOMES.get(name, "likewise.baselines"))
    return _CLASSES.get(name)


def _is_ours(model: type) -> bool:
    return model.__module__.split(".")[0] == "likewise"
