"""From a folder of images to features: extractors and their run over a folder; keywords and sidecars."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_MODULES = {
    "LLC": "llc",
    "DualPCA": "pca",
    "EfficientNetLite0": "efficientnet",
    "ImageError": "images",
    "ImageExtractor": "base",
    "OnnxExtractor": "onnx",
    "Pixels": "base",
    "Summary": "pipeline",
    "TimmExtractor": "timm",
    "extract_folder": "pipeline",
    "load_extractor": "base",
    "load_image": "images",
    "make_extractor": "base",
}

__all__ = [
    "LLC",
    "DualPCA",
    "EfficientNetLite0",
    "ImageError",
    "ImageExtractor",
    "OnnxExtractor",
    "Pixels",
    "Summary",
    "TimmExtractor",
    "extract_folder",
    "load_extractor",
    "load_image",
    "make_extractor",
]

if TYPE_CHECKING:
    from likewise.pictures.base import ImageExtractor, Pixels, load_extractor, make_extractor
    from likewise.pictures.efficientnet import EfficientNetLite0
    from likewise.pictures.images import ImageError, load_image
    from likewise.pictures.llc import LLC
    from likewise.pictures.onnx import OnnxExtractor
    from likewise.pictures.pca import DualPCA
    from likewise.pictures.pipeline import Summary, extract_folder
    from likewise.pictures.timm import TimmExtractor


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'likewise.pictures' has no attribute {name!r}")
    return getattr(import_module(f"likewise.pictures.{_MODULES[name]}"), name)
