"""Passes in torch and in array-api-strict give NumPy's models, moving blocks and not the data set."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from tests.learn.engines.agreement import WAYS, assert_same, libraries, rows, strict_array

from likewise import SLR, RelevanceLearner, open_rows
from likewise.errors import LikewiseError
from likewise.learn.engines import array_api
from likewise.learn.engines.array_api import ArrayEngine, Device
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.labels import LabelTarget
from likewise.rows import Relevance
from likewise.utils.arrays import to_host

pytest.importorskip("array_api_compat")


@libraries
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_fit_gives_the_model_of_numpy(make, way, monkeypatch):
    monkeypatch.setattr(array_api, "TILE", (100, 90))  # several tiles, none of them full
    X, y = rows()
    assert_same(SLR(**WAYS[way]).fit(X, y), SLR(**WAYS[way]).fit(make(X), y), X, 2e-5)


@libraries
def test_in_float64_they_agree_to_rounding_and_so_does_the_loss(make):
    X, y = rows(np.float64)
    numpy, other = SLR(8, max_iter=3).fit(X, y), SLR(8, max_iter=3).fit(make(X), y)
    assert_same(numpy, other, X, 1e-12)
    assert other.history_[-1]["loss"] == pytest.approx(numpy.history_[-1]["loss"], rel=1e-12)
    assert other.components_.dtype == np.float64
    assert (other.n_samples_, other.n_features_in_) == X.shape


@libraries
def test_weights_count_as_repetition(make):
    X, y = rows(np.float64)
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    for parameters in (
        {"max_iter": 2},
        {"max_iter": 2, "compress": "landmarks", "compress_size": 200},
        {"adaptive": False},
    ):
        numpy = SLR(8, **parameters).fit(X, y, weights)
        assert_same(numpy, SLR(8, **parameters).fit(make(X), y, make(weights)), X, 1e-10)


@libraries
def test_a_sweep_and_its_sums_are_those_of_the_memory_engine(make):
    X, y = rows(np.float64)
    here, there = MemoryEngine(X, y, 9), ArrayEngine(make(X), y, 9)
    L, R = np.random.default_rng(0).standard_normal((2, X.shape[1], 3))
    gallery = here.gallery(R)
    np.testing.assert_allclose(there.gallery(R).G, gallery.G, atol=1e-12)
    np.testing.assert_allclose(there.class_sums(L), here.class_sums(L), atol=1e-10)
    for target in (LabelTarget(0.9, 0.3), LabelTarget(adaptive=False)):
        expected, swept = (e.sweep(L, gallery, target) for e in (here, there))
        np.testing.assert_allclose(swept[0], expected[0], atol=1e-8)
        assert swept[1] == pytest.approx(expected[1], rel=1e-10)
    balanced = LabelTarget(0.9, 0.3, same_weight=np.linspace(0.5, 2, 9))
    expected, swept = (e.sweep(L, gallery, balanced) for e in (here, there))
    np.testing.assert_allclose(swept[0], expected[0], atol=1e-8)


@pytest.mark.second
def test_labels_may_be_a_tensor_and_the_rows_of_any_number_type():
    torch = pytest.importorskip("torch")
    X, y = rows()
    plain = SLR(8, max_iter=1).fit(np.rint(4 * X), y)
    assert_same(
        plain, SLR(8, max_iter=1).fit(torch.from_numpy(np.rint(4 * X).astype(np.int16)), torch.from_numpy(y)), X
    )
    learned = torch.nn.Parameter(torch.from_numpy(X))
    assert_same(SLR(8, max_iter=1).fit(X, y), SLR(8, max_iter=1).fit(learned, y), X)


@pytest.mark.second
def test_a_device_takes_a_numpy_array_in_blocks(monkeypatch):
    torch = pytest.importorskip("torch")
    X, y = rows()
    moved: list[int] = []
    put = Device.moved

    def counted(self, array):
        moved.append(int(np.prod(array.shape)))
        return put(self, array)

    monkeypatch.setattr(Device, "moved", counted)
    monkeypatch.setattr(array_api, "TILE", (64, 64))
    monkeypatch.setattr(array_api, "_BLOCK", 64)
    model = SLR(8, max_iter=1).fit(open_rows(X, y, device="cpu"))
    assert max(moved) <= max(64 * X.shape[1], X.shape[0] * 8, X.shape[1] ** 2)
    assert_same(SLR(8, max_iter=1).fit(X, y), model, X)
    if not torch.cuda.is_available():
        with pytest.raises(LikewiseError, match="device='cuda' is not available: "):
            SLR().fit(open_rows(X, y, device="cuda"))


@libraries
def test_both_sides_of_a_foreign_array_are_numpy(make):
    X, y = rows()
    model = SLR(8, max_iter=1).fit(make(X), y)
    expected = SLR(8, max_iter=1).fit(X, y)
    for sides in (model.transform(make(X)), model.transform_query(make(X)), model.similarity(make(X), make(X[:5]))):
        assert isinstance(sides, np.ndarray)
    assert model.score(make(X), y) == pytest.approx(expected.score(X, y), abs=1e-5)


@pytest.mark.second
def test_under_array_api_dispatch_a_tensor_gives_a_tensor():
    pytest.importorskip("torch")
    script = """
