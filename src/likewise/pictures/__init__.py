"""From a folder of images to features: extractors and their run over a folder; keywords and sidecars."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from likewise.pictures.base import ImageExtractor, Pixels, load_extractor, make_extractor
    from likewise.pictures.efficientnet import EfficientNetLite0
    from likewise.pictures.images import ImageError, load_image
    from likewise.pictures.llc import LLC
    from likewise.pictures.onnx import OnnxExtractor
    from likewise.pictures.pca import DualPCA
    from likewise.pictures.pipeline import Summary, extract_folder
    from likewise.pictures.timm import TimmExtractor

__all__ = [
    "EXTRACTORS", "LLC", "DualPCA", "EfficientNetLite0", "ImageError", "ImageExtractor", "OnnxExtractor", "Pixels",
    "Summary", "TimmExtractor", "extract_folder", "load_extractor", "load_image", "make_extractor",
]  # fmt: skip


class Extractor(NamedTuple):
    """A kind of extractor: its class, its name on the command line, and a description for people."""

    kind: str
    usage: str
    description: str


EXTRACTORS = (
    Extractor(
        "EfficientNetLite0",
        "efficientnet-lite0",
        "1,280 features of a neural network; no download at run time (default)",
    ),
    Extractor("LLC", "llc", "dense SIFT, locality-constrained coding, spatial pyramid, PCA; learned from your images"),
    Extractor("OnnxExtractor", "onnx:MODEL.onnx", "any image model in ONNX format"),
    Extractor("TimmExtractor", "timm:NAME", "any timm model, if timm is installed"),
    Extractor("Pixels", "pixels", "the pixels of small pictures"),
)
_MODULES = {
    "LLC": "llc", "DualPCA": "pca", "EfficientNetLite0": "efficientnet", "ImageError": "images", "Pixels": "base",
    "ImageExtractor": "base", "OnnxExtractor": "onnx", "Summary": "pipeline", "TimmExtractor": "timm",
    "extract_folder": "pipeline", "load_extractor": "base", "load_image": "images", "make_extractor": "base",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name on first use: a command starts faster, and optional dependencies may be missing."""
    if name not in _MODULES:
        raise AttributeError(f"module 'likewise.pictures' has no attribute {name!r}")
    return getattr(import_module(f"likewise.pictures.{_MODULES[name]}"), name)
