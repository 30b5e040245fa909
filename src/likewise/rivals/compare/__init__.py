"""Compare the usual methods with SimilarityLearner on one's own data."""

from likewise.rivals.compare.results import Comparison, Contest, Outcome, Standing
from likewise.rivals.compare.run import compare

__all__ = ["Comparison", "Contest", "Outcome", "Standing", "compare"]
