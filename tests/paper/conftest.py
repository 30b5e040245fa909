"""Small matrices on one BLAS thread: more only wait for each other."""

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True)
def _one_blas_thread() -> Iterator[None]:
    with threadpool_limits(1, "blas"):
        yield
