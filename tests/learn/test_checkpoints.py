"""A fit that was stopped is resumed from its checkpoint, to the same model; another's checkpoint is refused."""

import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.learn.engines.agreement import ANCHORED, WAYS, N, assert_same, rows
from tests.processes import Python, ran

from likewise import SLR, SimilarityLearner, open_rows
from likewise.errors import LikewiseError
from likewise.learn.model_file import write_tensors


@pytest.mark.parametrize("way", ["all pairs", "the whole matrix", "landmarks", "sample", "fixed, iterated"])
def test_going_on_gives_the_model_of_one_run_of_slr(tmp_path: Path, way: str) -> None:
    X, y = rows(np.float64)
    data = open_rows(X, y, checkpoint=tmp_path / "checkpoint")
    SLR(**{**WAYS[way], "max_iter": 2}).fit(data)
    resumed = SLR(**{**WAYS[way], "max_iter": 5}).fit(data)
    whole = SLR(**{**WAYS[way], "max_iter": 5}).fit(X, y)
    assert_same(whole, resumed, X, 1e-9)
    assert resumed.n_iter_ == len(resumed.history_) == 5
    np.testing.assert_allclose([h["loss"] for h in resumed.history_], [h["loss"] for h in whole.history_], rtol=1e-9)


def test_a_finished_fit_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    first = SLR(rank=6, max_iter=3).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    monkeypatch.setattr("likewise.learn.maths.solvers.AllPairs.step", None)
    again = SLR(rank=6, max_iter=3).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    np.testing.assert_array_equal(first.components_, again.components_)


def test_a_stop_by_tol_stays_a_stop(tmp_path: Path) -> None:
    X, y = rows()
    first = SLR(rank=6, max_iter=20, tol=0.5).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    again = SLR(rank=6, max_iter=20, tol=0.5).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    assert first.n_iter_ == again.n_iter_ < 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank": 5}, "rank was 6 and is 5 now"),
        ({"alpha": 0.5}, "alpha was 0.0 and is 0.5 now"),
        ({"random_state": 8}, "random_state was"),
        ({"max_iter": 1}, "2 iterations are done, and max_iter=1 asks for fewer"),
    ],
)
def test_other_parameters_are_refused_of_slr(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    X, y = rows()
    options: dict[str, Any] = {"rank": 6, "max_iter": 2, "random_state": 7}
    data = open_rows(X, y, checkpoint=tmp_path / "c")
    SLR(**options).fit(data)
    with pytest.raises(LikewiseError, match=message):
        SLR(**{**options, **change}).fit(data)


def test_other_data_is_refused_of_slr(tmp_path: Path) -> None:
    X, y = rows()
    model = SLR(rank=6, max_iter=2).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    one_row = X.copy()
    one_row[int(np.argsort(y, kind="stable")[5])] *= 3
    relabelled = np.where(np.arange(N) == 3, (y + 1) % 9, y)
    for other_X, other_y, message in [
        (X[:-1], y[:-1], "shape of X was"),
        (X, relabelled, "labels was"),
        (-X, y, "sampled rows of X was"),
        (one_row, y, "the rows of X were others"),
    ]:
        with pytest.raises(LikewiseError, match=message):
            model.fit(open_rows(other_X, other_y, checkpoint=tmp_path / "c"))


def test_another_file_is_refused_as_a_checkpoint(tmp_path: Path) -> None:
    X, y = rows()
    write_tensors(tmp_path / "c", {"a": np.ones(3)}, {})
    with pytest.raises(LikewiseError, match="is a likewise file, but not a checkpoint"):
        SLR(rank=6).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    (tmp_path / "c").write_bytes(b"nonsense")
    with pytest.raises(LikewiseError, match="is not a likewise file, or it is truncated"):
        SLR(rank=6).fit(open_rows(X, y, checkpoint=tmp_path / "c"))


QUICK: dict[str, Any] = {
    "kernel": "linear",
    "settings": {"ridge": 0.1, "adaptation": 1.0, "geometry": "lda", "trust": 0.5},
}


def stopped_after(writes: int, monkeypatch: pytest.MonkeyPatch, fit: Any) -> None:
    """Run a fit that is stopped right after it has written its checkpoint so many times."""
    from likewise.learn import checkpoints

    left = [writes]
    write = checkpoints.write_tensors

    def counted(*arguments: Any) -> Path:
        path = write(*arguments)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return path

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "write_tensors", counted)
        with pytest.raises(KeyboardInterrupt):
            fit()


def assert_equal(one: SimilarityLearner, other: SimilarityLearner) -> None:
    """Two models are the same, bit by bit."""
    for name in ("projection_", "offset_", "base_", "landmarks_", "class_means_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.setting_, one.head_) == (other.setting_, other.head_)
    assert one.cv_results_["params"] == other.cv_results_["params"]
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])


@pytest.mark.parametrize("where", ["memory", "disk", "torch"])
def test_going_on_gives_the_model_of_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    X, y = rows()
    np.save(tmp_path / "rows.npy", X)
    options = {**ANCHORED["kernel"], "random_state": 4}
    data: Any = {"memory": X, "disk": tmp_path / "rows.npy"}.get(where)
    data = pytest.importorskip("torch").from_numpy(X) if data is None else data
    model, data = SimilarityLearner(**options), open_rows(data, y, checkpoint=tmp_path / "c")
    stopped_after(1, monkeypatch, lambda: model.fit(data))
    assert_equal(SimilarityLearner(**options).fit(replace(data, checkpoint=None)), model.fit(data))


