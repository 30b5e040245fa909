"""The texts of items: what they are found by, and what is learned from."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.rivals import Cosine
from likewise.search import Index
from likewise.words.item_texts import item_texts, taught_texts


def test_labels_names_and_captions_are_texts_and_cameras_are_not() -> None:
    pytest.importorskip("pyarrow")
    X = np.eye(3, dtype=np.float32)
    items = {
        "path": ["Norway 2019/IMG_0001.jpg", "old_barn-2.png", "3.png"], "label": ["sea", None, None],
        "caption": ["A boat.", "", None], "keywords": [["sun", "sea"], [], ["?"]], "price": [1, 2, 3],
    }  # fmt: skip
    index = Index.build(Cosine().fit(X), X, items)
    found = item_texts(index, index.labels)
    assert found[0] == ["sea", "Norway 2019", "IMG_0001", "A boat.", "sun", "sea"]
    assert found[1:] == [["old_barn-2"], ["3", "?"]]
    assert taught_texts(index) == [["sea", "A boat", "sun", "sea"], ["old barn"], []]
