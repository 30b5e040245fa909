"""Any image model as an extractor: in ONNX format, or of timm, which is optional since PyTorch is large."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from PIL.Image import Resampling

from likewise.errors import FileFormatError, LikewiseError, optional
from likewise.pictures.base import MOST_SIDE, ImageExtractor
from likewise.pictures.images import centre_crop
from likewise.utils.wording import listed

_EXAMPLE = "mean=0.485,0.456,0.406 std=0.229,0.224,0.225 crop=0.875 are those of many networks trained on ImageNet"
# Pixel ranges in the image metadata of ONNX, as (mean, std) of pixels in 0..1.
_RANGES = {
    "NominalRange_0_255": (0.0, 1 / 255),
    "Normalized_0_1": (0.0, 1.0),
    "Normalized_1_1": (0.5, 0.5),
    "NominalRange_16_235": (-16 / 219, 1 / 219),
}
# Outputs that are one row a picture, as exporters name them, the first one preferred.
_OUTPUTS = ("image_embeds", "image_embedding", "image_features", "pooler_output", "embedding")
_TOKENS = ("first", "mean")
_TYPES = {"tensor(float)": "f4", "tensor(float16)": "f2", "tensor(double)": "f8", "tensor(uint8)": "u1"}


class _Input(NamedTuple):
    """The input of the model: name, layout and type, and the normalisation of pixels in 0..1."""

    name: str
    batch: int | None
    size: tuple[int, int]
    channels_last: bool
    dtype: Any
    mean: np.ndarray
    std: np.ndarray
    crop: float
    stretch: bool
    resample: Resampling
    reverse: bool


class OnnxExtractor(ImageExtractor):
    """Features from an ONNX model; the model is stored in the saved extractor.

    Size, layout and type of the input are read from the model; how pictures are prepared, from a
    `preprocessor_config.json` next to it, or from its metadata (`mean`, `std`, `crop` and `stretch`, or
    `Image.NominalPixelRange` and `Image.BitmapPixelFormat` of ONNX). Parameters take precedence, and what none of them
    says is refused. Feature maps are averaged.

    Parameters
    ----------
    model : path of the ONNX file
    size : height and width in pixels, or one number for both, if the model takes any size
    mean, std : normalisation (pixel / 255 − mean) / std, one number or one per channel
    crop : share of the shorter side kept by the centre crop
    stretch : keep that share of both sides and change the aspect ratio instead of cropping to a square
    output : name of the output to use; by default the only one, or one called image_embeds, pooler_output or the like
    tokens : "first" or "mean", the row of an output that is a sequence of tokens
    n_jobs : number of threads; None uses all cores
    """

    name: ClassVar[str] = "onnx"
    _incidental: ClassVar[frozenset[str]] = frozenset({"n_jobs", "model"})

    def __init__(
        self,
        model: str | os.PathLike[str],
        size: int | Sequence[int] | None = None,
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        crop: float | None = None,
        stretch: bool | None = None,
        output: str | None = None,
        tokens: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.model = model
        self.size = size
        self.mean = mean
        self.std = std
        self.crop = crop
        self.stretch = stretch
        self.output = output
        self.tokens = tokens
        self.n_jobs = n_jobs

    def prepare(self) -> None:
        """Read the model, start a session and determine its output width, once."""
        if hasattr(self, "_live_session"):
            return
        if not hasattr(self, "onnx_"):
            self.onnx_ = np.frombuffer(self._read_model(), dtype=np.uint8)
            if hasattr(self, "model") and (config := _config_next_to(Path(self.model))) is not None:
                self.preparation_ = np.frombuffer(json.dumps(config, sort_keys=True).encode(), dtype=np.uint8)
        session = start_session(self.onnx_.tobytes())
        keys = ("size", "mean", "std", "crop", "stretch", "output", "tokens")
        parameters = {key: getattr(self, key, None) for key in keys}
        try:
            config = json.loads(self.preparation_.tobytes()) if hasattr(self, "preparation_") else {}
            self._live_input = _describe_input(session, parameters, config)
        except (ValueError, TypeError) as error:  # only of a file that somebody changed
            if isinstance(error, LikewiseError):
                raise
            raise FileFormatError(f"the extractor is damaged: {error}") from error
        self._live_tokens = parameters["tokens"]
        if self._live_tokens not in (None, *_TOKENS):
            raise LikewiseError(f"tokens={self._live_tokens!r}; expected first or mean")
        self._live_output = _choose_output(session, parameters["output"])
        self._live_session = session
        blank = np.zeros((*self._live_input.size, 3), np.uint8)
        self._live_width = self.rows([blank]).shape[1]

    def rows(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Rows of the images, in batches of the size the model takes."""
        entry = self._live_input
        cropped = (centre_crop(image, entry.size, entry.crop, entry.stretch, entry.resample) for image in images)
        pixels = np.stack([_normalise(crop, entry) for crop in cropped])
        step = entry.batch or len(pixels)
        rows = np.concatenate([self._run(pixels[i : i + step], step) for i in range(0, len(pixels), step)])
        if not np.isfinite(rows).all():
            raise LikewiseError("the features contain NaN or infinity: check size, mean and std of the model")
        return rows

    def at_least(self) -> int | None:
        self.prepare()
        return round(max(self._live_input.size) / self._live_input.crop)

    def program(self) -> bytes:
        return self.onnx_.tobytes()

    def _for_file(self) -> dict[str, Any]:
        return {**super()._for_file(), "model": Path(self.model).name}

    def _check_loaded(self) -> None:
        if not hasattr(self, "onnx_"):
            raise LikewiseError("onnx_ is missing: a saved extractor contains its model")

    def _run(self, pixels: np.ndarray, step: int) -> np.ndarray:
        """One call of the model; for a fixed batch size, the last batch is filled with blanks."""
        n = len(pixels)
        if n < step:
            pixels = np.concatenate([pixels, np.zeros((step - n, *pixels.shape[1:]), pixels.dtype)])
        try:
            out = self._live_session.run([self._live_output], {self._live_input.name: pixels})[0]
        except Exception as error:  # the exceptions of onnxruntime have no common base class
            raise LikewiseError(f"the model cannot be run on images: {str(error).splitlines()[0]}") from error
        out = np.asarray(out, dtype=np.float32)
        if out.ndim == 3 and self._live_tokens is None:
            raise LikewiseError(
                f"the output {self._live_output} of the model is a sequence of tokens; expected tokens=first, the one "
                "that ViT, CLIP and DINO models pool, or tokens=mean, or another output"
            )
        return _pooled(out, self._live_input.channels_last, self._live_tokens)[:n]

    def _read_model(self) -> bytes:
        path = Path(self.model)
        if not path.is_file():
            raise LikewiseError(f"model {path} does not exist" if not path.exists() else f"model {path} is not a file")
        return _inlined(path)


