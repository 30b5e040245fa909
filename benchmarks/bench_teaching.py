"""Teaching: unseen classes with a prior, a query adapter against one learned by SGD, and cost against pairs.

On digits, and on the labelled feature stores in the environment variable LIKEWISE_STORE, separated as in PATH.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from benchmarks.measure import peak_bytes
from likewise import PairSLR, SimilarityLearner
from likewise.evaluate import mean_average_precision
from likewise.evaluate.evaluation import graded_ndcg
from likewise.rows import read_table
from likewise.rows.relevance import Relevance

__all__ = ["rows"]

SHARE = 0.1  # of the pairs have known relevance
DRAWS = {"digits": 3}  # random halves of the classes; one for a store
ITEMS, WIDTH, RANK = 200_000, 128, 64


def rows() -> Iterator[dict[str, object]]:
    """Unseen classes, adapters, cost."""
    yield from _unseen_rows()
    yield from _adapter_rows()
    yield from _cost_rows()


def data() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, unit rows and classes of each data set."""
    X, y = load_digits(return_X_y=True)
    yield "digits", normalize(X), y
    for store in filter(None, os.environ.get("LIKEWISE_STORE", "").split(os.pathsep)):
        table = read_table(store).labelled()
        X = normalize(np.asarray(table.X, dtype=np.float32))
        yield os.path.basename(store), X, np.unique(table.y, return_inverse=True)[1]


# ---------------------------------------------------------------------------------------------------------------------
# Classes that were not taught


def _unseen_rows() -> Iterator[dict[str, object]]:
    for name, X, y in data():
        for draw in range(DRAWS.get(name, 1)):
            half = np.random.default_rng(draw).permutation(np.unique(y))[::2]
            yield _unseen(f"{name}, draw {draw}", X, y, np.isin(y, half))


def _unseen(name: str, X: np.ndarray, y: np.ndarray, seen: np.ndarray) -> dict[str, object]:
    Q, y_q = X[~seen], y[~seen]
    raw = 100 * mean_average_precision(Q, Q, y_q)
    model = PairSLR(prior="identity").fit(X[seen], y[seen])
    ours = 100 * model.score(Q, y_q)
    anchored = 100 * SimilarityLearner(unseen_classes=True).fit(X[seen], y[seen]).score(Q, y_q)
    return {
        "what": f"mAP on the unseen half of the classes of {name}: PairSLR(prior='identity')",
        "ours": f"{ours:.1f} (strength {model.strength_:g})",
        "rival": f"{raw:.1f}: raw cosine; SimilarityLearner(unseen_classes=True) {anchored:.1f}",
        "ratio": f"{ours - raw:+.2f}",
        "goal": "≥ -0.3",
    }


# ---------------------------------------------------------------------------------------------------------------------
# A query adapter in front of an index of raw rows


def _adapter_rows() -> Iterator[dict[str, object]]:
    for name, X, y in data():
        yield from _adapter(name, *_task(X, y))


