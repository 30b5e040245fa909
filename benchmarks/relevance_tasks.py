"""Tasks of `benchmarks relevance`: judged collections, collections made from labelled data, and simulated logs.

Collections are files NAME.npz in the folder `judged` of LIKEWISE_DATA with Q and G, the rows of queries and documents,
and train and test, triples of query, document and grade. More are made with

    pip install ir-datasets sentence-transformers
    python -m benchmarks.relevance_tasks beir/scifact "$LIKEWISE_DATA/judged"

which downloads a collection of ir-datasets that has /train and /test, and MiniLM; a text is cut by the encoder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

from benchmarks.comparisons import newsgroups
from benchmarks.open_sets import SETS, stored
from likewise.errors import LikewiseError
from likewise.paper.datasets import load_dataset
from likewise.rows import Relevance, read_table

DEPTH, ITEMS, TESTED = 10, 4_000, 400


@dataclass(frozen=True)
class RelevanceTask:
    """Rows of training queries, of items and of new queries, what is known of the first, and gains of the last."""

    name: str
    Q: np.ndarray
    G: np.ndarray
    relevance: Relevance
    T: np.ndarray
    gains: np.ndarray

    def first(self, n: int) -> RelevanceTask:
        """With n training queries, drawn at random."""
        some = np.random.default_rng(0).permutation(len(self.Q))[:n]
        return replace(self, Q=self.Q[some], relevance=Relevance(self.relevance.R[some]))

    @property
    def warm(self) -> np.ndarray:
        """Which new queries have a relevant item that is relevant to a training query."""
        known = np.asarray((self.relevance.R > 0).sum(axis=0)).ravel() > 0
        return np.asarray((self.gains > 0) @ known > 0)

    def ndcg(self, Z_q: np.ndarray, Z_g: np.ndarray) -> np.ndarray:
        """nDCG@10 of each new query."""
        return ndcg(Z_q @ Z_g.T, self.gains)


def ndcg(S: np.ndarray, gains: np.ndarray) -> np.ndarray:
    """nDCG@10 of each row of scores; nan without anything to find."""
    discount = 1 / np.log2(np.arange(2, DEPTH + 2))
    best = np.argsort(-S, axis=1, kind="stable")[:, :DEPTH]
    ideal = -np.sort(-gains, axis=1)[:, :DEPTH]
    with np.errstate(invalid="ignore"):
        return np.asarray((np.take_along_axis(gains, best, axis=1) @ discount) / (ideal @ discount))


# -- Judged collections -----------------------------------------------------------------------------------------------


def collections() -> Iterator[RelevanceTask]:
    """Those in the folder `judged` of LIKEWISE_DATA."""
    for path in sorted((Path(os.environ.get("LIKEWISE_DATA", ".")) / "judged").glob("*.npz")):
        data = np.load(path)
        Q, G = (normalize(data[name].astype(np.float32)) for name in ("Q", "G"))
        train, test = (data[name] for name in ("train", "test"))
        queries, new = (np.unique(part[:, 0]).astype(int) for part in (train, test))
        gains = _matrix(test, (len(Q), len(G)))[new].toarray()
        yield RelevanceTask(
            path.stem, Q[queries], G, Relevance(_matrix(train, (len(Q), len(G)))[queries]), Q[new], gains
        )


def _matrix(triples: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    query, item = triples[:, :2].astype(int).T
    return sp.csr_array((triples[:, 2].astype(float), (query, item)), shape=shape)


# -- Made from labelled data ------------------------------------------------------------------------------------------


def made() -> Iterator[RelevanceTask]:
    """Six words of an article as a query, and one part of a picture that looks for the other part."""
    try:
        yield _newsgroups()
    except LikewiseError as error:
        print(f"newsgroups is skipped: {error}", file=sys.stderr)
    for name, X, y in labelled():
        yield _halves(f"{name}, half of the columns", X, y, X.shape[1] // 2)
    try:
        X, y = stored("Caltech101-EfficientNet", SETS["Caltech101, EfficientNet"])
        yield _halves("Caltech101, half of the columns", X, y, X.shape[1] // 2)
    except LikewiseError as error:
        print(f"Caltech101 is skipped: {error}", file=sys.stderr)
    name, X, y = next(labelled())
    yield _halves(
        f"{name}, sides of {X.shape[1] // 3} and {X.shape[1] - X.shape[1] // 3} columns", X, y, X.shape[1] // 3
    )


def labelled() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, rows and classes of digits, and of the labelled feature stores of LIKEWISE_STORE, separated as in PATH."""
    X, y = load_digits(return_X_y=True)
    yield "digits", X.astype(np.float32), y
    for store in filter(None, os.environ.get("LIKEWISE_STORE", "").split(os.pathsep)):
        table = read_table(store).labelled()
        yield Path(store).name, np.asarray(table.X, dtype=np.float32), np.unique(table.y, return_inverse=True)[1]


