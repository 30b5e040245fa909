"""Search with a learned similarity: an index of a gallery, other engines and exports."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_MODULES = {"Index": "index", "LearnedEncoder": "encoder", "Neighbours": "neighbors"}

__all__ = ["Index", "LearnedEncoder", "Neighbours"]

if TYPE_CHECKING:
    from likewise.search.encoder import LearnedEncoder
    from likewise.search.index import Index
    from likewise.search.neighbors import Neighbours


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'likewise.search' has no attribute {name!r}")
    return getattr(import_module(f"likewise.search.{_MODULES[name]}"), name)
