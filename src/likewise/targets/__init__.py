"""What a pair should score: an interval, from labels, from a relevance matrix, from pairs, from shared labels."""

from likewise.targets.labels import LabelTarget, class_starts, label_runs, same_label_blocks
from likewise.targets.relevance import Relevance
from likewise.targets.shared import SharedLabels

__all__ = ["LabelTarget", "Relevance", "SharedLabels", "class_starts", "label_runs", "same_label_blocks"]
