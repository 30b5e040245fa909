"""Mahalanobis distances ‖L(x − y)‖², with L learned from labels: NCA, LMNN and FRML."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from likewise.learn.base import finite_fit
from likewise.learn.choose.search import Params, Sides
from likewise.learn.maths.labels import class_sums, generator, sample_by_class
from likewise.rivals.closed_forms import principal_directions
from likewise.rivals.common import LinearBaseline, batches, compiled, estimator, linear_sides
from likewise.utils.arrays import evenly_spaced
from likewise.utils.threads import single_threaded_blas

BLOCK = 512
N_INPUTS = 200  # principal components that NCA learns from
PILOT_ROUNDS = 2  # of LMNN, that each setting is tried for
MAX_IMPOSTORS = 50  # per row in a working set of LMNN, the nearest ones

Back = Callable[[np.ndarray], np.ndarray]


class _Mahalanobis(LinearBaseline):
    """Learns a map L of centred rows, compared by the distance after it."""

    _map: Callable[..., np.ndarray]
    """L (r, q) from rows, class codes, a setting, and `pilot`: whether only for a search, with fewer steps."""

    @finite_fit
    def fit(self, X: Any, y: Any) -> Self:
        """Choose each setting that is "auto" on held-out training rows; then learn L from rows X and labels y."""
        X, codes = self._training_data(X, y)
        rows = self._rows(X)
        mean = rows.mean(axis=0)
        centred = rows - mean
        centred[np.abs(centred) <= 4 * np.finfo(rows.dtype).eps * np.abs(rows).max()] = 0  # rounding of equal rows
        Z, labels, back = self._inputs(centred, codes)
        L = back(self._map(Z, labels, **self._best(Z, labels), pilot=False))
        self.components_ = np.ascontiguousarray(L, dtype=rows.dtype)
        self.offset_, self.metric_ = self.components_ @ mean, "distance"
        return self

    def _candidates(self, X: np.ndarray, y: np.ndarray) -> Callable[[Params], Sides]:
        def candidate(params: Params) -> Sides:
            L = self._map(X, y, **params, pilot=True)
            return linear_sides(L, np.zeros(len(L)), "distance")

        return candidate

    def _inputs(self, rows: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, Back]:
        """Rows and class codes to learn from, and from a map of these rows to one of centred rows."""
        return rows, codes, lambda L: L


@estimator
class NCA(_Mahalanobis):
    """Minus the squared distance after the map that makes nearest neighbours agree in class (Goldberger et al. 2004).

    Its cost grows with n²d, so it learns from at most `max_rows` training rows, drawn by class, and from their 200
    leading principal components. The map has one row fewer than there are classes.

    Parameters
    ----------
    scale : float or "auto", default="auto"
        Root mean square distance to the nearest other row at the start: it sets how far neighbourhoods reach. "auto"
        takes the best of `grid` on held-out training rows.
    max_rows : int or None, default=4000
        Training rows, at most; None is all of them.
    max_iter : int, default=50
        L-BFGS iterations, at most.
    """

    _grids: ClassVar[dict[str, str]] = {"scale": "grid"}

    scale: float | str = "auto"
    max_rows: int | None = 4000
    max_iter: int = 50
    normalize: bool = True
    grid: tuple[float, ...] = (0.3, 0.1, 1.0)
    random_state: Any = None

    def _inputs(self, rows: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, Back]:
        directions = principal_directions(rows, N_INPUTS)
        Z = rows @ directions.T
        Z *= neighbour_scale(Z)
        subset = sample_by_class(codes, self.max_rows, generator(self.random_state))
        return Z[subset], codes[subset], lambda L: L @ directions

    def _map(self, Z: np.ndarray, y: np.ndarray, scale: float, pilot: bool) -> np.ndarray:
        r = min(len(self.classes_) - 1, Z.shape[1])  # so many discriminant directions it starts from
        seed = int(generator(self.random_state).integers(2**31))
        within = Z - (class_sums(Z, y, None, int(y.max()) + 1) / np.bincount(y)[:, None])[y]
        spread = np.abs(within).max() > 1e-9 * np.abs(Z).max()
        init = "auto" if spread else "identity"  # LDA, where it would start, needs rows that differ within a class
        model = NeighborhoodComponentsAnalysis(r, init=init, max_iter=self.max_iter, random_state=seed)
        self.n_iter_ = int(model.fit(Z * Z.dtype.type(scale), y).n_iter_)
        return np.asarray(model.components_)


@estimator
class LMNN(_Mahalanobis):
    """Minus the squared distance after a map learned for large margins between neighbours (Weinberger & Saul 2009).

    With d the squared distance after the map L (r×d) and T(i) the k nearest rows of i's class in the input, it
    minimises

        μ Σ_{i, j ∈ T(i)} d_ij + (1 − μ) Σ_{i, j ∈ T(i), l of another class} [1 + d_ij − d_il]₊

    by L-BFGS over a working set of impostors l, updated every few iterations. Both sums are over weighted pairs, so
    the gradient goes through a sparse graph Laplacian and no outer product is ever formed.

    Parameters
    ----------
    rank : int, default=100
        Rows r of the map, which starts from the leading principal directions.
    k : int or "auto", default="auto"
        Target neighbours per row, 3 in the paper; fewer where the class is smaller.
    mu : float or "auto", default="auto"
        Weight of the pull against the push, .5 in the paper. "auto" for either takes the best of `grid_k` and
        `grid_mu` on held-out training rows after two rounds.
    n_rounds, n_iter : int
        Updates of the working set of impostors, and L-BFGS iterations after each.
    max_rows : int or None, default=10000
        Rows whose triplets a round uses; if there are more, each round draws others. None uses all.
    """

    _grids: ClassVar[dict[str, str]] = {"mu": "grid_mu", "k": "grid_k"}

    rank: int = 100
    k: int | str = "auto"
    mu: float | str = "auto"
    n_rounds: int = 6
    n_iter: int = 15
    max_rows: int | None = 10_000
    normalize: bool = True
    grid_k: tuple[int, ...] = (3, 10, 30)
    grid_mu: tuple[float, ...] = (0.5, 0.2)
    random_state: Any = None

    def _map(self, X: np.ndarray, y: np.ndarray, k: int, mu: float, pilot: bool) -> np.ndarray:
        rng = generator(self.random_state)
        T = target_neighbours(X, y, k)
        L = _start(X, T, self.rank)
        for _ in range(PILOT_ROUNDS if pilot else self.n_rounds):
            anchors = sample_by_class(y, self.max_rows, rng)
            problem = working_set(L, X, y, T, anchors, MAX_IMPOSTORS)
            if not len(problem.impostors):
                break
            L = _minimise(problem, X, L, mu, self.n_iter)
        return L


@dataclass(frozen=True)
class Triplets:
    """Target pairs (i, j) and impostor pairs (i, l); a triplet is one of each with the same i."""

    targets: np.ndarray  # (n, k) rows j, −1 where a class has too few rows or i is not an anchor
    anchors: np.ndarray  # (p,) row i of each impostor pair
    impostors: np.ndarray  # (p,) its row l


def target_neighbours(X: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """The k nearest rows of each row's class, (n, k); −1 where there are fewer."""
    T = np.full((len(X), k), -1)
    for code in range(y.max() + 1):
        rows = np.flatnonzero(y == code)
        D = squared_distances(X[rows], X[rows])
        np.fill_diagonal(D, np.inf)
        most = min(k, len(rows) - 1)
        T[rows, :most] = rows[np.argsort(D, axis=1, kind="stable")[:, :most]]
    return T


