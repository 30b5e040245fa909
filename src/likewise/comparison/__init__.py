"""The table one wants for one's own data: what would the usual choices have reached?"""

from likewise.comparison.results import Comparison, Contest, Outcome, Standing
from likewise.comparison.run import compare

__all__ = ["Comparison", "Contest", "Outcome", "Standing", "compare"]
