"""The default fit learns from any finite data: a model, finite, and not below the raw cosine on held-out rows.

Twelve examples in the first tier, 200 in the second; `make fuzz` sets LIKEWISE_EXAMPLES to 2,000.
"""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from likewise import SimilarityLearner
from likewise.errors import LikewiseError
from likewise.evaluate import mean_average_precision
from likewise.learn.maths.engine import MemoryEngine
from likewise.learn.maths.kernels import UnitRows
from likewise.learn.maths.regressions import ExactKernel, LandmarkKernel, factor_raised
from likewise.learn.maths.setting import Setting
from likewise.utils.arrays import unit_rows

EXAMPLES = int(os.environ.get("LIKEWISE_EXAMPLES", "200"))


def heavy_nuisance(seed, n=4000, dtype=np.float32):
    """Fifty classes under forty directions that vary far more than the classes do."""
    r = np.random.default_rng(seed)
    y = r.integers(0, 50, n)
    X = (r.normal(size=(50, 384)) * 0.3)[y] + r.normal(size=(n, 384))
    return (X + r.normal(size=(n, 40)) @ r.normal(size=(40, 384)) * 0.9).astype(dtype), y


@pytest.mark.second
@pytest.mark.parametrize("seed", range(20))
def test_heavy_nuisance_directions_in_single_precision_can_be_fitted(seed):
    X, y = heavy_nuisance(seed)
    model = SimilarityLearner().fit(X, y)
    assert model.held_out_["mAP"] > model.held_out_["raw"]


@st.composite
def labelled_rows(draw):
    """Rows that real tables have and estimators dislike, their labels, and more rows of the same kind."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    n_classes = draw(st.sampled_from([2, 3, 10, 60, 500]), label="classes")
    n = n_classes * draw(st.integers(2, 3 if n_classes == 500 else 12), label="rows of a class")
    d = draw(st.sampled_from([1, 2, 5, 30, 120]), label="columns")
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)] * 2)
    signal = draw(st.sampled_from([0.0, 0.3, 3.0]), label="signal")
    X = signal * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(2 * n, d))
    for kind in sorted(draw(st.sets(st.sampled_from(sorted(DAMAGES)), max_size=3), label="damages")):
        event(kind)
        X = DAMAGES[kind](X, rng)
    X *= 10.0 ** draw(st.sampled_from([-12, -3, 0, 3, 9]), label="scale")
    X *= min(1.0, 1e14 / max(np.abs(X).max(), 1e-300))  # float32 is refused above 1e15, in a sentence
    X = X.astype(draw(st.sampled_from([np.float32, np.float64]), label="precision"))
    return X[:n], y[:n], X[n:], y[n:]


def duplicates(X, rng):
    return X[rng.integers(0, max(2, len(X) // 5), len(X))]


def low_rank(X, rng):
    return X[:, :1] @ rng.normal(size=(1, X.shape[1])) + X[:, -1:] @ rng.normal(size=(1, X.shape[1]))


def constant_columns(X, rng):
    return np.hstack([X, np.full((len(X), 2), 7.0), np.zeros((len(X), 1))])


def huge_columns(X, rng):
    return X * np.where(rng.random(X.shape[1]) < 0.3, 1e6, 1.0)


def near_identical_rows(X, rng):
    return 1.0 + 10.0 ** rng.integers(-9, -2) * X


def nuisance(X, rng):
    q = min(8, X.shape[1])
    return X + 20 * rng.normal(size=(len(X), q)) @ rng.normal(size=(q, X.shape[1]))


def rows_of_zeros(X, rng):
    return X * (rng.random((len(X), 1)) > 0.3)


DAMAGES = {
    damage.__name__: damage
    for damage in (
        duplicates, low_rank, constant_columns, huge_columns, near_identical_rows, nuisance, rows_of_zeros,
    )
}  # fmt: skip


def examples(n):
    return settings(max_examples=n, deadline=None, suppress_health_check=list(HealthCheck))


def ranks_no_worse_than_its_cosine(data):
    """A model of the first half of the rows is finite, and ranks the second no worse than their cosine does."""
    X, y, X_new, y_new = data
    if not X.any() or not np.isfinite(X).all():
        return
    model = SimilarityLearner().fit(X, y)
    Z = model.transform(X_new)
    assert np.isfinite(Z).all()
    if model.held_out_ is not None:
        worth = model.held_out_
        assert worth["mAP"] >= worth["raw"] - 0.02 - 1 / np.sqrt(worth["rows"])
    raw = unit_rows(X_new)
    # Settings are chosen on some rows and measured on others: what few rows leave to chance is allowed for.
    slack = 0.02 + 1.0 / np.sqrt(len(y))
    assert mean_average_precision(Z, Z, y_new) >= mean_average_precision(raw, raw, y_new) - slack


@examples(12)
@given(labelled_rows())
@pytest.mark.filterwarnings("ignore")
def test_any_finite_rows_give_a_finite_model_that_ranks_no_worse_than_their_cosine(data):
    ranks_no_worse_than_its_cosine(data)


@pytest.mark.second
@pytest.mark.timeout(3600)
@examples(EXAMPLES)
@given(labelled_rows())
@pytest.mark.filterwarnings("ignore")
def test_so_do_many_more(data):
    ranks_no_worse_than_its_cosine(data)


def test_a_kernel_that_single_precision_leaves_indefinite_is_factored_in_double():
    X, y = heavy_nuisance(0, n=900)
    unit, width = UnitRows(MemoryEngine(X, y, 50)), 2**-14
    kernel, exact = ExactKernel(unit, width), ExactKernel(unit, width, np.float64)
    ridge = 1.1 * len(X) * np.finfo(np.float32).eps / exact.mean_diagonal
    assert kernel._factor(ridge * kernel.mean_diagonal, last=False)[0].dtype == np.float64
    learned, expected = (k.learn(Setting(gamma=width, ridge=ridge), last=True) for k in (kernel, exact))
    assert learned.L.dtype == np.float32
    assert np.isfinite(learned.images()).all()
    assert np.corrcoef(learned.images().ravel(), expected.images().ravel())[0, 1] > 0.99


def test_where_memory_holds_no_double_precision_the_ridge_is_raised():
    X, y = heavy_nuisance(0, n=900)
    kernel = ExactKernel(UnitRows(MemoryEngine(X, y, 50)), 2**-14, np.float32, memory=4 * 900**2)
    for last in (False, True):
        factor, ridge = kernel._factor(1e-12, last)
        assert factor.dtype == np.float32
        assert ridge < 1e-2


def test_landmarks_that_are_all_but_equal_have_a_map():
    X, y = heavy_nuisance(0, n=900)
    unit = UnitRows(MemoryEngine(X, y, 50))
    kernel = LandmarkKernel(unit, unit.kernel(2**-16, 400, np.random.default_rng(0)))
    learned = kernel.learn(Setting(gamma=2**-16, ridge=1e-9), last=True)
    assert np.isfinite(learned.L).all()
    assert np.isfinite(learned.images()).all()


def test_a_matrix_is_raised_as_little_as_rounding_needs_and_not_beyond_its_diagonal():
    A = np.diag([1.0, -1e-6])
    assert 1e-6 < factor_raised(A, 0.0)[1] < 1e-5
    with pytest.raises(LikewiseError, match="pass kernel='linear'"):
        factor_raised(np.diag([1.0, -100.0]), 0.0)
