# The public names, each imported when it is first used: __init__.py reads this file.
import typing

from .base import ImageExtractor as ImageExtractor
from .base import Pixels as Pixels
from .base import load_extractor as load_extractor
from .base import make_extractor as make_extractor
from .efficientnet import EfficientNetLite0 as EfficientNetLite0
from .images import ImageError as ImageError
from .images import load_image as load_image
from .llc import LLC as LLC
from .llc import DualPCA as DualPCA
from .onnx import OnnxExtractor as OnnxExtractor
from .onnx import TimmExtractor as TimmExtractor
from .pipeline import Summary as Summary
from .pipeline import extract_folder as extract_folder

class Extractor(typing.NamedTuple):
    kind: str
    usage: str
    description: str

EXTRACTORS: tuple[Extractor, ...]
