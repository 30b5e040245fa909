"""From a folder of images to features: extractors and their run over a folder; keywords and sidecars."""

from typing import NamedTuple

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [*__all__, "EXTRACTORS"]


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
