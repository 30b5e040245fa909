"""`PairSLR.fit` from relevance, partial or several labels, or a prior of a chosen strength."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from likewise.errors import LikewiseError
from likewise.evaluate import mean_average_precision
from likewise.evaluate.evaluation import graded_ndcg
from likewise.learn.choose.search import class_splits
from likewise.learn.engines.opening import Rows, is_out_of_core
from likewise.learn.maths.labels import LabelTarget, generator
from likewise.learn.maths.solvers import Solution
from likewise.learn.supervision.learning import PairOptions, Prepared, learn, learn_from_prior
from likewise.learn.supervision.reading import Supervision, read_supervision
from likewise.rows.relevance import Relevance, SharedLabels
from likewise.utils.arrays import dense, to_host


class PairFit(NamedTuple):
    """What was learned: M, its precision, the width of the gallery side, and attributes of a fitted model."""

    solution: Solution
    dtype: np.dtype
    gallery_width: int
    unit_rows: bool
    attributes: dict[str, Any]


def fit_pairs(model: Any, X: Any, y: Any, sample_weight: Any, gallery: Any, target: LabelTarget) -> PairFit:
    """Learn M with the parameters of `model`; sets its `n_features_in_` and nothing else."""
    if model.prior is not None and model.alpha:
        raise LikewiseError(
            f"alpha={model.alpha!r} has no meaning with a prior: prior_strength is the ridge towards it"
        )
    if isinstance(X, Rows) or is_out_of_core(X) or is_out_of_core(gallery):
        raise LikewiseError(
            "X is not an array in memory: a relevance, several labels, unlabelled rows, a gallery or a prior need "
            "one; only one label per row is learned from anywhere"
        )
    given = read_supervision(model, to_host(X), to_host(y), to_host(sample_weight), to_host(gallery))
    options = PairOptions(**{field.name: getattr(model, field.name) for field in fields(PairOptions)})
    if model.prior is None:
        return _found(given, learn(given, target, options), False)
    if given.X.shape[1] != given.gallery.shape[1]:
        raise LikewiseError(
            f"prior={model.prior!r} needs two sides of one width: "
            f"X has {given.X.shape[1]} columns and gallery {given.gallery.shape[1]}"
        )
    prepared = Prepared.of(given, target)
    strength, tried = choose_strength(prepared, options)
    solution = learn_from_prior(prepared, strength, options)
    return _found(given, solution, model.sides == "both", strength_=strength, strengths_=tried)


def _found(given: Supervision, solution: Solution, unit_rows: bool, **more: Any) -> PairFit:
    attributes = {"n_samples_": given.X.shape[0], "classes_": given.classes, **more}
    known = {name: value for name, value in attributes.items() if value is not None}
    return PairFit(solution, given.X.dtype, given.gallery.shape[1], unit_rows, known)


# ---------------------------------------------------------------------------------------------------------------------
# The strength of a prior

# Infinity is the prior itself. Unseen classes want a strong prior, queries of a known kind a weak one.
NO_CHANGE = float("inf")
FOR_CLASSES = (100.0, 30.0, 10.0, 3.0, 1.0)
FOR_QUERIES = (10.0, 1.0, 0.1, 0.01)
WEAKEST = 0.001
UNTRIED = 10.0  # if there is too little to hold out


def choose_strength(prepared: Prepared, options: PairOptions) -> tuple[float, list[dict[str, float]] | None]:
    """The strength given, or the one that ranks what is held out best; and all that were tried, if any were.

    Few classes make a noisy holdout, so a strength that is not better than the prior by more than the standard
    deviation of their difference over the splits is rejected.
    """
    if options.prior_strength is not None:
        return float(options.prior_strength), None
    folds = holdouts(prepared.given, generator(options.random_state))
    if not folds:
        return UNTRIED, None
    search = _Search(folds, prepared, replace(options, verbose=0))
    best = search.among_classes() if search.for_classes else search.among_queries()
    tried = [{"strength": one, "score": float(scores.mean())} for one, scores in search.tried.items()]
    gain = search.tried[best] - search.tried[NO_CHANGE]
    return (best * search.for_all() if gain.mean() > gain.std() else NO_CHANGE), tried


class _Search:
    """Strengths tried on every fold; `tried` has their scores."""

    def __init__(self, folds: list[Fold], whole: Prepared, options: PairOptions) -> None:
        self.folds, self.whole, self.options = folds, whole, options
        # a gallery that all folds share is whitened once
        self.parts = [
            Prepared.of(given, whole.target, whole.W_g if given.gallery is whole.given.gallery else None)
            for given, _ in folds
        ]
        self.tried = {NO_CHANGE: self._scores(NO_CHANGE, max_iter=0)}

    @property
    def for_classes(self) -> bool:
        return isinstance(self.whole.given.known, np.ndarray)

    def among_classes(self) -> float:
        """Each strength, with one iteration: digits and Caltech101 choose the same with five."""
        for strength in FOR_CLASSES:
            self._try(strength)
        return max(self.tried, key=self._mean)

    def among_queries(self) -> float:
        """The power of ten by the start alone, which is cheap; then steps of three, weaker first, while they gain.

        Iterations are done from there on because they move the best towards weaker strengths.
        """
        best = self._best_start()
        self._try(best)
        weaker = self._walk(best, 1 / 3)
        return weaker if weaker < best else self._walk(best, 3.0)

    def for_all(self) -> float:
        """What a strength chosen on some of the queries becomes for all: more of them need less of a ridge, by √n.

        A holdout of classes asks for classes never seen, and those do not become better known with more rows.
        """
        if self.for_classes:
            return 1.0
        return float(np.sqrt(self.folds[0][0].X.shape[0] / self.whole.given.X.shape[0]))

    def _best_start(self) -> float:
        scores: dict[float, float] = {}
        for strength in FOR_QUERIES:
            scores[strength] = float(self._scores(strength, max_iter=0).mean())
            if scores[strength] < max(scores.values()):
                break  # past the best
        return max(scores, key=lambda strength: scores[strength])

    def _walk(self, strength: float, factor: float) -> float:
        """Multiply a strength by `factor` as long as the score rises."""
        following = strength * factor
        while WEAKEST < following < 1 / WEAKEST and self._try(following) > self._mean(strength):
            strength, following = following, following * factor
        return strength

    def _try(self, strength: float) -> float:
        self.tried[strength] = self._scores(strength, max_iter=1)
        return self._mean(strength)

    def _mean(self, strength: float) -> float:
        return float(self.tried[strength].mean())

    def _scores(self, strength: float, max_iter: int) -> np.ndarray:
        options, scores = replace(self.options, max_iter=max_iter), []
        for part, (_, score) in zip(self.parts, self.folds, strict=True):
            found = learn_from_prior(part, strength, options)
            if found.result.interrupted:
                raise KeyboardInterrupt
            scores.append(score(found))
        return np.array(scores)


# ---------------------------------------------------------------------------------------------------------------------
# What is held out to choose it: classes, items or queries

MOST_HELD, MOST_SEEN = 1_000, 2_000  # more rows take time and hardly change the choice
REPEATS = 2

# What to learn from, and a score of how well the solution ranks the rest.
Fold = tuple[Supervision, Callable[[Solution], float]]


def holdouts(given: Supervision, rng: np.random.Generator) -> list[Fold]:
    """Parts to learn from, each with a function that scores a solution on the rest."""
    if isinstance(given.known, Relevance):
        return _query_folds(given, given.known, rng)
    if isinstance(given.known, SharedLabels):
        return _item_folds(given, given.known, rng)
    return _class_folds(given, given.known, rng)


def _class_folds(given: Supervision, codes: np.ndarray, rng: np.random.Generator) -> list[Fold]:
    """Half of the classes held out, both ways, a few times."""
    labelled = np.flatnonzero(codes >= 0)
    folds: list[Fold] = []
    for split in class_splits(codes[labelled], rng, REPEATS):
        seen, held = _some(labelled[split.train], MOST_SEEN, rng), _some(labelled[split.held], MOST_HELD, rng)
        if min(len(np.unique(codes[rows])) for rows in (seen, held)) < 2:
            continue
        if len(np.unique(codes[held])) == len(held):
            continue
        folds.append((given.part(seen), _ranks_classes(given.X[held], codes[held])))
    return folds


def _ranks_classes(X: Any, codes: np.ndarray) -> Callable[[Solution], float]:
    def score(solution: Solution) -> float:
        return float(mean_average_precision(_moved(X, solution), dense(X), codes))

    return score


def _item_folds(given: Supervision, shared: SharedLabels, rng: np.random.Generator) -> list[Fold]:
    """Half of the items held out, both ways, a few times."""
    labelled = np.flatnonzero(shared.n_labels)
    folds: list[Fold] = []
    for _ in range(REPEATS):
        order = rng.permutation(labelled)
        for seen, held in ((order[::2], order[1::2]), (order[1::2], order[::2])):
            seen, held = _some(seen, MOST_SEEN, rng), _some(held, MOST_HELD, rng)
            R = shared.take(held).tile(slice(None), slice(None))
            R.setdiag(0.0)
            folds.append((given.part(seen), _ranks_relevant(given.X[held], given.X[held], R, itself=True)))
    return folds


def _query_folds(given: Supervision, relevance: Relevance, rng: np.random.Generator) -> list[Fold]:
    """Half of the queries held out, both ways, each ranking the items of known relevance to it.

    Where no item is known to be irrelevant, as with clicks alone, all unknown ones count as that.
    """
    told = np.flatnonzero(np.asarray(abs(relevance.R).sum(axis=1)).ravel() > 0)
    if len(told) < 4:
        return []
    order, folds = rng.permutation(told), list[Fold]()
    only_known = relevance.unstored == "unknown" and bool((relevance.R.data <= 0).any())
    for seen, held in ((order[::2], order[1::2]), (order[1::2], order[::2])):
        seen, held = _some(seen, MOST_SEEN // 2, rng), _some(held, MOST_HELD // 2, rng)
        score = _ranks_relevant(given.X[held], given.gallery, relevance.R[held], only_known=only_known)
        folds.append((given.part(seen), score))
    return folds


def _ranks_relevant(
    Q: Any, G: Any, R: Any, itself: bool = False, only_known: bool = False
) -> Callable[[Solution], float]:
    def score(solution: Solution) -> float:
        return graded_ndcg(_moved(Q, solution), dense(G), R, itself=itself, only_known=only_known)

    return score


def _some(rows: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    return np.sort(rng.permutation(rows)[:most])


def _moved(Q: Any, solution: Solution) -> np.ndarray:
    return np.asarray(dense(Q) @ solution.matrix().astype(Q.dtype))
