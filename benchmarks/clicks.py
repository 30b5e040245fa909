"""Learning from simulated click logs: mAP of new queries by the raw cosine and by PairLDA, and what PairLDA decided.

usage: python -m benchmarks.clicks [--seeds N] [NAME ...]      NAME: a data set or a log; default: all

Each query is shown its 20 nearest items; relevant ones (of its class) are clicked with probability .6, others with .05.
Then a share of the clicks is moved to random items, among those shown or anywhere. Only clicks are passed on, never the
classes or what was shown. Digits come with scikit-learn, newsgroups is read from LIKEWISE_DATA/newsgroups20.npz,
Fashion-MNIST from the Debian package dataset-fashion-mnist, and LIKEWISE_STORE names further labelled stores, separated
as in PATH; missing ones are skipped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from rich.table import Table
from sklearn.preprocessing import normalize

from benchmarks.__main__ import show
from benchmarks.bench_teaching import data
from benchmarks.comparisons import fashion, newsgroups
from likewise import PairLDA
from likewise.errors import LikewiseError
from likewise.evaluate import mean_average_precision
from likewise.rows import Relevance

SHOWN, TESTED, ITEMS = 20, 500, 4_000
CLICKED, MISTAKEN = 0.6, 0.05
COLUMNS = ("data", "log", "seed", "queries", "raw", "learned", "decision", "used", "held-out mAP")


@dataclass(frozen=True)
class Log:
    """A kind of log: how many queries, and which share of their clicks is moved where."""

    queries: int = 500
    moved: float = 0.0
    anywhere: bool = False


LOGS = {
    "clicks": Log(),
    "few": Log(queries=60),
    "half-shown": Log(moved=0.5),
    "half-anywhere": Log(moved=0.5, anywhere=True),
    "random": Log(moved=1.0, anywhere=True),
}


@dataclass(frozen=True)
class Task:
    """Unit rows and classes of queries with a log, of new queries, and of the items."""

    Q: np.ndarray
    y_q: np.ndarray
    T: np.ndarray
    y_t: np.ndarray
    G: np.ndarray
    y_g: np.ndarray

    @classmethod
    def drawn(cls, X: np.ndarray, y: np.ndarray, n_queries: int, seed: int) -> Task:
        """At most a fifth of the rows each are queries with a log and new queries."""
        order, fifth = np.random.default_rng(seed).permutation(len(y)), len(y) // 5
        ends = np.cumsum([min(n_queries, fifth), min(TESTED, fifth), ITEMS])
        q, t, g = np.split(order[: ends[-1]], ends[:-1])
        return cls(X[q], y[q], X[t], y[t], X[g], y[g])

    def clicks(self, log: Log, seed: int) -> Relevance:
        rng = np.random.default_rng(seed + 1_000)
        shown = np.argsort(-(self.Q @ self.G.T), axis=1, kind="stable")[:, :SHOWN]
        chance = np.where(self.y_g[shown] == self.y_q[:, None], CLICKED, MISTAKEN)
        queries, places = np.nonzero(rng.random(shown.shape) < chance)
        items = shown[queries, places]
        moved = rng.random(len(items)) < log.moved
        other = shown[queries, rng.integers(0, SHOWN, len(items))]
        items[moved] = rng.integers(0, len(self.G), len(items))[moved] if log.anywhere else other[moved]
        return Relevance.from_clicks(queries, items, shape=(len(self.Q), len(self.G)))

    def mAP(self, Z_t: np.ndarray, Z_g: np.ndarray) -> float:
        return float(mean_average_precision(Z_t, Z_g, self.y_t, self.y_g))


def measured(name: str, X: np.ndarray, y: np.ndarray, kind: str, seed: int) -> dict[str, object]:
    """One row of the table; the map is made whatever was decided, to see what was refused."""
    task = Task.drawn(X, y, LOGS[kind].queries, seed)
    model = PairLDA(fallback=False).fit(task.Q, task.clicks(LOGS[kind], seed), gallery=task.G)
    raw, learned = task.mAP(task.T, task.G), task.mAP(model.transform_query(task.T), model.transform(task.G))
    held = model.held_out_ or {"raw": np.nan, "mAP": np.nan, "accepted": False}
    return {
        "data": name,
        "log": kind,
        "seed": seed,
        "queries": len(task.Q),
        "raw": raw,
        "learned": learned,
        "decision": "learned" if held["accepted"] else "raw",
        "used": learned if held["accepted"] else raw,
        "held-out mAP": f"{held['raw']:.3f} → {held['mAP']:.3f}",
    }


def sets() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, unit rows and classes of each data set that is available."""
    makers: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
        "newsgroups": newsgroups,
        "fashion-mnist": fashion,
    }
    for name, make in makers.items():
        try:
            X, y = make()
        except LikewiseError as error:
            print(f"{name} is skipped: {error}", file=sys.stderr)
            continue
        yield name, normalize(X.astype(np.float32)), y
    for name, X, y in data():
        yield name, X.astype(np.float32), y


def main() -> None:
    words = sys.argv[1:]
    if "--help" in words:
        sys.exit(__doc__)
    n_seeds = int(words.pop(words.index("--seeds") + 1)) if "--seeds" in words else 5
    table = Table(*COLUMNS)
    for name, X, y in sets():
        for kind in LOGS:
            if not _asked(words, name, kind):
                continue
            for seed in range(n_seeds):
                row = measured(name, X, y, kind, seed)
                cells = [f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()]
                print("  ".join(cells), file=sys.stderr, flush=True)
                table.add_row(*cells)
    show("mAP of new queries, taught by simulated clicks", table)


def _asked(words: list[str], name: str, kind: str) -> bool:
    kinds = [word for word in words if word in LOGS]
    names = [word for word in words if word not in LOGS and not word.startswith("-")]
    return (not kinds or kind in kinds) and (not names or name in names)


if __name__ == "__main__":
    main()
