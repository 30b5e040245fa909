"""likewise: learn from examples what "similar" means, and rank by it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_WHERE = {
    "PairLDA": "learn.pair_lda",
    "SLR": "learn.slr",
    "SimilarityLearner": "learn.similarity",
    "SimilarityModel": "learn.base",
    "compare": "rivals.compare",
    "fit_map": "learn.embedding_map",
    "from_parquet": "rows.parquet",
    "load": "learn.base",
    "open_rows": "learn.engines.opening",
}

__all__ = [
    "SLR",
    "PairLDA",
    "SimilarityLearner",
    "SimilarityModel",
    "__version__",
    "compare",
    "fit_map",
    "from_parquet",
    "load",
    "open_rows",
]

if TYPE_CHECKING:
    from likewise.learn.base import SimilarityModel, load
    from likewise.learn.embedding_map import fit_map
    from likewise.learn.engines.opening import open_rows
    from likewise.learn.pair_lda import PairLDA
    from likewise.learn.similarity import SimilarityLearner
    from likewise.learn.slr import SLR
    from likewise.rivals.compare import compare
    from likewise.rows.parquet import from_parquet


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import likewise` stays light."""
    if name not in _WHERE:
        raise AttributeError(f"module 'likewise' has no attribute {name!r}")
    return getattr(import_module(f"likewise.{_WHERE[name]}"), name)
