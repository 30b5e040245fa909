"""Mean average precision and its relatives: streaming from embeddings, exact under ties."""

from likewise.metrics.evaluation import mean_average_precision
from likewise.metrics.ranks import average_precision

__all__ = ["average_precision", "mean_average_precision"]
