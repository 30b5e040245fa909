"""Teaching attributes by marks: what its scorers rank against ten lines of scikit-learn with the same marks.

Concepts are attributes, not classes: kinds of things and image statistics in pictures (LIKEWISE_STORES: paths of
feature stores, separated by colons), topics and words of newsgroup messages (LIKEWISE_DATA/newsgroups20.npz), strokes
of digits. Of each concept a random member is the query, and a simulated user marks rows: the first results of the query
by the raw cosine, of which a tenth may be mistaken, or only right or only wrong ones; or thirty in three rounds, ten of
a method's own first results each. Average precision is over rows that nobody marked. Three members together are a query
before and after a lesson, and where no right one is among the first ten the next ten are compared.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import normalize
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

from benchmarks.teaching_photos import average_precision
from likewise.learn.cosine import Cosine
from likewise.rows.store import FeatureStore
from likewise.search import Index
from likewise.search.rank import mean_query
from likewise.teach import Teacher
from likewise.teach.colours import statistics as colour_numbers
from likewise.teach.colours import unit_colours
from likewise.teach.scorers import Scorers
from likewise.utils.threads import single_threaded_blas

ROWS = 3_000  # of each set
SEEDS = int(os.environ.get("SEEDS", "5"))
FEWEST, MOST = 15, 0.4  # members of a concept, and the largest share of the rows
STATISTICS = ("dark", "bright", "red", "green", "blue", "colourful", "cluttered")
STATISTIC = 0.15  # share of the pictures that are dark, red and so on
WORDS = 8  # of the newsgroups, drawn among those in 2 to 10 % of the messages
BACKGROUND = 300

KINDS = {  # of Caltech101's classes
    "animals": "ant beaver butterfly cougar_body crab crayfish crocodile dalmatian dolphin dragonfly elephant emu "
    "flamingo gerenuk hawksbill hedgehog ibis kangaroo llama lobster mayfly octopus okapi panda pigeon platypus "
    "rhino rooster scorpion sea_horse starfish stegosaurus tick trilobite wild_cat",
    "vehicles": "airplanes car_side ferry helicopter ketch schooner Motorbikes inline_skate wheelchair",
    "instruments": "accordion bass electric_guitar euphonium gramophone grand_piano mandolin metronome saxophone",
    "plants": "bonsai joshua_tree lotus strawberry sunflower water_lilly",
    "furniture": "chair windsor_chair chandelier lamp ceiling_fan wheelchair",
    "sea": "crab crayfish dolphin lobster nautilus octopus sea_horse starfish ferry ketch schooner anchor",
    "electronics": "camera cellphone headphone laptop stapler watch gramophone",
}


class Attributes(NamedTuple):
    """Rows, which of them have each attribute, and colours of pictures."""

    name: str
    X: np.ndarray
    has: dict[str, np.ndarray]
    colours: np.ndarray | None = None


# ---------------------------------------------------------------------------------------------------------------------
# Data


def data() -> Iterator[Attributes]:
    """Pictures, newsgroups and digits."""
    for store in filter(None, os.environ.get("LIKEWISE_STORES", "").split(":")):
        yield pictures(store)
    path = Path(os.environ.get("LIKEWISE_DATA", "")) / "newsgroups20.npz"
    if path.is_file():
        yield newsgroups(path)
    yield digits()


def pictures(path: str) -> Attributes:
    """Names of folders, kinds of Caltech101's classes, and image statistics of a sample of a store's pictures."""
    store = FeatureStore.open(path)
    rows = np.sort(np.random.default_rng(0).permutation(len(store.items))[:ROWS])
    names = [store.items[row].path for row in rows]
    folders = [set(Path(name).parts[:-1]) for name in names]
    kinds = {kind: set(classes.split()) for kind, classes in KINDS.items()}
    has = {kind: np.array([bool(classes & parts) for parts in folders]) for kind, classes in kinds.items()}
    if not np.any(list(has.values())):  # not Caltech101: its folders are the attributes
        has = {part: np.array([part in parts for parts in folders]) for part in sorted(set().union(*folders))}
    measured = np.array([statistics(Path(store.root or "") / name) for name in names])
    for name, values in zip(
        ("dark", "bright", "red", "green", "blue", "colourful", "cluttered"), measured.T, strict=True
    ):
        has[name] = values > np.quantile(values, 1 - STATISTIC)
    colours = unit_colours(np.array([colour_numbers(pixels(Path(store.root or "") / name)) for name in names]))
    return Attributes(Path(path).stem, np.asarray(store.features[rows], np.float32), has, colours)


def statistics(path: Path) -> list[float]:
    """How dark, bright, red, green, blue, colourful and cluttered a picture is."""
    P = np.asarray(Image.fromarray(pixels(path)).resize((32, 32)), float) / 255
    light = P.mean(axis=2)
    r, g, b = P.reshape(-1, 3).mean(axis=0)
    edges = np.abs(np.diff(light, axis=0)).mean() + np.abs(np.diff(light, axis=1)).mean()
    hues = r - max(g, b), g - max(r, b), b - max(r, g)
    return [-light.mean(), light.mean(), *hues, float((P.max(axis=2) - P.min(axis=2)).mean()), float(edges)]


def pixels(path: Path) -> np.ndarray:
    """A small version of a picture, on white."""
    with Image.open(path) as image:
        image.draft("RGB", (64, 64))
        flat = Image.new("RGB", image.size, "white")
        flat.paste(image, mask=image.convert("RGBA").getchannel("A"))
    return np.asarray(flat)


def newsgroups(path: Path) -> Attributes:
    """Topics of several groups, and words, of 3,000 messages as 300 numbers."""
    file, rng = np.load(path), np.random.default_rng(0)
    T = sp.csr_matrix((file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"]))
    rows = np.sort(rng.permutation(T.shape[0])[:ROWS])
    groups, T = file["classes"][file["y"][rows]], T[rows]
    has = {part: np.array([group.startswith(part) for group in groups]) for part in ("comp", "rec", "sci", "talk")}
    has["religion"] = np.array(["religion" in group or "atheism" in group for group in groups])
    shares = np.asarray((T > 0).mean(axis=0)).ravel()
    for column in rng.choice(np.flatnonzero((shares > 0.02) & (shares < 0.1)), WORDS, replace=False):
        has[str(file["vocab"][column])] = np.asarray((T[:, [column]] > 0).todense()).ravel()
    Z = TruncatedSVD(300, random_state=0).fit_transform(normalize(T))
    return Attributes("newsgroups", Z.astype(np.float32), has)


def digits() -> Attributes:
    """Digits with a loop, of straight lines, and so on; thin, heavy and slanted ones."""
    X, y = load_digits(return_X_y=True)
    images, x = X.reshape(-1, 8, 8), np.arange(8) - 3.5
    ink = X.sum(axis=1)
    slant = np.einsum("nij,i,j->n", images, x, x) / ink
    has = {
        "loop": np.isin(y, [0, 6, 8, 9]),
        "straight": np.isin(y, [1, 4, 7]),
        "open below": np.isin(y, [4, 7, 9]),
        "odd": y % 2 == 1,
        "three or five": np.isin(y, [3, 5]),
        "thin": ink < np.quantile(ink, STATISTIC),
        "heavy": ink > np.quantile(ink, 1 - STATISTIC),
        "slanted": slant < np.quantile(slant, STATISTIC),
    }
    return Attributes("digits", X.astype(np.float32), has)


# ---------------------------------------------------------------------------------------------------------------------
# Rankings from marks


class Marks(NamedTuple):
    """Rows that were marked; the query is the first of the right ones."""

    right: list[int]
    wrong: list[int]

    @property
    def rows(self) -> list[int]:
        return self.right + self.wrong


class Gallery:
    """The rows of a set, and what its rankings share."""

    def __init__(self, X: np.ndarray, colours: np.ndarray | None = None) -> None:
        self.Z, self.scorers, self.colours = normalize(X), Scorers(X), colours
        self.centred = normalize(X - X.mean(axis=0))
        W = kneighbors_graph(self.centred, 10)
        self.graph = W.maximum(W.T).tocsr()
        D = ((self.centred[:500, None] - self.centred[None, :500]) ** 2).sum(axis=2)
        self.gamma = 1 / max(float(D.mean()), 1e-12)

    def against(self, marks: Marks, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows to learn from, whether they belong, and their weights: marks, and random others."""
        rest = np.setdiff1d(np.arange(len(self.Z)), marks.rows)
        others = np.random.default_rng(seed).permutation(rest)[:BACKGROUND]
        rows = np.array([*marks.rows, *others])
        weights = np.where(np.arange(len(rows)) < len(marks.rows), 1.0, max(1, len(marks.wrong)) / len(others))
        return rows, np.arange(len(rows)) < len(marks.right), weights


