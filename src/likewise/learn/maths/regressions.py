"""Regressions of a class target on features of unit rows: anchored in an eigenbasis, or a kernel at full resolution.

Anchored: the paper's clamp on cosines, held close to the fixed solution by a ridge. Rows are F, in the eigenbasis of
their own Gram matrix, so that (FᵀF + λI)⁻¹ is a division. Targets are rows P of width r, and the map that fits them is
L(P) = (FᵀF + λI)⁻¹ FᵀP; only FᵀP is ever held. Starting from the class target P₀, the cosines of the mapped rows are
clamped as SLR clamps its scores, and what is missing, Δ, is added to the target: P ← (1 - b) P + b (P₀ + κΔ). The fixed
point is the first-order condition of

    κ q² ½ Σ v w (clamp(c) - c)² + ½ ‖(FᵀF + λI)^½ (L - L₀)‖²,

a ridge regression anchored at the fixed solution L₀.

A kernel at full resolution: every row is a landmark, or as many as memory holds. K is the RBF kernel of the unit
rows, centred on both sides. The target P is one-hot / √n_c in the C - 1 directions in which it varies, and the map is
α = (K + λI)⁻¹ P by one Cholesky factor, λ in units of K's mean diagonal. The images of the training rows follow without
a product, P - λα, and so do those that each would have had if it had been left out, P - α / diag (K + λI)⁻¹. There is
nothing to adapt here: training rows are all but interpolated, so the clamp finds no pair to move.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike
from scipy.linalg import solve_triangular

from likewise.learn.maths.engine import Columns, MemoryEngine, RowBlock
from likewise.learn.maths.kernels import (
    BaseMap,
    Basis,
    Features,
    FeatureSums,
    Scaling,
    UnitRows,
    compact,
    completed,
    dual_basis,
    gram_basis,
    padded,
    rows_at,
    sample,
    scaled,
)
from likewise.learn.maths.labels import LabelTarget, class_starts, class_sums, class_target, draw_landmarks
from likewise.learn.maths.passes import PassColumns
from likewise.learn.maths.scatter import (
    check_room,
    factor_raised,
    half_whitened,
    leading_directions,
    raised_ridge,
    upper_factor,
)
from likewise.learn.maths.setting import LearnedMap, OutputHead, Regression, Setting
from likewise.utils.arrays import Array, like, namespace, take_rows, to_host

SAME, OTHER = 0.9, 0.3  # δ1 and δ2 on cosines
ROUNDS = 4
LARGEST_RHO = 0.999
NO_RHO = 1e-12  # a direction in which classes do not differ
LARGEST_STEP = 3.0  # of q / |Z_i|: limits the step of rows with tiny embeddings
_TINY = 1e-300  # instead of zero, for classes without a row
MOST_BYTES = 10**9  # for the kernel, by default
ENOUGH_ROWS = 1_500  # for leading directions: more change nothing


# -- Anchored in an eigenbasis -----------------------------------------------------------------------------------------


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


# -- A kernel at full resolution ---------------------------------------------------------------------------------------


class _CentredKernel:
    """The kernel of unit rows with landmarks, less its `mean` over the rows learned from."""

    unit: UnitRows
    features: Features
    mean: np.ndarray

    def encode(self, rows: Array) -> np.ndarray:
        """Unit rows as their kernel with the landmarks, centred."""
        K = self.features(rows)
        K -= self.mean.astype(K.dtype)
        return np.asarray(K)

    def unfolded(self, L: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Projection and offset of the features themselves."""
        return L, self.mean @ L


