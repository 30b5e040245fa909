"""Problems with known pairs, and what a dense matrix says of them."""

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from likewise.learn.supervision.pairs import intervals
from likewise.rows import Relevance

SIZES = st.tuples(st.integers(1, 30), st.integers(1, 25), st.integers(1, 6), st.integers(0, 10**6))


def matrix(n, m, seed, graded):
    """A sparse matrix with stored zeros, rows without anything among them."""
    rng = np.random.default_rng(seed)
    known = rng.random((n, m)) < 0.4
    known[rng.integers(n), rng.integers(m)] = True
    values = rng.standard_normal((n, m)) if graded else rng.integers(0, 2, (n, m)).astype(float)
    i, j = np.nonzero(known)
    return sp.csr_array((values[known], (i, j)), shape=(n, m)), known, values


def dense_excess(S, values, kind, adaptive=True, margins=(1.0, 0.2)):
    low, high = intervals(values, kind, margins, adaptive)
    return S - np.clip(S, low, high)


def planted_sides(n_q, n_g, d_q, d_g, rank, share, seed, dtype=np.float64):
    """Two sides, a similarity of low rank, and the share of it that is known."""
    rng = np.random.default_rng(seed)
    Q, G = rng.standard_normal((n_q, d_q)), rng.standard_normal((n_g, d_g))
    S = Q @ rng.standard_normal((d_q, rank)) @ rng.standard_normal((rank, d_g)) @ G.T
    known = rng.random(S.shape) < share
    relevance = Relevance.from_triples(*np.nonzero(known), S[known], shape=S.shape)
    return Q.astype(dtype), G.astype(dtype), S, known, relevance
