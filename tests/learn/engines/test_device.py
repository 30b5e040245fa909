"""SimilarityLearner from torch tensors and array-api-strict arrays: NumPy's model, learned where the rows are."""

from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import normalize
from tests.learn.engines.agreement import (
    ANCHORED,
    CLASSES,
    N,
    anchored_of_the_array,
    assert_same,
    libraries,
    opened,
    rows,
    torch_array,
)

from likewise import SimilarityLearner, open_rows
from likewise.errors import LikewiseError
from likewise.learn.engines import array_api
from likewise.learn.engines.array_api import ArrayEngine, Device
from likewise.learn.maths import kernels, labels, regressions
from likewise.learn.maths.kernels import Scaling, UnitRows
from likewise.utils.arrays import to_host

pytest.importorskip("array_api_compat")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks and tiles, none of them full."""
    monkeypatch.setattr(array_api, "_BLOCK", 150)
    monkeypatch.setattr(array_api, "TILE", (100, 90))


@pytest.fixture
def never_in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit that goes NumPy's way fails."""
    monkeypatch.setattr(SimilarityLearner, "_validated_for_fit", None)


@libraries
@pytest.mark.parametrize("way", [way for way in ANCHORED if way != "unseen classes"])
def test_a_tensor_gives_the_model_of_the_array(make: Any, way: str) -> None:
    X, y = rows(np.float64)
    plain = anchored_of_the_array(way, np.float64, random_state=1)
    model = SimilarityLearner(**ANCHORED[way], random_state=1).fit(opened(way, make(X), y))
    assert model.setting_ == pytest.approx(plain.setting_)
    assert_same(plain, model, X, 1e-8)
    assert (model.n_samples_, model.n_features_in_) == X.shape