def raw(g: Gallery, m: Marks) -> np.ndarray:
    return np.asarray(g.Z @ g.Z[m.right].mean(axis=0))


def rocchio(g: Gallery, m: Marks) -> np.ndarray:
    q = g.Z[m.right].mean(axis=0)
    return np.asarray(g.Z @ (q - 0.5 * g.Z[m.wrong].mean(axis=0) if m.wrong else q))


def logistic(g: Gallery, m: Marks) -> np.ndarray:
    rows, y, w = g.against(m)
    return np.asarray(LogisticRegression(C=10, max_iter=500).fit(g.centred[rows], y, w).decision_function(g.centred))


def kernel_ridge(g: Gallery, m: Marks) -> np.ndarray:
    rows, y, w = g.against(m)
    w = np.where(w == 1, 1.0, 0.02)
    machine = KernelRidge(alpha=0.1, kernel="rbf", gamma=g.gamma)
    return np.asarray(machine.fit(g.centred[rows], y, sample_weight=w).predict(g.centred))


def svm(g: Gallery, m: Marks) -> np.ndarray:
    rows, y, w = g.against(m)
    return np.asarray(SVC(C=10, gamma=g.gamma).fit(g.centred[rows], y, w).decision_function(g.centred))


def propagation(g: Gallery, m: Marks) -> np.ndarray:
    y = np.full(len(g.Z), -1)
    y[g.against(m)[0]] = 0
    y[m.right] = 1
    machine = LabelSpreading(kernel=lambda *_: g.graph, alpha=0.8, max_iter=30)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # that it goes on changing slightly, and rows that nothing reaches
        return np.asarray(np.nan_to_num(machine.fit(g.centred, y).label_distributions_[:, 1]))


