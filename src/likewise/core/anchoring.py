"""The anchored map: the paper's clamp on cosines, held close to the fixed solution by a ridge.

Rows are F, in the eigenbasis of their own Gram matrix, so that (FᵀF + λI)⁻¹ is a division. Targets are rows P of width
r, and the map that fits them is L(P) = (FᵀF + λI)⁻¹ FᵀP; only FᵀP is ever held. Starting from the class target P₀, the
cosines of the mapped rows are clamped as SLR clamps its scores, and what is missing, Δ, is added to the target:
P ← (1 - b) P + b (P₀ + κΔ). The fixed point is the first-order condition of

    κ q² ½ Σ v w (clamp(c) - c)² + ½ ‖(FᵀF + λI)^½ (L - L₀)‖²,

a ridge regression anchored at the fixed solution L₀.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.linalg

from likewise.core.passes import Gallery, excess, ordered_map, row_blocks
from likewise.core.sampling import draw_landmarks
from likewise.core.targets import LabelTarget, class_starts

__all__ = [
    "AnchoredRows",
    "LabelledRows",
    "Rounds",
    "adapt",
    "class_means",
    "confidence_of",
    "cosine_clamp",
    "directions",
    "fixed_target",
    "labelled_rows",
    "moves",
    "reach",
]

SAME, OTHER = 0.9, 0.3  # δ1 and δ2 on cosines
ROUNDS = 4
LARGEST_RHO = 0.999
LARGEST_PUSH = 3.0  # of q / |Z_i|: a row mapped close to zero must not be thrown about


class AnchoredRows(Protocol):
    """What a map is learned from: eigenvalues of FᵀF, classes, and one sum over all pairs; F may be anywhere."""

    @property
    def g(self) -> np.ndarray: ...
    @property
    def unit(self) -> float: ...
    @property
    def size(self) -> np.ndarray: ...
    @property
    def class_factors(self) -> np.ndarray:
        """FᵀP for P one-hot / √n_c, (p, n_classes)."""

    def push(self, L: np.ndarray, confidence: float) -> np.ndarray:
        """FᵀΔ, by how much the clamp wants each row's image moved."""


class Rounds(Protocol):
    """Where the rounds of a fit are kept, so that one that was stopped goes on."""

    def resume(self, FP: np.ndarray) -> tuple[np.ndarray, int]:
        """FᵀP to go on from, `FP` itself at the start, and how many rounds it has behind it."""

    def save(self, FP: np.ndarray, done: int) -> None:
        """Keep FᵀP after a round."""


@dataclass(frozen=True)
class LabelledRows:
    """Rows F sorted by label, eigenvalues g of FᵀF, and the columns that every row is compared with.

    `unit` is the mean eigenvalue, in which λ is given; `size` is the weight of each class, `column_weights` what each
    column stands for.
    """

    F: np.ndarray
    g: np.ndarray
    unit: float
    codes: np.ndarray
    weights: np.ndarray
    size: np.ndarray
    columns: np.ndarray
    column_weights: np.ndarray

    @property
    def n_classes(self) -> int:
        return len(self.size)

    @cached_property
    def class_factors(self) -> np.ndarray:
        """FᵀP for P one-hot / √n_c: what every target starts from, (p, n_classes)."""
        return class_sums(self.F, self) / np.sqrt(np.maximum(self.size, np.finfo(float).tiny))

    def images(self, L: np.ndarray) -> np.ndarray:
        """F L, in the precision of F."""
        L, blocks = L.astype(self.F.dtype), row_blocks(len(self.F))
        return np.concatenate(list(ordered_map(lambda block: self.F[block] @ L, blocks)))

    def push(self, L: np.ndarray, confidence: float) -> np.ndarray:
        """FᵀΔ, by how much the clamp wants each row's image moved; see `moves`."""
        return _push(self, L, confidence)


def labelled_rows(
    F: np.ndarray,
    g: np.ndarray,
    unit: float,
    codes: np.ndarray,
    n_classes: int,
    weights: np.ndarray | None,
    n_landmarks: int | None,
    rng: np.random.Generator,
) -> LabelledRows:
    """Sort rows by label and draw the columns, by class; all rows if they are no more than `n_landmarks`."""
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    weights = np.ones(len(codes)) if weights is None else weights[order]
    size = np.bincount(codes, weights, minlength=n_classes)
    if n_landmarks is None or n_landmarks >= len(codes):
        columns = np.arange(len(codes))
    else:
        columns = np.sort(draw_landmarks(codes, n_classes, n_landmarks, rng))
    drawn = np.bincount(codes[columns], weights[columns], minlength=n_classes)
    column_weights = weights[columns] * (size[codes[columns]] / drawn[codes[columns]])
    return LabelledRows(F[order], g, unit, codes, weights, size, columns, column_weights)


