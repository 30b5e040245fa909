"""The API on documents: cards, filters that agree with pandas, search by id and by vector, sound and film."""

from __future__ import annotations

import io
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise.cli import app as cli
from likewise.errors import LikewiseError
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.serve import ServerSettings, create_app
from likewise.teach import load_index
from tests.documents import N, columns, embeddings, write_parquet
from tests.serve.conftest import ask, talking

pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
SIGNS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
X = embeddings()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    return Index.build(Cosine().fit(X), write_parquet(folder / "docs.parquet")).save(folder / "docs.index")


@pytest.fixture(scope="module")
def docs(folder: Path) -> Iterator[Any]:
    with talking(create_app(load_index(folder), ServerSettings(), folder)) as client:
        yield client


def test_an_item_has_a_card_and_all_of_it_when_asked_for_alone(docs: Any) -> None:
    (hit, *_) = ask(docs, id="doc-7108", k=1)["hits"]
    assert hit["kind"] == "item"
    assert hit["card"]["title"] == f"Title {hit['row']}"
    assert [name for name, _ in hit["card"]["fields"]] == [
        name for name in ("price", "size", "sold", "made on") if columns()[name][hit["row"]] is not None
    ]
    whole = docs.get("/api/items/8").json()
    assert (whole["id"], whole["key"], whole["card"]["url"]) == ("doc-7108", "doc-7108", "https://example.org/8")
    assert ["topic", "food"] in whole["card"]["fields"]
    assert docs.get("/api/items", params={"id": "doc-7108"}).json()["items"][0]["row"] == 8
    status = docs.get("/api/status").json()
    assert (status["pictures"], status["texts"]) == (False, True)
    assert status["columns"] == ["title", "text", "price", "size", "sold", "made on", "url"]  # topic is the label


def test_the_csv_of_results_has_the_columns_that_the_items_came_with(docs: Any) -> None:
    prepared = docs.post("/api/exports", json={"like": [{"row": 8}], "k": 5}).json()
    lines = pd.read_csv(io.StringIO(docs.get(f"/api/exports/{prepared['export']}.csv").text))
    assert list(lines.columns)[:5] == ["rank", "id", "path", "label", "score"]
    rows = [int(name.removeprefix("doc-")) - 7100 for name in lines["id"]]
    assert len(rows) == 5
    for name in ("title", "url"):
        assert lines[name].tolist() == [columns()[name][row] for row in rows]


def test_search_by_id_by_row_and_by_vector_find_the_same(docs: Any) -> None:
    by_row = ask(docs, like=[{"row": 8}], k=5)["hits"]
    assert ask(docs, id="doc-7108", k=5)["hits"] == ask(docs, like=[{"id": "doc-7108"}], k=5)["hits"] == by_row
    by_vector = ask(docs, vector=X[8].tolist(), k=6)["hits"]
    assert by_vector[0]["id"] == "doc-7108"
    assert [hit["id"] for hit in by_vector[1:]] == [hit["id"] for hit in by_row]
    upload = docs.post("/api/vectors", json={"vector": X[8].tolist()}).json()["upload"]
    assert [hit["id"] for hit in ask(docs, like=[{"upload": upload}], k=6)["hits"]] == [hit["id"] for hit in by_vector]
    assert docs.get(f"/api/uploads/{upload}").status_code == 404
    marked = docs.post("/api/marks", json={"query": [{"upload": upload}], "items": [3], "right": True})
    assert marked.status_code == 201
    docs.post("/api/undo")


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ({"vector": [1.0, 2.0]}, 422, "vector has 2 numbers; expected 6"),
        ({"vector": [1e300] * 6}, 422, "vector has NaN or infinity"),
        ({"vector": ["a"] * 6}, 422, "vector"),
        ({"vector": []}, 422, "vector"),
        ({"id": "doc-1"}, 404, "the index has no item with the id 'doc-1'"),
        ({"like": [{"row": 1, "id": "doc-7101"}]}, 422, "give one of row, id, upload, vector and text"),
        ({"id": "doc-7101", "where": "prize < 3"}, 422, "there is no column 'prize'; the columns are id, label, title"),
        ({"id": "doc-7101", "where": "price < 'a'"}, 422, "holds numbers; it cannot be compared with 'a'"),
        ({"id": "doc-7101", "where": "1; drop table"}, 422, "';' at character 2 is not understood"),
        ({"id": "doc-7101", "where": "a" * 5000}, 422, "4000"),
        ({"id": "doc-7101", "where": ["sold"] * 40}, 422, "32"),
    ],
)
def test_wrong_questions_get_a_sentence(docs: Any, query: dict[str, Any], status: int, words: str) -> None:
    answer = docs.post("/api/search", json=query)
    assert answer.status_code == status
    assert words in answer.text.replace('\\"', '"')


