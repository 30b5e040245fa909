"""`cv_results_` as scikit-learn lays it out."""

import json

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

from likewise.selection.results import CVResults


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
    np.testing.assert_allclose(ours.best_score, search.best_score_)


def test_a_split_without_anything_to_score_is_left_out_of_the_mean():
    columns = _tried().as_dict()
    np.testing.assert_array_equal(columns["mean_test_score"], [0.625, 0.75, np.nan])
    np.testing.assert_array_equal(columns["rank_test_score"], [2, 1, 3])
    np.testing.assert_array_equal(columns["split1_test_score"], [0.75, np.nan, np.nan])
    np.testing.assert_array_equal(columns["mean_fit_time"], [1.5, 0.5, np.nan])


def test_settings_tried_on_fewer_splits_and_without_times():
    tried = CVResults()
    assert tried.add({"a": 1}, [0.5]) == 0.5
    tried.add({"a": 2}, [])
    columns = tried.as_dict()
    np.testing.assert_array_equal(columns["split0_test_score"], [0.5, np.nan])
    assert "mean_fit_time" not in columns
    assert tried.score({"a": 1}) == 0.5
    assert np.isnan(tried.score({"a": 2}))
    assert tried.score({"a": 3}) is None


def test_nothing_scored_takes_the_first_setting():
    tried = CVResults()
    tried.add({"a": 1}, [])
    tried.add({"a": 2}, [np.nan])
    assert tried.best_params == {"a": 1}
    assert np.isnan(tried.best_score)
    assert tried.as_dict()["rank_test_score"].tolist() == [1, 1]


def test_the_records_go_through_json():
    tried = _tried()
    again = CVResults(json.loads(json.dumps(tried.records)))
    np.testing.assert_equal(again.as_dict(), tried.as_dict())