def fixed_target(rows: AnchoredRows, ridge: float, lda: bool) -> np.ndarray:
    """FᵀP₀ for the class target P₀: one-hot / √n_c in its C - 1 canonical directions, RMS row norm 1.

    With `lda` direction k is divided by √(ρ_k (1 - ρ_k)), ρ_k its canonical correlation: the geometry of LDA.
    """
    K = rows.class_factors
    rho, E = scipy.linalg.eigh(K.T @ (K / (rows.g + ridge * rows.unit)[:, None]))
    rho, E = np.clip(rho[:0:-1], 1e-12, LARGEST_RHO), E[:, :0:-1]  # the least is the constant direction
    scale = 1 / np.sqrt(rho * (1 - rho)) if lda else np.ones_like(rho)
    scale *= np.sqrt(rows.size.sum() / np.sum(scale**2))
    return K @ (E * scale)


def adapt(
    rows: AnchoredRows,
    target: np.ndarray,
    ridge: float,
    pull: float,
    confidence: float,
    saved: Rounds | None = None,
) -> np.ndarray:
    """The map L (p, r) after a few rounds of clamping, κ = `pull`; without pull it is the fixed solution."""
    divisor = (rows.g + ridge * rows.unit)[:, None]
    damping = 0.5 if pull <= 1 else 0.3
    FP, done = (target, 0) if saved is None else saved.resume(target)
    for number in range(done, ROUNDS if pull else 0):
        FP = (1 - damping) * FP + damping * (target + pull * rows.push(FP / divisor, confidence))
        if saved is not None:
            saved.save(FP, number + 1)
    return FP / divisor


def _push(rows: LabelledRows, L: np.ndarray, confidence: float) -> np.ndarray:
    Z = rows.images(L)
    z, norms = directions(Z)
    q = np.sqrt(np.average(norms.astype(float) ** 2, weights=rows.weights))
    v = _confidence(z, rows, confidence)
    gallery, clamp = _columns(z, v, rows), cosine_clamp(rows.size)

    def block_sum(block: slice) -> np.ndarray:
        T = excess(z[block], rows.codes[block], gallery, clamp)
        moved = moves(z[block], v[block], T, reach(norms[block], q) * rows.weights[block], rows.size)
        return rows.F[block].T @ moved.astype(rows.F.dtype)

    return sum(map(_double, ordered_map(block_sum, row_blocks(len(z)))), np.zeros_like(L))


def moves(z: np.ndarray, v: np.ndarray, T: np.ndarray, scale: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Δ_i = (q²/|Z_i|)(I - z_i z_iᵀ)[(R + Rᵀ)Z̄]_i: by how much the clamp wants each row's image moved.

    R_ij = v_i w_ij (clamp(c_ij) - c_ij), with w = 1/n_c for one class and C/n for two. R differs from its transpose by
    the row confidence v alone, so one pass with two sums T, of z_j and of v_j z_j, gives both.
    """
    r = z.shape[1]
    wanted = -(len(size) / size.sum()) * (v[:, None] * T[:, :r] + T[:, r:])
    wanted -= z * np.sum(z * wanted, axis=1, keepdims=True)
    return wanted * scale[:, None]


def directions(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Images of length one, and their lengths."""
    norms = np.maximum(np.linalg.norm(Z, axis=1), np.finfo(Z.dtype).tiny)
    return Z / norms[:, None], norms


def reach(norms: np.ndarray, q: float) -> np.ndarray:
    """q²/|Z_i|, q the RMS length of all images; bounded for a row that is mapped close to zero."""
    return q * np.minimum(q / norms, LARGEST_PUSH)


def cosine_clamp(size: np.ndarray) -> LabelTarget:
    """Intervals of cosines, the pairs of one class weighing as much as those of two."""
    return LabelTarget(SAME, OTHER, same_weight=size.sum() / len(size) / np.maximum(size, 1e-300))


def _columns(z: np.ndarray, v: np.ndarray, rows: LabelledRows) -> Gallery:
    """The columns of the pass, with the two sums it takes."""
    Q, weights = z[rows.columns], rows.column_weights
    starts = class_starts(rows.codes[rows.columns], rows.n_classes)
    return Gallery(Q, starts, weights, Q * (weights * v[rows.columns])[:, None])


def _confidence(z: np.ndarray, rows: LabelledRows, scale: float) -> np.ndarray:
    """v_i = clip(mean cosine with its own class / scale, 0, 1)²: a row that sits among others pulls little."""
    return confidence_of(z, class_means(z, rows)[rows.codes], scale) if scale else np.ones(len(z))


def confidence_of(z: np.ndarray, own: np.ndarray, scale: float) -> np.ndarray:
    """The confidence of rows z, given the mean of the class of each."""
    return np.clip(np.einsum("ij,ij->i", z, own) / scale, 0, 1) ** 2


def class_sums(V: np.ndarray, rows: LabelledRows) -> np.ndarray:
    """Weighted sum of the rows of V in each class, a column a class, in float64."""
    starts = class_starts(rows.codes, rows.n_classes)
    sums = np.zeros((V.shape[1], rows.n_classes))
    for c in np.flatnonzero(np.diff(starts)):
        part = slice(starts[c], starts[c + 1])
        sums[:, c] = rows.weights[part].astype(V.dtype) @ V[part]
    return sums


def class_means(V: np.ndarray, rows: LabelledRows) -> np.ndarray:
    """Weighted mean of the rows of V in each class, a row a class."""
    return (class_sums(V, rows) / np.maximum(rows.size, np.finfo(float).tiny)).T


def _double(part: np.ndarray) -> np.ndarray:
    return part.astype(np.float64)