@libraries
@pytest.mark.parametrize("way", ["kernel", "all pairs", "few landmarks"])
@pytest.mark.usefixtures("never_in_numpy")
def test_in_float32_too(make: Any, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    model = SimilarityLearner(**ANCHORED[way], random_state=1).fit(make(X), y)
    monkeypatch.undo()
    assert_same(anchored_of_the_array(way, np.float32, random_state=1), model, X, 2e-5)


@pytest.mark.second
def test_classes_that_are_not_seen_too() -> None:
    X, y = rows(np.float64)
    plain, model = (SimilarityLearner(settings={"share": 0.0}).fit(rows_, y) for rows_ in (X, torch_array(X)))
    assert_same(plain, model, X, 1e-8)


@libraries
@pytest.mark.parametrize("way", ["kernel", "all pairs", "posterior"])
def test_weights_mean_repetition_there_too(make: Any, way: str) -> None:
    X, y = rows(np.float64)
    weights = np.random.default_rng(1).integers(0, 3, N).astype(float)
    plain = SimilarityLearner(**ANCHORED[way]).fit(X, y, sample_weight=weights)
    assert_same(plain, SimilarityLearner(**ANCHORED[way]).fit(make(X), y, make(weights)), X, 1e-8)


@libraries
def test_splits_of_ones_own_are_over_all_rows_whatever_is_drawn(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(np.float64)
    weights = np.where(np.arange(N) % 5 == 0, 0.0, 1.0)
    halves = [(np.arange(0, N, 2), np.arange(1, N, 2))]
    options = {"kernel": "linear", "cv": halves, "settings": {"adaptation": 0.0, "geometry": "lda"}}
    plain = SimilarityLearner(**options).fit(X, y, weights)
    assert_same(plain, SimilarityLearner(**options).fit(make(X), y, weights), X, 1e-8)
    monkeypatch.setattr("likewise.learn.similarity.MOST_CHOOSING", 300)
    assert SimilarityLearner(**options).fit(make(X), y, weights).score(X, y) == pytest.approx(
        plain.score(X, y), abs=0.02
    )


@pytest.mark.second
@pytest.mark.usefixtures("never_in_numpy")
def test_blocks_and_not_the_data_set_come_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    seen: list[tuple[int, ...]] = []

    def counted(array: Any) -> Any:
        seen.append(tuple(getattr(array, "shape", ())))
        return to_host(array)

    for module in (regressions, kernels, labels, array_api):
        monkeypatch.setattr(module, "to_host", counted)
    monkeypatch.setattr("likewise.learn.similarity.MOST_CHOOSING", 90)
    monkeypatch.setattr("likewise.learn.similarity.NOVELTY_ROWS", 90)
    monkeypatch.setattr("likewise.learn.similarity.MOST_ROWS", 90)
    monkeypatch.setattr("likewise.learn.maths.regressions.ENOUGH_ROWS", 90)
    monkeypatch.setattr(array_api, "_BLOCK", 150)
    SimilarityLearner("linear", settings={"temperature": "auto", "share": 1.0, "n_anchors": 90}).fit(torch_array(X), y)
    assert len(seen) > 20
    assert max(int(np.prod(shape)) for shape in seen if shape != (N,)) <= 150 * X.shape[1]


@pytest.mark.second
def test_a_device_takes_a_numpy_array_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    X, y = rows()
    moved: list[int] = []
    put = Device.moved

    def counted(self: Device, array: Any) -> Any:
        moved.append(int(np.prod(array.shape)))
        return put(self, array)

    monkeypatch.setattr(Device, "moved", counted)
    options = {**ANCHORED["kernel"], "settings": {**ANCHORED["kernel"]["settings"], "n_anchors": 100}}
    model = SimilarityLearner(**options).fit(open_rows(X, y, device="cpu"))
    assert 0 < max(moved) <= max(150 * X.shape[1], 60 * 60)  # a block, and the basis of the kernel
    assert_same(SimilarityLearner(**options).fit(X, y), model, X, 2e-5)
    with pytest.raises(LikewiseError, match="device is for arrays in memory"):
        SimilarityLearner().fit(open_rows([X], y, device="cpu"))
    with pytest.raises(LikewiseError, match="whitening_width is for arrays in memory"):
        SimilarityLearner(settings={"whitening_width": 2}).fit([X], y)
    with pytest.raises(LikewiseError, match="device='nowhere' is not available: "):
        SimilarityLearner().fit(open_rows(X, y, device="nowhere"))


@libraries
def test_unit_rows_there_are_those_of_numpy_also_where_they_are_short(make: Any) -> None:
    X = np.vstack([rows(np.float32)[0][:5], np.zeros((1, 24)), np.full((1, 24), 1e-9)]).astype(np.float32)
    np.testing.assert_allclose(to_host(Scaling()(make(X))), normalize(X), atol=1e-7)


@libraries
def test_wide_rows_and_reduced_ones_are_learned_in_numpy(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(np.float64)
    monkeypatch.setattr(array_api, "array_labels", None)
    wide = {"kernel": "linear", "scaling": "unit", "settings": {"ridge": 0.1, "adaptation": 0.0}}
    few, y_few = np.ascontiguousarray(X[:20]), np.arange(20) % 2
    assert_same(SimilarityLearner(**wide).fit(few, y_few), SimilarityLearner(**wide).fit(make(few), y_few), X, 1e-12)
    reduced = SimilarityLearner(**{**wide, "settings": {**wide["settings"], "whitening_width": 8}}).fit(make(X), y)
    assert reduced.reduction_ is not None
    assert reduced.reduction_.shape == (8, 24)


@libraries
def test_what_cannot_be_learned_from_is_refused_in_words(make: Any) -> None:
    X, y = rows()
    bad = X.copy()
    bad[3, 4] = np.inf
    with pytest.raises(LikewiseError, match="X contains NaN or infinity"):
        SimilarityLearner().fit(make(bad), y)
    with pytest.raises(LikewiseError, match="X holds zeros alone"):
        SimilarityLearner().fit(make(np.zeros_like(X)), y)
    with pytest.raises(LikewiseError, match="expected one label per row"):
        SimilarityLearner().fit(make(X), y[1:])


@libraries
def test_sums_of_classes_are_numpys_however_many_there_are(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "_SUMMED", 64)
    X, y = rows(np.float64)
    engine = ArrayEngine(make(X), y, CLASSES, np.linspace(0.5, 2, N))
    data = UnitRows(engine)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(data.mean, np.average(unit, axis=0, weights=np.linspace(0.5, 2, N)), atol=1e-12)
    sums = labels.class_sums(make(X[engine.order]), engine.codes, engine.weights, CLASSES)
    np.testing.assert_allclose(sums, engine.class_sums(np.eye(24)), atol=1e-10)
