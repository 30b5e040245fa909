"""Probabilities of results and of sets of examples, and cut-offs that keep what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from likewise import SimilarityLearner
from likewise.errors import LikewiseError
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.search.confidence import Confidence
from likewise.teach import Feedback, Teacher
from likewise.teach.concepts import above, grown

X, Y = load_digits(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(Y))
LEARNED, GALLERY, ASKED = ORDER[:600], ORDER[600:1300], ORDER[1300:]


@pytest.fixture(scope="module")
def model():
    return SimilarityLearner(random_state=0).fit(X[LEARNED], Y[LEARNED])


@pytest.fixture(scope="module", params=[0, 10], ids=["plain", "smoothed"])
def index(model, request):
    return Index.build(model, X[GALLERY], {"label": Y[GALLERY]}, n_neighbors=request.param)


def test_probabilities_of_results_come_true(index):
    hits = index.search(X[ASKED], k=100)
    ids, P = hits.ids, hits.probabilities
    same = Y[GALLERY][ids] == Y[ASKED][:, None]
    assert P.shape == ids.shape
    assert abs(P.mean() - same.mean()) < 0.03
    assert P[same].mean() > 0.9 > 0.5 > P[~same].mean()


def test_probabilities_are_those_of_the_model(model):
    index = Index.build(model, X[GALLERY[:50]])
    hits = index.search(X[ASKED[:5]], k=50)
    ids, P = hits.ids, hits.probabilities
    pairs = index.model.predict_proba_pairs(X[ASKED[:5]], X[GALLERY[:50]])
    assert np.take_along_axis(pairs, ids, axis=1) == pytest.approx(P, abs=1e-3)


def test_rows_that_the_model_learned_from_are_known_as_such(model):
    index = Index.build(model, X[LEARNED[:100]])
    hits = index.search(X[ASKED[:5]], k=100)
    ids, scores, P = hits.ids, hits.scores, hits.probabilities
    assert model.calibration.probability(scores, 1) == pytest.approx(P, abs=1e-3)
    assert not np.allclose(model.calibration.probability(scores, 0), P, atol=1e-3)
    assert len(ids) == 5


def test_matches_keep_the_share_of_wrong_ones_below_the_cut_off(index):
    for share in (0.05, 0.2):
        result = index.search(X[ASKED], k=None, at_most_wrong=share)
        wrong = [
            np.mean(Y[GALLERY][one.ids] != y) if len(one.ids) else 0 for one, y in zip(result, Y[ASKED], strict=True)
        ]
        assert np.mean(wrong) < share + 0.01
        assert np.mean([len(one.ids) for one in result]) > 50
    assert all((one.probabilities >= 0.5).all() for one in result)


def test_no_more_than_k_matches(index):
    assert max(len(one.ids) for one in index.search(X[ASKED[:20]], k=7, at_most_wrong=0.2)) == 7


def test_a_promise_that_cannot_be_kept_returns_nothing(index):
    assert all(len(one.ids) == len(one.scores) == 0 for one in index.search(X[ASKED[:9]], k=None, at_most_wrong=1e-6))


def test_an_index_without_labels_has_no_probabilities():
    index = Index.build(Cosine().fit(X[:50]), X[:50])
    assert index.search(X[:1]).probabilities is None
    with pytest.raises(LikewiseError, match="Cosine has no calibration: its fit holds out no rows"):
        index.search(X[:1], at_most_wrong=0.1)


# -- Taught -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_right", "n_wrong"), [(7, 20), (20, 7), (12, 12)])
def test_a_concept_is_calibrated_by_marks_left_out(n_right, n_wrong):
    teacher = Teacher(Index.build(Cosine(centre=True).fit(X), X))
    query = int(np.flatnonzero(Y == 3)[0])
    rows = np.random.default_rng(0).permutation(teacher.index.search(rows=[query], k=400).rows[0])
    teacher.mark(query, rows[Y[rows] == 3][:n_right].tolist(), True)
    teacher.mark(query, rows[Y[rows] != 3][:n_wrong].tolist(), False)
    concept = teacher.concept(query=query)
    if min(n_right, n_wrong) < 8:
        assert concept.calibration is None
        return
    result, P = concept.above(0.2)
    assert not set(result) & {query, *(node.value for node in concept.nodes)}
    assert len(result) > 50
    assert abs(P.mean() - (Y[result] == 3).mean()) < 0.15


def test_rows_of_what_was_taught_are_known_and_others_stay_unknown(model):
    strange, inverted = np.random.default_rng(0).standard_normal((40, 64)) * 30, 16 - X[GALLERY[:200]]
    index = Index.build(model, np.vstack([X[GALLERY[:200]], strange, inverted]))
    teacher = Teacher(index)
    assert (index.model.novelty(np.vstack([strange, inverted])) > 1).all()
    teacher.label(list(range(200, 204)), "noise")
    taught = teacher.learn().index.model
    assert taught.knows_classes
    assert (taught.novelty(strange[:4]) <= 1).all()
    assert (taught.novelty(inverted) > 1).mean() > 0.9


@pytest.fixture(scope="module")
def labelled() -> Index:
    """500 digits under a model of 300 others; every fourth has a label."""
    X, y = load_digits(return_X_y=True)
    learned, gallery = np.split(np.random.default_rng(0).permutation(len(y))[:800], [300])
    model = SimilarityLearner(random_state=0).fit(X[learned], y[learned])
    labels = np.where(np.arange(500) % 4 == 0, y[gallery].astype(str), None)
    built = Index.build(model, X[gallery], {"label": labels})
    built.truth = y[gallery].astype(str)  # type: ignore[attr-defined]
    return built


def test_one_example_is_a_query(labelled: Index) -> None:
    hits = labelled.search(labelled.raw[7:8], k=50)
    ids, expected = hits.ids, hits.probabilities
    result = Confidence.of_set(labelled, labelled.raw[7:8]).probabilities(labelled.rows_of(ids[0])[None])
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_one_example_is_cut_off_where_the_query_is(labelled: Index) -> None:
    for share in (0.05, 0.2, 0.5):
        (expected,) = labelled.search(labelled.raw[7:8], k=None, at_most_wrong=share)
        rows = labelled.search(labelled.raw[7:8], k=None).rows
        assert Confidence.of_set(labelled, labelled.raw[7:8]).n_kept(rows, share) == len(expected.probabilities)


def test_an_example_to_be_unlike_makes_what_is_like_it_less_likely(labelled: Index) -> None:
    rows = np.arange(100)[None]
    plain = Confidence.of_set(labelled, labelled.raw[:1]).probabilities(rows)
    against = Confidence.of_set(labelled, labelled.raw[:1], labelled.raw[1:2]).probabilities(rows)
    assert (against <= plain).all()
    assert against[0, 1] < 0.5


def test_each_row_of_several_queries_is_as_sure_as_alone(labelled: Index) -> None:
    rows = np.arange(40).reshape(4, 10)
    together = Confidence.of_each(labelled, labelled.raw[60:64]).probabilities(rows)
    for i in range(4):
        alone = Confidence.of_set(labelled, labelled.raw[60 + i]).probabilities(rows[[i]])
        np.testing.assert_allclose(together[[i]], alone, rtol=1e-5)


def test_a_label_grows_by_what_belongs_to_it_and_has_none(labelled: Index) -> None:
    truth, result = labelled.truth, grown(Teacher(labelled), "3", 0.1)  # type: ignore[attr-defined]
    others = np.flatnonzero(labelled.labels == "3")
    assert result.rows[: len(others)].tolist() == others.tolist()
    fresh = result.rows[len(others) :]
    assert len(fresh) > len(others)
    assert all(labelled.labels[row] is None for row in fresh)  # type: ignore[index]
    assert (truth[fresh] != "3").mean() < 0.1
    assert result.about_wrong < 0.1 * len(fresh)
    assert set(result.least_sure(5)) <= set(fresh)


def test_what_was_marked_wrong_never_comes_and_labels_of_today_count(labelled: Index) -> None:
    teacher = Teacher(labelled, Feedback())
    others = int(np.flatnonzero(labelled.labels == "3")[0])
    fresh = grown(teacher, "3", 0.1).rows[-5:].tolist()
    teacher.mark(others, fresh[:1], False)
    teacher.label(fresh[1:2], "another")
    teacher.label(fresh[2:3], "3")
    result = grown(teacher, "3", 0.1)
    assert not set(fresh[:2]) & set(result.rows.tolist())
    assert result.probabilities[result.rows == fresh[2]] == 1  # type: ignore[index]


def test_a_set_above_the_cut_off_has_neither_its_examples_nor_what_is_avoided(labelled: Index) -> None:
    inside = np.flatnonzero(labelled.labels == "0")[:3].tolist()
    result = above(labelled, inside, 0.2)
    avoided = result.rows[:2]
    assert not set(inside) & set(result.rows)
    assert not set(avoided) & set(above(labelled, inside, 0.2, avoided=avoided).rows)


def test_without_a_calibration_there_is_a_sentence(labelled: Index) -> None:
    plain = Index.build(Cosine().fit(np.asarray(labelled.raw)), np.asarray(labelled.raw), {"label": labelled.labels})
    with pytest.raises(LikewiseError, match="Cosine has no calibration"):
        grown(Teacher(plain), "3", 0.1)
    assert grown(Teacher(plain), "3").probabilities is None
