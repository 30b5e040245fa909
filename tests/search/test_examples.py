"""Queries of several examples: as sure as the pairs they are made of."""

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


@pytest.fixture(scope="module")
def index() -> Index:
    """500 digits under a model of 300 others; every fourth has a label."""
    X, y = load_digits(return_X_y=True)
    learned, gallery = np.split(np.random.default_rng(0).permutation(len(y))[:800], [300])
    model = SimilarityLearner(random_state=0).fit(X[learned], y[learned])
    labels = np.where(np.arange(500) % 4 == 0, y[gallery].astype(str), None)
    made = Index.build(model, X[gallery], {"label": labels})
    made.truth = y[gallery].astype(str)  # type: ignore[attr-defined]
    return made


def test_one_example_is_a_query(index: Index) -> None:
    hits = index.search(index.raw[7:8], k=50)
    ids, expected = hits.ids, hits.probabilities
    found = Confidence.of_set(index, index.raw[7:8]).probabilities(index.rows_of(ids[0])[None])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_one_example_is_cut_off_where_the_query_is(index: Index) -> None:
    for share in (0.05, 0.2, 0.5):
        (expected,) = index.search(index.raw[7:8], k=None, at_most_wrong=share)
        rows = index.search(index.raw[7:8], k=None).rows
        assert Confidence.of_set(index, index.raw[7:8]).n_kept(rows, share) == len(expected.probabilities)


def test_an_example_to_be_unlike_makes_what_is_like_it_less_likely(index: Index) -> None:
    rows = np.arange(100)[None]
    plain = Confidence.of_set(index, index.raw[:1]).probabilities(rows)
    against = Confidence.of_set(index, index.raw[:1], index.raw[1:2]).probabilities(rows)
    assert (against <= plain).all()
    assert against[0, 1] < 0.5


def test_each_row_of_several_queries_is_as_sure_as_alone(index: Index) -> None:
    rows = np.arange(40).reshape(4, 10)
    together = Confidence.of_each(index, index.raw[60:64]).probabilities(rows)
    for i in range(4):
        alone = Confidence.of_set(index, index.raw[60 + i]).probabilities(rows[[i]])
        np.testing.assert_allclose(together[[i]], alone, rtol=1e-5)


def test_a_label_grows_by_what_belongs_to_it_and_has_none(index: Index) -> None:
    truth, found = index.truth, grown(Teacher(index), "3", 0.1)  # type: ignore[attr-defined]
    own = np.flatnonzero(index.labels == "3")
    assert found.rows[: len(own)].tolist() == own.tolist()
    fresh = found.rows[len(own) :]
    assert len(fresh) > len(own)
    assert all(index.labels[row] is None for row in fresh)  # type: ignore[index]
    assert (truth[fresh] != "3").mean() < 0.1
    assert found.about_wrong < 0.1 * len(fresh)
    assert set(found.least_sure(5)) <= set(fresh)


def test_what_was_marked_wrong_never_comes_and_labels_of_today_count(index: Index) -> None:
    teacher = Teacher(index, Feedback())
    own = int(np.flatnonzero(index.labels == "3")[0])
    fresh = grown(teacher, "3", 0.1).rows[-5:].tolist()
    teacher.mark(own, fresh[:1], False)
    teacher.label(fresh[1:2], "another")
    teacher.label(fresh[2:3], "3")
    found = grown(teacher, "3", 0.1)
    assert not set(fresh[:2]) & set(found.rows.tolist())
    assert found.probabilities[found.rows == fresh[2]] == 1  # type: ignore[index]


def test_a_set_above_the_cut_off_has_neither_its_examples_nor_what_is_avoided(index: Index) -> None:
    inside = np.flatnonzero(index.labels == "0")[:3].tolist()
    found = above(index, inside, 0.2)
    avoided = found.rows[:2]
    assert not set(inside) & set(found.rows)
    assert not set(avoided) & set(above(index, inside, 0.2, avoided=avoided).rows)


def test_without_a_calibration_there_is_a_sentence(index: Index) -> None:
    plain = Index.build(Cosine().fit(np.asarray(index.raw)), np.asarray(index.raw), {"label": index.labels})
    with pytest.raises(LikewiseError, match="Cosine has no calibration"):
        grown(Teacher(plain), "3", 0.1)
    assert grown(Teacher(plain), "3").probabilities is None
