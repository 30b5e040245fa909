"""From a folder of images to features: extractors, their run over a folder, and the feature store."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from likewise.features.base import ImageExtractor, Pixels, load_extractor, make_extractor
    from likewise.features.efficientnet import EfficientNetLite0
    from likewise.features.images import ImageError, load_image
    from likewise.features.llc import LLC
    from likewise.features.onnx import OnnxExtractor
    from likewise.features.pca import DualPCA
    from likewise.features.pipeline import Summary, extract_folder
    from likewise.features.timm import TimmExtractor
    from likewise.tables.store import FeatureStore, Item

__all__ = [
    "LLC", "DualPCA", "EfficientNetLite0", "FeatureStore", "ImageError", "ImageExtractor", "Item", "OnnxExtractor",
    "Pixels", "Summary", "TimmExtractor", "extract_folder", "load_extractor", "load_image", "make_extractor",
]  # fmt: skip

_NAMES = {
    "likewise.tables.store": {"FeatureStore", "Item"},
    "likewise.features.base": {"ImageExtractor", "Pixels", "load_extractor", "make_extractor"},
    "likewise.features.efficientnet": {"EfficientNetLite0"},
    "likewise.features.images": {"ImageError", "load_image"},
    "likewise.features.llc": {"LLC"},
    "likewise.features.onnx": {"OnnxExtractor"},
    "likewise.features.pca": {"DualPCA"},
    "likewise.features.pipeline": {"Summary", "extract_folder"},
    "likewise.features.timm": {"TimmExtractor"},
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: opening a store needs no extractor."""
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'likewise.features' has no attribute {name!r}")
