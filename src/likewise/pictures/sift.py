"""Dense SIFT: the descriptors of a grid of patches by matrix products.

A SIFT histogram is linear in the eight maps of gradient magnitude by orientation. Each of its 4 × 4 cells is a weighted
sum of pixels, and the weight is a product of a factor along x and one along y (a triangle two cells wide times a
Gaussian over the patch). So all cells of all patches are A_y · map · A_xᵀ, with one row of A per cell of a patch.
"""

from functools import lru_cache

import numpy as np

N_BINS = 8
N_CELLS = 4
WIDTH = N_BINS * N_CELLS * N_CELLS
# Gradients below this length (grey in 0..1, weighted sum over a patch) are noise of flat regions and JPEG blocks: such
# descriptors are divided by the floor and stay short, instead of being scaled to unit length.
FLOOR = 0.1


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
    return _normalised(grid.reshape(ny * nx, WIDTH)), centres


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


def _normalised(D: np.ndarray) -> np.ndarray:
    """Unit length, no entry above 0.2, unit length again (Lowe 2004); short descriptors stay short."""
    length = np.sqrt(np.einsum("ij,ij->i", D, D))
    D = np.minimum(D / np.maximum(length, FLOOR)[:, None], 0.2, dtype=np.float32)
    again = np.sqrt(np.einsum("ij,ij->i", D, D))
    scale = np.minimum(length / FLOOR, 1) / np.maximum(again, 1e-12)
    return D * scale[:, None].astype(np.float32)