import numpy as np, sklearn, torch
from likewise import SLR
X, y = torch.randn(60, 5), np.arange(60) % 3
with sklearn.config_context(array_api_dispatch=True):
    model = SLR(2, max_iter=1).fit(X, y)
    for sides in (model.transform(X), model.transform_query(X), model.similarity(X)):
        assert isinstance(sides, torch.Tensor) and sides.device == X.device and sides.dtype == X.dtype
assert isinstance(model.transform(X), np.ndarray)
"""
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{script}"]
    done = subprocess.run(command, capture_output=True, text=True, env={"SCIPY_ARRAY_API": "1"}, check=False)
    assert done.returncode == 0, done.stderr


@libraries
def test_relevance_is_learned_from_in_numpy(make):
    X, y = rows()
    R = Relevance(sp.csr_array(y[:100, None] == y))
    expected = RelevanceLearner().fit(X[:100], R, gallery=X)
    assert_same(expected, RelevanceLearner().fit(make(X[:100]), R, gallery=make(X)), X, 1e-6)


@libraries
def test_what_cannot_be_learned_from_is_refused_in_words(make):
    X, y = rows()
    bad = X.copy()
    bad[3, 4] = np.nan
    with pytest.raises(LikewiseError, match="X contains NaN or infinity"):
        SLR().fit(make(bad), y)
    with pytest.raises(LikewiseError, match=r"X has 700 rows and y shape \(699,\): expected one label per row"):
        SLR().fit(make(X), y[1:])
    with pytest.raises(LikewiseError, match=r"X has shape \(700,\): expected at least one row and one column"):
        SLR().fit(make(X[:, 0].copy()), y)
    with pytest.raises(LikewiseError, match="y has one class only"):
        SLR().fit(make(X), np.zeros(len(y), dtype=int))


@pytest.mark.second
def test_devices_and_tiles_are_for_dense_arrays_in_memory():
    pytest.importorskip("torch")
    X, y = rows()
    with pytest.raises(LikewiseError, match="X is csr_array: device is for dense arrays and torch tensors"):
        SLR().fit(open_rows(sp.csr_array(X), y, device="cpu"))
    with pytest.raises(LikewiseError, match="device is for arrays in memory"):
        SLR().fit(open_rows([X], y, device="cpu"))
    with pytest.raises(LikewiseError, match="device='cpu' is for torch"):
        SLR().fit(open_rows(strict_array(X), y, device="cpu"))


def test_a_sparse_tensor_is_refused_in_words():
    torch = pytest.importorskip("torch")
    with pytest.raises(LikewiseError, match=r"X is a torch tensor of layout torch\.sparse_coo: expected a dense one"):
        to_host(torch.eye(3).to_sparse())
    with pytest.raises(LikewiseError, match=r"X is a torch tensor of layout torch\.sparse_coo: expected a dense one"):
        SLR().fit(torch.eye(4).to_sparse(), [0, 0, 1, 1])


def test_half_precision_comes_to_the_host_as_float32():
    torch = pytest.importorskip("torch")
    assert to_host(torch.ones(2, dtype=torch.bfloat16)).dtype == np.float32


def test_the_code_of_the_page_runs():
    pytest.importorskip("torch")
    page = Path(__file__).parents[3] / "docs" / "large-data.md"
    blocks = re.findall(r"^```py\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(page), "exec"), {})
