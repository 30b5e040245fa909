"""Search with a learned similarity: an index of a gallery, teaching by clicks, other engines and exports."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_MODULES = {
    "Index": "index",
    "Feedback": "feedback",
    "LearnedEncoder": "encoder",
    "Lesson": "teaching",
    "MilvusIndex": "milvus",
    "Neighbours": "neighbours",
    "Taught": "taught",
    "Teacher": "teaching",
    "update_library": "library",
}

__all__ = [
    "Feedback", "Index", "LearnedEncoder", "Lesson", "MilvusIndex", "Neighbours", "Taught", "Teacher", "update_library",
]  # fmt: skip

if TYPE_CHECKING:
    from likewise.retrieval.encoder import LearnedEncoder
    from likewise.retrieval.feedback import Feedback
    from likewise.retrieval.index import Index
    from likewise.retrieval.library import update_library
    from likewise.retrieval.milvus import MilvusIndex
    from likewise.retrieval.neighbours import Neighbours
    from likewise.retrieval.taught import Taught
    from likewise.retrieval.teaching import Lesson, Teacher


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'likewise.retrieval' has no attribute {name!r}")
    return getattr(import_module(f"likewise.retrieval.{_MODULES[name]}"), name)
