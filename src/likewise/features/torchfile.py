"""Read the tensors of a legacy PyTorch `.pth` file without PyTorch and without executing anything in it.

The file has five pickles (magic number, protocol, system, the dictionary of tensors, the storage keys), followed by the
storages, each a count and raw numbers. The unpickler below only builds dictionaries and tensor descriptions and rejects
any other name.
"""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from likewise.errors import FileFormatError

__all__ = ["read_legacy_pth"]

_MAGIC = 0x1950A86A20F9469CFC6C
_STORAGES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
}


class _Tensor(NamedTuple):
    storage: tuple[Any, ...]
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def _rebuild(storage: Any, offset: int, shape: Any, stride: Any, *_: Any) -> _Tensor:
    return _Tensor(storage, offset, tuple(shape), tuple(stride))


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if module == "torch" and name in _STORAGES:
            return name
        raise FileFormatError(f"it refers to {module}.{name}, which is not allowed in a file of weights")

    def persistent_load(self, pid: Any) -> Any:
        return pid


def read_legacy_pth(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The tensors of a legacy `.pth` file as contiguous arrays by name."""
    try:
        with open(path, "rb") as file:
            if _Restricted(file).load() != _MAGIC:
                raise FileFormatError("it does not begin with PyTorch's magic number")
            _Restricted(file).load(), _Restricted(file).load()  # protocol version, system
            tensors = _Restricted(file).load()
            storages = _read_storages(file, tensors, _Restricted(file).load())
            return {name: _view(storages[t.storage[2]], t) for name, t in tensors.items()}
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # a damaged pickle raises almost anything
        raise FileFormatError(f"{path} is not a legacy PyTorch file of weights: {error}") from error


def _read_storages(file: BinaryIO, tensors: dict[str, _Tensor], keys: list[str]) -> dict[str, np.ndarray]:
    kinds = {t.storage[2]: np.dtype(_STORAGES[t.storage[1]]) for t in tensors.values()}
    return {key: _read_storage(file, kinds[key]) for key in keys}


def _read_storage(file: BinaryIO, dtype: np.dtype[Any]) -> np.ndarray:
    count = int.from_bytes(file.read(8), "little")
    data = file.read(count * dtype.itemsize)
    if len(data) != count * dtype.itemsize:
        raise FileFormatError("it is truncated")
    return np.frombuffer(data, dtype)


def _view(storage: np.ndarray, tensor: _Tensor) -> np.ndarray:
    """The elements of the tensor; strides may be in any order, and are checked, which `as_strided` does not do."""
    last = tensor.offset + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride, strict=True))
    if tensor.offset < 0 or min(tensor.stride, default=0) < 0 or last >= storage.size:
        raise FileFormatError("a tensor exceeds its storage")
    strides = [s * storage.itemsize for s in tensor.stride]
    return np.ascontiguousarray(np.lib.stride_tricks.as_strided(storage[tensor.offset :], tensor.shape, strides))
