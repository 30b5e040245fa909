"""FRML: a ranking loss on a fixed-rank distance, by stochastic steps on the manifold (Lim & Lanckriet 2014).

The distance is ‖Lᵀ(x − y)‖² with L (d×r). A step draws rows i, a row j of i's class, and rows k of other classes until
one violates the margin, d_ik < d_ij + 1; the number of draws estimates the rank of j, whose weight is ω. The gradient
with respect to M = LLᵀ is then a sum of a few dyads, Σ δ q qᵀ, and the step goes along it by a second-order retraction
on the positive semidefinite matrices of rank r.
"""

from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from likewise.learn.maths.labels import generator
from likewise.rivals.closed_forms import principal_directions
from likewise.rivals.common import LinearBaseline, batches, by_distance, compiled, estimator, neighbour_scale
from likewise.utils.threads import single_threaded_blas


@estimator
class FRML(LinearBaseline):
    """Minus the squared distance after a d×r map learned for ranking.

    Parameters
    ----------
    rank : int, default=100
        Width r of the map; lowered to the rank of X if that is smaller.
    step : float or "auto", default="auto"
        First step n₀; steps fall as n₀/(1 + decay·t/n_iter). "auto" takes the best of `grid` on held-out training rows
        after `pilot * n_iter` steps.
    lam : float, default=0.01
        Weight λ of the pull between rows of one class against the ranking loss.
    n_iter, batch : int
        Number of steps, and rows drawn for each.
    effort : float, default=0.1
        Share ρ of the other classes' rows that is drawn, at most, in search of a violator.
    decay : float, default=9.0
        Decay of the step size, as above.
    trust : float, default=1.0
        Trust region: the norm of s, the relative change of M in one step, is kept below it, because the retraction is
        an expansion of second order. Without a bound (`inf`) a step that is too long makes L collapse.
    rescale : bool, default=True
        Scale X to a mean squared nearest-neighbour distance of 1, so that `step` means the same for all data.
    normalize : bool, default=True
        Scale rows to unit length first.
    grid : sequence of float
        Steps to try.
    pilot : float, default=0.1
        Share of `n_iter` that each of them is tried for.
    random_state : int, RandomState or None, default=None
        Seed of the draws and of the holdout.
    """

    _grids: ClassVar[dict[str, str]] = {"step": "grid"}

    rank: int = 100
    step: float | str = "auto"
    lam: float = 0.01
    n_iter: int = 20_000
    batch: int = 5
    effort: float = 0.1
    decay: float = 9.0
    trust: float = 1.0
    rescale: bool = True
    normalize: bool = True
    grid: tuple[float, ...] = (0.1, 0.01, 1.0, 10.0)
    pilot: float = 0.1
    random_state: Any = None

    def fit(self, X: Any, y: Any) -> Self:
        """Learn L from rows X and labels y."""
        rows, codes, mean = self._centred_data(X, y)
        scale = neighbour_scale(rows) if self.rescale else 1.0
        scaled = rows * rows.dtype.type(scale)
        pilot = partial(self._learn, n_iter=max(1, round(self.pilot * self.n_iter)))
        best = self._keep(self._best(by_distance(pilot), scaled, codes))
        L = self._learn(scaled, codes, **best, n_iter=self.n_iter) * scale
        self._set_distance(np.ascontiguousarray(L, dtype=rows.dtype), mean)
        return self

    def _learn(self, X: np.ndarray, y: np.ndarray, step: float, n_iter: int) -> np.ndarray:
        rng = generator(self.random_state)
        order = np.argsort(y, kind="stable")
        X, y = np.ascontiguousarray(X[order]), y[order]
        L = np.ascontiguousarray(principal_directions(X, self.rank).T)
        sizes = np.bincount(y)
        size, first = sizes[y], (np.cumsum(sizes) - sizes)[y]
        phi = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, len(y) + 1))])
        drawn = batches(np.flatnonzero(size > 1), self.batch, rng)
        with single_threaded_blas():  # threads only slow down products this small
            for t in range(n_iter):
                q, z, weights = draw(L, X, first, size, phi, next(drawn), self.lam, self.effort, rng)
                eta = step / (1 + self.decay * t / n_iter)
                retract(L, q, z, weights * X.dtype.type(-eta / self.batch), self.trust)
        return L.T


@compiled
def draw(
    L: np.ndarray,
    X: np.ndarray,
    first: np.ndarray,
    size: np.ndarray,
    phi: np.ndarray,
    anchors: np.ndarray,
    lam: float,
    effort: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Differences q (c, d), their images z = qL and weights w of a gradient Σ w q qᵀ; X is sorted by class.

    `first` and `size` say where the class of each row starts and how many rows it has.
    """
    n, d = X.shape
    q = np.empty((2 * len(anchors), d), dtype=X.dtype)
    z = np.empty((2 * len(anchors), L.shape[1]), dtype=X.dtype)
    weights = np.empty(2 * len(anchors), dtype=X.dtype)
    c = 0
    for i in anchors:
        others = n - size[i]
        j = first[i] + int(rng.random() * (size[i] - 1))
        j += j >= i
        q[c] = X[i] - X[j]
        z[c] = np.dot(q[c], L)
        weights[c] = lam
        margin = np.sum(z[c] * z[c]) + 1
        most = max(1, int(effort * others))
        draws, piece, found = 0, 2, False
        while draws < most and not found:
            piece = min(2 * piece, most - draws, 64)  # several at once: one product instead of many reads of L
            k = (first[i] + size[i] + (rng.random(piece) * others).astype(np.int64)) % n
            differences = X[i] - X[k]
            images = np.dot(differences, L)
            for at in range(piece):
                draws += 1
                if np.sum(images[at] * images[at]) < margin:
                    found = True
                    break
        if found:
            omega = phi[others // draws] / phi[others]
            weights[c] += (1 - lam) * omega
            c += 1
            q[c], z[c], weights[c] = differences[at], images[at], -(1 - lam) * omega
        c += 1
    return q[:c], z[:c], weights[:c]


def retract(L: np.ndarray, q: np.ndarray, z: np.ndarray, delta: np.ndarray, trust: float) -> None:
    """Move L, in place, along Σ δ q qᵀ by the second-order retraction; z are the rows qL.

    With h = (LᵀL)⁻¹Lᵀqᵀ and D = diag(δ): p = qᵀD, h₁ = hD, s = hᵀh₁, and
    L += (p − ½Lh₁ + (−½p + ⅜Lh₁)s) hᵀ.
    """
    LtL = L.T @ L
    # Unused directions of L shrink to zero: keep the system solvable.
    LtL.flat[:: len(LtL) + 1] += 1e-7 * np.trace(LtL) + 1e-30
    h = np.linalg.solve(LtL, z.T)
    s = (h.T @ h) * delta
    size = np.linalg.norm(s)
    if size > trust:
        delta, s = delta * (trust / size), s * (trust / size)
    p, along = q.T * delta, L @ (h * delta)
    L += (p - along / 2 + (0.375 * along - p / 2) @ s) @ h.T
