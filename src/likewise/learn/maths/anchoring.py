"""The anchored map: the paper's clamp on cosines, held close to the fixed solution by a ridge.

Rows are F, in the eigenbasis of their own Gram matrix, so that (FᵀF + λI)⁻¹ is a division. Targets are rows P of width
r, and the map that fits them is L(P) = (FᵀF + λI)⁻¹ FᵀP; only FᵀP is ever held. Starting from the class target P₀, the
cosines of the mapped rows are clamped as SLR clamps its scores, and what is missing, Δ, is added to the target:
P ← (1 - b) P + b (P₀ + κΔ). The fixed point is the first-order condition of

    κ q² ½ Σ v w (clamp(c) - c)² + ½ ‖(FᵀF + λI)^½ (L - L₀)‖²,

a ridge regression anchored at the fixed solution L₀.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import scipy.linalg

from likewise.learn.maths.engine import Columns, MemoryEngine, RowBlock
from likewise.learn.maths.kernels import (
    Basis,
    Features,
    FeatureSums,
    Scaling,
    UnitRows,
    dual_basis,
    gram_basis,
    rows_at,
    scaled,
)
from likewise.learn.maths.labels import LabelTarget, class_starts, class_sums, draw_landmarks
from likewise.learn.maths.passes import PassColumns
from likewise.learn.maths.scatter import check_room
from likewise.learn.maths.setting import LearnedMap, OutputHead, Setting
from likewise.utils.arrays import Array, like, namespace, take_rows, to_host

SAME, OTHER = 0.9, 0.3  # δ1 and δ2 on cosines
ROUNDS = 4
LARGEST_RHO = 0.999
NO_RHO = 1e-12  # a direction in which classes do not differ
LARGEST_STEP = 3.0  # of q / |Z_i|: limits the step of rows with tiny embeddings
_TINY = 1e-300  # instead of zero, for classes without a row


# -- The regression ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnchoredRegression:
    """Labelled rows in the eigenbasis of their features, and the maps that can be learned from them.

    Attributes
    ----------
    unit : the rows. features, basis : how rows become F.
    class_totals : sum of F over each class, (n_classes, p).
    engine : where F is: rows of the engine are F itself (`coordinates` None), or become F in each pass; then it may be
        any `Engine`.
    columns : the rows of F that every row is compared with, their classes and weights; None for all rows.
    """

    unit: UnitRows
    features: Features
    basis: Basis
    class_totals: np.ndarray
    engine: MemoryEngine
    coordinates: Coordinates | None
    columns: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    @property
    def size(self) -> np.ndarray:
        """Weight of each class."""
        return np.maximum(self.unit.size, _TINY)

    @cached_property
    def class_factors(self) -> np.ndarray:
        """FᵀP for P one-hot / √n_c: what every target starts from, (p, n_classes)."""
        return self.class_totals.T / np.sqrt(self.size)

    def divisor(self, ridge: float) -> np.ndarray:
        """The diagonal of FᵀF + λI, λ in units of the mean eigenvalue."""
        return (self.basis.g + ridge * self.basis.unit)[:, None]

    def rms(self, L: np.ndarray) -> float:
        """RMS length of the images: FᵀF is diagonal, so no row has to be visited."""
        return float(np.sqrt(np.sum(self.basis.g[:, None] * L**2) / self.size.sum()))

    def encode(self, rows: Array) -> np.ndarray:
        """Unit rows in the coordinates that a map L takes."""
        return np.asarray(self.basis(self.features(rows)))

    def unfolded(self, L: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Projection and offset of the features themselves."""
        return self.basis.unfolded(L), self.basis.offset @ L

    def clamp_gradient(self, L: np.ndarray, trust: float) -> np.ndarray:
        """FᵀΔ, by how much the clamp wants the images moved, summed with the rows; see `ClampGradient`."""
        precomputed = (self.engine.project(L),) if self.coordinates is None else ()
        images, means = Images(self.coordinates, L), None
        if trust:
            (sums,) = self.engine.sum(DirectionSums(images, len(self.size)), precomputed)
            means = sums / self.size[:, None]
        share = float(len(self.size) / self.size.sum())
        clamp = Clamp(images, means, trust, share, self.rms(L), cosine_clamp(self.size))
        if self.columns is None:
            columns: Columns = self.engine.columns(clamp, 4 * L.shape[1], precomputed)
        else:
            F, codes, weights = self.columns
            columns = clamp.columns(F @ like(L, F), codes, weights)
        return self.engine.sum_against(ClampGradient(clamp), columns, precomputed)[0]

    def learn(self, setting: Setting, *, last: bool = False) -> LearnedMap:
        """The map of a setting: its fixed solution, adapted."""
        target = fixed_target(self, setting.ridge, setting.geometry)
        L = adapt(self, target, setting.ridge, setting.adaptation, setting.trust)
        images, means = (lambda: np.asarray(self.engine.project(L))), partial(self.class_means, L)
        return LearnedMap(L, self.rms(L), images, means)

    def class_means(self, L: np.ndarray, head: OutputHead) -> np.ndarray:
        """The mean over each class of the rows that a head gives."""
        precomputed = (self.engine.project(L),) if self.coordinates is None else ()
        task = HeadSums(Images(self.coordinates, L), head, self.unit.n_classes)
        return np.asarray(self.engine.sum(task, precomputed)[0] / self.size[:, None])

    def with_columns(self, n_anchors: int | None, rng: np.random.Generator) -> AnchoredRegression:
        """The same with `n_anchors` columns drawn by class; None compares all rows."""
        if n_anchors is None:
            return self
        engine = self.engine
        places = np.sort(draw_landmarks(engine.codes, engine.n_classes, n_anchors, rng))
        codes, rows = engine.codes[places], rows_at(engine, places)
        weights = np.ones(len(places)) if engine.weights is None else engine.weights[places]
        drawn = np.bincount(codes, weights, minlength=engine.n_classes)
        F = rows if self.coordinates is None else self.coordinates(rows)
        return replace(self, columns=(np.asarray(F), codes, weights * (self.size[codes] / drawn[codes])))