class ExactKernel(_CentredKernel):
    """All rows as landmarks, in memory: the n x n kernel, and a map for each ridge."""

    def __init__(self, unit: UnitRows, gamma: float, dtype: DTypeLike | None = None, memory: int = MOST_BYTES) -> None:
        engine = unit.engine
        rows = compact(engine.rows(slice(None)))
        self.unit, self.features, self.memory = unit, Features(rows, unit.gamma(gamma)), memory
        self.weights = np.ones(rows.shape[0]) if engine.weights is None else engine.weights
        self.P = class_target(unit.size)[engine.codes]
        self._K, self.mean, self.mean_diagonal = self._centred(dtype or rows.dtype)

    def _centred(self, dtype: DTypeLike) -> tuple[np.ndarray, np.ndarray, float]:
        """√w_i K_ij √w_j centred, the mean of K's rows, and the mean diagonal."""
        rows = self.features.landmarks.astype(dtype, copy=False)
        K = Features(rows, self.features.gamma)(rows)
        total = self.weights.sum()
        mean = np.asarray(self.weights.astype(K.dtype) @ K, dtype=np.float64) / total
        overall = float(self.weights @ mean / total)
        K -= mean.astype(K.dtype)
        K -= (mean - overall).astype(K.dtype)[:, None]
        if self.unit.engine.weights is not None:
            root = np.sqrt(self.weights).astype(K.dtype)
            K *= root
            K *= root[:, None]
        return K, mean, 1.0 - overall

    def learn(self, setting: Setting, *, last: bool = False) -> LearnedMap:
        """The map of a ridge; the `last` one overwrites the kernel by its factor."""
        factor, ridge = self._factor(setting.ridge * self.mean_diagonal, last)
        roots = np.sqrt(self.weights)[:, None]
        targets = (roots * self.P).astype(factor.dtype)
        alpha = roots * scipy.linalg.cho_solve((factor, False), targets, check_finite=False)
        # Its sum is zero but for rounding, which 1 / λ has made large in the one direction that K does not know.
        alpha -= np.outer(self.weights / self.weights.sum(), alpha.sum(axis=0))
        precision = self.features.landmarks.dtype
        images = (self.P - ridge * alpha / self.weights[:, None]).astype(precision)
        rms = float(np.sqrt(self.weights @ np.einsum("ij,ij->i", images, images) / self.weights.sum()))
        means = partial(self._class_means, alpha, factor)
        return LearnedMap(alpha.astype(precision), rms, lambda: images, means)

    def _factor(self, ridge: float, last: bool) -> tuple[np.ndarray, float]:
        """The upper Cholesky factor of K + λI, and λ.

        Where all values of the kernel are close to one, single precision leaves K indefinite by more than λ: then K is
        computed again in double precision, or with a larger ridge where memory does not hold that.
        """
        A = self._K if last else self._K.copy()
        ridge = max(ridge, float(np.finfo(A.dtype).eps) * len(A))  # less would be rounding
        while True:
            A[np.diag_indices(len(A))] += A.dtype.type(ridge)
            factor = upper_factor(A)
            if factor is not None:
                return factor, ridge
            wider = A.dtype != np.float64 and 8 * len(A) ** 2 <= self.memory
            if not wider:
                ridge = raised_ridge(ridge, self.weights.max())
            dtype = np.float64 if wider else A.dtype
            del A  # before another one is allocated
            A = self._centred(dtype)[0]

    def left_out(self, alpha: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """Images that each row would have had if it had been left out."""
        (potri,) = scipy.linalg.get_lapack_funcs(("potri",), (factor,))
        inverse = potri(factor, lower=0, overwrite_c=0)[0].diagonal()
        return np.asarray(self.P - alpha / (self.weights * inverse)[:, None])

    def _class_means(self, alpha: np.ndarray, factor: np.ndarray, head: OutputHead) -> np.ndarray:
        """Of images left out: fitted ones are closer to their target than any other."""
        z = head(self.left_out(alpha, factor).astype(self.features.landmarks.dtype))
        sums = class_sums(z, self.unit.engine.codes, self.unit.engine.weights, self.unit.n_classes)
        return np.asarray(sums / np.maximum(self.unit.size, 1e-300)[:, None])


class LandmarkKernel(_CentredKernel):
    """Some rows as landmarks: the same regression, from one pass that sums their kernel with all rows.

    With T the Cholesky factor of the landmarks' own kernel, F = K T⁻¹ has the inner products of the kernel, and the map
    is (FᵀF + λI)⁻¹ FᵀP, by a second factor; it costs m² per row, and no row is visited again.
    """

    def __init__(self, unit: UnitRows, features: Features) -> None:
        self.unit, self.features = unit, features
        G, sums = unit.engine.sum(FeatureSums(unit.pending, features, unit.n_classes))
        total = unit.size.sum()
        self.mean = sums.sum(axis=0) / total
        G -= total * np.outer(self.mean, self.mean)
        self.T = factor_raised(features.metric(), 0.0)[0]  # type: ignore[arg-type]
        left = solve_triangular(self.T, G, trans=1, overwrite_b=True, check_finite=False)
        self.FF = solve_triangular(self.T, left.T, trans=1, overwrite_b=True, check_finite=False)
        FP = (sums - np.outer(unit.size, self.mean)).T @ class_target(unit.size)
        self.FP = solve_triangular(self.T, FP, trans=1, check_finite=False)

    def learn(self, setting: Setting, *, last: bool = False) -> LearnedMap:
        """The map of a ridge."""
        factor, ridge = factor_raised(self.FF, setting.ridge * max(1.0 - float(self.mean.mean()), 0.0))
        L = scipy.linalg.cho_solve((factor, False), self.FP, check_finite=False)
        rms = float(np.sqrt(np.sum(L * (self.FP - ridge * L)) / self.unit.size.sum()))
        projection, engine = solve_triangular(self.T, L, check_finite=False), self.unit.engine

        def images() -> np.ndarray:
            return self.encode(engine.rows(slice(None))) @ projection.astype(engine.dtype)

        return LearnedMap(projection, rms, images, partial(self._class_means, projection))

    def _class_means(self, projection: np.ndarray, head: OutputHead) -> np.ndarray:
        """In one more pass."""
        unit, basis = self.unit, Basis(projection, np.empty(0), self.mean @ projection, 1.0)
        images = Images(Coordinates(unit.pending, self.features, basis), np.eye(projection.shape[1]))
        task = HeadSums(images, head, unit.n_classes)
        return np.asarray(unit.engine.sum(task)[0] / np.maximum(unit.size, 1e-300)[:, None])


# -- Which regression the rows get: anchored in an eigenbasis, or a kernel at full resolution --------------------------


@dataclass(frozen=True)
class RegressionFactory:
    """Makes the regression of some rows: what a caller has decided about kernels and sizes.

    `n_landmarks` landmarks are few on purpose: they are anchored like a linear map. None is full resolution: all rows
    if their n x n kernel fits into `memory` bytes, else as many landmarks as leave room for five m x m matrices in
    double precision. An anchored map compares each row with `n_anchors` columns, None with all rows. The raw part of
    a vector has at most `raw_width` columns.
    """

    n_landmarks: int | None = None
    n_anchors: int | None = 1000
    seed: int = 0
    memory: int = MOST_BYTES
    raw_width: int | None = 256

    def __call__(self, unit: UnitRows, gamma: float) -> Regression:
        """The regression for one γ, 0 is linear."""
        rng = np.random.default_rng(self.seed)
        if not self.full_resolution(gamma):
            return anchored_regression(unit, unit.kernel(gamma, self.n_landmarks or 1, rng), self.n_anchors, rng)
        if not self.holds_kernel(unit.engine.shape):
            most = max(int(np.sqrt(self.memory / 40)), 1)
            return LandmarkKernel(unit, unit.kernel(gamma, most, rng))
        if not unit.engine.in_memory:  # on disk or elsewhere, and few enough to be brought here
            unit = UnitRows(sample(unit.engine, unit.engine.shape[0], rng)[0], unit.scaling)
        n, dtype = unit.engine.shape[0], unit.engine.dtype
        dtype = dtype if n * n * dtype.itemsize <= self.memory else np.dtype(np.float32)
        return ExactKernel(unit, gamma, dtype, self.memory)

    def full_resolution(self, gamma: float) -> bool:
        """Whether a kernel of this γ takes as many landmarks as there is room for."""
        return bool(gamma) and self.n_landmarks is None

    def holds_kernel(self, shape: tuple[int, int]) -> bool:
        """Whether n x n numbers in single precision fit, and the rows themselves."""
        n, d = shape
        return 4 * n * max(n, d) <= self.memory

    def base_map(self, unit: UnitRows, share: float) -> BaseMap:
        """The base part: the leading directions of the rows, half whitened, that is divided by √ of their deviation.

        Whitening brings the cosine of unlike rows closer to zero, so that this part costs less; near-duplicates stay
        close. Where the base part is all there is, it is the plain cosine. Learned from some rows, once. Its width is
        always the same.
        """
        half = bool(share)
        if half not in unit.base_maps:
            width = self.base_width(unit.source.shape[1])
            if unit.directions is None:
                some = sample(unit.engine, ENOUGH_ROWS, np.random.default_rng(self.seed))[0]
                weights = np.ones(some.X.shape[0]) if some.row_weights is None else some.row_weights
                rows = compact(scaled(unit.pending, some.X))
                unit.directions = leading_directions(rows, weights, min(width, *rows.shape), unit.mean)
            V = unit.directions[1]
            B = half_whitened(*unit.directions) if half else completed(V, min(width, len(V)))
            unit.base_maps[half] = BaseMap(unit.mean, padded(B, width))
        return unit.base_maps[half]

    def base_width(self, d: int) -> int:
        """Columns of the base part of rows of d columns; standardised rows have one more."""
        return min(self.raw_width or d + 1, d + 1)
