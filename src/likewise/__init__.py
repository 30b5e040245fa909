"""likewise: learn from examples what "similar" means, and rank by it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_WHERE = {
    "AnchoredSLR": "anchored",
    "PairLDA": "pair_lda",
    "SLR": "slr",
    "SimilarityModel": "base",
    "compare": "comparison",
    "fit_map": "mapping",
    "from_parquet": "data.parquet",
    "load": "base",
    "merge": "data.running_sums",
    "open_rows": "data.rows",
}

__all__ = [
    "SLR",
    "AnchoredSLR",
    "PairLDA",
    "SimilarityModel",
    "__version__",
    "compare",
    "fit_map",
    "from_parquet",
    "load",
    "merge",
    "open_rows",
]

if TYPE_CHECKING:
    from likewise.anchored import AnchoredSLR
    from likewise.base import SimilarityModel, load
    from likewise.comparison import compare
    from likewise.data.parquet import from_parquet
    from likewise.data.rows import open_rows
    from likewise.data.running_sums import merge
    from likewise.mapping import fit_map
    from likewise.pair_lda import PairLDA
    from likewise.slr import SLR


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import likewise` stays light."""
    if name not in _WHERE:
        raise AttributeError(f"module 'likewise' has no attribute {name!r}")
    return getattr(import_module(f"likewise.{_WHERE[name]}"), name)
