"""A library and a device: what is brought there, and the few products that every pass takes there."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from likewise.learn.maths.labels import LabelTarget, Runs, label_runs, same_label_blocks
from likewise.learn.maths.passes import PassColumns
from likewise.utils.arrays import is_torch


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