def start_session(model: bytes | str) -> Any:
    """A session of onnxruntime on the CPU, of a model or the path of its file."""
    onnxruntime = optional("onnxruntime", "running an ONNX model", "images")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the workers are threads already
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the exceptions of onnxruntime have no common base class
        name, reason = f"{model} is " if isinstance(model, str) else "", str(error).splitlines()[0]
        raise FileFormatError(f"{name}not an ONNX model that onnxruntime can run: {reason}") from error


def _inlined(path: Path) -> bytes:
    """The model in one piece, including weights stored in other files."""
    data = path.read_bytes()
    try:
        import onnx
    except ImportError:
        return data
    try:
        model = onnx.load_from_string(data)
    except Exception as error:  # DecodeError of protobuf, or errors of onnx
        raise LikewiseError(f"model {path} is not an ONNX file: {error}") from error
    if not any(tensor.external_data for tensor in model.graph.initializer):
        return data
    try:
        return bytes(onnx.load(path).SerializeToString())
    except Exception as error:  # a weights file that is missing or too short, in exceptions of several kinds
        reason = (str(error).splitlines() or [repr(error)])[0]
        raise LikewiseError(
            f"the weights of model {path} are in another file, which cannot be read: {reason}"
        ) from error


def _describe_input(session: Any, parameters: dict[str, Any], config: dict[str, Any]) -> _Input:
    inputs = session.get_inputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4:
        shapes = ", ".join(f"{i.name} {i.shape}" for i in inputs)
        raise LikewiseError(f"the model takes {shapes}; expected one input of images, shape (n, 3, height, width)")
    entry, facts = inputs[0], session.get_modelmeta().custom_metadata_map
    if entry.type not in _TYPES:
        raise LikewiseError(f"the model takes {entry.type}; expected float, float16, double or uint8 images")
    last = entry.shape[3] in (1, 3) and entry.shape[1] not in (1, 3)
    channels = entry.shape[3 if last else 1]
    if isinstance(channels, int) and channels != 3:
        raise LikewiseError(f"the model takes {channels} channels; expected 3")
    known = _known(parameters, config, facts, entry.type == "tensor(uint8)")
    stretch, std = known.get("stretch", False), _three("std", known["std"])
    if (std <= 0).any():
        raise LikewiseError(f"std={std.tolist()}; expected positive numbers")
    if not isinstance(stretch, bool | np.bool_ | str):
        raise LikewiseError(f"stretch={stretch!r} is neither True nor False")
    return _Input(
        name=entry.name,
        batch=entry.shape[0] if isinstance(entry.shape[0], int) and entry.shape[0] > 0 else None,
        size=_size(known.get("size"), entry.shape[1:3] if last else entry.shape[2:4]),
        channels_last=last,
        dtype=np.dtype(_TYPES[entry.type]),
        mean=_three("mean", known["mean"]),
        std=std,
        crop=_share(known["crop"]),
        stretch=stretch == "true" if isinstance(stretch, str) else bool(stretch),
        resample=Resampling(known.get("resample", Resampling.BICUBIC)),
        reverse=facts.get("Image.BitmapPixelFormat", "").startswith("Bgr"),
    )