def anchored_regression(
    unit: UnitRows, features: Features, n_anchors: int | None, rng: np.random.Generator
) -> AnchoredRegression:
    """Rows in the eigenbasis of their features; features and coordinates of rows in memory are computed once."""
    held = unit.engine.mapped(features)
    engine, pending = (unit.engine, unit.pending) if held is None else (held, None)
    left = features if held is None else Features()  # to be computed in each pass
    basis, totals = _basis(engine, pending, left, unit.size, features.metric())
    coordinates = Coordinates(pending, left, basis.astype(engine.dtype))
    rows = engine.mapped(coordinates)
    if rows is None:
        regression = AnchoredRegression(unit, features, basis, totals, engine, coordinates)
    else:  # sorted once, not in each pass; sums of F itself keep more digits where V is large
        engine = rows.take(np.arange(rows.shape[0]))
        totals = class_sums(engine.X, engine.codes, engine.weights, engine.n_classes)
        regression = AnchoredRegression(unit, features, basis, totals, engine, None)
    return regression.with_columns(n_anchors, rng)


def _basis(
    engine: MemoryEngine, pending: Scaling | None, features: Features, size: np.ndarray, metric: np.ndarray | None
) -> tuple[Basis, np.ndarray]:
    """The eigenbasis of the features of an engine's rows, and the sums of their coordinates over each class."""
    n, q = engine.shape[0], features.width(engine.shape[1])
    if metric is None and n < q and engine.in_memory:
        basis = dual_basis(engine.X, engine.row_weights)
        return basis, class_sums(basis(engine.X), engine.row_codes, engine.row_weights, engine.n_classes)
    check_room(q, (n, q))
    G, sums = engine.sum(FeatureSums(pending, features, engine.n_classes))
    mean = sums.sum(axis=0) / size.sum()
    if engine.in_memory:  # in one product: with duplicate rows the numerical rank depends on its rounding
        w = np.ones(engine.X.shape[0]) if engine.row_weights is None else engine.row_weights
        mean = np.asarray(w @ engine.X, dtype=np.float64) / w.sum()
    basis = gram_basis(G, mean, float(size.sum()), metric)
    return basis, sums @ basis.V - np.outer(size, basis.offset)


