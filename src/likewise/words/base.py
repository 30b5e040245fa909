"""The contract of a text side: phrases and the features of pictures become rows of one space."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from likewise.errors import LikewiseError

MOST_LETTERS = 1000  # of a phrase
_LOOSE = re.compile(r"[\s_]+")


class TextSide(ABC):
    """Phrases in, rows out, to be compared with the rows of pictures by their inner product.

    `sentences` are the rows that a bridge learns from: equal or similar for phrases of a similar meaning.
    """

    name: ClassVar[str]

    @property
    def identity(self) -> str:
        """Equal for sides that make the same rows."""
        return self.name

    @abstractmethod
    def phrases(self, texts: Sequence[str]) -> np.ndarray:
        """Rows of phrases, (n, r)."""

    @abstractmethod
    def pictures(self, X: np.ndarray) -> Any:
        """Rows of pictures from their features X, (n, r), dense or sparse."""

    @abstractmethod
    def sentences(self, texts: Sequence[str]) -> np.ndarray:
        """Embeddings of phrases, (n, e), of unit length."""


def tidy(text: str) -> str:
    """A phrase as it is encoded: folder names have underscores, captions end in a full stop."""
    phrase = _LOOSE.sub(" ", text).strip(" .!?,;:'\"")
    if not phrase:
        raise LikewiseError(f"text={text!r} has no words; expected a phrase such as 'a dog on a beach'")
    if len(phrase) > MOST_LETTERS:
        raise LikewiseError(f"text has {len(phrase):,} letters; expected at most {MOST_LETTERS:,}")
    return phrase
