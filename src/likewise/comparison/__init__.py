"""Compare the usual methods with AnchoredSLR on one's own data."""

from likewise.comparison.results import Comparison, Contest, Outcome, Standing
from likewise.comparison.run import compare

__all__ = ["Comparison", "Contest", "Outcome", "Standing", "compare"]
