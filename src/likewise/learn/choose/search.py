"""Held-out rows or classes, one search over candidates on them, and its record in the layout of `cv_results_`."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import BaseCrossValidator, check_cv

from likewise.evaluate import average_precisions, mean_average_precision
from likewise.learn.maths.labels import generator, sample_rows, stratified_holdout

Candidate = TypeVar("Candidate")
Fold = TypeVar("Fold")
Params = dict[str, Any]
CV: TypeAlias = int | BaseCrossValidator | Iterable[tuple[np.ndarray, np.ndarray]] | None
"""Held-out rows as in scikit-learn."""
Sides = Callable[[Any], tuple[np.ndarray, np.ndarray]]
"""Rows to their query and gallery sides."""
Prepare = Callable[[Any, np.ndarray], Callable[[Params], Sides]]
"""Training rows and class codes to a function that fits a setting; what all settings share is computed once."""

Record = dict[str, Any]
"""One setting: its "params", the "scores" of the splits and the "seconds" they took, all plain JSON values."""

HELD_SHARE = 0.3
MOST_HELD = 5_000  # more held-out rows cost time and change no choice
MOST_HELD_PER_SPLIT = 2_000  # the same for each of several splits by class
FEW_HELD, MOST_DRAWS = 300, 4  # a choice on fewer held-out rows is noisy: draw several times


# -- Held-out rows and their scores ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """Row numbers to learn from, and held-out ones to rank."""

    train: np.ndarray
    held: np.ndarray


def given_splits(cv: CV, codes: np.ndarray, rows: np.ndarray) -> list[Split]:
    """The splits of scikit-learn's `cv` for rows with these class codes, in terms of some of the rows, numbered from 0.

    Such splits may depend on the order in which rows were given, as in scikit-learn.
    """
    number = np.full(len(codes), -1)
    number[rows] = np.arange(len(rows))
    splits = check_cv(cv, codes, classifier=True).split(np.zeros((len(codes), 1)), codes)
    return [Split(*(np.sort(part[part >= 0]) for part in (number[train], number[held]))) for train, held in splits]


def row_splits(codes: np.ndarray, rng: np.random.Generator) -> list[Split]:
    """30 % of each class, at least one row held out and one kept; up to four draws where they are few."""
    first = Split(*stratified_holdout(codes, _share(codes), rng))
    if not len(first.held):
        return []
    draws = min(-(-FEW_HELD // len(first.held)), MOST_DRAWS)
    return [first, *(Split(*stratified_holdout(codes, _share(codes), rng)) for _ in range(draws - 1))]


def inner_splits(codes: np.ndarray, rng: np.random.Generator, by: str = "rows") -> list[Split]:
    """Splits whose held-out rows rank each other: one by rows, or several by classes where there are at least four.

    By rows, at least two of a class are held out, so that each has something to find, and two stay. No split if no
    class has four rows.
    """
    if by == "classes" and len(np.unique(codes)) >= 4:
        splits = []  # drawn more often where classes are few
        for split in class_splits(codes, rng, repeats=2 if len(np.unique(codes)) > 20 else 4):
            held = split.held[sample_rows(len(split.held), MOST_HELD_PER_SPLIT, rng)]
            if np.unique(codes[held], return_counts=True)[1].max() > 1:
                splits.append(Split(split.train, held))
        return splits
    train, held = stratified_holdout(codes, _share(codes), rng, least=2, spare=2)
    return [Split(train, held)] if len(held) else []


def _share(codes: np.ndarray) -> float:
    return min(HELD_SHARE, MOST_HELD / len(codes))


def class_splits(codes: np.ndarray, rng: np.random.Generator, repeats: int) -> list[Split]:
    """Half of the classes held out, both ways, `repeats` times."""
    splits = []
    for _ in range(repeats):
        half = np.isin(codes, rng.permutation(np.unique(codes))[::2])
        one, other = np.flatnonzero(half), np.flatnonzero(~half)
        splits += [Split(one, other), Split(other, one)]
    return splits


def mean_of_found(values: np.ndarray) -> float:
    """Mean over the queries that have something to find; nan if none has."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")