def _size(size: Any, declared: Sequence[Any]) -> tuple[int, int]:
    """Height and width: those of `size`, if the model agrees; otherwise as in the model."""
    pair = size if isinstance(size, Sequence) and not isinstance(size, str) else (size, size)
    wanted = tuple(pair or (None, None))
    if len(wanted) != 2 or any(w is not None and not (isinstance(w, int | np.integer) and w > 0) for w in wanted):
        raise LikewiseError(f"size={size!r} is not a size; expected pixels, or height and width in pixels")
    fixed = [d if isinstance(d, int) and d > 0 else None for d in declared]
    for want, have in zip(wanted, fixed, strict=True):
        if want and have and want != have:
            raise LikewiseError(f"size={size!r} does not match the model; expected {fixed[0]} × {fixed[1]} pixels")
    height, width = (want or have or 0 for want, have in zip(wanted, fixed, strict=True))
    if not height or not width:
        raise LikewiseError("the model takes pictures of any size; expected size in pixels, such as size=224")
    if max(height, width) > MOST_SIDE:
        raise LikewiseError(f"the model takes {height} × {width} pixels; expected at most {MOST_SIDE:,} a side")
    return int(height), int(width)


def _known(
    parameters: dict[str, Any], config: dict[str, Any], facts: dict[str, str], takes_bytes: bool
) -> dict[str, Any]:
    """How pictures are prepared: what parameters say, else a file next to the model, else the model itself."""
    scale = dict(zip(("mean", "std"), _RANGES.get(facts.get("Image.NominalPixelRange", ""), ()), strict=False))
    chosen = {name: value for name, value in parameters.items() if value is not None}
    known = {**({"mean": 0, "std": 1} if takes_bytes else {}), **scale, **facts, **config, **chosen}
    unknown = [name for name in ("mean", "std", "crop") if name not in known]
    if unknown:
        raise LikewiseError(
            f"the model does not say how pictures are prepared: expected {listed(unknown)} ({_EXAMPLE}), or a "
            f"{_CONFIG} next to it"
        )
    return known