def working_set(L: np.ndarray, X: np.ndarray, y: np.ndarray, T: np.ndarray, rows: np.ndarray, most: int) -> Triplets:
    """The triplets of `rows` that violate the margin under L, with at most the `most` nearest impostors per row."""
    Z = X @ L.T.astype(X.dtype)
    rows = rows[T[rows, 0] >= 0]
    reach = 1 + np.where(T >= 0, pair_distances(Z, T), -np.inf).max(axis=1)
    pairs = [_impostors(Z, y, block, reach, most) for block in np.array_split(rows, max(1, -(-len(rows) // BLOCK)))]
    targets = np.full_like(T, -1)
    targets[rows] = T[rows]
    return Triplets(targets, *np.concatenate(pairs, axis=1))


def _impostors(Z: np.ndarray, y: np.ndarray, rows: np.ndarray, reach: np.ndarray, most: int) -> np.ndarray:
    """Pairs (i, l), as a matrix of two rows, with l of another class nearer to i than `reach`."""
    D = squared_distances(Z[rows], Z)
    D[y[rows][:, None] == y] = np.inf
    most = min(most, D.shape[1])
    nearest = np.argpartition(D, most - 1, axis=1)[:, :most]
    inside = np.take_along_axis(D, nearest, axis=1) < reach[rows][:, None]
    return np.stack([np.repeat(rows, inside.sum(axis=1)), nearest[inside]])


def pair_distances(Z: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Squared distances of each row to its targets, (n, k); 0 where there is none."""
    difference = Z[:, None, :] - Z[T]
    return np.where(T >= 0, np.einsum("ikr,ikr->ik", difference, difference), 0)


def objective(L: np.ndarray, X: np.ndarray, problem: Triplets, mu: float) -> tuple[float, np.ndarray]:
    """The loss over the triplets of `problem` and its gradient with respect to L."""
    Z = X @ L.T
    i, l = problem.anchors, problem.impostors
    near = pair_distances(Z, problem.targets)
    margin = 1 + near[i] - _distances(Z, i, l)[:, None]
    margin *= (margin > 0) & (problem.targets[i] >= 0)
    active = margin > 0
    loss = mu * near.sum() + (1 - mu) * margin.sum()
    pushed = np.stack([np.bincount(i, column, len(X)) for column in active.T], axis=1)
    pull = mu + (1 - mu) * pushed
    return float(loss), _gradient(Z, X, problem, pull, (mu - 1) * active.sum(axis=1))


def _gradient(Z: np.ndarray, X: np.ndarray, problem: Triplets, pull: np.ndarray, push: np.ndarray) -> np.ndarray:
    """Gradient of Σ w_ij‖z_i − z_j‖² with respect to L: 2 (Λ Z)ᵀ X, Λ the Laplacian of the weights."""
    n = len(X)
    i, slot = np.nonzero(problem.targets >= 0)
    rows = np.concatenate([i, problem.anchors])
    columns = np.concatenate([problem.targets[i, slot], problem.impostors])
    weights = np.concatenate([pull[i, slot], push]).astype(Z.dtype)
    S = sp.csr_matrix((weights, (rows, columns)), shape=(n, n))
    S = S + S.T
    degrees = np.asarray(S.sum(axis=1))
    return 2 * (degrees * Z - S @ Z).T @ X


def _distances(Z: np.ndarray, i: np.ndarray, l: np.ndarray) -> np.ndarray:
    """‖z_i − z_l‖² of pairs, in pieces that fit in the cache."""
    D = np.empty(len(i), Z.dtype)
    for at in range(0, len(i), 4096):
        piece = slice(at, at + 4096)
        difference = Z[i[piece]] - Z[l[piece]]
        D[piece] = np.einsum("ij,ij->i", difference, difference)
    return D


def _start(X: np.ndarray, T: np.ndarray, rank: int) -> np.ndarray:
    """Principal directions, (r, d), scaled so that the root mean square distance to the last target is 1."""
    L = principal_directions(X, rank)
    last = pair_distances(X @ L.T, T)[np.arange(len(T)), (T >= 0).sum(axis=1) - 1]
    scale = float(last[T[:, 0] >= 0].mean()) if (T[:, 0] >= 0).any() else 0.0
    return L / np.sqrt(scale) if scale > 0 else L


def _minimise(problem: Triplets, X: np.ndarray, L: np.ndarray, mu: float, n_iter: int) -> np.ndarray:
    pairs = max(1, int((problem.targets >= 0).sum()))

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(flat.reshape(L.shape).astype(X.dtype), X, problem, mu)
        return value / pairs, gradient.astype(np.float64).ravel() / pairs

    result = minimize(loss, L.astype(np.float64).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": n_iter})
    return result.x.reshape(L.shape)


# -- FRML: a ranking loss on a fixed-rank distance, by stochastic steps on the manifold (Lim & Lanckriet 2014) ---------
#
# The distance is ‖Lᵀ(x − y)‖² with L (d×r). A step draws rows i, a row j of i's class, and rows k of other classes
# until one violates the margin, d_ik < d_ij + 1; the number of draws estimates the rank of j, whose weight is ω. The
# gradient with respect to M = LLᵀ is then a sum of a few dyads, Σ δ q qᵀ, and the step goes along it by a second-
# order retraction on the positive semidefinite matrices of rank r.

EFFORT = 0.1  # share ρ of the other classes' rows that is drawn, at most, in search of a violator
# The norm of s, the relative change of M in one step, is kept below this, because the retraction is an expansion of
# second order: without a bound a step that is too long makes L collapse.
TRUST = 1.0
PILOT = 0.1  # share of the steps that each setting is tried for


@estimator
class FRML(_Mahalanobis):
    """Minus the squared distance after a d×r map learned for ranking.

    Parameters
    ----------
    rank : int, default=100
        Width r of the map; lowered to the rank of X if that is smaller.
    step : float or "auto", default="auto"
        First step n₀; steps fall as n₀/(1 + decay·t/n_iter). "auto" takes the best of `grid` on held-out training rows
        after a tenth of `n_iter`.
    lam : float, default=0.01
        Weight λ of the pull between rows of one class against the ranking loss.
    n_iter, batch : int
        Number of steps, and rows drawn for each.
    decay : float, default=9.0
        Decay of the step size, as above.
    rescale : bool, default=True
        Scale X to a mean squared nearest-neighbour distance of 1, so that `step` means the same for all data.
    """

    _grids: ClassVar[dict[str, str]] = {"step": "grid"}

    rank: int = 100
    step: float | str = "auto"
    lam: float = 0.01
    n_iter: int = 20_000
    batch: int = 5
    decay: float = 9.0
    rescale: bool = True
    normalize: bool = True
    grid: tuple[float, ...] = (0.1, 0.01, 1.0, 10.0)
    random_state: Any = None

    def _inputs(self, rows: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, Back]:
        scale = neighbour_scale(rows) if self.rescale else 1.0
        return rows * rows.dtype.type(scale), codes, lambda L: L * scale

    def _map(self, X: np.ndarray, y: np.ndarray, step: float, pilot: bool) -> np.ndarray:
        n_iter = max(1, round(PILOT * self.n_iter)) if pilot else self.n_iter
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
                q, z, weights = draw(L, X, first, size, phi, next(drawn), self.lam, EFFORT, rng)
                eta = step / (1 + self.decay * t / n_iter)
                retract(L, q, z, weights * X.dtype.type(-eta / self.batch), TRUST)
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
        draws, piece, violated = 0, 2, False
        while draws < most and not violated:
            piece = min(2 * piece, most - draws, 64)  # several at once: one product instead of many reads of L
            k = (first[i] + size[i] + (rng.random(piece) * others).astype(np.int64)) % n
            differences = X[i] - X[k]
            images = np.dot(differences, L)
            for at in range(piece):
                draws += 1
                if np.sum(images[at] * images[at]) < margin:
                    violated = True
                    break
        if violated:
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


# -- What they share -------------------------------------------------------------------------------------------------


def squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """‖a − b‖² for every row of A and of B, never below zero."""
    D = A @ B.T
    D *= -2
    D += np.einsum("ij,ij->i", A, A)[:, None]
    D += np.einsum("ij,ij->i", B, B)[None, :]
    return np.maximum(D, 0, out=D)


def neighbour_scale(X: np.ndarray) -> float:
    """The factor that makes the mean squared distance to the nearest other row 1."""
    sample = evenly_spaced(len(X), 2000)  # their mean is within a few per cent of that over all rows
    D = squared_distances(X[sample], X)
    D[np.arange(len(sample)), sample] = np.inf
    mean = float(D.min(axis=1).mean())
    return mean**-0.5 if mean > 0 else 1.0
