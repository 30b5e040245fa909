"""Teaching a search by marks: what it brings on pictures nobody marked, against rivals of ten lines; and its cost.

usage: python -m benchmarks.teaching_photos STORE [--seeds N] [--rows N] [PART ...]

STORE is a labelled feature store. PART is concepts, few, fitted or cost; all by default. `--rows` bounds the rows of
the fitted index (0: all of them). Newsgroups is read from LIKEWISE_DATA/newsgroups20.npz, if it is there; digits come
with scikit-learn.

A simulated user searches 600 pictures of some 16 classes, without labels, by one of them, looks at the first 24 results
and marks ten: the first wrong ones, at most five, then the first right ones. Four concepts are taught so: the four
classes that the search ranks worst, for those are taught, or any four. Average precision counts only pictures that
nobody marked and that are no query, for all methods alike. Logistic regression and SVM learn right ones against wrong
ones and 100 random pictures; rivals have raw rows or the index's own vectors, and C, whichever is best on the test.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from benchmarks.__main__ import show
from likewise import SimilarityLearner
from likewise.rivals import Cosine
from likewise.rows import read_table
from likewise.search import Index
from likewise.teach import Teacher
from likewise.teach.groups import Group, Node
from likewise.teach.learning import Learner
from likewise.utils.threads import single_threaded_blas

SHOWN, MARKS, MOST_WRONG = 24, 10, 5
CONCEPTS, PICTURES, PER_CLASS, FEWEST = 4, 600, 75, 60
RANDOM_NEGATIVES, C = 100, (0.01, 0.1, 1.0, 10.0)
FIRST_SEED = 200  # the constants of likewise.teach.learning were chosen on earlier draws
PARTS = ("concepts", "few", "fitted", "cost")


@dataclass
class Marks:
    """A query and the rows marked right and wrong for it."""

    query: int
    right: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)

    @property
    def touched(self) -> list[int]:
        return [self.query, *self.right, *self.wrong]


@dataclass
class Task:
    """An index without labels, the classes of its rows, marks of some concepts, and other rows of the same classes."""

    index: Index
    y: np.ndarray
    marks: list[Marks]
    X_other: np.ndarray
    y_other: np.ndarray


# ---------------------------------------------------------------------------------------------------------------------
# Data


def data(store: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, rows and classes."""
    yield Path(store).stem, *stored(store)
    path = Path(os.environ.get("LIKEWISE_DATA", "")) / "newsgroups20.npz"
    if path.is_file():
        yield "newsgroups", *newsgroups(path)
    X, y = load_digits(return_X_y=True)
    yield "digits", X.astype(np.float32), y


def stored(store: str) -> tuple[np.ndarray, np.ndarray]:
    table = read_table(store).labelled()
    return np.asarray(table.X, np.float32), np.asarray(table.y)


