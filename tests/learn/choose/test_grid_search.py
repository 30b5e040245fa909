"""The search over a grid, on held-out training rows only; `cv_results_` as scikit-learn lays it out."""

import json

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import normalize

from likewise.errors import LikewiseError
from likewise.evaluate import mean_average_precision
from likewise.learn.choose.search import CVResults, inner_splits, search_grid
from likewise.rivals import LDA, WithInput
from likewise.rivals.common import compare


def _tried():
    tried = CVResults()
    tried.add({"alpha": 1.0}, [0.5, 0.75], 3.0)
    tried.add({"alpha": 2.0}, [0.75, np.nan], 1.0)
    tried.add({"alpha": 3.0}, [np.nan, np.nan], None)
    return tried


def test_the_columns_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 2)), rng.standard_normal(20)
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 10.0]}, cv=3).fit(X, y)
    theirs, ours = search.cv_results_, CVResults()
    for i, params in enumerate(theirs["params"]):
        ours.add(params, [theirs[f"split{j}_test_score"][i] for j in range(3)], 3 * theirs["mean_fit_time"][i])
    columns = ours.as_dict()
    assert set(columns) <= set(theirs)
    assert columns["params"] == theirs["params"]
    for name in set(columns) - {"params"}:
        np.testing.assert_allclose(columns[name], theirs[name], rtol=1e-12)
    assert ours.best_params == search.best_params_


def test_a_split_without_anything_to_score_is_left_out_of_the_mean():
    columns = _tried().as_dict()
    np.testing.assert_array_equal(columns["mean_test_score"], [0.625, 0.75, np.nan])
    np.testing.assert_array_equal(columns["rank_test_score"], [2, 1, 3])
    np.testing.assert_array_equal(columns["split1_test_score"], [0.75, np.nan, np.nan])
    np.testing.assert_array_equal(columns["mean_fit_time"], [1.5, 0.5, np.nan])


def test_settings_tried_on_fewer_splits_and_without_times():
    tried = CVResults()
    tried.add({"a": 1}, [0.5])
    tried.add({"a": 2}, [])
    columns = tried.as_dict()
    np.testing.assert_array_equal(columns["split0_test_score"], [0.5, np.nan])
    assert "mean_fit_time" not in columns
    assert (tried.scores({"a": 1}), tried.scores({"a": 2}), tried.scores({"a": 3})) == ([0.5], [], None)


def test_nothing_scored_takes_the_first_setting():
    tried = CVResults()
    tried.add({"a": 1}, [])
    tried.add({"a": 2}, [np.nan])
    assert tried.best_params == {"a": 1}
    assert tried.as_dict()["rank_test_score"].tolist() == [1, 1]


def test_the_records_go_through_json():
    tried = _tried()
    again = CVResults(json.loads(json.dumps(tried.records)))
    np.testing.assert_equal(again.as_dict(), tried.as_dict())


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
