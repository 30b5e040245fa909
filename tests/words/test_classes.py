"""The names of ImageNet's classes: the order of the classifier, and what is a kind of what."""

from __future__ import annotations

import numpy as np
import pytest
from tests.worded import CLASSES, rows_of

from likewise.errors import LikewiseError
from likewise.words.classes import ClassWords, class_names
from likewise.words.sentences import SentenceEncoder


def test_classes_are_in_the_order_of_the_classifier() -> None:
    imagenet = class_names()
    assert imagenet.members.shape[1] == 1000
    for name, number in CLASSES.items():
        begin, end = imagenet.first[number], imagenet.first[number + 1]
        assert name in imagenet.names[begin:end]
        assert imagenet.members[number].indices.tolist() == [number]


def test_a_dog_is_all_breeds_but_not_a_cat() -> None:
    imagenet = class_names()
    kind = int(np.searchsorted(imagenet.first, imagenet.names.index("dog"), side="right")) - 1
    dogs = set(imagenet.members[kind].indices.tolist())
    assert len(dogs) == 118
    assert CLASSES["beagle"] in dogs
    assert CLASSES["tabby"] not in dogs


def test_the_best_name_of_a_kind_counts() -> None:
    imagenet = class_names()
    scores = np.zeros((1, len(imagenet.names)))
    scores[0, imagenet.first[1] + 1] = 0.7
    assert imagenet.best_of_kind(scores)[0, :3].tolist() == [0, 0.7, 0]


# ---------------------------------------------------------------------------------------------------------------------
# Phrases find pictures by the names of their classes


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
