"""The web page and its JSON API: search an index, compare before and after, teach it by clicking."""

import warnings
from typing import Any

from likewise.web.app import create_app
from likewise.web.settings import Limits, ServerSettings

__all__ = ["Limits", "ServerSettings", "create_app"]


def __getattr__(name: str) -> Any:
    if name == "Settings":
        warnings.warn("likewise.web.Settings is now ServerSettings", FutureWarning, stacklevel=2)
        return ServerSettings
    raise AttributeError(f"module 'likewise.web' has no attribute {name!r}")
