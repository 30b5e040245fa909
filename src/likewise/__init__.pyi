# The public names, each imported when it is first used: __init__.py reads this file.
from .learn.base import SimilarityModel as SimilarityModel
from .learn.base import load as load
from .learn.embedding_map import fit_map as fit_map
from .learn.engines.opening import open_rows as open_rows
from .learn.relevance import RelevanceLearner as RelevanceLearner
from .learn.similarity import SimilarityLearner as SimilarityLearner
from .learn.slr import SLR as SLR
from .rivals.compare import compare as compare

__version__: str
