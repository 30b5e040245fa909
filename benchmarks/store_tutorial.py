"""The task of Qdrant's tutorial on relevance feedback: 10,000 judged results for three weights, or for a map.

usage: python -m benchmarks.store_tutorial [STORE ...] [--seeds N]

The tutorial (Qdrant 1.17, package qdrant-relevance-feedback) takes random points of a collection as queries, has the
first 50 results of 200 of them judged, and trains the weights a, b and c of the feedback query on these judgements. For
other queries the first five results are judged, and the next results by the feedback query are compared with those of
the plain search. Here a judgement is 1 if a result has the class of the query and 0 if not; STORE is a labelled feature
store, and newsgroups is read from LIKEWISE_DATA/newsgroups20.npz.

The weights are trained by Qdrant's own package (pip install qdrant-relevance-feedback, which needs torch), and the
query runs embedded. Ours is RelevanceLearner, fitted on the same 200 × 50 judgements; it uses no judgement of the query
itself, unless Qdrant's feedback query or Rocchio is run on its vectors. Rocchio has the textbook's weights. Precision
is of the ten results after the five, in the collection whose results were judged, as in the tutorial, and in one of
other rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from rich.table import Table
from sklearn.preprocessing import normalize

from benchmarks.__main__ import show
from benchmarks.store_feedback import Collection, data
from benchmarks.teaching_photos import Marks, rocchio
from likewise import RelevanceLearner
from likewise.rows import Relevance

ROWS, TRAINED, TESTED, JUDGED, CONTEXT, SHOWN = 1500, 200, 200, 50, 5, 10
Scores = Callable[[Marks], np.ndarray]


def results(Z: np.ndarray, query: int, n: int) -> np.ndarray:
    """The first n rows for a row, without itself."""
    S = Z @ Z[query]
    S[query] = -np.inf
    return np.argsort(-S, kind="stable")[:n]


def trained_weights(Z: np.ndarray, y: np.ndarray, queries: np.ndarray) -> tuple[float, float, float]:
    """a, b and c by Qdrant's package: its pairs, its loss and its early stopping."""
    import torch
    from qdrant_relevance_feedback.train.naive_formula import NaiveFormula
    from qdrant_relevance_feedback.train.train import get_context_pairs, train_formula

    signals = []
    for query in queries:
        hits = results(Z, query, JUDGED)
        judged = (y[hits] == y[query]).astype(float)
        pairs = get_context_pairs(judged[:CONTEXT].tolist())
        if pairs:
            wrong, right, confidence = pairs[0]
            R, rest = Z[hits[CONTEXT:]], judged[CONTEXT:] - judged[:CONTEXT].max()
            delta = R @ Z[hits[right]] - R @ Z[hits[wrong]]
            signals.append([R @ Z[query], np.full(len(R), confidence), delta, rest])
    T = torch.tensor(np.array(signals)).transpose(0, 1)
    cut = int(0.8 * T.shape[1])
    formula = train_formula(NaiveFormula(), *T[:, :cut], *T[:, cut:], patience=200)
    a, b, c = formula.params.tolist()
    return a, max(b, 0.0), c


def learned(Z: np.ndarray, y: np.ndarray, queries: np.ndarray) -> RelevanceLearner:
    """A map from the same judgements."""
    hits = np.array([results(Z, query, JUDGED) for query in queries])
    pairs = np.repeat(np.arange(len(queries)), JUDGED), hits.ravel()
    grades = (y[hits] == y[queries][:, None]).ravel().astype(float)
    relevance = Relevance.from_triples(*pairs, grades, shape=(len(queries), len(Z)))
    return RelevanceLearner().fit(Z[queries], relevance, gallery=Z)


def precision(Z: np.ndarray, y: np.ndarray, queries: np.ndarray, scores: Scores) -> float:
    """Share of right ones among ten results after five that were judged, which are those of the raw search."""
    shares = []
    for query in queries:
        first = results(Z, query, CONTEXT)
        right, wrong = first[y[first] == y[query]], first[y[first] != y[query]]
        S = scores(Marks(int(query), right.tolist(), wrong.tolist()))
        S[[query, *first]] = -np.inf
        shares.append(np.mean(y[np.argsort(-S, kind="stable")[:SHOWN]] == y[query]))
    return float(np.mean(shares))


def compared(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, tuple[float, float]]:
    """Precision in the collection whose results were judged, and in one of other rows."""
    rng = np.random.default_rng(seed)
    one, two = np.split(rng.permutation(len(y))[: 2 * ROWS], 2)
    queries, tests = np.split(rng.permutation(len(one))[: TRAINED + TESTED], [TRAINED])
    Z = normalize(X[one])
    model = learned(Z, y[one], queries)
    sides = {"raw": lambda X: normalize(X), "learned": lambda X: normalize(model.transform(normalize(X)))}
    scores: dict[str, tuple[float, float]] = {}
    for name, side in sides.items():
        a, b, c = trained_weights(side(X[one]), y[one], queries)
        for rows in (one, two):
            for method, share in measured(normalize(X[rows]), side(X[rows]), y[rows], tests, (a, b, c)).items():
                scores[f"{name}: {method}"] = (*scores.get(f"{name}: {method}", ()), share)
    return scores


def measured(
    Z: np.ndarray, W: np.ndarray, y: np.ndarray, tests: np.ndarray, weights: tuple[float, float, float]
) -> dict[str, float]:
    """Precision by each way to search the vectors W; the five that are judged are those of the raw search."""
    a, b, c = weights
    ways = {
        "search": lambda m: W @ W[m.query],
        "Rocchio": lambda m: rocchio(m, W),
        "Qdrant's feedback": partial(Collection(W).scores, a=a, b=b, c=c),
    }
    return {name: precision(Z, y, tests, scores) for name, scores in ways.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    grid = Table("data", "vectors and search", "same collection, %", "by draw", "other rows, %", "by draw")
    for name, X, y in data(arguments.stores):
        runs = [compared(X, y, seed) for seed in range(arguments.seeds)]
        for method in runs[0]:
            shares = 100 * np.array([run[method] for run in runs]).T
            cells = [cell for by in shares for cell in (f"{by.mean():.1f}", " ".join(f"{one:.1f}" for one in by))]
            grid.add_row(name, method, *cells)
    show("Right ones among ten results after five that were judged", grid)


if __name__ == "__main__":
    main()
