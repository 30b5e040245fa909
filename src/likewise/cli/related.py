"""`likewise fit --relevance`: which method learns from a file of clicks or grades, and what it says of the result."""

from pathlib import Path
from typing import Any

from likewise.cli import options
from likewise.errors import LikewiseError

METHODS = ("pair-lda", "slr", "slr-fixed")
_OF_PAIRS = {"kernel", "random_state"}  # options that pair-lda knows too


def check_method(method: str | None, relevance: Path | None, gallery: str | None) -> None:
    """Raise for a method that does not learn from what is given."""
    if relevance is None and gallery is not None:
        raise LikewiseError("--gallery has a meaning only with --relevance")
    if relevance is None and (method or "").lower() == "pair-lda":
        raise LikewiseError("--method pair-lda needs --relevance: it learns from pairs, not from labels")
    if relevance is not None and method is not None and method.lower() not in METHODS:
        raise LikewiseError("--relevance is for the methods pair-lda, slr and slr-fixed: the others learn from labels")


def usual_method(rows: options.TrainingRows, asked: dict[str, Any], whole: bool) -> str:
    """pair-lda for clicks and pairs between sides of one width; slr for grades, two widths, or with its options."""
    one_width = rows.gallery is None or rows.gallery.shape[1] == rows.shape[1]
    plain = not whole and asked.keys() <= _OF_PAIRS
    return "pair-lda" if plain and one_width and rows.y.kind == "binary" else "slr"


def refusal(model: Any) -> str | None:
    """Why a model that learned from pairs is the raw cosine; None if it is not, and for other models."""
    if getattr(model, "learned_", True):
        return None
    if model.held_out_ is None:
        return "Too few queries share clicks to hold some out: the model is the raw cosine."
    return "The learned map does not rank held-out queries better: the model is the raw cosine."
