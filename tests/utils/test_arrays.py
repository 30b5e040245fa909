"""Arrays of other libraries, and dense ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from likewise.utils.arrays import dense, in_memory, is_foreign, is_torch, to_host

X = np.arange(6.0).reshape(2, 3)


def test_sparse_matrices_become_dense_and_arrays_stay():
    np.testing.assert_array_equal(dense(sp.csr_array(X)), X)
    assert dense(X) is X


def test_what_is_on_the_host_already_stays_as_it_is():
    for given in (X, [1, 2], None, sp.csr_array(X)):
        assert to_host(given) is given
        assert not is_foreign(given)


def test_a_memmap_and_a_tensor_come_into_memory(tmp_path: Path):
    np.save(tmp_path / "x.npy", X)
    loaded = in_memory(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert type(loaded) is np.ndarray
    np.testing.assert_array_equal(loaded, X)
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(X)
    assert is_torch(tensor)
    assert is_foreign(tensor)
    np.testing.assert_array_equal(in_memory(tensor), X)
