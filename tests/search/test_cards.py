"""What is shown of an item."""

from __future__ import annotations

import datetime as dt

import pytest
from tests.documents import N, columns

from likewise.errors import LikewiseError
from likewise.search.cards import Card, CardLayout, card_layout, cards, safe_url, shown_value
from likewise.search.items import Items, as_items

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def items() -> Items:
    return as_items({**columns(), "label": columns()["topic"]}, N)


def test_usual_names_are_title_text_and_address_and_short_values_fields(items: Items) -> None:
    layout = card_layout(items)
    assert layout == CardLayout("title", "text", "url", ("price", "size", "sold", "made on"))  # topic is the label
    fields = (("price", 0.0), ("size", 0), ("sold", True), ("made on", "2024-01-01"))
    assert cards(items, layout, [0]) == [Card("Title 0", "All about space, part 0", "https://example.org/0", fields)]
    (card,) = cards(items, layout, [3])
    assert card
    assert card.fields[0][0] == "size"  # the price is missing


def test_the_requested_columns_and_one_that_is_not_there(items: Items) -> None:
    assert card_layout(items, ["topic", "text", "size"]) == CardLayout("topic", "text", None, ("size",))
    with pytest.raises(LikewiseError, match="--show: there is no column 'prize'; the columns are title, text"):
        card_layout(items, ["prize"])
    bare = as_items(None, 2)
    assert cards(bare, card_layout(bare), [0, 1]) == [None, None]
    with pytest.raises(LikewiseError, match="--show title: the index has no metadata"):
        card_layout(bare, ["title"])


def test_long_texts_are_cut_between_words_and_whole_when_asked_for() -> None:
    long = as_items({"text": ["word " * 200], "n": [1]}, 1)
    layout = card_layout(long)
    cut, whole = (cards(long, layout, [0], whole=whole)[0] for whole in (False, True))
    assert cut.text.endswith("word …")  # type: ignore[union-attr]
    assert whole.text == "word " * 200  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//x", "http:", "http://[", "x"]
)
def test_only_addresses_of_the_web_are_links(url: str) -> None:
    assert safe_url(url) is None
    assert safe_url(" https://example.org/a?b=c ") == "https://example.org/a?b=c"


def test_values_as_json_has_them() -> None:
    assert shown_value(dt.datetime(2024, 1, 2, 3, 4)) == "2024-01-02T03:04:00"
    assert shown_value(float("inf")) == "inf"
    assert shown_value(True) is True
