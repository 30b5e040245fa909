"""The web page and its JSON API: search an index, compare before and after, teach it by clicking."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_MODULES = {"Limits": "settings", "ServerSettings": "settings", "create_app": "app", "update_library": "library"}

__all__ = ["Limits", "ServerSettings", "create_app", "update_library"]

if TYPE_CHECKING:
    from likewise.serve.app import create_app
    from likewise.serve.library import update_library
    from likewise.serve.settings import Limits, ServerSettings


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'likewise.serve' has no attribute {name!r}")
    return getattr(import_module(f"likewise.serve.{_MODULES[name]}"), name)
