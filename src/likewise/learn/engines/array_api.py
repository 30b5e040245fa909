"""Passes in the library of the rows: torch on CPU or GPU, or whatever else speaks the array API.

Blocks of rows are moved to the device and their d x r sums back; the data set stays where it is. Sums over blocks are
taken on the host in float64, so that an engine's result differs from NumPy's by the rounding of its products alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from likewise.errors import LikewiseError, optional
from likewise.learn.maths.engine import Against, BlockedEngine, Columns, Maker, RowBlock, Task, joined_columns
from likewise.learn.maths.labels import (
    LabelTarget,
    Runs,
    encode_labels,
    label_runs,
    row_weights,
    same_label_blocks,
)  # fmt: skip
from likewise.learn.maths.passes import PassColumns
from likewise.utils.arrays import Array, check_dense, is_foreign, is_torch, namespace, to_host
from likewise.utils.threads import Arrays, added

# Rows and columns of a tile. On a processor it stays in the cache; a graphics card wants more work at a time.
TILE, DEVICE_TILE = (512, 1024), (8192, 8192)
_BLOCK = 8192  # rows of a block where nothing is tiled


@dataclass(frozen=True)
class DeviceColumns:
    """The columns of a pass on a device; where classes begin, and what a fixed target needs, stays on the host."""

    device: "Device"
    host: PassColumns
    G: Array
    back: Array
    weights: Array | None

    def residual(self, P: Array, codes: np.ndarray, target: LabelTarget) -> Array:
        """(S - clamp(S)) @ back for rows P, as `PassColumns` has it."""
        return sum((E @ self.back[tile, :] for tile, E in self._tiles(P, codes, target)), start=0.0)

    def deviation(
        self, P: Array, codes: np.ndarray, weights: np.ndarray | None, target: LabelTarget
    ) -> tuple[Array, float]:
        """(S - Y) @ back for rows P, and the sum of squares of S - Y; a fixed target visits no pair."""
        if not target.adaptive:
            T, loss = self.host.deviation(np.asarray(to_host(P)), codes, weights, target)
            return self.device.put(T), loss
        xp, total, squares = self.device.xp, 0.0, 0.0
        for tile, E in self._tiles(P, codes, target):
            total = total + E @ self.back[tile, :]
            by_row = xp.linalg.vecdot(E, E) if self.weights is None else (E * E) @ self.weights[tile]
            squares = squares + by_row
        rows: Array = squares if weights is None else squares * self.device.put(weights)
        return total, float(xp.sum(rows))

    def _tiles(self, P: Array, codes: np.ndarray, target: LabelTarget) -> Iterator[tuple[slice, Array]]:
        """S - clamp(S), tile by tile of the columns; rows and columns are sorted by label."""
        runs, m, width = label_runs(codes), self.G.shape[0], self.device.tile[1]
        for first in range(0, m, width):
            tile = slice(first, min(first + width, m))
            yield tile, self._clamped(P @ self.G[tile, :].T, runs, first, target)

    def _clamped(self, S: Array, runs: Runs, first: int, target: LabelTarget) -> Array:
        """S - clamp(S): the whole tile as pairs of two labels, then the few blocks of one label put right."""
        same = []
        for block, c in same_label_blocks(S.shape[1], runs, self.host.starts, first):
            weight = 1.0 if target.same_weight is None else float(target.same_weight[c])
            same.append((block, self.device.clipped(S[block] - target.same, above=False) * weight))
        E = self.device.clipped(S - target.other if target.other else S, above=True)
        for block, excess in same:
            E[block] = excess
        return E


@dataclass(frozen=True)
class Device:
    """Where passes run."""

    xp: Any  # namespace of the library
    where: Any  # its device
    dtype: Any  # of products, float32 or float64
    tile: tuple[int, int]  # rows and columns of a tile

    def put(self, values: np.ndarray) -> Array:
        """An array of the host on the device."""
        host = np.ascontiguousarray(values, dtype=str(self.dtype).split(".")[-1])
        return self.moved(self.xp.astype(self.xp.asarray(host), self.dtype))

    def moved(self, array: Any) -> Any:
        """An array of the library, on the device."""
        import array_api_compat

        return array if array.device == self.where else array_api_compat.to_device(array, self.where)

    def place(self, task: Any) -> Any:
        """A task with its arrays here, those of nested dataclasses included, unless they stay on the host."""
        if isinstance(task, PassColumns):
            return self.columns(task)
        if isinstance(task, np.ndarray) and task.dtype.kind == "f":
            return self.put(task)
        if isinstance(task, tuple):
            return tuple(map(self.place, task))
        if not is_dataclass(task) or isinstance(task, type) or getattr(task, "on_host", False):
            return task
        return replace(task, **{field.name: self.place(getattr(task, field.name)) for field in fields(task)})

    def columns(self, columns: PassColumns) -> DeviceColumns:
        """The columns of a pass, brought here."""
        weights = None if columns.weights is None else self.put(columns.weights)
        return DeviceColumns(self, columns, self.put(columns.G), self.put(columns.back), weights)

    def clipped(self, S: Array, above: bool) -> Array:
        """max(S, 0) or min(S, 0); in place where the library can."""
        if is_torch(S):
            return S.clamp_(min=0) if above else S.clamp_(max=0)
        return self.xp.clip(S, min=0.0) if above else self.xp.clip(S, max=0.0)


class ArrayEngine(BlockedEngine):
    """Labelled rows in an array of another library; a NumPy array is taken as a torch tensor.

    Passes run on `device`, None being where X is.
    """

    def __init__(
        self, X: Any, codes: np.ndarray, n_classes: int, weights: np.ndarray | None = None, device: Any = None
    ) -> None:
        X = _torch().from_numpy(X) if isinstance(X, np.ndarray) else X
        self.xp, self._X = namespace(X), X.detach() if is_torch(X) else X
        where = _device(X, device)
        self._float = X.dtype if X.dtype in (self.xp.float32, self.xp.float64) else self.xp.float32
        super().__init__(X.shape[1], np.dtype(str(self._float).split(".")[-1]), codes, n_classes, weights)
        tile = TILE if "cpu" in str(where).lower() else DEVICE_TILE
        self.device = Device(self.xp, where, self._float, tile)

    def blocks(self, size: int | None = None) -> Iterator[RowBlock]:
        """The rows, `size` at a time, on their device."""
        for block in gen_batches(self.shape[0], size or _BLOCK):
            weights = None if self.weights is None else self.weights[block]
            yield RowBlock(self._rows(block), self.codes[block], weights)

    def sum(self, task: Task, precomputed: Arrays = ()) -> Arrays:
        blocks = self.blocks(min(getattr(task, "block_rows", _BLOCK), _BLOCK))
        return added(map(self.device.place(task), blocks))

    def columns(self, make: Maker, width: int, precomputed: Arrays = ()) -> Columns:
        """All rows as columns of a pass, kept on the host."""
        return joined_columns(list(map(self.device.place(make), self.blocks())), self.codes, self.weights)

    def sum_against(self, task: Against, columns: Columns, precomputed: Arrays = ()) -> Arrays:
        """Sum over blocks of rows of what `task` returns; all columns are on the device at a time."""
        placed = self.device.place(task.against(tuple(columns.blocks())))

        def parts() -> Iterator[Arrays]:
            for block in self.blocks(self.device.tile[0]):
                yield placed(block)
                self.on_block()

        return added(parts())

    @property
    def n_blocks(self) -> int:
        return -(-self.shape[0] // self.device.tile[0])

    def rows_at(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(to_host(self.xp.take(self._X, self._indices(rows), axis=0)))

    def _rows(self, block: slice) -> Any:
        """Rows by their places in label order, on the device."""
        rows = self.xp.take(self._X, self._indices(self.order[block]), axis=0)
        return self.device.moved(self.xp.astype(rows, self._float, copy=False))

    def _indices(self, places: np.ndarray) -> Any:
        return self.xp.asarray(places.astype(np.int64), device=self._X.device)


def array_labels(X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Distinct labels, the class of each row and weights or None, for an array that an `ArrayEngine` takes."""
    if not isinstance(X, np.ndarray) and not is_foreign(X):
        raise LikewiseError(f"X is {type(X).__name__}: device is for dense arrays and torch tensors")
    if is_torch(X):
        check_dense(X)
    if len(X.shape) != 2 or 0 in X.shape:
        raise LikewiseError(f"X has shape {tuple(X.shape)}: expected at least one row and one column")
    y = np.asarray(to_host(y))
    if y.shape != (X.shape[0],):
        raise LikewiseError(f"X has {X.shape[0]} rows and y shape {y.shape}: expected one label per row")
    classes, codes = encode_labels(y)
    weights = row_weights(to_host(sample_weight), codes, codes)
    if (labelled := codes >= 0).all():
        return classes, codes, weights
    return classes, np.maximum(codes, 0), labelled * (1.0 if weights is None else weights)


def _device(X: Array, device: Any) -> Any:
    """The device to compute on; None is that of X."""
    if device is None:
        return X.device
    if not is_torch(X):
        raise LikewiseError(f"device={device!r} is for torch: an array of another library is used on its own device")
    try:
        return _torch().empty(0, device=_torch().device(device)).device
    except (RuntimeError, AssertionError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise LikewiseError(f"device={device!r} is not available: {first}") from error


def _torch() -> Any:
    return optional("torch", "device", "torch")
