"""SimilarityLearner from rows that are not in memory: the model of the array."""

from pathlib import Path

import numpy as np
import pytest
from tests.learn.engines.agreement import ANCHORED, CLASSES, N, anchored_of_the_array, assert_same, opened, rows

from likewise import SimilarityLearner, open_rows
from likewise.errors import LikewiseError
from likewise.learn.engines.disk import DiskEngine
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.kernels import UnitRows, sample
from likewise.learn.similarity import MOST_CHOOSING
from likewise.rows.sources import NpyFile


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read in blocks of 10 kB, and projections go to a file."""
    monkeypatch.setattr("likewise.learn.engines.disk._LARGEST_BLOCK", 10_000)


@pytest.mark.parametrize(
    ("way", "dtype"),
    [
        *((way, np.float32) for way in ANCHORED if way != "unseen classes"),
        *(
            pytest.param(way, np.float64, marks=pytest.mark.second)
            for way in ("kernel", "all pairs", "posterior", "unseen classes")
        ),
    ],
)
def test_a_file_gives_the_model_of_the_array(tmp_path: Path, way: str, dtype: type) -> None:
    X, y = rows(dtype)
    np.save(tmp_path / "rows.npy", X)
    plain = anchored_of_the_array(way, dtype, random_state=1)
    model = SimilarityLearner(**ANCHORED[way], random_state=1).fit(opened(way, tmp_path / "rows.npy", y))
    assert model.setting_ == pytest.approx(plain.setting_)
    assert_same(plain, model, X, 1e-5 if dtype == np.float32 else 1e-8)
    assert model.n_samples_ == N


@pytest.mark.parametrize("way", ["kernel", "all pairs", pytest.param("unseen classes", marks=pytest.mark.second)])
def test_weights_mean_repetition_there_too(tmp_path: Path, way: str) -> None:
    X, y = rows(np.float64)
    weights = np.random.default_rng(1).integers(0, 3, N).astype(float)
    np.save(tmp_path / "rows.npy", X)
    plain = SimilarityLearner(**ANCHORED[way]).fit(X, y, sample_weight=weights)
    assert_same(plain, SimilarityLearner(**ANCHORED[way]).fit(tmp_path / "rows.npy", y, weights), X, 1e-8)


def test_columns_with_two_sums_survive_the_way_through_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(np.float64)
    np.save(tmp_path / "rows.npy", X)
    monkeypatch.setattr("likewise.learn.engines.disk.merged_columns", None)
    monkeypatch.setattr(SimilarityLearner, "_choosing_rows", lambda self, rows: N)  # the same choice as in memory
    limit = "130kB"
    options = {**ANCHORED["all pairs"], "scaling": "unit"}
    options["settings"] = {**options["settings"], "trust": 0.5}
    model = SimilarityLearner(**options).fit(open_rows(tmp_path / "rows.npy", y, memory_limit=limit))
    assert_same(SimilarityLearner(**options).fit(X, y), model, X, 1e-8)


def test_settings_are_chosen_on_a_sample_of_every_class(tmp_path: Path) -> None:
    X, y = rows()
    np.save(tmp_path / "rows.npy", X)
    engine = DiskEngine(NpyFile.open(tmp_path / "rows.npy"), y.astype(np.int32), CLASSES)
    drawn, places = sample(engine, 200, np.random.default_rng(0))
    assert 190 <= len(drawn.codes) <= 210
    share = np.bincount(drawn.codes) / np.bincount(y)
    assert np.all(np.abs(share - 200 / N) < 0.02)
    assert np.all(np.diff(places) > 0)
    np.testing.assert_array_equal(X[engine.order[places]], drawn.X)
    np.testing.assert_array_equal(y[engine.order[places]], drawn.row_codes)
    model, few = SimilarityLearner(kernel="linear"), open_rows(tmp_path / "rows.npy", y, memory_limit="130kB")
    assert model._choosing_rows(few) == 130_000 // (40 * 24)
    assert model.fit(few).score(X, y) == pytest.approx(
        SimilarityLearner(kernel="linear").fit(X, y).score(X, y), abs=0.02
    )
    many = open_rows(tmp_path / "rows.npy", y, memory_limit="1TB")
    assert model._choosing_rows(many) == MOST_CHOOSING


def test_the_memory_engine_answers_the_same_questions() -> None:
    X, y = rows(np.float64)
    data = UnitRows(MemoryEngine(X, y, CLASSES))
    np.testing.assert_allclose(data.mean, (X / np.linalg.norm(X, axis=1, keepdims=True)).mean(axis=0), atol=1e-12)


def test_rows_of_zeros_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((N, 5)))
    with pytest.raises(LikewiseError, match="X holds zeros alone"):
        SimilarityLearner().fit(tmp_path / "rows.npy", np.arange(N) % 3)


def test_the_scaling_is_chosen_there_too(tmp_path: Path) -> None:
    X, y = rows(np.float64)
    X = X * 10.0 ** np.random.default_rng(0).uniform(-3, 3, X.shape[1]) + 5
    np.save(tmp_path / "rows.npy", X)
    plain = SimilarityLearner("linear", settings={"ridge": 0.1}).fit(X, y)
    model = SimilarityLearner("linear", settings={"ridge": 0.1}).fit(tmp_path / "rows.npy", y)
    assert plain.setting_["scaling"] == model.setting_["scaling"] == "standard"
    assert_same(plain, model, X, 1e-8)
