"""Blocks and threads: the same metrics in bounded memory."""

import tracemalloc

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.metrics.conftest import DTYPES, clustered
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from likewise.metrics import evaluate, mean_average_precision, streaming


@settings(deadline=None, max_examples=8)
@given(
    block_bytes=st.integers(1, 10**6),
    n_threads=st.integers(1, 4),
    one_set=st.booleans(),
    dtype=st.sampled_from(DTYPES),
)
def test_blocks_and_threads_do_not_change_the_result(block_bytes, n_threads, one_set, dtype):
    X, y = clustered(600, dtype=dtype)
    X = np.rint(4 * X).astype(dtype)  # whole numbers: products are exact, ties are many
    y_g = None if one_set else y
    whole = evaluate(X, X, y, y_g, block_bytes=1 << 30, n_threads=1)
    parts = evaluate(X, X, y, y_g, block_bytes=block_bytes, n_threads=n_threads)
    for name, values in whole.per_query.items():
        np.testing.assert_allclose(parts.per_query[name], values, rtol=1e-13, err_msg=name)


def test_an_outer_limit_on_threads_is_kept_and_the_threads_of_blas_are_given_back():
    X, y = clustered(700)
    threads = blas_threads()
    mean_average_precision(X, X, y, block_bytes=10**6)
    assert blas_threads() == threads
    with threadpool_limits(1, user_api="blas"):
        assert streaming._n_threads(ThreadpoolController(), None) == 1
        mean_average_precision(X, X, y)
        assert blas_threads() == {1}


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_memory_stays_within_the_block_budget():
    X, y = clustered(20_000, d=4, classes=50, dtype=np.float32)
    Q, y_q = X[:2000], y[:2000]  # all scores at once would be 160 MB
    tracemalloc.start()
    evaluate(Q, X, y_q, y, block_bytes=16 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 36 << 20  # the blocks, and the chunks of the bootstrap
