"""The Dask engine on a real cluster of two processes: the memory engine's model, also when a worker dies."""

import os
import pickle
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.learn.engines.agreement import ANCHORED, CLASSES, WAYS, D, N, assert_same, opened, rows, slr_of_the_array
from tests.learn.test_checkpoints import stopped_after
from tests.processes import ready_to_fork

from likewise import SLR, SimilarityLearner, open_rows
from likewise.errors import LikewiseError
from likewise.learn.engines.dask import DaskEngine, blocks_at_a_time
from likewise.learn.maths.labels import LabelTarget

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
pytestmark = pytest.mark.second


@contextmanager
def _cluster(n_workers: int = 2, processes: bool = True) -> Iterator[Any]:
    """Workers with one thread each, forked from a process that has imported the library."""
    ready_to_fork()
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=processes, dashboard_address=None, memory_limit="2GB"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """The cluster of the module."""
    with _cluster() as client:
        yield client


@pytest.fixture
def mortal() -> Iterator[Any]:
    """A cluster of its own for a test that kills a worker: on a busy machine a dead one need not come back."""
    with _cluster() as client:
        yield client


@pytest.mark.parametrize("way", WAYS)
def test_a_dask_array_gives_the_model_of_the_array(client: Any, way: str) -> None:
    X, y = rows()
    on_cluster = SLR(**WAYS[way]).fit(da.from_array(X, chunks=(150, D)), y)
    assert_same(slr_of_the_array(way), on_cluster, X)
    assert on_cluster.n_features_in_ == D


@pytest.mark.parametrize(
    "way",
    ["kernel", "all pairs", "posterior", "standardised", "unseen classes", "exact kernel", "as many landmarks as fit"],
)
def test_the_anchored_model_runs_there_too(client: Any, way: str) -> None:
    X, y = rows()
    y = y % 3 if way == "unseen classes" else y  # fewer than four classes leave nothing to choose, which takes long
    model = SimilarityLearner(**ANCHORED[way]).fit(opened(way, da.from_array(X, chunks=(150, D)), y))
    assert_same(SimilarityLearner(**ANCHORED[way]).fit(opened(way, X, y)), model, X)


def test_float64_and_weights_agree_closely(client: Any) -> None:
    X, y = rows(np.float64)
    weights = np.random.default_rng(1).integers(0, 4, N).astype(float)
    weights[0] = 0.0  # the whole first chunk
    chunked = da.from_array(X, chunks=((1, 299, 400), (10, 14)))
    for way in ("all pairs", "landmarks", "sample"):
        on_cluster = SLR(**WAYS[way]).fit(chunked, da.from_array(y, chunks=100), sample_weight=weights)
        assert_same(SLR(**WAYS[way]).fit(X, y, sample_weight=weights), on_cluster, X, 1e-9)


def test_chunks_of_unknown_size_are_measured(client: Any) -> None:
    X, y = rows()
    chunked = da.from_array(X, chunks=(200, D))
    few = chunked[da.from_array(y < 5, chunks=200)]
    assert_same(SLR(rank=6, max_iter=1).fit(X[y < 5], y[y < 5]), SLR(rank=6, max_iter=1).fit(few, y[y < 5]), X)


