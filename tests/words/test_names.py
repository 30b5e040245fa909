"""The names of ImageNet's classes: the order of the classifier, and what is a kind of what."""

from __future__ import annotations

import numpy as np
from tests.worded import CLASSES

from likewise.words.names import class_names


def test_classes_are_in_the_order_of_the_classifier() -> None:
    found = class_names()
    assert found.members.shape[1] == 1000
    for name, number in CLASSES.items():
        begin, end = found.first[number], found.first[number + 1]
        assert name in found.names[begin:end]
        assert found.members[number].indices.tolist() == [number]


def test_a_dog_is_all_breeds_and_no_cat() -> None:
    found = class_names()
    kind = int(np.searchsorted(found.first, found.names.index("dog"), side="right")) - 1
    dogs = set(found.members[kind].indices.tolist())
    assert len(dogs) == 118
    assert CLASSES["beagle"] in dogs
    assert CLASSES["tabby"] not in dogs


def test_the_best_name_of_a_kind_counts() -> None:
    found = class_names()
    scores = np.zeros((1, len(found.names)))
    scores[0, found.first[1] + 1] = 0.7
    assert found.best_of_kind(scores)[0, :3].tolist() == [0, 0.7, 0]
