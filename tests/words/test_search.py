"""Search by words: alone, wanted and unwanted, together with examples, and by the names of items."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.worded import EACH, class_of, worded_index

from likewise.errors import LikewiseError
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.teach import load_index
from likewise.words import search
from likewise.words.search import FILE, ItemNames, WordGallery, Wording, Words, item_texts, taught_texts, text_side


@pytest.fixture(scope="module")
def words() -> Words:
    return Words(worded_index())


def classes(words: Words, wording: Wording, k: int = EACH, **examples: object) -> list[str]:
    return [class_of(row) for row in words.search(wording, k, **examples).rows.tolist()]  # type: ignore[arg-type]


def test_a_phrase_finds_its_pictures_first(words: Words) -> None:
    assert classes(words, Wording.of(("a photo of my cat",))) == ["tabby"] * EACH


def test_unwanted_words_push_away(words: Words) -> None:
    assert set(classes(words, Wording.of(("food",), ("pizza",)))) == {"banana"}
    assert "pizza" not in classes(words, Wording.of((), ("pizza",)), 4 * EACH)


def test_words_with_an_example_share_the_first_places_by_weight(words: Words) -> None:
    raw = words.index.raw[:1]  # a beagle
    both = classes(words, Wording.of(("banana",)), 2 * EACH - 1, raw=raw, excluded=[0])
    assert both.count("beagle") == EACH - 1
    assert both.count("banana") == EACH
    assert classes(words, Wording.of(("banana",), weight=4), EACH, raw=raw, excluded=[0]) == ["banana"] * EACH
    assert classes(words, Wording.of(("banana",), weight=0.1), EACH - 1, raw=raw, excluded=[0]) == ["beagle"] * (
        EACH - 1
    )


def test_items_that_have_the_words_in_label_or_name_come_first_and_say_so() -> None:
    labels = np.array([None] * 5 * EACH, dtype=object)
    labels[2] = "Grandma's garden"
    paths = [f"pets/{row}.jpg" for row in range(5 * EACH)]
    paths[9] = "garden/1.jpg"
    hits = Words(worded_index(labels, path=paths)).search(Wording.of(("grandma's garden",)), 3)
    assert hits.rows[0] == 2
    assert hits.by_name.tolist() == [True, False, False]
    hits = Words(worded_index(labels, path=paths)).search(Wording.of(("garden",)), 3)
    assert set(hits.rows[:2].tolist()) == {2, 9}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Wording(), "there are no words to search by; expected wanted or unwanted ones"),
        (lambda: Wording.of(("?",)), r"text='\?' has no words"),
        (lambda: Wording.of(("dog",), weight=0), "weight=0; expected a number above 0"),
        (lambda: text_side(worded_index(), "clip.onnx", Path("t.json")), "--text clip.onnx: expected onnx:FILE"),
        (lambda: text_side(worded_index(), "onnx:a.onnx"), "--text and --tokenizer belong together"),
    ],
)
def test_an_invalid_query_in_words_is_refused(make: object, message: str) -> None:
    with pytest.raises(LikewiseError, match=message):
        make()  # type: ignore[operator]


def test_other_features_need_their_own_text_tower() -> None:
    index = worded_index()
    index.extractor = {"name": "pixels"}
    with pytest.raises(LikewiseError, match="words need pictures with features of efficientnet-lite0, or the text tow"):
        Words(index)


# ---------------------------------------------------------------------------------------------------------------------
# The pictures as words see them


LABELS = np.array([None] * 5 * EACH, dtype=object)
LABELS[3 * EACH : 3 * EACH + 3] = "Grandma's garden"  # half of the bananas


def test_what_was_named_once_is_found_by_its_name_the_unnamed_too() -> None:
    words = Words(worded_index(LABELS))
    hits = words.search(Wording.of(["grandmas garden in summer"]), EACH)
    assert {class_of(row) for row in hits.rows.tolist()} == {"banana"}
    assert not hits.by_name.any()
    assert {class_of(row) for row in words.search(Wording.of(["a dog"]), EACH).rows.tolist()} == {"beagle"}


def test_it_is_kept_in_the_folder_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = worded_index(LABELS)
    index.save(tmp_path / "worded.index")
    before = Words(index).similarity("my garden")
    with monkeypatch.context() as patch:
        patch.setattr(search, "learned_bridge", lambda *args: pytest.fail("computed again"))
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
    alone = WordGallery(index.raw, with_neighbours.rows)
    query = Words(index).side.phrases(["a dog"])
    assert (with_neighbours.scores(query, query)[0, :EACH] > alone.scores(query, query)[0, :EACH]).all()


# ---------------------------------------------------------------------------------------------------------------------
# Items by their words


NAMES = ItemNames([["Grandma's garden"], ["2019_été", "IMG_0042"], ["red dogs", "car"], []])


@pytest.mark.parametrize(
    ("phrase", "rows"),
    [
        ("GARDEN of grandma", [0]), ("ete", [1]), ("Été 2019", [1]), ("a dog", [2]), ("cars", [2]), ("red garden", []),
        ("0042", [1]), ("a", []), ("", []),
    ],
)  # fmt: skip
def test_all_words_must_be_there_whatever_their_case_accent_or_plural(phrase: str, rows: list[int]) -> None:
    assert NAMES.matches(phrase).nonzero()[0].tolist() == rows


# ---------------------------------------------------------------------------------------------------------------------
# The texts of items


def test_labels_names_and_captions_are_texts_and_cameras_are_not() -> None:
    pytest.importorskip("pyarrow")
    X = np.eye(3, dtype=np.float32)
    items = {
        "path": ["Norway 2019/IMG_0001.jpg", "old_barn-2.png", "3.png"], "label": ["sea", None, None],
        "caption": ["A boat.", "", None], "keywords": [["sun", "sea"], [], ["?"]], "price": [1, 2, 3],
    }  # fmt: skip
    index = Index.build(Cosine().fit(X), X, items)
    texts = item_texts(index, index.labels)
    assert texts[0] == ["sea", "Norway 2019", "IMG_0001", "A boat.", "sun", "sea"]
    assert texts[1:] == [["old_barn-2"], ["3", "?"]]
    assert taught_texts(index) == [["sea", "A boat", "sun", "sea"], ["old barn"], []]