def test_columns_are_met_in_groups_that_a_worker_can_hold(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(np.float64)
    monkeypatch.setattr("likewise.learn.engines.dask._GROUP_BYTES", 20_000)
    model = SLR(rank=6, max_iter=1).fit(da.from_array(X, chunks=(150, D)), y)
    assert_same(SLR(rank=6, max_iter=1).fit(X, y), model, X, 1e-9)


def _engine(X: np.ndarray, y: np.ndarray, chunk: int = 100) -> Any:
    from likewise.learn.engines.dask import DaskEngine

    return DaskEngine(da.from_array(X, chunks=(chunk, D)), y.astype(np.int32), CLASSES)


@pytest.mark.parametrize("columns", ["all rows", "landmarks"])
def test_a_worker_that_dies_in_a_pass_does_not_change_the_sums(mortal: Any, columns: str) -> None:
    X, y = rows()
    L = np.random.default_rng(0).standard_normal((D, 5)).astype(np.float32)
    engine, target = _engine(X, y), LabelTarget(1.0, 0.0)
    marks = engine.take(np.arange(0, N, 5))
    before = engine.sweep(L, _gallery(engine, marks, L, columns), target)
    pids, done = list(mortal.run(os.getpid).values()), []

    def kill_one() -> None:
        done.append(1)
        if len(done) == 2:
            os.kill(pids[0], signal.SIGKILL)

    gallery = _gallery(engine, marks, L, columns)
    engine.on_block = kill_one
    total, loss = engine.sweep(L, gallery, target)
    assert len(done) == engine.n_blocks
    # A block that is lost or counted twice is a seventh of the sum; another worker's memory is aligned otherwise.
    np.testing.assert_allclose(total, before[0], rtol=0, atol=1e-5 * np.abs(total).max())
    assert loss == pytest.approx(before[1], rel=1e-5)
    assert pids[0] not in mortal.run(os.getpid).values()


def _gallery(engine: Any, marks: Any, L: np.ndarray, columns: str) -> Any:
    return engine.gallery(L) if columns == "all rows" else marks.gallery(L)


def test_a_fit_survives_the_death_of_a_worker(mortal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from likewise.learn.engines.dask import DaskEngine

    X, y = rows()
    pids, passes, plain = list(mortal.run(os.getpid).values()), [], DaskEngine.sweep

    def deadly(self: Any, *arguments: Any, **options: Any) -> Any:
        passes.append(1)
        if len(passes) == 2:
            os.kill(pids[0], signal.SIGKILL)
        return plain(self, *arguments, **options)

    monkeypatch.setattr(DaskEngine, "sweep", deadly)
    model = SLR(**WAYS["landmarks"]).fit(da.from_array(X, chunks=(100, D)), y)
    assert len(passes) == 4
    assert_same(slr_of_the_array("landmarks"), model, X)
    assert pids[0] not in mortal.run(os.getpid).values()


def test_a_worker_may_join_in_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    from likewise.learn.engines.dask import DaskEngine

    X, y = rows()
    passes, plain = [], DaskEngine.sweep

    with _cluster(3, processes=False) as client:  # which start at once

        def joined(self: Any, *arguments: Any, **options: Any) -> Any:
            passes.append(1)
            if len(passes) == 2:
                client.cluster.scale(4)
                client.wait_for_workers(4, timeout=120)
            return plain(self, *arguments, **options)

        monkeypatch.setattr(DaskEngine, "sweep", joined)
        model = SLR(**WAYS["landmarks"]).fit(da.from_array(X, chunks=(60, D)), y)
        assert len(client.nthreads()) == 4
        assert len(passes) > 2
        assert_same(slr_of_the_array("landmarks"), model, X)


def test_an_anchored_fit_that_was_stopped_goes_on_there(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = rows()
    chunked = da.from_array(X, chunks=(150, D))
    fixed = {**ANCHORED["kernel"]["settings"], "share": 0.9}  # little is left to choose
    options: dict[str, Any] = {"n_landmarks": 60, "scaling": "unit", "settings": fixed}
    model, data = SimilarityLearner(**options), open_rows(chunked, y, checkpoint=tmp_path / "c")
    stopped_after(1, monkeypatch, lambda: model.fit(data))
    whole = SimilarityLearner(**options).fit(X, y)
    monkeypatch.setattr("likewise.learn.similarity.choose_setting", None)  # chosen before
    assert_same(whole, model.fit(data), X)


def _received(client: Any) -> dict[Any, int]:
    """How many times a worker has got each key from another."""
    logs = client.run(lambda dask_worker: [key for entry in dask_worker.transfer_incoming_log for key in entry["keys"]])
    return Counter(key for log in logs.values() for key in log)


def test_what_travels_in_a_pass_is_what_the_formula_says(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The factors and the columns once to each other worker, fewer sums than blocks, and rows to an idle worker."""
    X, y = rows()
    X = np.tile(X, (8, 1))
    engine = _engine(X, np.tile(y, 8), chunk=800)
    r, m, target = 16, 400, LabelTarget(1.0, 0.0)
    L = np.random.default_rng(0).standard_normal((D, r)).astype(np.float32)
    marks = engine.take(np.sort(np.random.default_rng(0).permutation(len(X))[:m])).gallery(L)
    gallery = engine.gallery(L)
    distributed.wait([*engine._blocks, *gallery.groups])
    by_key: dict[Any, Any] = {}
    plain = type(engine)._submit

    def noted(self: Any, *arguments: Any) -> Any:
        future = plain(self, *arguments)
        by_key[future.key] = future  # kept, so that it can be weighed
        return future

    for columns, width in [(marks, m), (gallery, len(X))]:
        by_key.clear()
        before = _received(client)
        monkeypatch.setattr(type(engine), "_submit", noted)
        engine.sweep(L, columns, target)
        monkeypatch.setattr(type(engine), "_submit", plain)
        futures = {**by_key, **{future.key: future for future in getattr(columns, "groups", [])}}
        got = {key: n - before[key] for key, n in _received(client).items() if n > before[key]}
        assert set(got) <= {*futures, *(block.key for block in engine._blocks)}
        sent = sum(n * len(pickle.dumps(futures[key].result(), 5)) for key, n in got.items() if key in futures)
        envelopes = 500 * (2 * engine.n_blocks + 3)
        assert sent <= 4 * r * (D + width) + 8 * D * r * (engine.n_blocks + 2) + envelopes


def test_sums_larger_than_a_block_are_added_up_over_blocks_first(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(np.float64)
    way, options = "as many landmarks as fit", ANCHORED["as many landmarks as fit"]
    plain = SimilarityLearner(**options).fit(opened(way, X, y))
    monkeypatch.setattr("likewise.learn.engines.dask._BLOCK_BYTES", 140_000)  # the sums of 193 landmarks are twice that
    sizes: list[int] = []
    submit = DaskEngine._submit

    def noted(self: Any, function: Any, *arguments: Any) -> Any:
        sizes.append(len(arguments) - 1 if function.__name__ == "_sums" else 0)
        return submit(self, function, *arguments)

    monkeypatch.setattr(DaskEngine, "_submit", noted)
    assert_same(plain, SimilarityLearner(**options).fit(opened(way, da.from_array(X, chunks=(100, D)), y)), X, 1e-8)
    assert set(sizes) == {0, 1, 2}
    assert blocks_at_a_time(object()) == 1


def test_workers_read_a_file_themselves(client: Any, tmp_path: Path) -> None:
    from likewise.learn.engines.dask import dask_rows

    X, y = rows()
    np.save(tmp_path / "rows.npy", X)
    chunked = dask_rows(tmp_path / "rows.npy")
    assert chunked.numblocks[0] == 8
    assert_same(SLR(rank=6, max_iter=1).fit(X, y), SLR(rank=6, max_iter=1).fit(chunked, y), X)


def test_the_command_line_learns_on_a_cluster(client: Any, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from likewise.cli import app
    from likewise.rows import FeatureStore

    X, y = rows()
    store = FeatureStore.write(tmp_path / "x.features", X, ["" if i % 9 == 0 else str(c) for i, c in enumerate(y)])
    few, words = (
        np.arange(N) % 9 != 0,
        ["--method", "slr", "--rank", "6", "--max-iter", "1", "-o", str(tmp_path / "m")],
    )
    result = CliRunner().invoke(app, ["fit", str(store.path), "--dask", client.scheduler.address, *words])
    assert result.exit_code == 0, result.stderr
    assert "78 of 700 rows have no label and are left out" in result.stderr
    model = SLR.load(tmp_path / "m")
    assert model.classes_.tolist() == sorted(set(y.tolist()))
    assert_same(SLR(rank=6, max_iter=1).fit(X[few], y[few]), model, X)
    nobody = CliRunner().invoke(app, ["fit", str(store.path), "--dask", "nonsense://nowhere", *words])
    assert nobody.exit_code == 2
    assert "no Dask scheduler answers at 'nonsense://nowhere'" in nobody.stderr


def test_a_value_that_is_not_finite_is_named_by_its_row(client: Any) -> None:
    X, y = rows()
    X[431, 7] = np.inf
    with pytest.raises(LikewiseError, match="X: row 431 holds NaN or infinity"):
        SLR(rank=6).fit(da.from_array(X, chunks=(150, D)), y)