def ours(g: Gallery, m: Marks) -> np.ndarray:
    return g.scorers.scores(g.scorers.examples(*m))


def with_colours(g: Gallery, m: Marks) -> np.ndarray:
    """Ours where a concept may take in colour and light, as on the page; equal to ours without pictures."""
    try:
        g.scorers.colours = g.colours
        return ours(g, m)
    finally:
        g.scorers.colours = None


RIVALS: dict[str, Callable[[Gallery, Marks], np.ndarray]] = {
    "several, raw cosine": raw,
    "Rocchio": rocchio,
    "logistic": logistic,
    "kernel ridge": kernel_ridge,
    "SVM": svm,
    "propagation": propagation,
}
METHODS = {"ours": ours, **RIVALS, "with colours": with_colours}


# ---------------------------------------------------------------------------------------------------------------------
# The simulated user


def fixed(order: np.ndarray, has: np.ndarray, rng: np.random.Generator) -> dict[str, Marks]:
    """Marks of the first results of the raw cosine, by their name; `order` begins with the query."""
    query, shown = [int(order[0])], order[1:]

    def judged(rows: np.ndarray, mistaken: float = 0.0) -> Marks:
        verdict = has[rows] ^ (rng.random(len(rows)) < mistaken)
        return Marks(query + rows[verdict].tolist(), rows[~verdict].tolist())

    first = shown[:100]
    return {
        **{f"{n} marks": judged(shown[:n]) for n in (3, 10, 20, 40)},
        "40 marks, a tenth mistaken": judged(shown[:40], 0.1),
        "only right": Marks(query + first[has[first]][:10].tolist(), []),
        "only wrong": Marks(query, first[~has[first]][:10].tolist()),
    }


def own_rounds(g: Gallery, method: Callable[[Gallery, Marks], np.ndarray], query: int, has: np.ndarray) -> Marks:
    """Thirty marks, ten of the method's own first results in each of three rounds."""
    marks = Marks([query], [])
    scores = raw(g, marks)
    for _ in range(3):
        scores[marks.rows] = -np.inf
        first = np.argsort(-scores, kind="stable")[:10]
        marks = Marks(marks.right + first[has[first]].tolist(), marks.wrong + first[~has[first]].tolist())
        scores = method(g, marks)
    return marks


def measured(g: Gallery, has: np.ndarray, rng: np.random.Generator) -> dict[str, list[float]]:
    """AP of every method, by what was marked."""
    query = int(rng.choice(np.flatnonzero(has)))
    scores = g.Z @ g.Z[query]
    scores[query] = np.inf
    same = fixed(np.argsort(-scores, kind="stable"), has, rng)
    results = {name: [_ap(g, how, marks, has) for how in METHODS.values()] for name, marks in same.items()}
    rounds = [_ap(g, how, own_rounds(g, how, query, has), has) for how in METHODS.values()]
    return {**results, "30 marks of own results": rounds}


def _ap(g: Gallery, method: Callable[[Gallery, Marks], np.ndarray], marks: Marks, has: np.ndarray) -> float:
    free = np.setdiff1d(np.arange(len(has)), marks.rows)
    return average_precision(method(g, marks)[free], has[free]) if has[free].any() else np.nan


