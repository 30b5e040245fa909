"""The benchmark of judgements and clicks: its tasks, its measure and its rivals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.bench_relevance import RIVALS, _ridge, _rocchio, measured
from benchmarks.relevance_tasks import RelevanceTask, _halves, collections, labelled, ndcg, simulated
from sklearn.metrics import ndcg_score
from sklearn.preprocessing import normalize

from likewise.rows import Relevance


@pytest.fixture(scope="module")
def task() -> RelevanceTask:
    _, X, y = next(labelled())
    return _halves("digits", X, y, 32)


def test_the_measure_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    S, gains = rng.standard_normal((20, 30)), rng.integers(0, 3, (20, 30)).astype(float)
    np.testing.assert_allclose(ndcg(S, gains).mean(), ndcg_score(gains, S, k=10))


def test_some_queries_are_warm_and_the_first_n_are_always_the_same(task: RelevanceTask) -> None:
    assert task.first(50).Q.shape == (50, 32)
    np.testing.assert_array_equal(task.first(50).Q, task.first(50).Q)
    nobody = RelevanceTask(
        "", task.Q, task.G, Relevance(sp.csr_array(([1.0], ([0], [0])), task.relevance.shape)), task.T, task.gains
    )
    np.testing.assert_array_equal(nobody.warm, task.gains[:, 0] > 0)


def test_a_simulated_log_says_how_often_places_are_seen() -> None:
    _, X, y = next(labelled())
    log = simulated("digits", normalize(X), y, False, 5, 0.0).relevance
    assert abs(float(log.summary.rsplit(" ", 1)[1]) - 5**-0.7) < 0.15


@pytest.mark.parametrize("rival", [(_rocchio, (3, 1.0)), (_ridge, (0.3, 10.0))])
def test_rivals_learn_where_halves_have_nothing_in_common(task: RelevanceTask, rival) -> None:
    kind, setting = rival
    query = kind(task.Q, task.G, task.relevance.R, *setting)
    assert np.nanmean(task.ndcg(query(task.T), task.G)) > np.nanmean(task.ndcg(task.T, task.G)) + 0.05


@pytest.mark.second
def test_a_line_has_every_method(task: RelevanceTask) -> None:
    if "InfoNCE" in RIVALS:
        pytest.importorskip("torch")
    line = measured(task.first(60))
    assert [len(line.cells), line.cells[:2]] == [8, ["digits", "60"]]
    assert line.values["both sides"][0] > line.values["raw"][0]


def test_collections_are_read(data_folder) -> None:
    names = {one.name: one for one in collections()}
    assert {"cisi_minilm", "cranfield_minilm"} <= names.keys()
    cranfield = names["cranfield_minilm"]
    assert (cranfield.Q.shape, cranfield.G.shape, len(cranfield.T)) == ((150, 384), (1400, 384), 75)
    assert np.nanmean(cranfield.ndcg(cranfield.T, cranfield.G)) == pytest.approx(0.404, abs=0.001)