def _newsgroups(n: int = 1_500, words: int = 6) -> RelevanceTask:
    """A query is some words of an article, which has gain 2; the two nearest of its newsgroup have gain 1."""
    data = load_dataset("newsgroups20", Path(os.environ.get("LIKEWISE_DATA", ".")) / "newsgroups20.npz")
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(data.y))[:ITEMS]
    X, y = sp.csr_array(data.X[rows]), data.y[rows]
    source = rng.choice(ITEMS, n + TESTED)
    some = X[source]
    for i in range(some.shape[0]):  # all but the words with the largest weight times a random number
        part = some.data[some.indptr[i] : some.indptr[i + 1]]
        part[np.argsort(-part * rng.random(len(part)))[words:]] = 0
    svd = TruncatedSVD(200, random_state=0).fit(X)
    G, Q = (normalize(svd.transform(part)).astype(np.float32) for part in (X, some))
    S = np.where(y[source][:, None] == y, G[source] @ G.T, -1.0)
    gains = np.zeros((n + TESTED, ITEMS))
    np.put_along_axis(gains, np.argsort(-S, axis=1)[:, :3], 1.0, axis=1)
    gains[np.arange(n + TESTED), source] = 2.0
    return RelevanceTask("newsgroups, six words", Q[:n], G, Relevance(sp.csr_array(gains[:n])), Q[n:], gains[n:])


def _halves(name: str, X: np.ndarray, y: np.ndarray, width: int, n: int = 1_500) -> RelevanceTask:
    """Queries have the first columns, items the others; three items of its class are known for each query."""
    order = np.random.default_rng(0).permutation(len(y))[: n + TESTED + ITEMS]
    items, new, queries = np.split(order, [len(order) // 2, len(order) // 2 + min(TESTED, len(order) // 8)])
    rng = np.random.default_rng(1)
    same = y[queries][:, None] == y[items]
    R = np.zeros(same.shape)
    np.put_along_axis(R, np.argsort(-(same + rng.random(same.shape)), axis=1)[:, :3], 1.0, axis=1)
    Q, G = normalize(X[:, :width]), normalize(X[:, width:])
    gains = (y[new][:, None] == y[items]).astype(float)
    return RelevanceTask(name, Q[queries], G[items], Relevance(sp.csr_array(R * same)), Q[new], gains)


# -- Simulated logs ---------------------------------------------------------------------------------------------------


def logs() -> Iterator[RelevanceTask]:
    """500 queries are shown 20 items by the raw cosine; items of their class attract clicks."""
    try:
        name, (X, y) = "newsgroups", newsgroups()
    except LikewiseError:
        name, X, y = next(labelled())
    for cascade in (False, True):
        for sessions in (1, 5, 20):
            for noise in (0.0, 0.2):
                yield simulated(name, normalize(X).astype(np.float32), y, cascade, sessions, noise)


def simulated(
    name: str, X: np.ndarray, y: np.ndarray, cascade: bool, sessions: int, noise: float, shown: int = 20, n: int = 500
) -> RelevanceTask:
    """Seen by place, 1/rank^.7, or down to the first click; `noise` is the share of clicks on a random place."""
    rng = np.random.default_rng(0)
    q, t, g = np.split(rng.permutation(len(y))[: n + 300 + ITEMS], [n, n + 300])
    items = np.argsort(-(X[q] @ X[g].T), axis=1, kind="stable")[:, :shown]
    attracts = np.where(y[g][items] == y[q][:, None], 0.6, 0.05)
    clicks, places, lists = [], [], []
    for session in range(sessions):
        clicked = rng.random(items.shape) < attracts
        if cascade:
            clicked &= np.cumsum(clicked, axis=1) == 1
        else:
            clicked &= rng.random(items.shape) < 1 / np.arange(1, shown + 1) ** 0.7
        wrong = clicked & (rng.random(items.shape) < noise)
        moved = np.zeros_like(clicked)
        moved[np.nonzero(wrong)[0], rng.integers(0, shown, wrong.sum())] = True
        clicks.append((clicked & ~wrong) | moved)
        places.append(np.tile(np.arange(1, shown + 1), (n, 1)))
        lists.append(np.full(items.shape, session))
    queries = np.tile(np.repeat(np.arange(n), shown), sessions)
    columns = {name: np.concatenate(part).ravel() for name, part in zip(_COLUMNS, (clicks, places, lists), strict=True)}
    log = Relevance.from_clicks(queries, np.tile(items.ravel(), sessions), **columns, shape=(n, len(g)))
    name = f"{name}, seen by {'cascade' if cascade else 'place'}, {sessions} × 500 lists, {noise:.0%} wrong"
    return RelevanceTask(name, X[q], X[g], log, X[t], (y[t][:, None] == y[g]).astype(float))


_COLUMNS = ("clicked", "position", "session")


# -- Downloads --------------------------------------------------------------------------------------------------------


def download(name: str, folder: Path) -> Path:
    """A collection of ir-datasets as a file of `collections`."""
    import ir_datasets
    from sentence_transformers import SentenceTransformer

    parts = {part: ir_datasets.load(f"{name}/{part}") for part in ("train", "test")}
    documents = {one.doc_id: f"{getattr(one, 'title', '')} {one.text}".strip() for one in parts["train"].docs_iter()}
    queries = {one.query_id: one.text for part in parts.values() for one in part.queries_iter()}
    places = [{key: place for place, key in enumerate(texts)} for texts in (queries, documents)]
    triples = {
        part: np.array(
            [(places[0][one.query_id], places[1][one.doc_id], one.relevance) for one in data.qrels_iter()], np.float32
        )
        for part, data in parts.items()
    }
    encoder = SentenceTransformer("all-MiniLM-L6-v2")
    Q, G = (encoder.encode(list(texts.values()), normalize_embeddings=True) for texts in (queries, documents))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace('/', '_')}_minilm.npz"
    np.savez(path, Q=Q.astype(np.float16), G=G.astype(np.float16), **triples)
    return path


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(download(sys.argv[1], Path(sys.argv[2])))
