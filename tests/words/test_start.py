"""The start: phrases find pictures by the names of their classes and of the kinds these belong to."""

from __future__ import annotations

import numpy as np
import pytest
from tests.worded import CLASSES, rows_of

from likewise.errors import LikewiseError
from likewise.words.sentences import SentenceEncoder
from likewise.words.start import ClassWords

PHRASES = {
    "beagle": "a dog on a beach", "tabby": "eine Katze", "sports car": "une voiture rouge", "banana": "yellow fruit",
    "pizza": "Pizza!",
}  # fmt: skip


@pytest.mark.parametrize("name", PHRASES)
def test_a_phrase_finds_its_class_in_any_language(name: str, offline_encoder: SentenceEncoder) -> None:
    words = ClassWords()
    scores = words.pictures(rows_of(list(CLASSES.values()))) @ words.phrases([PHRASES[name]])[0]
    assert list(CLASSES)[int(np.argmax(scores))] == name


def test_features_of_another_width_are_refused() -> None:
    with pytest.raises(LikewiseError, match=r"X has shape \(2, 64\); expected rows of 1280 features"):
        ClassWords().pictures(np.ones((2, 64), np.float32))


def test_a_phrase_needs_words() -> None:
    with pytest.raises(LikewiseError, match=r"text=' \.\.\. ' has no words; expected a phrase"):
        ClassWords().phrases([" ... "])
    with pytest.raises(LikewiseError, match="text has 2,000 letters; expected at most 1,000"):
        ClassWords().phrases(["a" * 2000])
