"""Pages of one ranking, of which the first comes from an approximate index."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.rivals import Cosine
from likewise.search import Index
from likewise.serve import session as serve_session
from likewise.serve.catalogue import Filters
from likewise.serve.session import SearchQuery, Session
from likewise.serve.settings import Limits


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
        found = session.search(SearchQuery([5], filters=Filters(where=[condition])), 20)
        assert found.rows.tolist() == others[np.argsort(-S[others], kind="stable")[:20]].tolist()
        assert found.total == len(others)


def test_a_ranking_too_long_to_be_kept_is_not(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.serve.session._LONGEST", 300)
    assert len(session.search(SearchQuery([5]), 599).rows) == 599
    assert not session._rankings
