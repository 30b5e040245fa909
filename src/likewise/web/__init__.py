"""The page and its JSON interface: search an index, see before and after, teach it by clicking."""

from likewise.web.app import create_app
from likewise.web.settings import Limits, Settings

__all__ = ["Limits", "Settings", "create_app"]
