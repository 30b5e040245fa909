"""What is known beyond one label a row: relevance, pairs, many labels, two sides, a prior."""

from likewise.supervision.fitting import fit_taught
from likewise.supervision.lessons import is_plain

__all__ = ["fit_taught", "is_plain"]
