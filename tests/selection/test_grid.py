"""The search over a grid: on held-out training rows only, and never without a result."""

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from likewise.baselines import LDA, WithInput
from likewise.baselines.common import compare
from likewise.errors import LikewiseError
from likewise.metrics import mean_average_precision
from likewise.selection.grid import search_grid
from likewise.selection.holdout import inner_splits


def _two_columns():
    """A column that tells the classes and one that is noise."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 20)
    return np.hstack([y[:, None] + 0.1 * rng.standard_normal((60, 1)), 10 * rng.standard_normal((60, 1))]), y


def test_the_best_setting_is_that_of_the_highest_held_out_map():
    X, y = _two_columns()
    seen = []

    def prepare(X_train, y_train):
        seen.append(len(X_train))
        return lambda params: lambda rows: compare(rows[:, [params["column"]]], "distance")

    results = search_grid([{"column": 1}, {"column": 0}], prepare, X, y)
    assert results.best_params == {"column": 0}
    assert seen == [42]
    (split,) = inner_splits(y, np.random.default_rng(0))
    expected = mean_average_precision(*compare(X[split.held][:, [0]], "distance"), y[split.held])
    tried = results.as_dict()
    assert tried["mean_test_score"][1] == tried["split0_test_score"][1] == expected
    assert (tried["mean_fit_time"] > 0).all()


def test_choosing_by_class_scores_on_classes_not_learned_from():
    X, y = np.random.default_rng(0).standard_normal((60, 3)), np.repeat(np.arange(6), 10)
    X[:, 0] = y
    learned = []

    def prepare(rows, codes):
        learned.append(set(rows[:, 0]))
        assert set(codes) == set(range(len(learned[-1])))

        def candidate(params):
            def sides(rows):
                assert not set(rows[:, 0]) & learned[-1]
                Z = normalize(np.column_stack([rows[:, params["column"]] - 2.5, np.ones(len(rows))]))
                return Z, Z

            return sides

        return candidate

    results = search_grid([{"column": 1}, {"column": 0}], prepare, X, y, 0, "classes")
    assert results.best_params == {"column": 0}
    tried = results.as_dict()
    assert tried["mean_test_score"][1] == pytest.approx(1.0)
    assert len(learned) == 8
    assert [name for name in tried if name.startswith("split")] == [f"split{i}_test_score" for i in range(8)]


def test_one_setting_is_not_searched():
    results = search_grid([{"C": 1}], lambda X, y: 1 / 0, np.eye(4), np.arange(4))
    assert results.best_params == {"C": 1}
    tried = results.as_dict()
    assert tried["params"] == [{"C": 1}]
    assert np.isnan(tried["mean_test_score"]).all()
    assert "split0_test_score" not in tried


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LDA(grid=()), "grid is empty: expected at least one value of shrinkage to try"),
        (LDA(grid=(0.1, 1.5)), r"grid holds 1.5: expected values of shrinkage, each a float in the range \[0.0, 1.0\]"),
        (LDA(grid=("high",)), "grid holds 'high': expected values of shrinkage"),
        (WithInput(weights=(-1,)), "weights holds -1: expected values of weight"),
    ],
    ids=str,
)
def test_a_grid_of_nonsense_gets_a_sentence(model, message):
    with pytest.raises(LikewiseError, match=message):
        model.fit(*_two_columns())
