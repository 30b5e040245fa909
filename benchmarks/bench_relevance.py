"""Ranking learned from judgements and clicks: nDCG@10 of new queries, all, warm and cold, against rivals.

usage: python -m benchmarks.bench_relevance [--store]      or: python -m benchmarks relevance

Warm: an item relevant to the query is relevant to a training query too; cold: none is. Rivals: the raw cosine; Rocchio,
which adds the mean relevant item of the nearest training queries; a linear map of the query from ridge regression; and
a linear map of the query learned by InfoNCE in torch. Their settings are those with the best nDCG@10 in three folds of
the training queries. Tasks: `benchmarks.relevance_tasks`. --store writes docs/results/relevance.json and
relevance-logs.json.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, product
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from benchmarks.relevance_tasks import RelevanceTask, collections, logs, made, ndcg
from benchmarks.results import show_table
from likewise import RelevanceLearner

SIZES = (50, 200)
COLUMNS = ("task", "queries", "raw", "Rocchio", "ridge", "InfoNCE", "query side", "both sides")
LOG_RIVALS = ("Rocchio", "ridge")
Query = Callable[[np.ndarray], np.ndarray]
Rival = Callable[[np.ndarray, np.ndarray, sp.csr_array], Query]


class Line(NamedTuple):
    """nDCG@10 of every method on a task: of all new queries, warm ones and cold ones; and seconds of processor."""

    task: str
    queries: int
    values: dict[str, tuple[float, float, float]]
    seconds: float

    @property
    def cells(self) -> list[str]:
        best = max(value[0] for value in self.values.values())
        return [self.task, f"{self.queries:,}", *(_cell(self.values.get(name), best) for name in COLUMNS[2:])]


def rows() -> Iterator[dict[str, object]]:
    for line in chain(lines(), log_lines()):
        raw, ours = line.values["raw"], line.values["both sides"]
        shown = {name: "/".join(f"{value:.3f}" for value in values) for name, values in line.values.items()}
        rivals = "; ".join(f"{name} {text}" for name, text in shown.items() if name not in COLUMNS[-2:])
        yield {
            "what": f"{line.task}, {line.queries:,} queries: nDCG@10 all/warm/cold",
            "ours": f"{shown['both sides']}, query side {shown['query side']}, {line.seconds:.1f} s",
            "rival": rivals,
            "ratio": f"{ours[0] - raw[0]:+.3f}",
            "goal": "≥ -0.003",
        }


def lines() -> Iterator[Line]:
    """Judged and made collections, by number of training queries."""
    for task in chain(collections(), made()):
        for n in (*(n for n in SIZES if n < len(task.Q)), len(task.Q)):
            yield measured(task.first(n))


def log_lines() -> Iterator[Line]:
    for task in logs():
        yield measured(task, LOG_RIVALS)


def measured(task: RelevanceTask, rivals: Sequence[str] = COLUMNS[3:6]) -> Line:
    """Every method; on rows of two widths only ours, which starts from nothing there."""
    values = {"raw": (0.0, 0.0, 0.0)}
    R, one_width = task.relevance.R, task.Q.shape[1] == task.G.shape[1]
    if one_width:
        values["raw"] = _views(task, task.ndcg(task.T, task.G))
    for name in rivals if one_width else ():
        values[name] = _views(task, task.ndcg(RIVALS[name](task.Q, task.G, R)(task.T), task.G))
    for name, side in {"query side": "query", "both sides": "both"}.items():
        began = time.process_time()
        model = RelevanceLearner(side).fit(task.Q, task.relevance, gallery=task.G)
        seconds = time.process_time() - began
        values[name] = _views(task, task.ndcg(model.transform_query(task.T), model.transform(task.G)))
    line = Line(task.name, len(task.Q), values, seconds)
    print("  ".join(line.cells), f"{seconds:.1f} s", file=sys.stderr, flush=True)
    return line


def _views(task: RelevanceTask, values: np.ndarray) -> tuple[float, float, float]:
    parts = (values, values[task.warm], values[~task.warm])
    return tuple(float(np.nanmean(part)) if np.isfinite(part).any() else np.nan for part in parts)  # type: ignore[return-value]


def _cell(values: tuple[float, ...] | None, best: float) -> str:
    if values is None:
        return ""
    first, *others = (("–" if np.isnan(value) else f"{value:.3f}".removeprefix("0")) for value in values)
    return "/".join([f"**{first}**" if values[0] > best - 5e-4 else first, *others])


# -- Rivals, tuned on three folds -------------------------------------------------------------------------------------


def _tuned(kind: Callable[..., Query], grid: Sequence[tuple[float, ...]]) -> Rival:
    """A rival with the setting of a grid that ranks held-out training queries best."""

    def fitted(Q: np.ndarray, G: np.ndarray, R: sp.csr_array) -> Query:
        scores = np.zeros(len(grid))
        for fold in range(3):
            held = np.arange(len(Q)) % 3 == fold
            gains = np.maximum(R[held].toarray(), 0.0)
            for i, setting in enumerate(grid):
                query = kind(Q[~held], G, R[~held], *setting)
                scores[i] += np.nanmean(ndcg(query(Q[held]) @ G.T, gains))
        return kind(Q, G, R, *grid[int(np.argmax(scores))])

    return fitted


def _targets(G: np.ndarray, R: sp.csr_array) -> np.ndarray:
    return np.asarray(normalize(R.maximum(0), norm="l1") @ G)


def _rocchio(Q: np.ndarray, G: np.ndarray, R: sp.csr_array, k: float, weight: float) -> Query:
    P = _targets(G, R)

    def query(T: np.ndarray) -> np.ndarray:
        nearest = np.argsort(-(T @ Q.T), axis=1, kind="stable")[:, : int(k)]
        return T + weight * P[nearest].mean(axis=1)

    return query


def _ridge(Q: np.ndarray, G: np.ndarray, R: sp.csr_array, alpha: float, weight: float) -> Query:
    regression = Ridge(alpha).fit(Q, _targets(G, R))
    return lambda T: T + weight * np.asarray(regression.predict(T))


def _infonce(Q: np.ndarray, G: np.ndarray, R: sp.csr_array, rate: float, epochs: float) -> Query:
    """Adam from the identity on the multiple-negatives loss; a batch does not count its own positives as negatives."""
    import torch

    torch.manual_seed(0)
    rng, positives = np.random.default_rng(0), sp.csr_array(R > 0)
    W = torch.eye(Q.shape[1], requires_grad=True)
    optimiser = torch.optim.Adam([W], lr=rate)
    i, j = positives.nonzero()
    queries, items = torch.from_numpy(Q.astype(np.float32)), torch.from_numpy(G.astype(np.float32))
    for _ in range(int(epochs)):
        for batch in np.array_split(rng.permutation(len(i)), max(1, len(i) // 256)):
            scores = 20.0 * torch.nn.functional.normalize(queries[i[batch]] @ W) @ items[j[batch]].T
            false = torch.from_numpy(positives[i[batch]][:, j[batch]].toarray())
            false.fill_diagonal_(False)
            loss = torch.nn.functional.cross_entropy(scores.masked_fill(false, -1e9), torch.arange(len(batch)))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return lambda T: np.asarray(T @ W.detach().numpy())


RIVALS: dict[str, Rival] = {
    "Rocchio": _tuned(_rocchio, list(product((1, 3, 10), (0.0, 0.1, 0.3, 1.0, 3.0)))),
    "ridge": _tuned(_ridge, list(product((0.3, 3.0, 30.0), (0.0, 0.3, 1.0, 3.0, 10.0)))),
    "InfoNCE": _tuned(_infonce, list(product((1e-4, 1e-3, 1e-2), (5,)))),
}


def main() -> None:
    if "--help" in sys.argv:
        sys.exit(__doc__)
    tables = {
        "relevance": ("Judgements: nDCG@10 of new queries, all/warm/cold", COLUMNS, lines),
        "relevance-logs": (
            "Simulated logs: nDCG@10 of new queries, all/warm/cold",
            (*COLUMNS[:3], *LOG_RIVALS, *COLUMNS[-2:]),
            log_lines,
        ),
    }
    for name, (about, columns, of) in tables.items():
        table = [[cell for cell, column in zip(line.cells, COLUMNS, strict=True) if column in columns] for line in of()]
        file = name if "--store" in sys.argv else None
        show_table(about, "python -m benchmarks.bench_relevance --store", list(columns), table, file)


if __name__ == "__main__":
    main()
