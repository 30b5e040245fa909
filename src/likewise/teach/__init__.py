"""Teaching an index by marks and labels: a journal of what was said, lessons learned from it, suggestions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_MODULES = {
    "Feedback": "feedback",
    "Lesson": "teacher",
    "Taught": "taught",
    "TaughtIndex": "taught_index",
    "Teacher": "teacher",
    "load_index": "teacher",
    "save_index": "taught_index",
}

__all__ = ["Feedback", "Lesson", "Taught", "TaughtIndex", "Teacher", "load_index", "save_index"]

if TYPE_CHECKING:
    from likewise.teach.feedback import Feedback
    from likewise.teach.taught import Taught
    from likewise.teach.taught_index import TaughtIndex, save_index
    from likewise.teach.teacher import Lesson, Teacher, load_index


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'likewise.teach' has no attribute {name!r}")
    return getattr(import_module(f"likewise.teach.{_MODULES[name]}"), name)
