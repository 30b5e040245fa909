"""Words on the command line: what is a phrase and what a file, and the text side that `search` and `serve` use."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def is_phrase(word: str) -> bool:
    """Whether an argument is words: no file, and not named like a picture or a path, which may be a typing error."""
    from likewise.pictures.images import EXTENSIONS

    is_file_name = Path(word).suffix.lower() in EXTENSIONS or (os.sep in word and " " not in word)
    return not os.path.exists(word) and not is_file_name


def wording(wanted: Sequence[str], unwanted: Sequence[str] = (), weight: float = 1.0) -> Any:
    """A query in words."""
    from likewise.words.search import Wording

    return Wording.of(wanted, unwanted, weight)


def by_words(index: Any, text: str | None, tokenizer: Path | None) -> Any:
    """The words of an index, with the text side that was asked for."""
    from likewise.words.search import Words, text_side

    return Words(index, text_side(index, text, tokenizer))


def learn_words(index: Any) -> None:
    """Learn the words of an index that was saved, if it can have any: the first search by words is quick then."""
    from likewise.words.search import Words, has_words

    if has_words(index):
        _ = Words(index).gallery
