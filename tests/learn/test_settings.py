"""`settings=`: what is given is not chosen, and what was chosen refits the same map."""

import numpy as np
import pytest
from tests.planted import planted

from likewise import SimilarityLearner
from likewise.errors import LikewiseError

X, Y = planted(240, 12, 6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": "linear"},
        {"kernel": "rbf"},
        {"kernel": "rbf", "n_landmarks": 40},
        {"kernel": "rbf", "settings": {"adaptation": 1.0}},
        {"settings": {"temperature": "auto"}},
        {"settings": {"share": 0.0}},
        {"scaling": "standard"},
    ],
    ids=str,
)
@pytest.mark.parametrize("classes", [2, 6])
def test_settings_that_were_chosen_refit_the_same_map_without_a_search(options, classes):
    rows = classes > Y
    first = SimilarityLearner(**options).fit(X[rows], Y[rows])
    again = SimilarityLearner(**{**options, "settings": first.setting_}).fit(X[rows], Y[rows])
    assert again.setting_ == first.setting_
    np.testing.assert_allclose(again.transform(X), first.transform(X), atol=1e-9)
    tried = [{name: value for name, value in one.items() if name != "rows"} for one in again.cv_results_["params"]]
    assert len({str(one) for one in tried}) <= 6


def test_sizes_are_settings_that_are_not_chosen():
    model = SimilarityLearner("linear", scaling="unit", settings={"n_anchors": 30, "raw_width": 3, "share": 0.9}).fit(
        X, Y
    )
    assert model.base_.shape == (12, 3)
    assert "n_anchors" not in model.setting_
    reduced = SimilarityLearner("linear", scaling="unit", settings={"whitening_width": 5}).fit(X, Y)
    assert reduced.reduction_.shape == (5, 12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"settings": {"width": 1.0}}, r"settings=\{'width': 1.0\}: expected one of gamma, ridge, geometry"),
        ({"settings": {"ridge": 0.0}}, r"settings=\{'ridge': 0.0\}: expected a float in the range \(0.0, inf\)"),
        ({"settings": {"n_anchors": 0}}, r"settings=\{'n_anchors': 0\}: expected an int in the range"),
        ({"settings": {"raw_weight": 1.0}}, "expected one of gamma, ridge, .* scaling, share, shrink, spread, power"),
    ],
)
def test_a_setting_that_is_not_known_or_not_valid_is_refused(options, message):
    with pytest.raises(LikewiseError, match=message):
        SimilarityLearner(**options).fit(X, Y)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_width_of_vectors_is_what_was_asked_for_and_leading_directions_keep_the_neighbours(kernel):
    whole = SimilarityLearner(kernel).fit(X, Y)
    width = whole.transform(X).shape[1]
    recalls = []
    for n_components in (2, width - 1, width + 3):
        model = SimilarityLearner(kernel, n_components=n_components, settings=whole.setting_).fit(X, Y)
        Z = model.transform(X)
        assert Z.shape == (len(X), n_components)
        np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1, rtol=1e-6)
        assert model.identity != whole.identity
        recalls.append(model.recall_)
    np.testing.assert_allclose(Z @ Z.T, whole.transform(X) @ whole.transform(X).T, atol=1e-6)
    assert recalls[0] < recalls[1] <= recalls[2]
    assert recalls[2] > 0.999


def test_the_width_stays_where_a_gallery_has_new_classes_and_in_onnx():
    import onnxruntime

    known = Y < 4
    gallery = np.vstack([X + 1e-3, X - 1e-3])
    model = SimilarityLearner(n_components=7).fit(X[known], Y[known]).for_gallery(gallery, 0.3)
    assert model.taught_share is not None
    assert model.transform(X).shape == model.closed.transform(X).shape == (len(X), 7)
    graph = onnxruntime.InferenceSession(model.to_onnx(), providers=["CPUExecutionProvider"])
    (Z,) = graph.run(["query"], {graph.get_inputs()[0].name: X.astype(np.float32)})
    np.testing.assert_allclose(Z, model.transform(X), atol=1e-4)
