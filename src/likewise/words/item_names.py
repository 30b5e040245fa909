"""Items by their own words: labels, file and folder names, whatever the gallery has of texts."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

_WORD = re.compile(r"[^\W_]+")
_SHORT = 2  # letters: "a", "on", "le", "im" say nothing, unless there is nothing else


class ItemNames:
    """Which items have which words; built once, asked often."""

    def __init__(self, texts: Iterable[Iterable[str]]) -> None:
        rows: defaultdict[str, list[int]] = defaultdict(list)
        self._n = 0
        for row, parts in enumerate(texts):
            self._n = row + 1
            for word in {word for part in parts for word in _words(part)}:
                rows[word].append(row)
        self._rows = {word: np.array(found) for word, found in rows.items()}

    def matches(self, phrase: str) -> np.ndarray:
        """Whether each item has all words of a phrase, as booleans; plurals in s count as the same word."""
        words = _words(phrase)
        telling = [word for word in words if len(word) > _SHORT] or words
        found = np.full(self._n, bool(telling))
        for word in telling:
            has = np.zeros(self._n, dtype=bool)
            for form in {word, f"{word}s", word.removesuffix("s")}:
                has[self._rows.get(form, [])] = True
            found &= has
        return found


def _words(text: str) -> list[str]:
    """Words without case and accents."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return _WORD.findall(plain.casefold())
