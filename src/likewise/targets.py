"""The former home of `Relevance` and `SharedLabels`, now in `likewise.data`."""

import warnings
from typing import Any

import likewise.data

_MOVED = ("Relevance", "SharedLabels")


def __getattr__(name: str) -> Any:
    """Give what moved, with a warning that says where to."""
    if name not in _MOVED:
        raise AttributeError(f"module 'likewise.targets' has no attribute {name!r}")
    warnings.warn(f"likewise.targets.{name} is now likewise.data.{name}", DeprecationWarning, stacklevel=2)
    return getattr(likewise.data, name)
