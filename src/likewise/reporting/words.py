"""Values as people read them."""

from __future__ import annotations

from typing import Any

__all__ = ["short"]


def short(value: Any) -> str:
    """A setting in a word: three digits of a number, yes or no, or the word itself."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