CONDITIONS = st.one_of(
    st.tuples(st.sampled_from(["price", "size"]), st.sampled_from(list(SIGNS)), st.integers(-3, 70)),
    st.tuples(st.just("topic"), st.sampled_from(["==", "!="]), st.sampled_from(["space", "cars", "x"])),
    st.tuples(st.just("sold"), st.sampled_from(["==", "!="]), st.booleans()),
)


@settings(max_examples=25)
@given(st.lists(CONDITIONS, min_size=1, max_size=3), st.sampled_from(["and", "or"]))
def test_filters_of_api_and_python_agree_with_pandas(
    docs: Any, folder: Path, parts: list[tuple[str, str, Any]], word: str
) -> None:
    frame = pd.DataFrame(columns()).convert_dtypes(dtype_backend="pyarrow")
    masks = [SIGNS[sign](frame[name], value).fillna(False) for name, sign, value in parts]
    wanted = np.logical_and.reduce(masks) if word == "and" else np.logical_or.reduce(masks)
    expected = set(np.flatnonzero(wanted).tolist())
    spelled = {True: "true", False: "false"}
    texts = [f"`{n}` {s} {spelled[v] if isinstance(v, bool) else repr(v)}" for n, s, v in parts]
    where = f" {word} ".join(texts)
    listed = docs.get("/api/items", params={"where": where, "limit": 200}).json()
    assert {item["row"] for item in listed["items"]} == expected
    hits = ask(docs, vector=X[0].tolist(), where=where, k=200)
    assert {hit["row"] for hit in hits["hits"]} == expected
    assert hits["total"] == len(expected)
    ids = docs.app.state.session.index.search(X[:1], k=N, where=where).ids
    assert [hit["id"] for hit in hits["hits"]] == ids[0].tolist()
    if word == "and":  # several conditions at once are the same
        assert ask(docs, vector=X[0].tolist(), where=texts, k=200)["hits"] == hits["hits"]


def test_the_command_line_agrees_with_the_api(docs: Any, folder: Path) -> None:
    import json

    from typer.testing import CliRunner

    where = "price < 40 and not topic == 'cars' or size is null"
    words = ["search", str(folder), "--id", "doc-7108", "--where", where, "-k", "60", "--json"]
    says = json.loads(CliRunner().invoke(cli, words).stdout)[0]["results"]
    hits = ask(docs, id="doc-7108", where=where, k=200)["hits"]
    assert [hit["id"] for hit in hits] == [hit["id"] for hit in says]


def test_facets_count_what_the_other_filters_leave(docs: Any) -> None:
    facets = {facet["name"]: facet for facet in docs.get("/api/facets").json()["columns"]}
    assert facets["sold"]["counts"] == {"false": columns()["sold"].count(False), "true": columns()["sold"].count(True)}
    assert (facets["price"]["low"], facets["price"]["high"]) == (0.0, 87.0)
    assert facets["made on"]["low"] == "2024-01-01"
    assert facets["title"]["counts"] is None
    params = {"where": ["`sold` in [true]", "price < 10"]}
    some = {facet["name"]: facet for facet in docs.get("/api/facets", params=params).json()["columns"]}
    cheap = [row for row in range(N) if columns()["price"][row] is not None and columns()["price"][row] < 10]
    sold = [columns()["sold"][row] for row in cheap]
    assert some["sold"]["counts"] == {"false": sold.count(False), "true": sold.count(True)}
    assert docs.get("/api/facets", params={"where": "prize < 3"}).status_code == 422


