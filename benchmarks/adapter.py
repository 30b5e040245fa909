"""A rival query adapter: a linear map of the queries, learned by SGD on the multiple-negatives loss, in torch."""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp

from likewise.evaluate.evaluation import graded_ndcg

__all__ = ["sgd_adapter"]

RATES = (1e-4, 1e-3, 1e-2)  # of Adam; the best on validation queries is used
BATCH, EPOCHS, PATIENCE, SCALE = 256, 50, 3, 20.0  # SCALE: the usual inverse temperature of this loss


def sgd_adapter(Q: np.ndarray, G: np.ndarray, known: sp.csr_array, seed: int = 0) -> tuple[np.ndarray, float]:
    """W (d, d) such that q @ W ranks relevant items of G first, and the seconds of the run with the best learning rate.

    `known` stores 1 and 0 for pairs known to be relevant and irrelevant.

    Starts from the identity, keeps the epoch with the best nDCG@10 on a tenth of the queries, and stops three epochs
    later; the learning rate is chosen by the same score. In-batch negatives known to be relevant are not counted.
    """
    rng = np.random.default_rng(seed)
    held = rng.random(len(Q)) < 0.1
    runs = []
    for rate in RATES:
        began = time.perf_counter()
        score, W = _run(Q, G, known, held, rate, seed)
        runs.append((score, time.perf_counter() - began, W))
    _, seconds, W = max(runs, key=lambda run: run[0])
    return W, seconds


def _run(
    Q: np.ndarray, G: np.ndarray, known: sp.csr_array, held: np.ndarray, rate: float, seed: int
) -> tuple[float, np.ndarray]:
    import torch

    torch.manual_seed(seed)
    queries, gallery = torch.from_numpy(Q.astype(np.float32)), torch.from_numpy(G.astype(np.float32))
    W = torch.eye(Q.shape[1], requires_grad=True)
    optimiser = torch.optim.Adam([W], lr=rate)
    positives = known.toarray() > 0
    i, j = np.nonzero(positives)
    seen, goal = np.flatnonzero(~held[i]), known[held]
    rng = np.random.default_rng(seed)
    best, best_W, waited = -np.inf, np.eye(Q.shape[1], dtype=np.float32), 0

    def loss_of(batch: np.ndarray) -> torch.Tensor:
        mapped = torch.nn.functional.normalize(queries[i[batch]] @ W)
        scores = SCALE * mapped @ torch.nn.functional.normalize(gallery[j[batch]]).T
        false = torch.from_numpy(positives[np.ix_(i[batch], j[batch])])
        false.fill_diagonal_(False)
        return torch.nn.functional.cross_entropy(scores.masked_fill(false, -1e9), torch.arange(len(batch)))

    for _ in range(EPOCHS):
        order = rng.permutation(seen)
        for first in range(0, len(order), BATCH):
            optimiser.zero_grad()
            loss_of(order[first : first + BATCH]).backward()
            optimiser.step()
        score = graded_ndcg(Q[held] @ W.detach().numpy(), G, goal, only_known=True)
        waited = 0 if score > best else waited + 1
        if score > best:
            best, best_W = score, W.detach().numpy().copy()
        if waited == PATIENCE:
            break
    return best, best_W
