"""Retrieval metrics: mean average precision and others, computed from embeddings in blocks, exact under ties."""

from likewise.evaluate.evaluation import (
    Evaluation,
    average_precision,
    evaluate,
    macro_mean_average_precision,
    map_at_r,
    ndcg,
    precision_at_k,
    r_precision,
    recall_at_k,
)
from likewise.evaluate.out_of_core import evaluate_blocks
from likewise.evaluate.ranking import average_precisions, mean_average_precision
from likewise.evaluate.significance import PairedTest, bootstrap_interval, paired_test

__all__ = [
    "Evaluation", "PairedTest", "average_precision", "average_precisions", "bootstrap_interval", "evaluate",
    "evaluate_blocks", "macro_mean_average_precision", "map_at_r", "mean_average_precision", "ndcg", "paired_test",
    "precision_at_k", "r_precision", "recall_at_k",
]  # fmt: skip