def _config_next_to(model: Path) -> dict[str, Any] | None:
    """What the `preprocessor_config.json` of a model says; None without one. What is not understood is refused."""
    folders = (model.parent, *([model.parent.parent] if model.parent.name == "onnx" else []))
    path = next((folder / _CONFIG for folder in folders if (folder / _CONFIG).is_file()), None)
    if path is None:
        return None
    try:
        config = json.loads(path.read_bytes())
        return _preparation(config)
    except (ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError, OSError) as error:
        raise LikewiseError(f"{path} cannot be followed: {error}; pass its settings, and rename it") from error


def _preparation(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of an image processor of Hugging Face as parameters of `OnnxExtractor`."""
    unknown = [name for name, value in config.items() if name not in _SETTINGS and value not in (None, False)]
    if unknown:
        raise ValueError(f"{listed(unknown)} may change pixels, and is not known")
    size, cropped = config["size"], config.get("do_center_crop", False)
    edge = size.get("shortest_edge") if isinstance(size, dict) else size if cropped else None
    sides = (edge, edge) if edge else (size["height"], size["width"]) if isinstance(size, dict) else (size, size)
    square = config.get("crop_size", size) if cropped else sides
    if isinstance(square, dict):
        square = square.get("shortest_edge") or (square["height"], square["width"])
    final = tuple(square) if isinstance(square, Sequence) else (square, square)
    shares = {wanted / side for wanted, side in zip(final, sides, strict=True)}
    if edge and not cropped:
        raise ValueError("size.shortest_edge without do_center_crop gives pictures of several sizes")
    if len(shares) > 1 or not config.get("do_resize", True):
        raise ValueError("its size and crop_size are of different shapes, or it does not resize")
    scale = 255 * (config.get("rescale_factor", 1 / 255) if config.get("do_rescale", True) else 1)
    normal = config.get("do_normalize", True)
    mean, std = (np.atleast_1d(config[key] if normal else plain) / scale
                 for key, plain in (("image_mean", 0.0), ("image_std", 1.0)))  # fmt: skip
    return {
        "size": final, "crop": shares.pop(), "stretch": not edge, "mean": mean.tolist(), "std": std.tolist(),
        "resample": int(Resampling(config.get("resample", Resampling.BICUBIC))),
    }  # fmt: skip


_CONFIG = "preprocessor_config.json"
_SETTINGS = frozenset({
    "size", "crop_size", "do_center_crop", "do_resize", "do_rescale", "rescale_factor", "do_normalize", "image_mean",
    "image_std", "resample", "do_convert_rgb", "image_processor_type", "feature_extractor_type", "processor_class",
    "_valid_processor_keys", "data_format", "input_data_format",
})  # fmt: skip


def _three(name: str, value: Any) -> np.ndarray:
    try:
        parts = value.strip("[]() ").split(",") if isinstance(value, str) else np.atleast_1d(value)
        numbers = np.array([float(part) for part in parts], dtype=np.float32)
    except (TypeError, ValueError):
        numbers = np.empty(0, np.float32)
    if len(numbers) not in (1, 3) or not np.isfinite(numbers).all():
        raise LikewiseError(f"{name}={value!r} is not a normalisation; expected one number, or three for R, G and B")
    return np.broadcast_to(numbers, (3,))


def _share(value: Any) -> float:
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = 0.0
    if not 0 < share <= 1:
        raise LikewiseError(f"crop={value!r} is not a share of the image; expected a number above 0 and at most 1")
    return share


def _choose_output(session: Any, wanted: str | None) -> str:
    names = [output.name for output in session.get_outputs()]
    if wanted is not None and (not isinstance(wanted, str) or wanted not in names):
        raise LikewiseError(f"output={wanted!r} is not an output of the model; it has {', '.join(names)}")
    chosen = wanted or (names[0] if len(names) == 1 else next((name for name in _OUTPUTS if name in names), None))
    if chosen is None:
        raise LikewiseError(f"the model has the outputs {', '.join(names)}; expected output, the name of one of them")
    return chosen


def _normalise(pixels: np.ndarray, entry: _Input) -> np.ndarray:
    if entry.reverse:
        pixels = pixels[:, :, ::-1]
    if entry.dtype != np.uint8:
        pixels = (pixels - entry.mean * np.float32(255)) / (entry.std * np.float32(255))
    if not entry.channels_last:
        pixels = pixels.transpose(2, 0, 1)
    return np.ascontiguousarray(pixels, dtype=entry.dtype)


def _pooled(out: np.ndarray, channels_last: bool, tokens: str | None) -> np.ndarray:
    """Rows from an output: feature maps are averaged, of tokens the first or the mean, a flat output is kept."""
    if out.ndim == 4:
        return out.mean(axis=(1, 2) if channels_last else (2, 3))
    if out.ndim == 3:
        return out[:, 0] if tokens == "first" else out.mean(axis=1)
    return out.reshape(len(out), -1)


# -- timm --------------------------------------------------------------------------------------------------------------


class TimmExtractor(ImageExtractor):
    """Pooled features of a pretrained timm model, by name; needs `pip install timm`.

    timm keeps the weights. The saved extractor holds their checksum, so that other weights under the same name raise
    an error.

    Parameters
    ----------
    model : name of the model, as listed by `timm.list_models(pretrained=True)`
    n_jobs : number of threads; None uses all cores
    """

    name: ClassVar[str] = "timm"

    def __init__(self, model: str, n_jobs: int | None = None) -> None:
        self.model = model
        self.n_jobs = n_jobs

    def program(self) -> bytes:
        return f"timm:{self.model}".encode() + self.weights_.tobytes()

    def prepare(self) -> None:
        """Load the model once, and check that its weights are those of the saved extractor."""
        if hasattr(self, "_live_model"):
            return
        try:
            import timm
        except ImportError as error:
            raise LikewiseError(f"extractor timm:{self.model} needs timm and PyTorch: pip install timm") from error
        try:
            model = timm.create_model(self.model, pretrained=True, num_classes=0).eval()
        except Exception as error:  # timm raises many kinds: unknown name, no weights, no connection
            raise LikewiseError(f"timm cannot load {self.model!r}: {str(error).splitlines()[0]}") from error
        digest = hashlib.sha256()
        for name, tensor in sorted(model.state_dict().items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
        checksum = np.frombuffer(digest.digest(), dtype=np.uint8)
        stored: np.ndarray | None = getattr(self, "weights_", None)
        if stored is not None and not np.array_equal(stored, checksum):
            raise FileFormatError(f"timm:{self.model} has other weights than when this extractor was saved")
        self.weights_ = checksum
        self._live_config, self._live_model = timm.data.resolve_model_data_config(model), model
        self._live_width = self.rows([np.zeros((8, 8, 3), np.uint8)]).shape[1]

    def rows(self, images: Sequence[np.ndarray]) -> np.ndarray:
        import torch

        config = self._live_config
        size = tuple(config["input_size"][1:])
        pixels = np.stack([centre_crop(image, size, config["crop_pct"]) for image in images])
        scaled = (pixels / 255 - np.array(config["mean"])) / np.array(config["std"])
        with torch.inference_mode():
            batch = torch.from_numpy(scaled.transpose(0, 3, 1, 2).astype(np.float32))
            rows: np.ndarray = self._live_model(batch).float().numpy()
        return rows

    def at_least(self) -> int | None:
        self.prepare()
        return round(max(self._live_config["input_size"][1:]) / self._live_config["crop_pct"])
