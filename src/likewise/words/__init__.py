"""Words on one side, pictures on the other: text sides, what they start from, and what they learn."""

from likewise.words.sides import TextSide, tidy

__all__ = ["TextSide", "tidy"]
