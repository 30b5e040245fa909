"""The LLC features of the SLR paper: dense SIFT, locality-constrained coding, spatial pyramid, PCA."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.extmath import randomized_range_finder
from threadpoolctl import threadpool_limits

from likewise.errors import LikewiseError
from likewise.pictures.base import ImageExtractor, map_groups
from likewise.pictures.images import LUMA, ImageError, load_image, shrink
from likewise.utils.validation import Interval, check_is_fitted, validate_data

_MAX_CODEBOOK_IMAGES = 2000
_MAX_PCA_ROWS = 10_000  # bounds the memory of the Gram matrix
_BLOCK = 256  # descriptors at a time: their scores with 2,048 words fit in the cache of a core

COUNT = Interval(Integral, 1, None, closed="left")
# As in the paper: sides of the SIFT patches and their distance in pixels, in images of at most LONGEST pixels on their
# longer side; the ridge of the coding, relative to the trace; and the grids of the spatial pyramid, each level × level.
PATCHES, STEP, LONGEST = (16, 24, 32), 8, 300
BETA = 1e-4
LEVELS = (1, 2, 4)
N_BINS = 8
N_CELLS = 4
WIDTH = N_BINS * N_CELLS * N_CELLS
# Gradients below this length (grey in 0..1, weighted sum over a patch) are noise of flat regions and JPEG blocks: such
# descriptors are divided by the floor and stay short, instead of being scaled to unit length.
FLOOR = 0.1


class LLC(ImageExtractor):
    """Locality-constrained linear codes of dense SIFT over a spatial pyramid, reduced by PCA.

    `fit` learns the codebook and the PCA from the images it is given.

    Parameters
    ----------
    n_words : size of the codebook
    n_components : number of PCA components; None keeps the pooled codes, n_words × 21 columns
    n_neighbors : words per descriptor
    n_descriptors : number of descriptors that the codebook is learned from
    n_jobs : number of threads; None uses all cores
    random_state : seed of sampling and k-means
    """

    name: ClassVar[str] = "llc"
    learns: ClassVar[bool] = True
    group: ClassVar[int] = 1
    raw_dtype: ClassVar[Any] = np.float16
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{name: [COUNT] for name in ("n_words", "n_neighbors", "n_descriptors")},
        "n_components": [COUNT, None],
        **dict.fromkeys(("n_jobs", "random_state"), "no_validation"),
    }

    def __init__(
        self,
        n_words: int = 2048,
        n_components: int | None = 1000,
        n_neighbors: int = 5,
        n_descriptors: int = 200_000,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_words = n_words
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.n_descriptors = n_descriptors
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit_images(self, sources: Sequence[Any]) -> None:
        """Learn the codebook by k-means from descriptors of at most 2,000 images."""
        from sklearn.cluster import KMeans

        D = self._sample_descriptors(sources)
        if len(D) < self.n_words:
            raise LikewiseError(
                f"the images have {len(D)} descriptors, fewer than n_words={self.n_words}; "
                "expected more images or fewer words"
            )
        kmeans = KMeans(self.n_words, init="random", n_init=1, max_iter=25, tol=0, random_state=self.random_state)
        # One thread: a fixed order of summation, so that a restarted run learns the same words.
        with threadpool_limits(1, user_api="openmp"):
            self.codebook_ = kmeans.fit(D).cluster_centers_.astype(np.float32)
        self.prepare()

    def fit_rows(self, rows: np.ndarray, numbers: np.ndarray | None = None) -> None:
        if self.n_components is None:
            return
        numbers = np.arange(len(rows)) if numbers is None else numbers
        if len(numbers) > _MAX_PCA_ROWS:
            rng = np.random.default_rng(self.random_state)
            numbers = np.sort(rng.choice(numbers, _MAX_PCA_ROWS, replace=False))
        pca = DualPCA(self.n_components, self.random_state).fit(rows, numbers=numbers)
        self.mean_, self.components_ = pca.mean_, pca.components_
        if hasattr(self, "_live_components"):
            del self._live_components

    def images_fitted(self) -> bool:
        return hasattr(self, "codebook_")

    def rows_fitted(self) -> bool:
        return self.n_components is None or hasattr(self, "components_")

    def _sample_descriptors(self, sources: Sequence[Any]) -> np.ndarray:
        rng = np.random.default_rng(self.random_state)
        chosen = rng.permutation(len(sources))[:_MAX_CODEBOOK_IMAGES]
        each = -(-self.n_descriptors // len(chosen))
        seeds = rng.integers(2**63, size=len(chosen))

        def work(task: tuple[int, int]) -> np.ndarray:
            D = self._descriptors_of(sources[task[0]])
            picked = np.random.default_rng(task[1]).permutation(len(D))[:each]
            return D[np.sort(picked)]

        self.prepare()
        tasks = list(zip(chosen.tolist(), seeds.tolist(), strict=True))
        return np.concatenate(list(map_groups(work, tasks, self.n_jobs)))

    def _descriptors_of(self, source: Any) -> np.ndarray:
        """The descriptors that are not flat; none for an unusable image, which the main pass reports."""
        D = np.empty((0, WIDTH), np.float32)
        with suppress(ImageError):
            image = load_image(source, self.at_least())
            self.check_image(image)
            D = self.descriptors(image)[0]
        return D[np.einsum("ij,ij->i", D, D) > 0.5]

    def descriptors(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """SIFT descriptors (n, 128) of an image at all patch sizes, and their centres (y, x) in 0..1."""
        small = shrink(image, LONGEST)
        maps = orientation_maps((small @ LUMA) / np.float32(255))
        parts = [dense_sift(maps, size, STEP) for size in PATCHES if size <= min(small.shape[:2])]
        centres = np.concatenate([centre for _, centre in parts]) / np.array(small.shape[:2])
        return np.concatenate([D for D, _ in parts]), centres

    def rows(self, images: Sequence[np.ndarray]) -> np.ndarray:
        codes = []
        for image in images:
            D, places = self.descriptors(image)
            words, dots = nearest_words(D, self.codebook_, self._live_half_norms, self.n_neighbors)
            weights = llc_weights(D, words, dots, self._live_gram, BETA)
            code = max_pool(words, weights, places, len(self.codebook_), LEVELS)
            codes.append(code / max(float(np.linalg.norm(code)), 1e-12))
        return np.stack(codes).astype(np.float16)

    def finish(self, rows: np.ndarray) -> np.ndarray:
        if self.n_components is None:
            features = np.asarray(rows, dtype=np.float32)
        else:
            if not hasattr(self, "_live_components"):
                self._live_components = self.components_.astype(np.float32)
            features = project(np.asarray(rows), self.mean_, self._live_components)
        if not np.isfinite(features).all():
            raise LikewiseError("the features contain NaN or infinity: the codebook or the components are damaged")
        return features

    def prepare(self) -> None:
        self._validate_params()
        if self.n_neighbors > self.n_words:
            raise LikewiseError(
                f"n_neighbors={self.n_neighbors} is above n_words={self.n_words}: expected at most that"
            )
        if self.images_fitted() and not hasattr(self, "_live_gram"):
            gram = self.codebook_ @ self.codebook_.T
            self._live_half_norms = np.diag(gram) / 2
            self._live_gram = gram

    def check_image(self, image: np.ndarray) -> None:
        height, width = image.shape[:2]
        scale = min(1.0, LONGEST / max(height, width))
        if round(min(height, width) * scale) < PATCHES[0]:
            shrunk = f" when its longer side is reduced to {LONGEST}" if scale < 1 else ""
            size = f"is {width} × {height} pixels, smaller than a patch of {PATCHES[0]} pixels"
            raise ImageError(f"{size}{shrunk}", "too small")

    def at_least(self) -> int | None:
        return LONGEST

    def _check_loaded(self) -> None:
        """Raise if the shapes of what was read from a file do not fit the parameters."""
        self._validate_params()
        width, n = self.raw_width(), len(getattr(self, "components_", ()))
        for name, shape in (("codebook_", (self.n_words, WIDTH)), ("mean_", (width,)), ("components_", (n, width))):
            if hasattr(self, name) and np.shape(getattr(self, name)) != shape:
                raise LikewiseError(f"{name} has shape {np.shape(getattr(self, name))}; expected {shape}")
        if hasattr(self, "mean_") != hasattr(self, "components_"):
            raise LikewiseError("mean_ and components_ belong together: expected both or none")
        if not self.images_fitted():
            raise LikewiseError("codebook_ is missing: a saved extractor has the words of its codes")

    def raw_width(self) -> int:
        return int(self.n_words) * sum(level**2 for level in LEVELS)

    def n_features_out(self) -> int:
        return self.raw_width() if self.n_components is None else len(self.components_)

    def feature_dtype(self) -> Any:
        return np.float16 if self.n_components is None else np.float32


# -- Locality-constrained linear coding (Wang et al. 2010) and max pooling over a spatial pyramid ----------------------


def nearest_words(D: np.ndarray, codebook: np.ndarray, half_norms: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest words of each descriptor, nearest first, and the inner products with them, both (n, k).

    |d − c|² is smallest where d·c − |c|²/2 is largest. For few words, k calls of `argmax` beat a partition.
    """
    words = np.empty((len(D), k), np.int64)
    dots = np.empty((len(D), k), np.float32)
    for i in range(0, len(D), _BLOCK):
        S = D[i : i + _BLOCK] @ codebook.T
        S -= half_norms
        row = np.arange(len(S))
        for j in range(k):
            best = S.argmax(axis=1)
            words[i : i + _BLOCK, j] = best
            dots[i : i + _BLOCK, j] = S[row, best] + half_norms[best]
            S[row, best] = -np.inf
    return words, dots