def mean_interval(values: Sequence[np.ndarray], places: Sequence[np.ndarray]) -> list[float]:
    """The 95 % interval of a mean over rows; a row that several splits hold out counts once, with its mean.

    `places` are the row numbers of each array of values. Normal, as means over some hundred rows are.
    """
    pairs = list(zip(values, places, strict=True))  # a row with a weight is there several times
    each = np.concatenate(values)
    rows = np.concatenate([place if len(one) == len(place) else np.arange(len(one)) for one, place in pairs])
    each, rows = each[np.isfinite(each)], rows[np.isfinite(each)]
    _, codes, times = np.unique(rows, return_inverse=True, return_counts=True)
    means = np.bincount(codes, each, minlength=len(times)) / times
    if not len(means):
        return [float("nan")] * 2
    reach = 1.96 * means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else 1.0
    middle = each.mean()
    return [float(max(0.0, middle - reach)), float(min(1.0, middle + reach))]


def each_score(Z: np.ndarray, codes: np.ndarray, Z_train: np.ndarray, codes_train: np.ndarray) -> np.ndarray:
    """Average precision of held-out rows Z among themselves; those alone in their class rank the training rows.

    nan where there is nothing to find.
    """
    together = np.bincount(codes)[codes] > 1
    alone = ~together & np.isin(codes, codes_train)
    values = np.full(len(codes), np.nan)
    if together.any():
        values[together] = average_precisions(Z, Z, codes)[together]
    if alone.any():
        values[alone] = average_precisions(Z[alone], Z_train, codes[alone], codes_train)
    return values


# -- What was tried ----------------------------------------------------------------------------------------------------


@dataclass
class CVResults:
    """Settings tried, with a score for each split; nan where a split had nothing to score.

    `records` are plain values, so that a checkpoint can hold them: `CVResults(records)` continues from there.

    Examples
    --------
    >>> tried = CVResults()
    >>> tried.add({"alpha": 0.1}, [0.50, 0.70])
    >>> tried.add({"alpha": 1.0}, [0.75, 0.75])
    >>> tried.best_params
    {'alpha': 1.0}
    >>> tried.as_dict()["rank_test_score"].tolist()
    [2, 1]
    """

    records: list[Record] = field(default_factory=list)

    def add(self, params: Params, split_scores: Sequence[float], seconds: float | None = None) -> None:
        """Record one setting; `seconds` is the time for all of its splits."""
        self.records.append({"params": params, "scores": [float(score) for score in split_scores], "seconds": seconds})

    def scores(self, params: dict[str, Any]) -> list[float] | None:
        """The score of a setting on each split; None if it has not been tried."""
        return next((record["scores"] for record in self.records if record["params"] == params), None)

    def as_dict(self) -> dict[str, Any]:
        """The schema of scikit-learn's `cv_results_`; `mean_fit_time` includes the scoring."""
        n, means = np.array([len(record["scores"]) for record in self.records], dtype=int), self._means()
        scores = np.full((len(n), n.max(initial=0)), np.nan)  # (settings, splits); nan where one was tried on fewer
        times = np.full(len(n), np.nan)
        for i, record in enumerate(self.records):
            scores[i, : n[i]] = record["scores"]
            times[i] = np.nan if record["seconds"] is None else record["seconds"] / max(1, n[i])
        variances = [_mean((row - mean) ** 2) for row, mean in zip(scores, means, strict=True)]
        columns: dict[str, Any] = {
            "params": [record["params"] for record in self.records],
            **{f"split{i}_test_score": column for i, column in enumerate(scores.T)},
            "mean_test_score": means,
            "std_test_score": np.sqrt(variances),
            "rank_test_score": rankdata(-np.nan_to_num(means, nan=-np.inf), method="min").astype(np.int32),
        }
        return columns if np.isnan(times).all() else {**columns, "mean_fit_time": times}

    @property
    def best_params(self) -> dict[str, Any]:
        """The setting with the highest mean score; the first of equals, and the first if nothing was scored."""
        return dict(self.records[int(np.argmax(np.nan_to_num(self._means(), nan=-np.inf)))]["params"])

    def _means(self) -> np.ndarray:
        return np.array([_mean(record["scores"]) for record in self.records])


def _mean(scores: Any) -> float:
    return mean_of_found(np.asarray(scores, dtype=np.float64))


# -- The search --------------------------------------------------------------------------------------------------------


