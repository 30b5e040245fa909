"""Any timm model as an extractor; optional, since PyTorch is large."""

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from likewise.errors import FileFormatError, LikewiseError
from likewise.pictures.base import ImageExtractor
from likewise.pictures.images import centre_crop


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

    def prepare(self) -> None:
        """Load the model once, and check that its weights are those of the saved extractor."""
        if hasattr(self, "_live_model"):
            return
        model, config = _load(self.model)
        digest = hashlib.sha256()
        for name, tensor in sorted(model.state_dict().items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
        checksum = np.frombuffer(digest.digest(), dtype=np.uint8)
        stored: np.ndarray | None = getattr(self, "weights_", None)
        if stored is not None and not np.array_equal(stored, checksum):
            raise FileFormatError(f"timm:{self.model} has other weights than when this extractor was saved")
        self.weights_ = checksum
        self._live_config = config
        self._live_model = model
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


def _load(name: str) -> tuple[Any, dict[str, Any]]:
    try:
        import timm
    except ImportError as error:
        raise LikewiseError(f"extractor timm:{name} needs timm and PyTorch: pip install timm") from error
    try:
        model = timm.create_model(name, pretrained=True, num_classes=0).eval()
    except Exception as error:  # timm raises many kinds: unknown name, no weights, no connection
        raise LikewiseError(f"timm cannot load {name!r}: {str(error).splitlines()[0]}") from error
    return model, timm.data.resolve_model_data_config(model)