def rows() -> Iterator[dict[str, object]]:
    """A line for each set and kind of marks, and the mean of the sets."""
    tables: dict[str, list[np.ndarray]] = {}
    for name, X, attributes, colours in data():
        fit = [has for has in attributes.values() if FEWEST <= has.sum() <= MOST * len(has)]
        with single_threaded_blas():
            sets, stuck = through_teacher(X, fit)
        before, after = np.mean(sets, axis=0)
        worse = np.mean(np.diff(sets) < -0.02)
        yield {
            "what": f"AP of {name}, three members as a query, after a lesson ({len(sets)} tasks)",
            "ours": f"{after:.3f}",
            "rival": f"before {before:.3f}",
            "ratio": f"{after - before:+.3f}, {worse:.0%} lose more than .02",
            "goal": "≥ 0",
        }
        raw_share, top_share, ours_share = np.mean(stuck, axis=0) if stuck else (np.nan,) * 3
        yield {
            "what": f"a right one in the second ten of {name}, none in the first ({len(stuck)} tasks)",
            "ours": f"{ours_share:.2f}",
            "rival": f"raw cosine {raw_share:.2f}, highest scores {top_share:.2f}",
            "ratio": f"{ours_share - max(raw_share, top_share):+.2f}",
            "goal": "> 0",
        }
        g, results = Gallery(X, colours), list[dict[str, list[float]]]()
        for has in fit:
            with single_threaded_blas():
                results += [measured(g, has, np.random.default_rng(seed)) for seed in range(SEEDS)]
        for kind in results[0]:
            mean = np.nanmean([result[kind] for result in results], axis=0)
            tables.setdefault(kind, []).append(mean)
            yield _line(f"{name}, {kind} ({len(results)} tasks)", mean)
    for kind, means in tables.items():
        yield _line(f"mean of the sets, {kind}", np.mean(means, axis=0))
    yield _line("mean of the sets and of all marks", np.mean(list(tables.values()), axis=(0, 1)))


# ---------------------------------------------------------------------------------------------------------------------
# Sets as queries, and stuck starts: through `Teacher`


def set_as_query(teacher: Teacher, has: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """AP of three members together as a query, before and after a lesson from 20 marks of another member's results."""
    query, *three = (int(row) for row in rng.choice(np.flatnonzero(has), 4, replace=False))
    shown = teacher.index.search(rows=[query], k=20).rows[0]
    for right in (True, False):
        if len(some := shown[has[shown] == right]):
            teacher.mark(query, some.tolist(), right)
    free, aps = np.setdiff1d(np.arange(len(has)), [query, *three, *shown]), []
    for index in (teacher.untaught, teacher.learn().index):
        space = index.space()
        scores = space.scores(mean_query(space.queries(three))[None])[0]
        aps.append(average_precision(scores[free], has[free]))
    return aps[0], aps[1]


def stuck_start(teacher: Teacher, has: np.ndarray, rng: np.random.Generator) -> tuple[bool, bool, bool] | None:
    """Whether a right one is in the next ten by the raw cosine, by the scores, and by `suggest`; None if not stuck."""
    query = int(rng.choice(np.flatnonzero(has)))
    shown = teacher.index.search(rows=[query], k=20).rows[0]
    if has[shown[:10]].any():
        return None
    teacher.mark(query, shown[:10].tolist(), False)
    concept = teacher.concept(query=query)
    assert concept is not None
    scores = teacher.scores(concept)
    scores[[query, *shown[:10]]] = -np.inf
    suggested = [one.row for one in teacher.suggest(10, query=query)]
    top = np.argsort(-scores, kind="stable")[:10]
    return bool(has[shown[10:]].any()), bool(has[top].any()), bool(has[suggested].any())


def through_teacher(
    X: np.ndarray, attributes: Sequence[np.ndarray]
) -> tuple[list[tuple[float, float]], list[tuple[bool, ...]]]:
    """All sets and all stuck starts of a data set."""
    index = Index.build(Cosine().fit(X), X)
    learner, sets, stuck = Teacher(index)._learner, list[tuple[float, float]](), list[tuple[bool, ...]]()
    for has in attributes:
        for seed in range(4 * SEEDS):
            teacher, rng = Teacher(index), np.random.default_rng(seed)
            teacher._learner = learner  # prepared once
            outcome = stuck_start(teacher, has, rng)
            stuck += [] if outcome is None else [outcome]
            if seed < SEEDS:
                teacher = Teacher(index)
                teacher._learner = learner
                sets.append(set_as_query(teacher, has, rng))
    return sets, stuck


def _line(what: str, mean: Sequence[float]) -> dict[str, object]:
    *rivals, coloured = mean[1:]
    shown = ", ".join(f"{name} {value:.3f}" for name, value in zip(RIVALS, rivals, strict=True))
    gain, over_raw = mean[0] - max(rivals), mean[0] - rivals[0]
    return {
        "what": f"AP of {what}",
        "ours": f"{mean[0]:.3f}, with colours {coloured:.3f}",
        "rival": shown,
        "ratio": f"{gain:+.3f}, over raw {over_raw:+.3f}",
        "goal": "≥ -.005, over raw -.01",
    }
