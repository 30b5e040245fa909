"""OASIS: a bilinear similarity learned on-line from triplets (Chechik et al. 2010).

Steps: a query p, a relevant p⁺, an irrelevant p⁻; z = p⁺ − p⁻; loss l = 1 − pᵀWz. If l > 0 then
W ← W + τ p zᵀ with τ = min(C, l / (‖p‖²‖z‖²)).

Step by step, this reads the d×d matrix in every step and writes it in every violated one: memory traffic is its whole
cost. The triplets do not depend on W, so a block of them can be drawn ahead: with W₀ the matrix before the block,

    p_iᵀ W z_i = p_iᵀ W₀ z_i + Σ_{j < i} τ_j (p_iᵀp_j)(z_jᵀz_i),

so one product with W₀, two Gram matrices and a short recursion give every τ of the block exactly, and one product adds
all its updates: the same steps and, up to rounding, the same result at the speed of matrix products.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from likewise.learn.base import project
from likewise.learn.choose.search import Params, Sides
from likewise.learn.maths.labels import generator
from likewise.rivals.common import Baseline, compiled, estimator
from likewise.utils.arrays import dense
from likewise.utils.onnx_graph import Graph

_PILOT = 0.1  # share of the steps that each setting is tried for
TripletBlock = tuple[np.ndarray, np.ndarray, np.ndarray]


@estimator
class OASIS(Baseline):
    """Passive-aggressive triplets on a d×d matrix; ranks by qᵀWx.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Aggressiveness: the largest step. "auto" takes the best of `grid` on held-out training rows after a tenth of
        `n_steps`.
    n_steps : int, default=1000000
        Number of triplets.

    Attributes
    ----------
    W_ : (d, d) array
        The bilinear form.
    """

    _grids: ClassVar[dict[str, str]] = {"C": "grid"}

    C: float | str = "auto"
    n_steps: int = 1_000_000
    normalize: bool = True
    grid: tuple[float, ...] = (0.1, 0.01, 1.0)
    random_state: Any = None

    def _search_rows(self, rows: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rows.astype(np.float32), codes

    def _learn(self, rows: np.ndarray, codes: np.ndarray, **setting: Any) -> None:
        self.W_ = self._steps(rows.astype(np.float32), codes, setting["C"], self.n_steps)

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        def candidate(params: Params) -> Sides:
            W = self._steps(X, y, params["C"], max(1, round(_PILOT * self.n_steps)))
            return lambda rows: (rows @ W, rows)

        return candidate

    def _steps(self, X: np.ndarray, y: np.ndarray, C: float, n_steps: int) -> np.ndarray:
        block = int(np.clip(X.shape[1] // 4, 64, 256))
        return learn(X, triplets(y, n_steps, block, generator(self.random_state)), C)

    def _gallery_side(self, X: Any) -> np.ndarray:
        return dense(self._rows(X))

    def _query_side(self, X: Any) -> np.ndarray:
        return project(self._rows(X), self.W_.T)

    def _write_onnx(self, graph: Graph, rows: str) -> tuple[str, str]:
        rows = self._onnx_rows(graph, rows)
        return graph.mapped(rows, self.W_), rows


def triplets(y: np.ndarray, n_steps: int, block: int, rng: np.random.Generator) -> Iterator[TripletBlock]:
    """Blocks of row numbers (p, p⁺, p⁻): p uniform, p⁺ uniform in its class, p⁻ uniform outside of it."""
    n = len(y)
    order = np.argsort(y, kind="stable")
    sizes = np.bincount(y)
    starts = np.cumsum(sizes) - sizes
    for first in range(0, n_steps, block):
        p, u, v = rng.random((3, min(block, n_steps - first)))
        p = (p * n).astype(np.intp)
        size, start = sizes[y[order[p]]], starts[y[order[p]]]
        positive = start + (u * size).astype(np.intp)
        negative = (start + size + (v * (n - size)).astype(np.intp)) % n
        yield order[p], order[positive], order[negative]


def learn(X: np.ndarray, blocks: Iterator[TripletBlock], C: float) -> np.ndarray:
    """W after all triplets, a block at a time."""
    W = np.eye(X.shape[1], dtype=X.dtype)
    for p, positive, negative in blocks:
        P, Z = X[p], X[positive] - X[negative]
        scores = np.einsum("ij,ij->i", P @ W, Z)
        tau = steps_of_block(scores, (P @ P.T) * (Z @ Z.T), C)
        moved = np.flatnonzero(tau)
        W += (P[moved] * tau[moved, None]).T @ Z[moved]
    return W


@compiled
def steps_of_block(scores: np.ndarray, H: np.ndarray, C: float) -> np.ndarray:
    """The τ of each triplet of a block, given its scores under W₀ and H_ij = (p_iᵀp_j)(z_iᵀz_j)."""
    scores = scores.copy()
    tau = np.zeros_like(scores)
    for i in range(len(scores)):
        loss = 1 - scores[i]
        if loss > 0 and H[i, i] > 0:
            tau[i] = min(C, loss / H[i, i])
            scores[i + 1 :] += tau[i] * H[i, i + 1 :]
    return tau
