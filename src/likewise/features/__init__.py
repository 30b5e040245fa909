"""From a folder of images to features: extractors, their run over a folder, and the feature store."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_WHERE = {
    "FeatureStore": "likewise.tables.store",
    "Item": "likewise.tables.store",
    "ImageExtractor": "likewise.features.base",
    "load_extractor": "likewise.features.base",
    "make_extractor": "likewise.features.base",
    "EfficientNetLite0": "likewise.features.efficientnet",
    "LLC": "likewise.features.llc",
    "DualPCA": "likewise.features.pca",
    "OnnxExtractor": "likewise.features.onnx",
    "Pixels": "likewise.features.pixels",
    "TimmExtractor": "likewise.features.timm",
    "ImageError": "likewise.features.images",
    "load_image": "likewise.features.images",
    "Summary": "likewise.features.pipeline",
    "extract_folder": "likewise.features.pipeline",
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
    from likewise.features.timm import TimmExtractor
    from likewise.tables.store import FeatureStore, Item


def __getattr__(name: str) -> Any:
    """Import a public name on first use: opening a store needs no extractor."""
    if name not in _WHERE:
        raise AttributeError(f"module 'likewise.features' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