def _task(X: np.ndarray, y: np.ndarray, seed: int = 1) -> tuple[np.ndarray, ...]:
    """Training queries, held-out queries, gallery, the relevance of both, and which training pairs are known.

    A query has only the first half of the columns of an item, like a cropped picture. Seed 0 was used to develop the
    search of the strength, so it is not used here.
    """
    order = np.random.default_rng(seed).permutation(len(y))
    held, train, index = np.split(order, [len(y) // 8, len(y) // 2])
    known = np.random.default_rng(seed + 1).random((len(train), len(index))) < SHARE
    relevant = y[train][:, None] == y[index]
    half = normalize(np.where(np.arange(X.shape[1]) < X.shape[1] // 2, X, 0.0)).astype(X.dtype)
    return half[train], half[held], X[index], relevant, y[held][:, None] == y[index], known


def _adapter(
    name: str, Q: np.ndarray, held: np.ndarray, G: np.ndarray, relevant: np.ndarray, goal: np.ndarray, known: np.ndarray
) -> Iterator[dict[str, object]]:
    truth = sp.csr_array(goal.astype(float))
    raw = graded_ndcg(held, G, truth)
    began = time.perf_counter()
    relevance = Relevance.from_triples(*np.nonzero(known), relevant[known], shape=known.shape)
    # the margins of SimilarityLearner for cosines; few iterations are enough if many pairs are known
    model = PairSLR(sides="query", prior="identity", margins=(0.9, 0.3), max_iter=2).fit(Q, relevance, gallery=G)
    ours = time.perf_counter() - began
    ndcg = graded_ndcg(model.transform_query(held), G, truth)
    began = time.perf_counter()
    W, one_run = sgd_adapter(Q, G, relevance.R)
    theirs = time.perf_counter() - began
    sgd = graded_ndcg(held @ W, G, truth)
    what = f"query adapter, {name}: {len(Q):,} queries x {len(G):,} items, {SHARE:.0%} of the pairs known"
    yield {
        "what": f"{what}: nDCG@10 of {len(held):,} held-out queries",
        "ours": f"{ndcg:.4f} (strength {model.strength_:g})",
        "rival": f"{sgd:.4f}: SGD, multiple-negatives loss; raw cosine {raw:.4f}",
        "ratio": f"{ndcg - max(sgd, raw):+.4f}",
        "goal": "> 0",
    }
    yield {
        "what": f"{what}: seconds, settings chosen",
        "ours": f"{ours:.2f} s",
        "rival": f"{theirs:.1f} s: SGD with its learning rate searched; its best run alone {one_run:.1f} s",
        "ratio": round(theirs / ours, 1),
        "goal": "≥ 10 times faster",
    }


# ---------------------------------------------------------------------------------------------------------------------
# Cost against pairs

PREPARE = """
from benchmarks.bench_teaching import pairs
from likewise import PairSLR
X, relevance, _ = pairs({n_pairs})
"""


def pairs(n_pairs: int, n: int = ITEMS, d: int = WIDTH) -> tuple[np.ndarray, Relevance, np.ndarray]:
    """Rows, graded relevance of random pairs, and the planted factor of the grades."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    L = (rng.standard_normal((d, 8)) / np.sqrt(d)).astype(np.float32)
    i, j = rng.integers(0, n, (2, n_pairs))
    keep = np.unique(i * n + j, return_index=True)[1]
    i, j = i[keep], j[keep]
    Z = X @ L
    grades = np.einsum("ij,ij->i", Z[i], Z[j])
    return X, Relevance.from_triples(i, j, grades, shape=(n, n)), L


def _cost_rows() -> Iterator[dict[str, object]]:
    for n_pairs in (10_000, 100_000, 1_000_000):
        X, relevance, L = pairs(n_pairs)
        began = time.perf_counter()
        model = PairSLR(RANK).fit(X, relevance)
        seconds = time.perf_counter() - began
        S, truth = model.similarity(X[:500], X[500:1000]), (X[:500] @ L) @ (X[500:1000] @ L).T
        peak = peak_bytes(PREPARE.format(n_pairs=n_pairs), f"PairSLR({RANK}).fit(X, relevance)")
        yield {
            "what": f"fit of {relevance.n_known:,} pairs over {ITEMS:,} items (d = {WIDTH}, rank {RANK}, max_iter=10)",
            "ours": f"{seconds:.1f} s, {peak / 1e6:.0f} MB over X ({X.nbytes / 1e6:.0f} MB)",
            "rival": f"all {ITEMS:,}² scores would be {4 * ITEMS**2 / 1e9:.0f} GB",
            "ratio": f"correlation {np.corrcoef(S.ravel(), truth.ravel())[0, 1]:.3f}",
            "goal": "minutes, bounded memory",
        }


# ---------------------------------------------------------------------------------------------------------------------
# A rival adapter: a linear map of the queries, learned by SGD on the multiple-negatives loss, in torch

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
