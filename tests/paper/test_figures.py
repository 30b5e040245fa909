"""SLR watched while it iterates."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.paper import variant
from likewise.paper.figures import watched

Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@pytest.mark.parametrize("parameters", [{"rank": 12}, {"rank": None}, {"rank": 12, "adaptive": False}])
def test_each_iterate_is_the_model_of_a_shorter_fit(digits: Digits, parameters: dict[str, object]) -> None:
    X, y, Q, _ = digits
    model = variant("SLR", max_iter=4, random_state=3, **parameters)
    steps = [step.similarity(Q[:50]).copy() for step in watched(model).fit(X[:300], y[:300]).after_each_iteration()]
    assert len(steps) == 4
    for t, scores in enumerate(steps, start=1):
        shorter = variant("SLR", max_iter=t, random_state=3, **parameters).fit(X[:300], y[:300])
        np.testing.assert_allclose(scores, shorter.similarity(Q[:50]), rtol=1e-8, atol=1e-8 * np.abs(scores).max())


def test_the_closed_form_has_no_iterates(digits: Digits) -> None:
    X, y, _, _ = digits
    assert not list(watched(variant("SLR-Whole")).fit(X, y).after_each_iteration())
