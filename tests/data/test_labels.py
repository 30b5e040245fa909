"""Labels and weights: what people have becomes classes and counts, or a sentence."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from likewise.data import Relevance, SharedLabels
from likewise.data.labels import checked_weights, distinct_labels, encode_labels, has_one_label_per_row, is_unlabelled
from likewise.errors import LikewiseError


@pytest.mark.parametrize("y", [[3, 1, 3], ["b", "a", "b"], np.array([True, False, True])])
def test_classes_are_the_sorted_distinct_labels(y):
    classes, codes = encode_labels(y)
    assert codes.tolist() == [1, 0, 1]
    assert classes[codes].tolist() == list(y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 1, 1], "y has one class only"),
        ([1, 2, 3], "all 3 labels in y are distinct"),
        (np.array([1, "a", 1], dtype=object), "y mixes labels of the types int, str"),
        (np.array(["a", None, "a"], dtype=object), "y has 1 missing labels"),
        ([1.0, np.nan, 1.0], "y has 1 missing labels"),
    ],
)
def test_labels_that_teach_nothing_are_refused(y, message):
    with pytest.raises(LikewiseError, match=message):
        encode_labels(y)
    assert distinct_labels([1, 1])[0].tolist() == [1]


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0, 1, 0], True),
        ([[0], [1], [0]], True),
        (["a", "b", "a"], True),
        (None, True),
        ([0, 1, -1], False),
        ([-1, 1, -1], True),
        (np.array(["a", None, "b"], dtype=object), False),
        (np.eye(3), False),
        (sp.eye_array(3), False),
        (SharedLabels(np.eye(3)), False),
        (Relevance(np.eye(3)), False),
    ],
    ids=str,
)
def test_one_known_label_per_row_is_told_from_the_rest(y, expected):
    assert has_one_label_per_row(y) is expected


def test_minus_one_is_unknown_only_beside_two_other_labels():
    assert is_unlabelled(np.array([-1, 0, 1])).tolist() == [True, False, False]
    assert not is_unlabelled(np.array([-1, 1, 1])).any()


def test_weights_of_one_are_none_and_of_zero_are_absence():
    codes = np.array([0, 1, 1])
    assert checked_weights(None, codes, codes) == (None, slice(None))
    assert checked_weights(np.ones(3), codes, codes)[0] is None
    weights, kept = checked_weights([2, 1, 0], codes, codes)
    assert (weights.tolist(), kept.tolist()) == ([2.0, 1.0], [True, True, False])
