"""Retrieval metrics: mean average precision and others, computed from embeddings in blocks, exact under ties."""

from likewise.evaluate import verification
from likewise.evaluate.evaluation import Evaluation, average_precision, evaluate
from likewise.evaluate.out_of_core import evaluate_blocks
from likewise.evaluate.ranking import average_precisions, mean_average_precision
from likewise.evaluate.significance import PairedTest, bootstrap_interval, paired_test

__all__ = [
    "Evaluation", "PairedTest", "average_precision", "average_precisions", "bootstrap_interval", "evaluate",
    "evaluate_blocks", "mean_average_precision", "paired_test",
    "verification",
]  # fmt: skip
