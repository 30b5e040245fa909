"""Items by the words in their labels and names."""

from __future__ import annotations

import pytest

from likewise.words.item_names import ItemNames

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
