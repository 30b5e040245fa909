"""From a folder of images to features: extractors, the run over a folder, and the feature store."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_WHERE = {
    "FeatureStore": "store",
    "Item": "store",
    "ImageExtractor": "base",
    "load_extractor": "base",
    "make_extractor": "base",
    "EfficientNetLite0": "efficientnet",
    "LLC": "llc",
    "DualPCA": "pca",
    "OnnxExtractor": "onnx",
    "Pixels": "pixels",
    "TimmExtractor": "timm",
    "ImageError": "images",
    "load_image": "images",
    "Summary": "pipeline",
    "extract_folder": "pipeline",
}

__all__ = [
    "LLC",
    "DualPCA",
    "EfficientNetLite0",
    "FeatureStore",
    "ImageError",
    "ImageExtractor",
    "Item",
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
    from likewise.features.base import ImageExtractor, load_extractor, make_extractor
    from likewise.features.efficientnet import EfficientNetLite0
    from likewise.features.images import ImageError, load_image
    from likewise.features.llc import LLC
    from likewise.features.onnx import OnnxExtractor
    from likewise.features.pca import DualPCA
    from likewise.features.pipeline import Summary, extract_folder
    from likewise.features.pixels import Pixels
    from likewise.features.store import FeatureStore, Item
    from likewise.features.timm import TimmExtractor


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: opening a store needs none of the extractors."""
    if name not in _WHERE:
        raise AttributeError(f"module 'likewise.features' has no attribute {name!r}")
    return getattr(import_module(f"likewise.features.{_WHERE[name]}"), name)
