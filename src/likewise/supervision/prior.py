"""How strongly to hold on to the prior: chosen by what it does to classes, or queries, that were held out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.holdout import class_splits
from likewise.metrics import mean_average_precision
from likewise.randomness import generator
from likewise.supervision.lessons import Taught
from likewise.targets import LabelTarget, Relevance, SharedLabels

if TYPE_CHECKING:
    from likewise.slr import SLR
    from likewise.supervision.fitting import Learned, Prepared

__all__ = ["FOR_CLASSES", "FOR_QUERIES", "choose_strength", "ndcg"]

# Infinity is the prior itself. Unseen classes want a strong prior, queries of a known kind a weak one.
FOR_CLASSES = (float("inf"), 100.0, 30.0, 10.0, 3.0, 1.0)
FOR_QUERIES = (float("inf"), 10.0, 1.0, 0.1, 0.01)
UNTRIED = 10.0  # where there is too little to hold out
MOST_HELD, MOST_SEEN = 1_000, 2_000  # more rows cost time and change no choice
REPEATS = 2


Fold = tuple[Taught, Callable[["Learned"], float]]


def choose_strength(model: SLR, taught: Taught, target: LabelTarget) -> float:
    """The strength given, or the one that ranks what is held out best.

    Infinity is the prior itself. Few classes make a noisy holdout, so a strength that is not better than the prior by
    more than the standard deviation of their difference over the splits gives way to it.
    """
    if model.prior_strength is not None:
        return float(model.prior_strength)
    folds = _folds(taught, generator(model.random_state))
    if not folds:
        return UNTRIED
    tried = _tried(_trial_model(model), folds, taught, target)
    model.strengths_ = [{"strength": strength, "score": float(scores.mean())} for strength, scores in tried.items()]
    best = _best(tried)
    gain = tried[best] - tried[float("inf")]
    return best * _for_all(taught, folds) if gain.mean() > gain.std() else float("inf")


def _best(tried: dict[float, np.ndarray]) -> float:
    return max(tried, key=lambda strength: float(tried[strength].mean()))


def _for_all(taught: Taught, folds: list[Fold]) -> float:
    """What a strength chosen on some of the queries becomes for all: more of them need less of a ridge, by √n.

    A holdout of classes asks for classes never seen, and those do not become better known with more rows.
    """
    if isinstance(taught.known, np.ndarray):
        return 1.0
    return float(np.sqrt(folds[0][0].X.shape[0] / taught.X.shape[0]))


def _tried(trial: SLR, folds: list[Fold], taught: Taught, target: LabelTarget) -> dict[float, np.ndarray]:
    """Scores of the folds by strength; for queries in steps of ten, then between the best and its neighbours."""
    from likewise.supervision.fitting import learn_from_prior

    prepared = _prepared(folds, taught, target)
    tried: dict[float, np.ndarray] = {}

    def score_all(strength: float) -> None:
        learned = (learn_from_prior(trial, part, strength) for part in prepared)
        tried[strength] = np.array([score(one) for (_, score), one in zip(folds, learned, strict=True)])

    for_classes = isinstance(taught.known, np.ndarray)
    for strength in FOR_CLASSES if for_classes else FOR_QUERIES:
        score_all(strength)
        if not for_classes and np.isfinite(_best(tried)) and _best(tried) != strength:
            break  # better than the prior, and past the best
    best = _best(tried)
    if not for_classes and np.isfinite(best):
        score_all(3 * best)
        score_all(best / 3)
    return tried


def _prepared(folds: list[Fold], taught: Taught, target: LabelTarget) -> list[Prepared]:
    """What all strengths have in common; a gallery that all folds share is whitened once."""
    from likewise.supervision.fitting import Prepared

    prepared: list[Prepared] = []
    for part, _ in folds:
        shared = part.gallery is taught.gallery and prepared
        prepared.append(Prepared.of(part, target, prepared[0].W_g if shared else None))
    return prepared


def _trial_model(model: SLR) -> Any:
    from sklearn.base import clone

    return clone(model).set_params(verbose=0, n_iter=1)  # digits and Caltech101 choose the same with 5


def _folds(taught: Taught, rng: np.random.Generator) -> list[Fold]:
    """Parts to learn from, each with a function that scores what was learned on the rest."""
    if isinstance(taught.known, Relevance):
        return _query_folds(taught, taught.known, rng)
    if isinstance(taught.known, SharedLabels):
        return _item_folds(taught, taught.known, rng)
    return _class_folds(taught, taught.known, rng)


def _class_folds(taught: Taught, codes: np.ndarray, rng: np.random.Generator) -> list[Fold]:
    """Half of the classes held out, both ways, a few times."""
    labelled = np.flatnonzero(codes >= 0)
    folds: list[Fold] = []
    for split in class_splits(codes[labelled], rng, REPEATS):
        seen, held = _some(labelled[split.train], MOST_SEEN, rng), _some(labelled[split.held], MOST_HELD, rng)
        if min(len(np.unique(codes[rows])) for rows in (seen, held)) < 2 or _all_differ(codes[held]):
            continue
        folds.append((taught.part(seen), _ranks_classes(taught.X[held], codes[held])))
    return folds


def _all_differ(codes: np.ndarray) -> bool:
    return len(np.unique(codes)) == len(codes)


def _ranks_classes(X: Any, codes: np.ndarray) -> Callable[[Learned], float]:
    def score(learned: Learned) -> float:
        return float(mean_average_precision(_moved(X, learned), _dense(X), codes))

    return score


def _item_folds(taught: Taught, shared: SharedLabels, rng: np.random.Generator) -> list[Fold]:
    """Half of the items held out, both ways, a few times."""
    labelled = np.flatnonzero(shared.n_labels)
    folds: list[Fold] = []
    for _ in range(REPEATS):
        order = rng.permutation(labelled)
        for seen, held in ((order[::2], order[1::2]), (order[1::2], order[::2])):
            seen, held = _some(seen, MOST_SEEN, rng), _some(held, MOST_HELD, rng)
            part = shared.take(held)
            R = part.tile(slice(None), slice(None))
            R.setdiag(0.0)
            folds.append((taught.part(seen), _ranks_relevant(taught.X[held], taught.X[held], R, itself=True)))
    return folds


def _query_folds(taught: Taught, relevance: Relevance, rng: np.random.Generator) -> list[Fold]:
    """A half of the queries held out, both ways, each to rank the items whose relevance to it is known.

    Where nothing is known to be irrelevant, as with clicks alone, everything unknown counts as that.
    """
    told = np.flatnonzero(np.asarray(abs(relevance.R).sum(axis=1)).ravel() > 0)
    if len(told) < 4:
        return []
    order, folds = rng.permutation(told), list[Fold]()
    only_known = relevance.unstored == "unknown" and bool((relevance.R.data <= 0).any())
    for seen, held in ((order[::2], order[1::2]), (order[1::2], order[::2])):
        seen, held = _some(seen, MOST_SEEN // 2, rng), _some(held, MOST_HELD // 2, rng)
        score = _ranks_relevant(taught.X[held], taught.gallery, relevance.R[held], only_known=only_known)
        folds.append((taught.part(seen), score))
    return folds


def _ranks_relevant(
    Q: Any, G: Any, R: Any, itself: bool = False, only_known: bool = False
) -> Callable[[Learned], float]:
    def score(learned: Learned) -> float:
        return ndcg(_moved(Q, learned), _dense(G), R, itself=itself, only_known=only_known)

    return score


def _some(rows: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    return np.sort(rng.permutation(rows)[:most])


def _moved(Q: Any, learned: Learned) -> np.ndarray:
    return np.asarray(_dense(Q) @ learned.matrix().astype(Q.dtype))


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)


def _stored(R: Any) -> np.ndarray:
    """True where a sparse matrix stores something, a zero too."""
    stored = R.copy()
    stored.data = np.ones(len(stored.data), dtype=bool)
    return np.asarray(stored.toarray())


def _top(S: np.ndarray, k: int) -> np.ndarray:
    """Columns of the k largest entries of each row, largest first."""
    if S.shape[1] > k:
        some = np.sort(np.argpartition(-S, k, axis=1)[:, :k], axis=1)
        return np.take_along_axis(some, np.argsort(-np.take_along_axis(S, some, axis=1), axis=1, kind="stable"), axis=1)
    return np.argsort(-S, axis=1, kind="stable")


def ndcg(Q: np.ndarray, G: np.ndarray, R: Any, k: int = 10, itself: bool = False, only_known: bool = False) -> float:
    """Mean nDCG@k of the scores Q Gᵀ; gains are the positive entries of the sparse R, all else gains nothing.

    `itself` leaves out the item that is the query, `only_known` the items that R does not store. Queries without a
    gain are left out.
    """
    discount = 1.0 / np.log2(np.arange(2, k + 2))
    values = []
    for first in range(0, len(Q), 256):
        S = Q[first : first + 256] @ G.T
        if itself:
            S[np.arange(len(S)), first + np.arange(len(S))] = -np.inf
        if only_known:
            S = np.where(_stored(R[first : first + 256]), S, -np.inf)
        gains = np.maximum(R[first : first + 256].toarray(), 0.0)
        top = _top(S, k)
        ideal = -np.sort(-gains, axis=1)[:, :k] @ discount[: gains.shape[1]]
        found = np.take_along_axis(gains, top, axis=1) @ discount[: gains.shape[1]]
        values.append(found[ideal > 0] / ideal[ideal > 0])
    return float(np.concatenate(values).mean())
