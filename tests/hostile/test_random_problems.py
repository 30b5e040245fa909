"""Some of the random problems; `python -m tests.hostile.random_problems 5000` goes through more."""

from __future__ import annotations

import pytest

from tests.hostile.random_problems import ESTIMATORS, outcome, problem


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n", [2, pytest.param(10, marks=pytest.mark.second)])
def test_a_random_problem_ends_in_a_sentence_or_in_a_finite_result(n: int, estimator: str) -> None:
    first = list(ESTIMATORS).index(estimator)
    numbers = range(first, first + n * len(ESTIMATORS), len(ESTIMATORS))
    wrong = {number: outcome(number)[1] for number in numbers}
    assert {number: (problem(number).how, fault) for number, fault in wrong.items() if fault is not None} == {}


def test_the_problems_are_of_both_kinds() -> None:
    quick = list(ESTIMATORS).index("ridge")
    ends = {outcome(number)[0] for number in range(quick, quick + 20 * len(ESTIMATORS), len(ESTIMATORS))}
    assert ends == {"sentence", "finite"}