class Search(Generic[Candidate, Fold]):
    """Scores candidates on held-out folds and records them; none is tried twice.

    `score_fold(fold, candidate)` is the score on one fold, nan where there is nothing to score. `folds` may be computed
    one after the other: candidates that are tried together are scored on a fold before the next one is taken.
    `describe` gives the parameters under which a candidate is recorded.

    Examples
    --------
    >>> search = Search(lambda fold, x: -(x - fold) ** 2, [1.0, 3.0], describe=lambda x: {"x": x})
    >>> search.best([0.0, 2.0, 5.0])
    2.0
    >>> search.clearly_better(2.0, 1.0), search.clearly_better(2.0, 5.0)
    (False, True)
    """

    def __init__(
        self,
        score_fold: Callable[[Fold, Candidate], float],
        folds: Iterable[Fold],
        results: CVResults | None = None,
        describe: Callable[[Candidate], Params] = asdict,  # type: ignore[assignment]
        on_score: Callable[[], None] = lambda: None,
    ) -> None:
        self.score_fold, self.folds, self.describe, self.on_score = score_fold, folds, describe, on_score
        self.results = CVResults() if results is None else results

    def best(self, candidates: Iterable[Candidate], first: Candidate | None = None) -> Candidate:
        """The candidate with the highest mean score, the first of equals; `first` has to be beaten."""
        candidates = [*([] if first is None else [first]), *candidates]
        self.try_all(candidates)
        return max(candidates, key=self.score)

    def score(self, candidate: Candidate) -> float:
        """Mean score over the folds that have one; -inf if none has."""
        mean = mean_of_found(self.scores(candidate))
        return mean if np.isfinite(mean) else -np.inf

    def scores(self, candidate: Candidate) -> np.ndarray:
        """The score on each fold."""
        self.try_all([candidate])
        return np.asarray(self.results.scores(self.describe(candidate)), dtype=np.float64)

    def clearly_better(self, one: Candidate, other: Candidate) -> bool:
        """Whether the gain is more than its standard deviation over the folds."""
        gain = self.scores(one) - self.scores(other)
        return bool(gain.mean() > gain.std())

    def try_all(self, candidates: Sequence[Candidate]) -> None:
        """Score those that have not been tried."""
        fresh: list[Candidate] = []
        for candidate in candidates:
            if candidate not in fresh and self.results.scores(self.describe(candidate)) is None:
                fresh.append(candidate)
        if fresh:
            self.record(fresh, self.timed(fresh))

    def timed(self, candidates: list[Candidate]) -> list[tuple[list[float], float]]:
        """The scores of each candidate on the folds, and the seconds that they took."""
        timed: list[tuple[list[float], float]] = [([], 0.0) for _ in candidates]
        for fold in self.folds:
            for i, candidate in enumerate(candidates):
                began = time.perf_counter()
                score = self.score_fold(fold, candidate)
                timed[i] = ([*timed[i][0], score], timed[i][1] + time.perf_counter() - began)
        return timed

    def record(self, candidates: list[Candidate], timed: Iterable[tuple[list[float], float]]) -> None:
        """Keep the scores of candidates as they come."""
        for candidate, (scores, seconds) in zip(candidates, timed, strict=True):
            self.results.add(self.describe(candidate), scores, seconds if scores else None)
            self.on_score()


def search_grid(
    grid: Sequence[Params], prepare: Prepare, X: Any, y: np.ndarray, random_state: Any = None, holdout: str = "rows"
) -> CVResults:
    """Score every setting of a grid by the mAP of held-out rows among themselves.

    `holdout="classes"` holds out classes instead of rows: for galleries whose classes are not those of training. A
    grid of one setting is not searched; where nothing can be held out no setting has a score, and the first is best.
    """

    def prepared(split: Split) -> tuple[Callable[[Params], Sides], Any, np.ndarray]:
        codes = np.unique(y[split.train], return_inverse=True)[1]  # without gaps where classes are held out
        return prepare(X[split.train], codes), X[split.held], y[split.held]

    def score(fold: tuple[Callable[[Params], Sides], Any, np.ndarray], params: Params) -> float:
        fit, held, labels = fold
        return float(mean_average_precision(*fit(params)(held), labels))

    splits = inner_splits(y, generator(random_state), holdout) if len(grid) > 1 else []
    search = Search(score, map(prepared, splits), describe=dict)  # one fold in memory at a time
    search.try_all(grid)
    return search.results