@pytest.mark.parametrize("way", ["posterior", "all pairs", "few landmarks", "standardised"])
def test_whatever_is_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    X, y = rows(np.float64)
    model, data = SimilarityLearner(**ANCHORED[way]), open_rows(X, y, checkpoint=tmp_path / "c")
    stopped_after(1, monkeypatch, lambda: model.fit(data))
    assert_equal(SimilarityLearner(**ANCHORED[way]).fit(X, y), model.fit(data))


def test_what_was_chosen_is_not_chosen_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    first = SimilarityLearner("linear", settings={"adaptation": 1.0}).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    monkeypatch.setattr("likewise.learn.similarity.choose_setting", None)
    assert_equal(
        first, SimilarityLearner("linear", settings={"adaptation": 1.0}).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    )
    assert len(first.cv_results_["params"]) > 5


@pytest.mark.second
def test_so_for_classes_that_are_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    first = SimilarityLearner(settings={"share": 0.0}).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    monkeypatch.setattr("likewise.learn.similarity.choose_shrinkage_map", None)
    assert_equal(first, SimilarityLearner(settings={"share": 0.0}).fit(open_rows(X, y, checkpoint=tmp_path / "c")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": {**QUICK["settings"], "ridge": 0.2}}, "settings: ridge was 0.1 and is 0.2 now"),
        ({"n_landmarks": 9}, "n_landmarks was None and is 9 now"),
        ({"random_state": 8}, "random_state was"),
        ({"cv": 3}, "cv was None and is 3 now"),
    ],
)
def test_other_parameters_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    X, y = rows()
    options, data = {**QUICK, "random_state": 7}, open_rows(X, y, checkpoint=tmp_path / "c")
    SimilarityLearner(**options).fit(data)
    with pytest.raises(LikewiseError, match=message):
        SimilarityLearner(**{**options, **change}).fit(data)


def test_other_data_is_refused(tmp_path: Path) -> None:
    X, y = rows()
    model = SimilarityLearner(**QUICK).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    one_row = X.copy()
    one_row[int(np.argsort(y, kind="stable")[5])] *= -1
    for other_X, other_y, message in [
        (X[:-1], y[:-1], "shape of X was"),
        (X, np.where(np.arange(N) == 3, (y + 1) % 9, y), "labels was"),
        (-X, y, "sampled rows of X was"),
        (one_row, y, "the rows of X were others"),
    ]:
        with pytest.raises(LikewiseError, match=f"belongs to another fit: {message}"):
            model.fit(open_rows(other_X, other_y, checkpoint=tmp_path / "c"))


def test_the_checkpoint_of_another_method_is_refused(tmp_path: Path) -> None:
    X, y = rows()
    SLR(rank=6, max_iter=1).fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    with pytest.raises(LikewiseError, match="belongs to another fit: method was SLR and is SimilarityLearner now"):
        SimilarityLearner().fit(open_rows(X, y, checkpoint=tmp_path / "c"))
    (tmp_path / "c").write_bytes(b"nonsense")
    with pytest.raises(LikewiseError, match="is not a likewise file, or it is truncated"):
        SimilarityLearner(**QUICK).fit(open_rows(X, y, checkpoint=tmp_path / "c"))


def test_custom_splits_are_compared(tmp_path: Path) -> None:
    from sklearn.model_selection import StratifiedKFold

    X, y = rows()
    halves = [(np.arange(0, N, 2), np.arange(1, N, 2))]
    options, data = (
        {"kernel": "linear", "settings": {"adaptation": 0.0, "geometry": "lda"}},
        open_rows(X, y, checkpoint=tmp_path / "c"),
    )
    SimilarityLearner(**options, cv=halves).fit(data)
    SimilarityLearner(**options, cv=halves).fit(data)
    for other in ([halves[0][::-1]], StratifiedKFold(2)):
        with pytest.raises(LikewiseError, match="belongs to another fit: cv was"):
            SimilarityLearner(**options, cv=other).fit(data)


KILLED = """
import sys
import numpy as np
from likewise import SimilarityLearner, open_rows
folder = sys.argv[1]
model = SimilarityLearner(n_landmarks=200, random_state=5, settings={
    "gamma": 0.7, "ridge": 0.1, "adaptation": 1.0, "geometry": "lda", "n_anchors": None})
y = np.load(folder + "/y.npy")
rows = open_rows(folder + "/rows.npy", y, memory_limit="3MB", checkpoint=folder + "/checkpoint")
print("ready", flush=True)
model.fit(rows).save(folder + "/model.likewise")
"""


@pytest.mark.second
def test_a_fit_from_disk_that_was_killed_again_and_again_ends_with_the_same_model(tmp_path: Path) -> None:
    X, y = rows()
    X, y = np.tile(X, (5, 1)) + np.random.default_rng(0).standard_normal((5 * N, X.shape[1])) / 50, np.tile(y, 5)
    np.save(tmp_path / "rows.npy", X)
    np.save(tmp_path / "y.npy", y)
    words, rng = ["-c", KILLED, tmp_path], np.random.default_rng(0)
    for _ in range(3):
        with Python(*words, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            while not (tmp_path / "checkpoint").exists() and process.poll() is None:
                time.sleep(0.001)
            time.sleep(float(rng.uniform(0, 0.5)))
            process.send_signal(signal.SIGKILL)
    ran(*words, check=True)
    resumed = SimilarityLearner.load(tmp_path / "model.likewise")
    whole = SimilarityLearner(**resumed.get_params()).fit(open_rows(tmp_path / "rows.npy", y, memory_limit="3MB"))
    np.testing.assert_array_equal(resumed.projection_, whole.projection_)
    np.testing.assert_array_equal(resumed.landmarks_, whole.landmarks_)
    assert resumed.setting_ == whole.setting_
