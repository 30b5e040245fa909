"""Passes in the library of the rows: torch on CPU or GPU, or whatever else speaks the array API.

Blocks of rows are moved to the device and their d x r sums back; the data set stays where it is. Sums over blocks are
taken on the host in float64, so that an engine's result differs from NumPy's by the rounding of its products alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from likewise.errors import LikewiseError, optional
from likewise.learn.engines.blocked import BlockedEngine
from likewise.learn.engines.tasks import joined_columns
from likewise.learn.maths.engine import Against, Columns, Maker, RowBlock, Task
from likewise.learn.maths.labels import (
    LabelTarget,
    Runs,
    encode_labels,
    label_runs,
    row_weights,
    same_label_blocks,
)  # fmt: skip
from likewise.learn.maths.passes import PassColumns, Swept, deviation
from likewise.learn.maths.scatter import check_room
from likewise.learn.maths.whitening import WhiteningMap, whiten_gram
from likewise.utils.arrays import check_dense, is_foreign, is_torch, namespace, to_host
from likewise.utils.threads import Arrays, added

# Rows and columns of a tile. On a processor it stays in the cache; a graphics card wants more work at a time.
TILE, DEVICE_TILE = (512, 1024), (8192, 8192)
_BLOCK = 8192  # rows of a block where nothing is tiled


@dataclass(frozen=True)
class DeviceColumns:
    """The columns of a pass on a device; where classes begin stays on the host."""

    device: "Device"
    Q: Any
    back: Any
    weights: Any
    starts: np.ndarray

    def residual(self, P: Any, codes: np.ndarray, target: LabelTarget) -> Any:
        """(S - clamp(S)) @ back for rows P, as `passes.excess` has it."""
        tiles = self.device.tiles(P, codes, self, target)
        return sum((self.device.summed(E, self, tile) for tile, E in tiles), start=0.0)


@dataclass(frozen=True)
class Device:
    """Where passes run."""

    xp: Any  # namespace of the library
    where: Any  # its device
    dtype: Any  # of products, float32 or float64
    tile: tuple[int, int]  # rows and columns of a tile

    @property
    def wide(self) -> Any:
        """float64, but for Apple's graphics, which do not have it."""
        return self.xp.float32 if "mps" in str(self.where) else self.xp.float64

    def put(self, values: np.ndarray, dtype: Any = None) -> Any:
        """An array of the host on the device, in `dtype` unless another is asked for."""
        dtype = dtype or self.dtype
        host = np.dtype("float64" if dtype == self.xp.float64 else str(self.dtype).split(".")[-1])
        return self.moved(self.xp.astype(self.xp.asarray(np.ascontiguousarray(values, dtype=host)), dtype))

    def indices(self, places: np.ndarray) -> Any:
        """Numbers to index by."""
        return self.xp.asarray(places.astype(np.int64), device=self.where)

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

    def columns(self, gallery: PassColumns) -> DeviceColumns:
        """The columns of a pass, brought here."""
        weights = None if gallery.weights is None else self.put(gallery.weights)
        Q, back = (self.put(part) for part in (gallery.G, gallery.back))
        return DeviceColumns(self, Q, back, weights, gallery.starts)

    def tiles(
        self, P: Any, codes: np.ndarray, columns: DeviceColumns, target: LabelTarget
    ) -> Iterator[tuple[slice, Any]]:
        """S - clamp(S), tile by tile of the columns; rows and columns are sorted by label."""
        runs, m = label_runs(codes), columns.Q.shape[0]
        for first in range(0, m, self.tile[1]):
            tile = slice(first, min(first + self.tile[1], m))
            yield tile, self._clamped(P @ columns.Q[tile, :].T, runs, columns.starts, first, target)

    def summed(self, E: Any, columns: DeviceColumns, tile: slice) -> Any:
        return E @ columns.back[tile, :]

    def _clamped(self, S: Any, runs: Runs, starts: np.ndarray, first: int, target: LabelTarget) -> Any:
        """S - clamp(S): the whole tile as "other label", then the few blocks of one label put right."""
        found = []
        for part, c in same_label_blocks(S.shape[1], runs, starts, first):
            weight = 1.0 if target.same_weight is None else float(target.same_weight[c])
            found.append((part, self._clipped(S[part] - target.same, above=False) * weight))
        E = self._clipped(S - target.other if target.other else S, above=True)
        for part, excess in found:
            E[part] = excess
        return E

    def _clipped(self, S: Any, above: bool) -> Any:
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

    def whiten(self, alpha: float, width: int | None = None) -> WhiteningMap:
        """Whitening through the Gram matrix, its products in float64 where the device has it."""
        check_room(self.shape[1], self.shape)
        G = self._gram(np.eye(0))
        if not np.isfinite(G).all():
            raise LikewiseError("X contains NaN or infinity: every value must be finite")
        return whiten_gram(np.asfortranarray(G), self.shape, self.dtype, alpha, self._gram).leading(width)

    def blocks(self) -> Iterator[RowBlock]:
        """The rows, block by block, on their device."""
        for block in gen_batches(self.shape[0], _BLOCK):
            weights = None if self.weights is None else self.weights[block]
            yield RowBlock(self._rows(block), self.codes[block], weights)

    def sum(self, task: Task, beside: Arrays = ()) -> Arrays:
        """Sum over blocks of what `task` returns: on the device, if it has a form for it (`on`)."""
        blocks = gen_batches(self.shape[0], min(getattr(task, "block_rows", _BLOCK), _BLOCK))
        return added(map(self._work(task), blocks))

    def columns(self, make: Maker, width: int, beside: Arrays = ()) -> Columns:
        """All rows as columns of a pass, kept on the host."""
        parts = map(self._work(make), gen_batches(self.shape[0], _BLOCK))
        return joined_columns(list(parts), self.codes, self.weights)

    def sum_against(self, task: Against, columns: Columns, beside: Arrays = ()) -> Arrays:
        """Sum over blocks of rows of what `task` returns; all columns are on the device at a time."""
        work = self._work(task.against(tuple(columns.blocks())))

        def parts() -> Iterator[Arrays]:
            for block in gen_batches(self.shape[0], self.device.tile[0]):
                yield work(block)
                self.on_block()

        return added(parts())

    @property
    def n_blocks(self) -> int:
        return -(-self.shape[0] // self.device.tile[0])

    def rows_at(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(to_host(self.xp.take(self._X, self._indices(rows), axis=0)))

    def gallery(self, R: np.ndarray) -> PassColumns:
        """All rows as the columns of a pass, kept on the host: n x r."""
        G, on_device = np.empty((self.shape[0], R.shape[1]), dtype=self.dtype), self.device.put(R)
        for block in gen_batches(self.shape[0], _BLOCK):
            G[block] = to_host(self._rows(block) @ on_device)
        return PassColumns(G, self.starts, self.weights)

    def reuse_projection(self, gallery: Columns, T: np.ndarray) -> np.ndarray | None:
        return gallery.G @ T.astype(self.dtype) if isinstance(gallery, PassColumns) else None

    def sweep(
        self, L: np.ndarray, gallery: Columns, target: LabelTarget, *, projected: bool = False, symmetric: bool = False
    ) -> Swept:
        total, loss = np.zeros(()), 0.0
        on_device = None if projected else self.device.put(L)
        for columns in gallery.blocks():
            walk = self._pass(columns, target)
            for block in gen_batches(self.shape[0], self.device.tile[0]):
                rows = self._rows(block)
                P = self.device.put(L[block]) if on_device is None else rows @ on_device
                T, part = walk(P, block)
                total, loss = total + to_host(rows.T @ T).astype(np.float64), loss + part
                self.on_block()
        return total, loss

    def _pass(self, columns: PassColumns, target: LabelTarget) -> Any:
        """A function of projected rows and their block that gives weighted (S - Y) back, and the loss."""
        if type(target) is LabelTarget and target.adaptive:
            there = self.device.columns(columns)
            return lambda P, block: self._tiles(P, block, there, target)

        def on_host(P: Any, block: slice) -> tuple[Any, float]:  # what visits no pair, or is not a clamp by labels
            weights = None if self.weights is None else self.weights[block]
            T, loss = deviation(np.asarray(to_host(P)), self.codes[block], weights, columns, target)
            return self.device.put(T if weights is None else T * weights[:, None]), loss

        return on_host

    def _tiles(self, P: Any, block: slice, columns: DeviceColumns, target: LabelTarget) -> tuple[Any, float]:
        total, squares = 0.0, 0.0
        for tile, E in self.device.tiles(P, self.codes[block], columns, target):
            total = total + self.device.summed(E, columns, tile)
            squares = squares + self._squares(E, None if columns.weights is None else columns.weights[tile])
        if self.weights is None:
            return total, float(self.xp.sum(squares))
        rows: Any = self.device.put(self.weights[block])
        return total * rows[:, None], float(self.xp.sum(squares * rows))

    def _squares(self, E: Any, weights: Any) -> Any:
        """Sum of squares, by row and weighted over the columns where anything has a weight."""
        if weights is None and self.weights is None:
            flat = self.xp.reshape(E, (-1,))
            return flat @ flat
        return self.xp.linalg.vecdot(E, E) if weights is None else (E * E) @ weights

    def _rows(self, block: slice) -> Any:
        """Rows by their places in label order, on the device."""
        rows = self.xp.take(self._X, self._indices(self.order[block]), axis=0)
        return self.device.moved(self.xp.astype(rows, self._float, copy=False))

    def _indices(self, places: np.ndarray) -> Any:
        return self.xp.asarray(places.astype(np.int64), device=self._X.device)

    def _work(self, task: Any) -> Callable[[slice], Any]:
        """What a task makes of a range of rows, with its arrays on their device."""
        placed, weights = self.device.place(task), self.weights
        return lambda block: placed(
            RowBlock(self._rows(block), self.codes[block], None if weights is None else weights[block])
        )

    def _gram(self, W: np.ndarray) -> np.ndarray:
        """(XW)ᵀ(XW), of X itself for an empty W."""
        on_device, total = self.device.put(W, self.device.wide) if W.size else None, np.zeros(())
        for block in gen_batches(self.shape[0], _BLOCK):
            rows = self.xp.astype(self._rows(block), self.device.wide)
            rows = rows if on_device is None else rows @ on_device
            w = None if self.weights is None else self.device.put(self.weights[block], self.device.wide)
            total = total + to_host(rows.T @ (rows if w is None else rows * w[:, None])).astype(np.float64)
        return total


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


def _device(X: Any, asked: Any) -> Any:
    if asked is None:
        return X.device
    if not is_torch(X):
        raise LikewiseError(f"device={asked!r} is for torch: an array of another library says itself where it is")
    try:
        device = _torch().device(asked)
        return _torch().empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise LikewiseError(f"device={asked!r} is not available: {first}") from error


def _torch() -> Any:
    return optional("torch", "device", "torch")