# -- The fixed solution, and adapting from it --------------------------------------------------------------------------


def fixed_target(regression: AnchoredRegression, ridge: float, geometry: str) -> np.ndarray:
    """FᵀP₀ for the class target P₀: one-hot / √n_c in its C - 1 canonical directions, RMS row norm 1.

    In the geometry "lda" direction k is divided by √(ρ_k (1 - ρ_k)), ρ_k its canonical correlation.
    """
    rho, E, n_null = _canonical(regression.class_factors, regression.divisor(ridge))
    rho = np.clip(rho, NO_RHO, LARGEST_RHO)
    scale, null = np.ones_like(rho), 1.0
    if geometry == "lda":
        scale, null = 1 / np.sqrt(rho * (1 - rho)), NO_RHO * (1 - NO_RHO)
    scale *= np.sqrt(regression.size.sum() / (np.sum(scale**2) + n_null / null))
    return regression.class_factors @ (E * scale)


def _canonical(K: np.ndarray, divisor: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Canonical correlations ρ of features and classes, largest first, coefficients E of their directions K E, and how
    many further ones are zero.

    They are the eigenvalues of KᵀD⁻¹K, (C, C); where classes are more than the p features, of a p x p matrix.
    """
    p, C = K.shape
    if p == 0 or p + 1 >= C:
        rho, E = scipy.linalg.eigh(K.T @ (K / divisor))
        return rho[:0:-1], E[:, :0:-1], 0  # the smallest is the constant direction
    A = K / np.sqrt(divisor)
    rho, U = scipy.linalg.eigh(A @ A.T)
    rho, U = rho[::-1], U[:, ::-1]
    return rho, A.T @ (U / np.sqrt(np.maximum(rho, NO_RHO))), C - 1 - p


def adapt(
    regression: AnchoredRegression, target: np.ndarray, ridge: float, adaptation: float, trust: float
) -> np.ndarray:
    """The map L (p, r) after a few rounds of clamping, κ = `adaptation`; without it, it is the fixed solution."""
    divisor = regression.divisor(ridge)
    damping = 0.5 if adaptation <= 1 else 0.3
    FP = target
    for _ in range(ROUNDS if adaptation else 0):
        FP = (1 - damping) * FP + damping * (target + adaptation * regression.clamp_gradient(FP / divisor, trust))
    return FP / divisor


def cosine_clamp(size: np.ndarray) -> LabelTarget:
    """Intervals of cosines, the pairs within a class weighing as much as those between classes."""
    return LabelTarget(SAME, OTHER, same_weight=size.sum() / len(size) / size)


# -- What a block of rows contributes, in the library of its rows ------------------------------------------------------


@dataclass(frozen=True)
class Coordinates:
    """Rows to F: scaled, their features, in the eigenbasis."""

    scaling: Scaling | None
    features: Features
    basis: Basis

    def __call__(self, rows: Array) -> Array:
        return self.basis(self.features(scaled(self.scaling, rows)))


@dataclass(frozen=True)
class Images:
    """Rows to their images under a map L; `coordinates` None says that rows are F, and the block has their images."""

    coordinates: Coordinates | None
    L: Array

    def __call__(self, block: RowBlock) -> tuple[Array, Array]:
        """F of a block, and F L."""
        F = block.rows if self.coordinates is None else self.coordinates(block.rows)
        return F, block.precomputed[0] if block.precomputed else F @ like(self.L, F)


@dataclass(frozen=True)
class DirectionSums:
    """Sum of the images' directions per class, (n_classes, r)."""

    images: Images
    n_classes: int

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        z, _ = directions(self.images(block)[1])
        return (class_sums(z, block.codes, block.weights, self.n_classes),)


@dataclass(frozen=True)
class Clamp:
    """One round: images, class means of their directions (None: full trust), and what the clamp needs.

    `share` is C / n, the weight of a pair of two classes; `q` the RMS length of the images.
    """

    images: Images
    means: Array | None
    trust_scale: float
    share: float
    q: float
    target: LabelTarget

    def trust(self, z: Array, codes: np.ndarray) -> Array:
        """v_i = clip(mean cosine with its class / s, 0, 1)²: rows far from their class mean get little weight."""
        xp = namespace(z)
        if self.means is None:
            return xp.ones_like(z[:, 0])
        cosines = xp.linalg.vecdot(z, take_rows(like(self.means, z), codes))
        return xp.clip(cosines / self.trust_scale, min=0.0, max=1.0) ** 2

    def __call__(self, block: RowBlock) -> PassColumns:
        """All rows of a block as columns."""
        return self.columns(self.images(block)[1], block.codes, block.weights)

    def columns(self, Z: Array, codes: np.ndarray, weights: np.ndarray | None) -> PassColumns:
        """Images as columns on the host, each representing `weights` rows; summed with z_j and with v_j z_j."""
        z, _ = directions(Z)
        v, z = to_host(self.trust(z, codes)), to_host(z)
        weights = np.ones(len(codes)) if weights is None else weights
        starts = class_starts(codes, len(self.target.same_weight))  # type: ignore[arg-type]
        return PassColumns(z, starts, weights, z * (weights * v)[:, None])


@dataclass(frozen=True)
class ClampGradient:
    """FᵀΔ of a block against some columns, (p, r).

    Δ_i = (q²/|Z_i|)(I - z_i z_iᵀ)[(R + Rᵀ)Z̄]_i is by how much the clamp wants the image of row i moved, with
    R_ij = v_i w_ij (clamp(c_ij) - c_ij), w = 1/n_c within a class and C/n between classes. R differs from its transpose
    by the row trust v alone, so one pass with two sums T, of z_j and of v_j z_j, gives both.
    """

    clamp: Clamp
    gallery: tuple[PassColumns, ...] = ()

    def against(self, columns: tuple[PassColumns, ...]) -> ClampGradient:
        """The same with other columns."""
        return replace(self, gallery=columns)

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        clamp = self.clamp
        F, Z = clamp.images(block)
        z, norms = directions(Z)
        T: Array = sum(columns.residual(z, block.codes, clamp.target) for columns in self.gallery)
        r, xp = z.shape[1], namespace(z)
        wanted = -clamp.share * (clamp.trust(z, block.codes)[:, None] * T[:, :r] + T[:, r:])
        wanted = wanted - z * xp.linalg.vecdot(z, wanted)[:, None]
        reach = clamp.q * xp.clip(clamp.q / norms, max=LARGEST_STEP)
        if block.weights is not None:
            reach = reach * like(block.weights, z)
        return (to_host(F.T @ (wanted * reach[:, None])),)


@dataclass(frozen=True)
class HeadSums:
    """Sum over each class of the rows that a head gives, (n_classes, width); heads work on the host."""

    images: Images
    head: OutputHead
    n_classes: int

    def __call__(self, block: RowBlock) -> tuple[np.ndarray, ...]:
        z = self.head(np.asarray(to_host(self.images(block)[1])))
        return (class_sums(z, block.codes, block.weights, self.n_classes),)


def directions(Z: Array) -> tuple[Array, Array]:
    """Images divided by their lengths, and the lengths."""
    xp = namespace(Z)
    norms = xp.clip(xp.linalg.vector_norm(Z, axis=1), min=float(xp.finfo(Z.dtype).smallest_normal))
    return Z / norms[:, None], norms
