"""What to mark next: suggested items against random ones and the top results, by a simulated user.

usage: python -m benchmarks.suggestions STORE [--seeds N] [--concepts N] [--rounds N] [--oracle]

STORE is a labelled feature store; its labels are hidden from the index, which ranks by the raw cosine. For each concept
a user searches by one member and marks ten items a round, right or wrong: those `Teacher.suggest` names, the first
results not marked yet, or any. Half of the pictures, another half for each seed, can be marked; average precision is
over the other half, so that all are measured on the same pictures, which nobody marked. Concepts are the classes that
the raw features rank worst (up to ten members each as queries), and as many at random.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.__main__ import show
from benchmarks.teaching_photos import average_precision, stored
from likewise.rivals import Cosine
from likewise.search import Index
from likewise.teach import Teacher
from likewise.teach.learning import Learner
from likewise.utils.threads import single_threaded_blas

PER_ROUND = 10
FEWEST = 40  # members of a concept, half of which can be marked
SAME = {"Faces_easy"}  # the same pictures as in Faces, cropped
SEESAW = 20  # marks after which queries are compared one by one


class Library(NamedTuple):
    """An index without labels, the classes of its rows, and what all lessons on it share."""

    index: Index
    y: np.ndarray
    learner: Learner


class Run(NamedTuple):
    """One simulated user: AP after each round, and all marks."""

    concept: str
    aps: list[float]
    query: int
    marks: dict[int, bool]


Choice = Callable[[Teacher, Index, int, np.ndarray, np.random.Generator], list[int]]


def suggested(teacher: Teacher, now: Index, query: int, free: np.ndarray, rng: np.random.Generator) -> list[int]:
    return [suggestion.row for suggestion in teacher.suggest(PER_ROUND, query=query, among=free)]


def top(teacher: Teacher, now: Index, query: int, free: np.ndarray, rng: np.random.Generator) -> list[int]:
    return free[np.argsort(-(now.vectors[free] @ now.vectors[query]), kind="stable")[:PER_ROUND]].tolist()


def at_random(teacher: Teacher, now: Index, query: int, free: np.ndarray, rng: np.random.Generator) -> list[int]:
    return rng.choice(free, PER_ROUND, replace=False).tolist()


CHOICES: dict[str, Choice] = {"suggested": suggested, "top results": top, "random": at_random}


def oracle(y: np.ndarray) -> Choice:
    """A user who knows the answers: marks five telling right items and the five highest wrong ones."""

    def choice(teacher: Teacher, now: Index, query: int, free: np.ndarray, rng: np.random.Generator) -> list[int]:
        right = y[free] == y[query]
        telling = [suggestion.row for suggestion in teacher.suggest(PER_ROUND // 2, query=query, among=free[right])]
        return [*telling, *top(teacher, now, query, free[~right], rng)[: PER_ROUND - len(telling)]]

    return choice


def user(library: Library, choice: Choice, query: int, seed: int, rounds: int) -> Run:
    """Marks ten items a round, and learns."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(len(library.y)) < 0.5
    teacher = Teacher(library.index)
    teacher._learner = library.learner  # prepared once
    relevant, marks, aps = library.y == library.y[query], dict[int, bool](), list[float]()
    hidden[query] = False
    for _ in range(rounds + 1):
        now = teacher.taught_by(teacher.state())[0]
        aps.append(average_precision(now.vectors[hidden] @ now.vectors[query], relevant[hidden]))
        free = np.setdiff1d(np.flatnonzero(~hidden), [query, *marks])
        for row in choice(teacher, now, query, free, rng) if len(aps) <= rounds else []:
            marks[row] = bool(relevant[row])
            teacher.mark(query, row, marks[row])
    return Run(str(library.y[query]), aps, query, marks)


def concepts(library: Library, n: int) -> dict[str, list[str]]:
    """The n classes that the raw features rank worst, and n others at random."""
    names, counts = np.unique(library.y, return_counts=True)
    names = np.array([name for name in names[counts >= FEWEST] if name not in SAME])
    worst = names[np.argsort([_raw_ap(library, name) for name in names])][:n].tolist()
    others = np.random.default_rng(0).permutation(np.setdiff1d(names, worst))[:n].tolist()
    return {kind: names for kind, names in (("ranked worst", worst), ("any", others)) if names}


