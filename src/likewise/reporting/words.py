"""Values as text."""

from __future__ import annotations

from typing import Any

__all__ = ["short"]


def short(value: Any) -> str:
    """The value of a setting: three digits of a number, yes or no, or the string itself."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