def newsgroups(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """3,000 messages as 300 numbers each."""
    file = np.load(path)
    X = sp.csr_matrix((file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"]))
    rows = np.sort(np.random.default_rng(0).permutation(X.shape[0])[:3000])
    Z = TruncatedSVD(300, random_state=0).fit_transform(normalize(X[rows]))
    return Z.astype(np.float32), file["classes"][file["y"][rows]]


def two_samples(y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two disjoint samples of 600 pictures each (fewer if there are fewer) of the same 16 or so classes."""
    names, counts = np.unique(y, return_counts=True)
    chosen: list[np.ndarray] = []
    for name in rng.permutation(names[counts >= FEWEST]):
        if sum(map(len, chosen)) < 2 * PICTURES:
            chosen.append(rng.permutation(np.flatnonzero(y == name))[:PER_CLASS])
    rows = rng.permutation(np.concatenate(chosen))[: 2 * PICTURES]
    return np.sort(rows[: len(rows) // 2]), np.sort(rows[len(rows) // 2 :])


def task(X: np.ndarray, y: np.ndarray, seed: int, worst: bool = True) -> Task:
    """600 pictures in an index, and the marks of four concepts."""
    rng = np.random.default_rng(seed)
    one, two = two_samples(y, rng)
    index = Index.build(Cosine().fit(X[one]), X[one], n_neighbors="auto")
    names = np.unique(y[one])
    concepts = ranked_worst(index, y[one])[:CONCEPTS] if worst else rng.permutation(names)[:CONCEPTS]
    queries = [int(rng.choice(np.flatnonzero(y[one] == name))) for name in concepts]
    return Task(index, y[one], [marked(index, y[one], query) for query in queries], X[two], y[two])


def ranked_worst(index: Index, y: np.ndarray) -> np.ndarray:
    """Classes by the mean AP of all their members as queries, the worst first."""
    S = index.vectors @ index.vectors.T
    np.fill_diagonal(S, -np.inf)
    aps = np.array([average_precision(S[i], (y == y[i]) & (np.arange(len(y)) != i)) for i in range(len(y))])
    names = np.unique(y)
    return names[np.argsort([aps[y == name].mean() for name in names])]


# ---------------------------------------------------------------------------------------------------------------------
# The simulated user, and rivals with the same marks


def marked(index: Index, y: np.ndarray, query: int) -> Marks:
    """Marks among the first results: the first wrong ones, at most five, then the first right ones."""
    shown = index.search(rows=[query], k=SHOWN).rows[0]
    wrong = shown[y[shown] != y[query]][:MOST_WRONG]
    right = shown[y[shown] == y[query]][: MARKS - len(wrong)]
    return Marks(query, right.tolist(), wrong.tolist())


def flipped(marks: Marks, share: float, rng: np.random.Generator) -> Marks:
    """The same marks, some of them the wrong way round."""
    turned = {item for item in marks.right + marks.wrong if rng.random() < share}
    right = [item for item in marks.right if item not in turned] + [item for item in marks.wrong if item in turned]
    return Marks(marks.query, right, [item for item in marks.right + marks.wrong if item not in right])


def taught(index: Index, all_marks: list[Marks]) -> Index:
    """The index after a lesson from all marks."""
    teacher = Teacher(index)
    for marks in all_marks:
        for item, right in [*((item, True) for item in marks.right), *((item, False) for item in marks.wrong)]:
            teacher.mark(marks.query, item, right)
    return teacher.learn().index


def searched(index: Index, marks: Marks) -> np.ndarray:
    """Scores of all rows for the query."""
    space = index.space()
    return space.scores(space.queries([marks.query]))[0]


def rocchio(marks: Marks, Z: np.ndarray) -> np.ndarray:
    """The query moved towards the right ones and away from the wrong ones."""
    q = Z[marks.query]
    if marks.right:
        q = q + 0.75 * Z[marks.right].mean(axis=0)
    if marks.wrong:
        q = q - 0.25 * Z[marks.wrong].mean(axis=0)
    return np.asarray(Z @ q)


def separated(machine: LogisticRegression | LinearSVC, marks: Marks, Z: np.ndarray) -> np.ndarray:
    """Right ones against wrong ones and random rows."""
    rest = np.setdiff1d(np.arange(len(Z)), marks.touched)
    negatives = np.random.default_rng(marks.query).permutation(rest)[:RANDOM_NEGATIVES]
    rows = [*marks.touched, *negatives]
    positive = np.arange(len(rows)) <= len(marks.right)
    return np.asarray(machine.fit(Z[rows], positive).decision_function(Z))


def rivals() -> dict[str, list[Callable[[Marks, np.ndarray], np.ndarray]]]:
    """By name, a function per setting."""

    def logistic(c: float) -> Callable[[Marks, np.ndarray], np.ndarray]:
        return lambda m, Z: separated(LogisticRegression(C=c, class_weight="balanced", max_iter=2000), m, Z)

    def svm(c: float) -> Callable[[Marks, np.ndarray], np.ndarray]:
        return lambda m, Z: separated(LinearSVC(C=c, class_weight="balanced", max_iter=5000), m, Z)

    return {"Rocchio": [rocchio], "logistic": [logistic(c) for c in C], "SVM": [svm(c) for c in C]}


# ---------------------------------------------------------------------------------------------------------------------
# Measures


def average_precision(S: np.ndarray, relevant: np.ndarray) -> float:
    hits = relevant[np.argsort(-S, kind="stable")]
    return float((np.cumsum(hits)[hits] / (np.flatnonzero(hits) + 1)).mean())


def untouched_ap(t: Task, scores: Callable[[Marks], np.ndarray], marks: list[Marks] | None = None) -> float:
    """Mean AP of the concepts over rows that nobody marked and that are no query."""
    marks = t.marks if marks is None else marks
    free = np.setdiff1d(np.arange(len(t.y)), np.concatenate([m.touched for m in marks]))
    return float(np.mean([average_precision(scores(m)[free], t.y[free] == t.y[m.query]) for m in marks]))


def other_ap(t: Task, index: Index) -> float:
    """Mean AP of the concepts in other pictures, by up to ten members of each as queries."""
    other = Index.build(index.model, t.X_other)
    members = [np.flatnonzero(t.y_other == t.y[m.query])[:10] for m in t.marks]
    return ranked_ap(other.vectors, other.vectors, t.y_other, np.concatenate(members))


def ranked_ap(Q: np.ndarray, V: np.ndarray, y: np.ndarray, rows: np.ndarray) -> float:
    """Mean AP of rows as queries, each of which ranks all others."""
    S = Q[rows] @ V.T
    S[np.arange(len(rows)), rows] = -np.inf
    n = np.arange(len(y))
    return float(np.mean([average_precision(S[i], (y == y[row]) & (n != row)) for i, row in enumerate(rows)]))


# ---------------------------------------------------------------------------------------------------------------------
# Parts: rows of a table each


def concepts(store: str, seeds: int) -> Iterator[list[str]]:
    """Before and after a lesson, rivals, and other pictures."""
    for (name, X, y), worst in product(data(store), (True, False)):
        tasks = [task(X, y, FIRST_SEED + seed, worst) for seed in range(seeds)]
        after = [taught(t.index, t.marks) for t in tasks]
        raw = [untouched_ap(t, lambda m, t=t: searched(t.index, m)) for t in tasks]
        ours = [untouched_ap(t, lambda m, a=a: searched(a, m)) for t, a in zip(tasks, after, strict=True)]
        best = [
            np.max([_rival(tasks, how, learned) for how in some for learned in (True, False)])
            for some in rivals().values()
        ]
        noisy = [_noisy(t, seed) for seed, t in enumerate(tasks)]
        other = [(other_ap(t, t.index), other_ap(t, a)) for t, a in zip(tasks, after, strict=True)]
        cells = [raw, ours, np.mean(raw), np.mean(ours), *best, np.mean(noisy), *np.mean(other, axis=0)]
        yield [f"{name}, {'worst' if worst else 'any'} four", *map(_shown, cells)]


def _rival(tasks: list[Task], scores: Callable[[Marks, np.ndarray], np.ndarray], learned: bool) -> float:
    Zs = [t.index.vectors if learned else normalize(t.index.raw) for t in tasks]
    return float(np.mean([untouched_ap(t, lambda m, Z=Z: scores(m, Z)) for t, Z in zip(tasks, Zs, strict=True)]))


def _noisy(t: Task, seed: int) -> float:
    rng = np.random.default_rng(seed)
    marks = [flipped(m, 0.1, rng) for m in t.marks]
    after = taught(t.index, marks)
    return untouched_ap(t, lambda m: searched(after, m), marks)


def few(store: str, seeds: int) -> Iterator[list[str]]:
    """One or two marks, each concept alone."""
    cuts = {"1 right": (1, 0), "1 wrong": (0, 1), "1 right, 1 wrong": (1, 1), "2 right, 3 wrong": (2, 3)}
    for (name, X, y), (what, (right, wrong)) in product(data(store), cuts.items()):
        pairs = []
        for seed in range(seeds):
            t = task(X, y, FIRST_SEED + seed)
            for m in t.marks:
                one = Marks(m.query, m.right[:right], m.wrong[:wrong])
                if len(one.touched) == 1 + right + wrong:
                    after = taught(t.index, [one])
                    pairs.append([untouched_ap(t, lambda m, i=i: searched(i, m), [one]) for i in (t.index, after)])
        gains = np.diff(pairs, axis=1)
        cells = [np.mean(pairs, axis=0)[0], np.mean(pairs, axis=0)[1], gains.min(), (gains < -0.02).mean()]
        yield [name, what, str(len(pairs)), *map(_shown, cells)]


def fitted(store: str, most: int) -> Iterator[list[str]]:
    """Marks and labels on an index under a model that was learned from its rows."""
    X, y, Q, y_q = _split(*stored(store), most)
    index = Index.build(SimilarityLearner().fit(X, y), X, {"label": y}, n_neighbors="auto")
    learner = Teacher(index)._learner
    learner.prepare()
    rng = np.random.default_rng(FIRST_SEED)
    n = f"{len(index):,} pictures, {len(np.unique(y))} classes"
    for what, first in (("the first five", True), ("five of the first ten", False)):
        good = [_pushed_down(index, learner, int(q), rng, first) for q in rng.choice(len(index), 30, replace=False)]
        yield [n, f"{what} marked wrong are all below place 15", f"{sum(good)} of 30", "27"]
    for what in ("any classes", "one class"):
        sets = [_six(y, rng, what == "one class") for _ in range(30)]
        good = [_found(index, learner, six) for six in sets]
        yield [n, f"six of {what}, newly labelled, are in each other's first ten", f"{sum(good)} of 30", "30"]
    yield _untouched_classes(index, learner, Q, y_q, rng)


def _split(X: np.ndarray, y: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows of whole classes, four fifths of them to learn and search, the others for queries."""
    rng = np.random.default_rng(FIRST_SEED)
    names, counts = np.unique(y, return_counts=True)
    order = rng.permutation(len(names))
    chosen = names[order[np.cumsum(counts[order]) <= (most or len(y))]]
    rows = rng.permutation(np.flatnonzero(np.isin(y, chosen)))
    learned, held = np.sort(rows[len(rows) // 5 :]), rows[: len(rows) // 5]
    return X[learned], y[learned], X[held], y[held]


def _teacher(index: Index, learner: Learner) -> Teacher:
    teacher = Teacher(index)
    teacher._learner = learner  # prepared once
    return teacher


def _pushed_down(index: Index, learner: Learner, query: int, rng: np.random.Generator, first: bool) -> bool:
    top = index.search(rows=[query], k=10).rows[0]
    wrong = top[:5] if first else rng.choice(top, 5, replace=False)
    teacher = _teacher(index, learner)
    for item in wrong:
        teacher.mark(query, int(item), False)
    return not set(teacher.learn().index.search(rows=[query], k=15).rows[0]) & set(wrong)


def _six(y: np.ndarray, rng: np.random.Generator, one_class: bool) -> list[int]:
    rows = np.flatnonzero(y == rng.choice(np.unique(y))) if one_class else np.arange(len(y))
    return [int(row) for row in rng.choice(rows, 6, replace=False)]


def _found(index: Index, learner: Learner, six: list[int]) -> bool:
    teacher = _teacher(index, learner)
    for row in six:
        teacher.label(row, "my set")
    first = teacher.learn().index.search(rows=six, k=10).rows
    return all(set(six) - {row} <= set(results) for row, results in zip(six, first.tolist(), strict=True))


def _untouched_classes(
    index: Index, learner: Learner, Q: np.ndarray, y_q: np.ndarray, rng: np.random.Generator
) -> list[str]:
    """mAP of held-out queries of classes that none of 100 marks is about, before and after."""
    assert index.labels is not None
    y = index.labels.astype(str)
    teacher, touched = _teacher(index, learner), set[str]()
    for query in rng.choice(len(index), 10, replace=False):
        for place, item in enumerate(index.search(rows=[query], k=10).rows[0]):
            teacher.mark(int(query), int(item), place >= 5)
            touched |= {y[query], y[item]}
    queries = ~np.isin(y_q, list(touched))
    both = [_held_out_ap(i, Q[queries], y_q[queries], y) for i in (index, teacher.learn().index)]
    what = f"mAP of {queries.sum()} new queries of untouched classes, 100 marks"
    return ["", what, f"{both[0]:.4f} → {both[1]:.4f}", "≥ -.005"]


def _held_out_ap(index: Index, Q: np.ndarray, y_q: np.ndarray, y: np.ndarray) -> float:
    S = index.space().embed(Q) @ index.vectors.T
    return float(np.mean([average_precision(S[i], y == y_q[i]) for i in range(len(Q))]))


def cost(store: str) -> Iterator[list[str]]:
    """Processor seconds of a lesson and of leaving marks out, on one thread, by the number of groups."""
    X, y = stored(store)
    index = Index.build(Cosine().fit(X), X)
    learner, rng = Learner(index), np.random.default_rng(0)
    with single_threaded_blas():
        yield [f"{len(X):,}", "prepare, once", f"{_seconds(learner.prepare):.2f}", ""]
        for n, what in product((4, 10, 100, 400), ("ten marks each", "all rows labelled")):
            groups = _marked_groups(y, n, rng) if what.startswith("ten") else _labelled_groups(len(y), n)
            scored = [learner.scored(group) for group in groups]
            learn = _seconds(lambda scored=scored: learner.learn(scored))  # type: ignore[misc]
            leave_out = _seconds(lambda scored=scored: [one.trials for one in scored])  # type: ignore[misc]
            yield [f"{len(X):,}", f"{n} groups, {what}", f"{learn:.2f}", f"{leave_out:.2f}"]


def _marked_groups(y: np.ndarray, n: int, rng: np.random.Generator) -> list[Group]:
    def some(rows: np.ndarray) -> set[Node]:
        return {Node("row", int(row)) for row in rng.choice(rows, 5, replace=False)}

    return [Group(some(np.flatnonzero(y == name)), some(np.flatnonzero(y != name))) for name in rng.choice(y, n)]


def _labelled_groups(rows: int, n: int) -> list[Group]:
    """All rows labelled, with n labels, in the order of the store."""
    nodes = [Node("row", row) for row in range(rows)]
    parts = [set(nodes[i * rows // n : (i + 1) * rows // n]) for i in range(n)]
    return [Group(part | {Node("label", i)}, set(nodes) - part) for i, part in enumerate(parts)]


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()  # other work on the machine does not count
    work()
    return time.process_time() - began


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(_shown, value))
    return f"{value:.3f}".replace("0.", ".", 1)


HEADS = {
    "concepts": "pictures|before, by draw|after, by draw|before|after|Rocchio|logistic|SVM|10 % flipped|others|after",
    "few": "data|marks|concepts|before|after|worst change|below -.02",
    "fitted": "index|what|measured|goal",
    "cost": "rows|what|learn, s|left out, s",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("part", nargs="*", help=", ".join(PARTS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=2500)
    arguments = parser.parse_args()
    parts = {
        "concepts": lambda: concepts(arguments.store, arguments.seeds),
        "few": lambda: few(arguments.store, arguments.seeds),
        "fitted": lambda: fitted(arguments.store, arguments.rows),
        "cost": lambda: cost(arguments.store),
    }
    for part in arguments.part or PARTS:
        table = Table(*HEADS[part].split("|"))
        for row in parts[part]():
            table.add_row(*row)
        show(part, table)


if __name__ == "__main__":
    main()