def llc_weights(D: np.ndarray, words: np.ndarray, dots: np.ndarray, gram: np.ndarray, beta: float) -> np.ndarray:
    """Weights (n, k) that sum to one: (C + β tr(C) I) w = 1, C being the covariance of the words around the descriptor.

    C_ij = (c_i − d)·(c_j − d), from the Gram matrix of the codebook and the inner products.
    """
    squares = np.einsum("ij,ij->i", D, D)
    C = gram[words[:, :, None], words[:, None, :]] - dots[:, :, None] - dots[:, None, :] + squares[:, None, None]
    C, diagonal = C.astype(np.float64), np.arange(words.shape[1])
    ridge = np.maximum(beta * np.einsum("nii->n", C), 1e-12)  # positive even if a descriptor equals all its words
    C[:, diagonal, diagonal] += ridge[:, None]
    w = np.linalg.solve(C, np.ones((*words.shape, 1)))[:, :, 0]
    return w / w.sum(axis=1, keepdims=True)


def max_pool(
    words: np.ndarray, weights: np.ndarray, places: np.ndarray, n_words: int, levels: Sequence[int]
) -> np.ndarray:
    """The largest weight of each word in each cell of an L × L grid for each level L, concatenated.

    `places` are the centres (y, x) of the descriptors in 0..1. A word that no descriptor of a cell uses counts as 0, as
    in the code of the paper, so a pooled weight is never negative.
    """
    out, first = np.zeros(n_words * sum(level**2 for level in levels), np.float32), 0
    for level in levels:
        cell = np.minimum((places * level).astype(np.int64), level - 1)
        at = first + (cell[:, :1] * level + cell[:, 1:]) * n_words + words
        np.maximum.at(out, at.ravel(), weights.astype(np.float32).ravel())
        first += n_words * level**2
    return out


