"""Weights out of a legacy PyTorch file, and nothing else out of it."""

from __future__ import annotations

import io
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.errors import FileFormatError
from likewise.pictures.efficientnet import _MAGIC, read_legacy_pth


class _Global:
    """Pickles as a reference to module.name, called with arguments: what PyTorch's own pickler writes."""

    def __init__(self, module: str, name: str, *arguments: Any) -> None:
        self.where, self.arguments = (module, name), arguments


class _Storage:
    def __init__(self, key: str, data: np.ndarray) -> None:
        self.key, self.data = key, data


class _Pickler(pickle._Pickler):  # the Python one, which can be taught to write any reference
    def save(self, value: Any, save_persistent_id: bool = True) -> None:
        if isinstance(value, _Global):
            module, name = value.where
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
            if value.arguments:
                super().save(tuple(value.arguments))
                self.write(pickle.REDUCE)
        elif isinstance(value, _Storage):
            kind = _Global("torch", "FloatStorage")
            super().save(("storage", kind, value.key, "cpu", value.data.size, None))
            self.write(pickle.BINPERSID)
        else:
            super().save(value, save_persistent_id)


def legacy(tensors: dict[str, Any], storages: list[_Storage]) -> bytes:
    file = io.BytesIO()
    for value in (_MAGIC, 1001, {"little_endian": True}, OrderedDict(tensors), [s.key for s in storages]):
        _Pickler(file, 2).dump(value)
    for storage in storages:
        file.write(storage.data.size.to_bytes(8, "little") + storage.data.astype("<f4").tobytes())
    return file.getvalue()


def tensor(storage: _Storage, offset: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> _Global:
    return _Global("torch._utils", "_rebuild_tensor_v2", storage, offset, shape, stride, False, OrderedDict())


def read(tmp_path: Path, data: bytes) -> dict[str, np.ndarray]:
    (tmp_path / "w.pth").write_bytes(data)
    return read_legacy_pth(tmp_path / "w.pth")


def test_strided_tensors_come_out_contiguous(tmp_path: Path) -> None:
    storage = _Storage("7", np.arange(7, dtype=np.float32))
    found = read(
        tmp_path, legacy({"a": tensor(storage, 1, (2, 3), (1, 2)), "b": tensor(storage, 6, (), ())}, [storage])
    )
    np.testing.assert_array_equal(found["a"], [[1, 3, 5], [2, 4, 6]])
    assert found["a"].flags.c_contiguous
    assert found["b"] == 6


def test_a_tensor_outside_its_storage_is_refused(tmp_path: Path) -> None:
    storage = _Storage("7", np.arange(7, dtype=np.float32))
    outside = tensor(storage, 0, (8,), (1,)), tensor(storage, -1, (2,), (1,)), tensor(storage, 3, (2,), (-1,))
    repeated = tensor(storage, 0, (10**12,), (0,))  # one number, and 4 TB in memory
    for bad in (*outside, repeated):
        with pytest.raises(FileFormatError, match="a tensor exceeds its storage"):
            read(tmp_path, legacy({"a": bad}, [storage]))


@pytest.mark.parametrize("name", [("os", "system"), ("builtins", "eval"), ("torch", "load"), ("posix", "system")])
def test_a_file_that_wants_to_run_something_is_refused(tmp_path: Path, name: tuple[str, str]) -> None:
    trap = _Global(*name, f"touch {tmp_path}/trapped")
    with pytest.raises(FileFormatError, match=rf"it refers to {name[0]}\.{name[1]}"):
        read(tmp_path, legacy({"a": trap}, []))
    assert not (tmp_path / "trapped").exists()


def test_the_trap_would_have_worked_on_a_plain_unpickler(tmp_path: Path) -> None:
    file = io.BytesIO()
    _Pickler(file, 2).dump(_Global("os", "system", f"touch {tmp_path}/trapped"))
    pickle.loads(file.getvalue())
    assert (tmp_path / "trapped").exists()


def test_truncated_foreign_and_missing_files_are_said(tmp_path: Path) -> None:
    storage = _Storage("7", np.arange(7, dtype=np.float32))
    data = legacy({"a": tensor(storage, 0, (7,), (1,))}, [storage])
    with pytest.raises(FileFormatError, match="it is truncated"):
        read(tmp_path, data[:-3])
    with pytest.raises(FileFormatError, match="is not a legacy PyTorch file of weights"):
        read(tmp_path, b"PK\x03\x04 hello")
    with pytest.raises(FileFormatError, match="magic number"):
        read(tmp_path, pickle.dumps(1))
    with pytest.raises(FileFormatError, match="cannot read"):
        read_legacy_pth(tmp_path / "none.pth")
    assert os.listdir(tmp_path) == ["w.pth"]
