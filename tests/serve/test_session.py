"""Search by examples: brute force, average precision, filters, uploads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise import SimilarityLearner
from likewise.evaluate import average_precision
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.serve import Limits, ServerSettings, create_app
from likewise.serve import session as serve_session
from likewise.serve.catalogue import Filters
from likewise.serve.session import SearchQuery, Session
from likewise.teach import load_index
from tests.serve.conftest import PNG, N, ask, picture, talking


def _brute(Q: np.ndarray, G: np.ndarray, row: int, k: int) -> list[int]:
    scores = (Q[row] @ G.T).astype(np.float64)
    scores[row] = -np.inf
    return np.argsort(-scores, kind="stable")[:k].tolist()


@pytest.mark.parametrize("side", ["learned", "raw"])
def test_a_search_by_row_equals_brute_force(client: Any, index_folder: Path, side: str) -> None:
    index = load_index(index_folder)
    raw = np.asarray(index.raw, dtype=np.float32)
    unit = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    Q, G = (unit, unit) if side == "raw" else (index.model.transform_query(raw), index.vectors)
    for row in (0, 7, N - 1):
        hits = client.get(f"/api/search?row={row}&k=20&side={side}").json()["hits"]
        assert [hit["row"] for hit in hits] == _brute(Q, G, row, 20)
        np.testing.assert_allclose([hit["score"] for hit in hits], [Q[row] @ G[hit["row"]] for hit in hits], rtol=1e-4)


def test_average_precision_and_frames_follow_the_labels(client: Any, index_folder: Path) -> None:
    index = load_index(index_folder)
    answer = ask(client, like=[{"row": 11}], k=30, precision=True)
    scores = np.delete(index.model.transform_query(index.raw[11:12])[0] @ index.vectors.T, 11)
    expected = average_precision(scores, np.delete(index.labels, 11) == index.labels[11])
    assert answer["average_precision"] == pytest.approx(expected, abs=1e-4)
    assert all(hit["relevant"] == (hit["label"] == index.labels[11]) for hit in answer["hits"])
    mixed = ask(client, like=[{"row": int(np.flatnonzero(index.labels == label)[0])} for label in set(index.labels)])
    assert mixed["average_precision"] is None
    assert {hit["relevant"] for hit in mixed["hits"]} == {None}


def test_items_that_the_model_learned_from_are_no_test_of_it(index_folder: Path, client: Any) -> None:
    assert not ask(client, like=[{"row": 11}], precision=True)["learned_from_query"]  # not a training row
    index = load_index(index_folder)
    learned = Index.build(SimilarityLearner("linear").fit(index.raw, index.labels), index.raw, {"label": index.labels})
    with talking(create_app(learned, ServerSettings(), index_folder)) as other:
        assert ask(other, like=[{"row": 11}], precision=True)["learned_from_query"]
        assert not ask(other, like=[{"row": 11}], side="raw")["learned_from_query"]


def test_several_examples_are_their_mean_and_unwanted_ones_push_away(client: Any) -> None:
    one, two = ({h["row"]: h["score"] for h in ask(client, like=[{"row": r}], k=200)["hits"]} for r in (1, 2))
    both = {h["row"]: h["score"] for h in ask(client, like=[{"row": 1}, {"row": 2}], k=200)["hits"]}
    less = {h["row"]: h["score"] for h in ask(client, like=[{"row": 1}], unlike=[{"row": 2}], k=200)["hits"]}
    shared = one.keys() & two.keys() & both.keys()
    assert len(shared) > 10
    for row in shared:
        assert both[row] == pytest.approx((one[row] + two[row]) / 2, abs=1e-4)
    for row in one.keys() & two.keys() & less.keys():
        assert less[row] == pytest.approx(one[row] - two[row] / 2, abs=1e-4)
    assert not {1, 2} & (both.keys() | less.keys())


def test_a_filter_keeps_only_its_labels(client: Any) -> None:
    hits = ask(client, like=[{"row": 0}], labels=["digit 4", "digit 7"], k=200)["hits"]
    counts = client.get("/api/labels").json()
    assert len(hits) == counts["digit 4"] + counts["digit 7"]
    assert {hit["label"] for hit in hits} == {"digit 4", "digit 7"}


def test_an_upload_is_searched_by_and_forgotten_when_there_are_too_many(application: Callable[..., Any]) -> None:
    with talking(application(limits=Limits(uploads=2))) as client:
        names = [client.post("/api/uploads", content=picture(), headers=PNG).json()["upload"] for _ in range(3)]
        answers = [client.post("/api/search", json={"like": [{"upload": name}], "k": 5}) for name in names]
        assert [answer.status_code for answer in answers] == [404, 200, 200]
        assert len(answers[1].json()["hits"]) == 5


def test_a_picture_is_made_from_pixels_and_never_sent_as_it_is(client: Any) -> None:
    answer = client.get("/api/items/3/picture")
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.content[:2] == b"\xff\xd8"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_index_of_numbers_is_served_without_pictures(tmp_path: Path, digits: Any) -> None:
    from likewise.rivals import LDA

    X, y, G, _ = digits
    index = Index.build(LDA().fit(X, y), G[:50], [f"item <{i}>" for i in range(50)])
    with talking(create_app(index)) as client:
        status = client.get("/api/status").json()
        assert (status["pictures"], status["uploads"], status["labels"]) == (False, False, 0)
        tile = client.get("/api/items/3/picture")
        assert tile.headers["content-type"] == "image/svg+xml"
        assert "item &lt;3&gt;" in tile.text
        hits = client.get("/api/search?row=0&k=3").json()["hits"]
        assert [hit["relevant"] for hit in hits] == [None] * 3
        assert hits[0]["id"].startswith("item <")
        refused = client.post("/api/uploads", content=b"x", headers={"content-type": "image/png"})
        assert refused.status_code == 422


def test_rows_and_uploads_are_smoothed_by_the_neighbours_of_the_index(digits: Any) -> None:
    X = np.asarray(digits[2], np.float32)
    index = Index.build(Cosine().fit(X), X, n_neighbors=5)
    space = index.space()
    np.testing.assert_array_equal(space.queries([3, 8]), index.vectors[[3, 8]])
    np.testing.assert_allclose(space.embed(X[:2] + 1), index.space().embed(X[:2] + 1), atol=1e-6)


# -- Pages of one ranking, of which the first comes from an approximate index -------------------------------------


@pytest.fixture
def session() -> Session:
    X = np.random.default_rng(0).standard_normal((600, 8)).astype(np.float32)
    index = Index.build(Cosine().fit(X), X, {"price": np.arange(600)}, approximate="ivf")
    return Session(index, Limits())


def test_pages_after_an_approximate_one_bring_every_other_item_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_session, "_AHEAD", 100)
    session.index.engine.index.nprobe = 1  # type: ignore[attr-defined]  # misses many
    pages = [session.search(SearchQuery([5]), 40, "learned", offset) for offset in range(0, 600, 40)]
    shown = np.concatenate([page.rows for page in pages])
    assert sorted(shown.tolist()) == [row for row in range(600) if row != 5]
    assert {page.total for page in pages} == {599}
    assert session.search(SearchQuery([5]), 40).rows.tolist() == pages[0].rows.tolist()


def test_a_filter_is_exact_however_many_pass(session: Session) -> None:
    S = session.learned.scores(session.learned.queries([5]))[0]
    for condition, allowed in (("price < 50", np.arange(50)), ("price >= 50", np.arange(50, 600))):
        others = allowed[allowed != 5]
        result = session.search(SearchQuery([5], filters=Filters(where=[condition])), 20)
        assert result.rows.tolist() == others[np.argsort(-S[others], kind="stable")[:20]].tolist()
        assert result.total == len(others)


def test_a_ranking_too_long_to_be_kept_is_not(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.serve.session._LONGEST", 300)
    assert len(session.search(SearchQuery([5]), 599).rows) == 599
    assert not session._rankings