# -- Dense SIFT: the descriptors of a grid of patches by matrix products -----------------------------------------------
#
# A SIFT histogram is linear in the eight maps of gradient magnitude by orientation. Each of its 4 × 4 cells is a
# weighted sum of pixels, and the weight is a product of a factor along x and one along y (a triangle two cells wide
# times a Gaussian over the patch). So all cells of all patches are A_y · map · A_xᵀ, with one row of A per cell.


def dense_sift(maps: np.ndarray, patch: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Descriptors (n, 128) of `patch` × `patch` pixels every `step` pixels, and their centres (n, 2) as (y, x)."""
    height, width = maps.shape[1:]
    Ay, Ax = _cells(height, patch, step), _cells(width, patch, step)
    along_x = (maps.reshape(-1, width) @ Ax.T).reshape(N_BINS, height, -1)
    cells = Ay @ along_x
    ny, nx = len(Ay) // N_CELLS, len(Ax) // N_CELLS
    grid = cells.reshape(N_BINS, ny, N_CELLS, nx, N_CELLS).transpose(1, 3, 2, 4, 0)
    y, x = starts(height, patch, step), starts(width, patch, step)
    centres = np.stack(np.meshgrid(y, x, indexing="ij"), axis=-1).reshape(-1, 2) + patch / 2
    # Unit length, no entry above 0.2, unit length again (Lowe 2004); short descriptors stay short.
    D = grid.reshape(ny * nx, WIDTH)
    length = np.sqrt(np.einsum("ij,ij->i", D, D))
    D = np.minimum(D / np.maximum(length, FLOOR)[:, None], 0.2, dtype=np.float32)
    again = np.sqrt(np.einsum("ij,ij->i", D, D))
    scale = np.minimum(length / FLOOR, 1) / np.maximum(again, 1e-12)
    return D * scale[:, None].astype(np.float32), centres


def orientation_maps(grey: np.ndarray) -> np.ndarray:
    """Gradient magnitude, split linearly between the two nearest of eight orientations, (8, height, width)."""
    padded = np.pad(grey, 1, mode="edge")
    dx = padded[1:-1, 2:] - padded[1:-1, :-2]
    dy = padded[2:, 1:-1] - padded[:-2, 1:-1]
    magnitude = np.sqrt(dx * dx + dy * dy)
    turn = np.arctan2(dy, dx) * np.float32(N_BINS / (2 * np.pi))
    low = np.floor(turn)
    share = (turn - low) * magnitude
    low = low.astype(np.int64) % N_BINS
    maps = np.zeros((N_BINS, grey.size), np.float32)
    pixel = np.arange(grey.size)
    maps[low.ravel(), pixel] = (magnitude - share).ravel()
    maps[(low.ravel() + 1) % N_BINS, pixel] = share.ravel()
    return maps.reshape(N_BINS, *grey.shape)


def starts(length: int, patch: int, step: int) -> np.ndarray:
    """First pixel of each patch along one side, the grid being centred."""
    step = min(step, length)  # a longer one is as good: there is one patch
    n = (length - patch) // step + 1 if length >= patch else 0
    offset = (length - patch - (n - 1) * step) // 2 if n else 0
    return offset + step * np.arange(n)


@lru_cache(maxsize=256)
def _cells(length: int, patch: int, step: int) -> np.ndarray:
    """Weights (4 n, length) of the pixels along one side in the four cells of each patch."""
    first = starts(length, patch, step)
    cell = patch / N_CELLS
    pixel = np.arange(length)
    middle = first[:, None] + (np.arange(N_CELLS) + 0.5) * cell - 0.5
    triangle = np.maximum(0, 1 - np.abs(pixel - middle[:, :, None]) / cell)
    from_centre = pixel - (first[:, None, None] + patch / 2 - 0.5)
    window = np.exp(-0.5 * (from_centre / (patch / 2)) ** 2)
    weights = (triangle * window).reshape(-1, length) / cell
    return np.ascontiguousarray(weights, dtype=np.float32)


_COLUMNS = 2048  # read at a time: one page per row of a memory-mapped float16 file
_ROWS = 512
_EXACT = 2000  # rows; a full eigendecomposition takes seconds
_ANY_NUMBERS: dict[str, Any] = {"dtype": None, "ensure_all_finite": False}  # neither copied nor read from disk at once


class DualPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal components from the n × n Gram matrix, for rows too wide for a covariance matrix.

    Rows may be float16 and memory-mapped; they are read in blocks. Components are stored as float16, whose rounding
    changes a projection by about 1e-4 of its length.

    Parameters
    ----------
    n_components : number of components; lowered to the largest possible rank
    random_state : seed of the randomised range finder, used above 2,000 rows
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {"n_components": [COUNT], "random_state": "no_validation"}

    def __init__(self, n_components: int = 1000, random_state: int = 0) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, numbers: np.ndarray | None = None) -> Self:
        """Learn from the rows of X, or from the rows with the given numbers."""
        self._validate_params()
        X = validate_data(self, X, **_ANY_NUMBERS)
        numbers = np.arange(len(X)) if numbers is None else np.asarray(numbers)
        if len(numbers) < 2:
            raise LikewiseError(f"PCA got {len(numbers)} row; expected at least 2")

        def blocks() -> Iterator[tuple[slice, np.ndarray]]:
            for j in range(0, X.shape[1], _COLUMNS):
                yield slice(j, j + _COLUMNS), X[:, j : j + _COLUMNS][numbers].astype(np.float32)

        n, d = len(numbers), X.shape[1]
        mean, gram = np.empty(d, np.float32), np.zeros((n, n), np.float32)
        for columns, block in blocks():
            mean[columns] = block.mean(axis=0, dtype=np.float64)
            block -= mean[columns]
            gram += block @ block.T
        values, vectors = _leading(gram, min(self.n_components, n - 1, d), self.random_state)
        weights = (vectors / np.sqrt(values)).astype(np.float32)
        components = np.empty((len(values), d), np.float32)
        for columns, block in blocks():
            components[:, columns] = weights.T @ (block - mean[columns])
        self.mean_, self.explained_variance_, self.components_ = mean, values / (n - 1), components.astype(np.float16)
        return self

    def transform(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **_ANY_NUMBERS)
        return project(X, self.mean_, self.components_.astype(np.float32))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def project(X: np.ndarray, mean: np.ndarray, components: np.ndarray) -> np.ndarray:
    """(X − mean) · componentsᵀ, in blocks."""
    out = np.empty((len(X), len(components)), np.float32)
    for i in range(0, len(X), _ROWS):
        out[i : i + _ROWS] = (X[i : i + _ROWS].astype(np.float32) - mean) @ components.T
    return out


def _leading(gram: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues, in descending order, and their eigenvectors, without those below rounding."""
    if len(gram) <= _EXACT:
        values, vectors = scipy.linalg.eigh(gram.astype(np.float64), subset_by_index=(len(gram) - k, len(gram) - 1))
    else:
        basis = randomized_range_finder(gram, size=min(len(gram), k + k // 5 + 10), n_iter=3, random_state=seed)
        values, inner = scipy.linalg.eigh((basis.T @ (gram @ basis)).astype(np.float64))
        values, vectors = values[-k:], basis @ inner[:, -k:]
    keep = values > max(values[-1], 0) * 1e-6
    if not keep.any():
        raise LikewiseError("all rows are equal; expected at least two different ones")
    return values[keep][::-1], vectors[:, keep][:, ::-1]