def test_labels_of_today_are_what_a_condition_sees(docs: Any) -> None:
    docs.post("/api/labels", json={"items": [5], "label": "news"})
    assert docs.get("/api/items", params={"where": "label == 'news'"}).json()["items"][0]["row"] == 5
    docs.post("/api/undo")
    assert docs.get("/api/items", params={"where": "label == 'news'"}).json()["total"] == 0


def test_the_columns_of_a_card_can_be_named(folder: Path) -> None:
    index = load_index(folder)
    with talking(create_app(index, ServerSettings(show=("topic", "price")), folder)) as client:
        card = client.get("/api/items?limit=1").json()["items"][0]["card"]
    assert card == {"title": "space", "text": None, "url": None, "fields": [["price", 0.0]]}
    with pytest.raises(LikewiseError, match="--show: there is no column 'prize'"):
        create_app(index, ServerSettings(show=("prize",)), folder)


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any]]:
    """An index of files of sound: one plays, one is outside, one a link to a secret, one no sound."""
    folder = tmp_path_factory.mktemp("sounds")
    root = folder / "root"
    root.mkdir()
    (root / "a.mp3").write_bytes(bytes(range(256)) * 40)
    (folder / "out.mp3").write_bytes(b"outside")
    (folder / "secret").write_bytes(b"secret")
    (root / "link.mp3").symlink_to(folder / "secret")
    (root / "far.mp3").symlink_to(folder / "out.mp3")
    (root / "note.txt").write_text("text")
    paths = ["a.mp3", "../out.mp3", str(folder / "out.mp3"), "link.mp3", "far.mp3", "note.txt", "gone.mp3"]
    index = Index.build(Cosine().fit(X), X[: len(paths)], {"path": paths})
    index.root = root
    with talking(create_app(index, ServerSettings())) as client:
        yield root, client


def test_sound_is_sent_as_it_is_and_in_parts(sounds: Any) -> None:
    root, client = sounds
    data = (root / "a.mp3").read_bytes()
    whole = client.get("/api/items/0/media", headers={"Accept-Encoding": "gzip"})
    assert (whole.content, whole.headers["content-type"]) == (data, "audio/mpeg")
    part = client.get("/api/items/0/media", headers={"Range": "bytes=100-199", "Accept-Encoding": "gzip"})
    assert (part.status_code, part.content) == (206, data[100:200])
    assert part.headers["content-range"] == f"bytes 100-199/{len(data)}"
    assert client.get("/api/items/0").json()["kind"] == "audio"
    assert "media-src 'self'" in whole.headers["content-security-policy"]


@pytest.mark.parametrize("row", [1, 2, 3, 4, 5, 6])
def test_no_file_outside_of_the_folder_and_none_of_another_kind_is_sent(sounds: Any, row: int) -> None:
    answer = sounds[1].get(f"/api/items/{row}/media")
    assert answer.status_code == 404
    assert b"outside" not in answer.content
    assert b"secret" not in answer.content


def test_marks_and_labels_are_given_by_id(docs: Any) -> None:
    by_id = {"query": [{"id": "doc-7108"}], "ids": [ask(docs, id="doc-7108", k=2)["hits"][1]["id"]], "right": True}
    assert docs.post("/api/marks", json=by_id).status_code == 201
    (entry,) = docs.get("/api/feedback").json()
    docs.post("/api/undo")
    row = ask(docs, id="doc-7108", k=2)["hits"][1]["row"]
    docs.post("/api/marks", json={"query": [{"row": 8}], "items": [row], "right": True})
    (by_row,) = docs.get("/api/feedback").json()
    ignored = {"id", "time", "number"}
    assert {k: v for k, v in entry.items() if k not in ignored} == {k: v for k, v in by_row.items() if k not in ignored}
    docs.post("/api/undo")
    labelled = docs.post("/api/labels", json={"ids": ["doc-7108"], "label": "by id"})
    assert labelled.status_code == 201
    docs.post("/api/undo")
    assert docs.post("/api/marks", json={**by_id, "ids": ["no such"]}).status_code == 404
    both = docs.post("/api/marks", json={**by_id, "items": [3]})
    assert both.status_code == 422
    assert "give either items, by their rows, or ids" in both.text