def _raw_ap(library: Library, name: str) -> float:
    V, members = library.index.vectors, np.flatnonzero(library.y == name)
    rest = [np.delete(np.arange(len(V)), row) for row in members[:10]]
    pairs = zip(members[:10], rest, strict=True)
    return float(np.mean([average_precision(V[others] @ V[row], library.y[others] == name) for row, others in pairs]))


# ---------------------------------------------------------------------------------------------------------------------
# Tables


def curves(runs: dict[str, list[Run]]) -> Table:
    """Mean AP by the number of marks, and the marks it takes to reach what the top results reach."""
    rounds = len(runs["top results"][0].aps)
    goals = [mean_curve(runs["top results"])[place] for place in range(2, rounds, 2)]
    heads = [f"{PER_ROUND * place} marks" for place in range(rounds)]
    table = Table("", *heads, *(f"marks to {goal:.3f}" for goal in goals))
    for name, outcome in runs.items():
        curve = mean_curve(outcome)
        needed = [marks_needed(curve, goal) for goal in goals]
        table.add_row(name, *(f"{ap:.3f}" for ap in curve), *(f"{n:.0f}" if n else "more" for n in needed))
    return table


def mean_curve(runs: list[Run]) -> np.ndarray:
    return np.mean([run.aps for run in runs], axis=0)


def marks_needed(curve: np.ndarray, goal: float) -> float | None:
    """The first number of marks that reaches an AP, between rounds by a straight line."""
    reached = np.flatnonzero(curve >= goal - 1e-12)
    if not len(reached):
        return None
    place = int(reached[0])
    return PER_ROUND * float(np.interp(goal, curve[place - 1 : place + 1], [place - 1, place])) if place else 0.0


def query_by_query(runs: dict[str, list[Run]]) -> Table:
    """AP per query before and after, and how many queries got worse (SeeSaw's protocol)."""
    table = Table("", "before", f"after {SEESAW} marks", "worst change", "worse", "worse by .02")
    for name, outcome in runs.items():
        before, after = (np.array([run.aps[place] for run in outcome]) for place in (0, SEESAW // PER_ROUND))
        change = after - before
        cells = [before.mean(), after.mean(), change.min(), (change < 0).mean(), (change < -0.02).mean()]
        table.add_row(name, *(f"{cell:.3f}" for cell in cells))
    return table


# ---------------------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--concepts", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=6, help=f"at least {SEESAW // PER_ROUND}")
    parser.add_argument("--oracle", action="store_true", help="and a user who knows the answers, as a bound")
    arguments = parser.parse_args()
    X, y = stored(arguments.store)
    index = Index.build(Cosine().fit(X), X)
    library = Library(index, y, Teacher(index)._learner)
    if arguments.oracle:
        CHOICES["oracle"] = oracle(y)
    with single_threaded_blas():
        library.learner.prepare()
        for kind, names in concepts(library, arguments.concepts).items():
            report(kind, names, library, arguments.seeds, arguments.rounds)


def report(kind: str, names: list[str], library: Library, seeds: int, rounds: int) -> None:
    """All tables of some concepts."""
    tasks = [(name, seed) for name in names for seed in range(seeds)]
    runs: dict[str, list[Run]] = {name: [] for name in CHOICES}
    for name, seed in track(tasks, f"concepts, {kind}", console=Console(stderr=True)):
        query = int(np.random.default_rng(seed).choice(np.flatnonzero(library.y == name)))
        for how, choice in CHOICES.items():
            runs[how].append(user(library, choice, query, seed, rounds))
    title = f"{len(names)} concepts, {kind} ({', '.join(names)}), {seeds} seeds"
    for table in (curves(runs), query_by_query(runs)):
        show(title, table)


if __name__ == "__main__":
    main()
