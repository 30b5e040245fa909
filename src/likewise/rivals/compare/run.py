"""Fit every method on the same splits and evaluate it on the same queries; a failure becomes a row of the table."""

import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from likewise.errors import LikewiseError
from likewise.evaluate import evaluate
from likewise.learn.choose.anchored_search import scaling_for
from likewise.learn.maths.labels import encode_labels, sample_by_class, stratified_holdout
from likewise.rivals.compare.methods import (
    MethodSpec,
    Size,
    check_names,
    own_methods,
    seen_methods,
    select,
    timed_fit,
    unseen_methods,
)
from likewise.rivals.compare.results import Comparison, MethodRun, Outcome, Part, Standing
from likewise.search.neighbors import K, smoothed
from likewise.utils.progress import Advance, progress_bar

STANDARDISED = "columns are standardised first, as SimilarityLearner chooses to here"
ROOTS = "signed roots of the columns are taken first, as SimilarityLearner chooses to here"
Tell = Callable[[Outcome, float], None]


def compare(
    X: Any,
    y: Any,
    *,
    methods: Sequence[str] | None = None,
    models: Mapping[str, Any] | None = None,
    splits: int = 1,
    test_size: float = 0.3,
    seen: bool = True,
    unseen: bool = True,
    max_rows: int | None = 10_000,
    small: int = 3_000,
    random_state: int = 0,
    keep_models: bool = False,
    verbose: int = 0,
) -> Comparison:
    """Compare how well the usual methods and SimilarityLearner rank these rows: a table with a recommendation.

    Every method learns from the same rows and tunes its settings on them alone. Then each held-out row is a query and
    ranks the other held-out rows. For known classes rows are held out, for new classes half of the classes.

    Parameters
    ----------
    X, y : rows and their labels
    methods : sequence of str, optional
        Which methods to compare; None is all of them. The error for an unknown name lists them.
    models : mapping of names to estimators, optional
        Further methods: anything with `fit`, `transform` and, if the two sides differ, `transform_query`.
    splits : int
        Number of random splits; with several, figures are means with standard deviations.
    test_size : float
        Share of each class that is held out.
    seen, unseen : bool
        Whether to compare on known classes, and on new classes.
    max_rows : int or None
        Larger data is sampled by class.
    small : int
        Largest number of training rows for NCA and the support vector machine, whose cost grows with n².
    random_state : int
        Seed of the sample, the splits and every method.
    keep_models : bool
        Keep the fitted models, as `model` of each run, and not only their figures.
    verbose : int
        1 prints each method as it finishes, cheap ones first, with the time left, and a progress bar; on standard
        error.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> comparison = compare(*load_iris(return_X_y=True), methods=["cosine", "lda"], unseen=False)
    >>> [outcome.label for outcome in comparison.seen.ranked]
    ['LDA + cosine', 'cosine']
    """
    _check(splits, test_size, seen, unseen)
    check_names(methods, [*seen_methods(), *unseen_methods()])
    # One generator per purpose: the splits of one table do not depend on whether there is another.
    draw, by_row, by_class = (np.random.default_rng([int(random_state), purpose]) for purpose in range(3))
    remarks: list[str] = []
    X, codes, labels = _rows(X, y, max_rows, draw, remarks)
    user_methods = own_methods(models or {})
    job = _Job(X, codes, labels, small, int(random_state), keep_models)
    if seen:
        job.plan(
            "seen",
            [*select(seen_methods(), methods), *user_methods],
            splits,
            lambda: row_part(codes, test_size, by_row),
        )
    obstacle = class_obstacle(codes)
    if unseen and obstacle is None:
        job.plan(
            "unseen", [*select(unseen_methods(), methods), *user_methods], splits, lambda: class_part(codes, by_class)
        )
    elif unseen:
        remarks.append(obstacle or "")
    if not job.tables:
        why = (unseen and obstacle) or "none of the methods is in the tables asked for"
        raise LikewiseError(f"nothing is left to compare: {why}")
    with progress_bar("comparing", 100, enabled=bool(verbose)) as advance:
        standings = job.run(advance, tell if verbose else lambda *_: None)
    shape = (X.shape[0], X.shape[1], int(codes.max()) + 1)
    tables = (standings.get("seen"), standings.get("unseen"))
    return Comparison(*shape, splits, test_size, int(random_state), *tables, remarks)


def _check(splits: int, test_size: float, seen: bool, unseen: bool) -> None:
    if splits < 1:
        raise LikewiseError(f"splits={splits} is below 1: expected the number of random splits")
    if not 0 < test_size < 1:
        raise LikewiseError(f"test_size={test_size} is outside (0, 1): 0.3 is usual")
    if not (seen or unseen):
        raise LikewiseError("seen=False and unseen=False leave nothing to compare: at least one must be True")


def _rows(
    X: Any, y: Any, max_rows: int | None, rng: np.random.Generator, remarks: list[str]
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Validated rows, class codes and labels, sampled if there are more than `max_rows`."""
    classes, codes = encode_labels(y)
    X = X if hasattr(X, "shape") and hasattr(X, "__getitem__") and not hasattr(X, "iloc") else np.asarray(X)
    if X.shape[0] != len(codes):
        raise LikewiseError(f"X has {X.shape[0]} rows and y {len(codes)} labels: expected one label per row")
    if codes.min() < 0:
        X, codes = X[codes >= 0], codes[codes >= 0]
    labels = classes[codes]
    sample = sample_by_class(codes, max_rows, rng, least=4)
    if len(sample) < len(codes):
        remarks.append(f"{len(sample):,} of {len(codes):,} rows were drawn, by class; max_rows changes that")
        X, labels = X[sample], labels[sample]
        codes = np.unique(labels, return_inverse=True)[1]
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X")
    return X, codes, labels


# ---------------------------------------------------------------------------------------------------------------------
# Rows to learn from and rows to search: rows of the same classes, or rows of other classes


def row_part(codes: np.ndarray, test_size: float, rng: np.random.Generator) -> Part:
    """A share of every class to search, at least two rows, so that each has something to find; at least one stays.

    Classes of one or two rows are only learned from.
    """
    train, test = stratified_holdout(codes, test_size, rng, least=2, spare=1)
    if not len(test):
        most = np.bincount(codes).max()
        raise LikewiseError(
            f"the largest class of y has {most} rows: expected at least three, one to learn from and two to search"
        )
    return Part(train, test)


def class_part(codes: np.ndarray, rng: np.random.Generator) -> Part:
    """Half of the classes to learn from, the other half to search."""
    several = np.bincount(codes) > 1  # dealt first, so that both halves have rows with something to find
    order = np.concatenate([rng.permutation(np.flatnonzero(group)) for group in (several, ~several)])
    train = np.isin(codes, order[::2])
    return Part(np.flatnonzero(train), np.flatnonzero(~train))


def class_obstacle(codes: np.ndarray) -> str | None:
    """Why classes cannot be split, if so."""
    several = int((np.bincount(codes) > 1).sum())
    if several < 4:
        return f"new classes are not compared: expected at least four classes of two or more rows, got {several}"
    return None


# ---------------------------------------------------------------------------------------------------------------------
# The comparison, split by split


@dataclass
class _Job:
    """The splits and methods of each table, run split by split."""

    X: Any
    codes: np.ndarray
    labels: np.ndarray  # as they were given
    small: int
    seed: int
    keep_models: bool
    tables: dict[str, tuple[list[MethodSpec], list[Part]]] = field(default_factory=dict)
    scaled: dict[int, Any] = field(default_factory=dict)  # all rows under a scaling of a split's training rows

    def plan(self, name: str, methods: list[MethodSpec], splits: int, draw: Callable[[], Part]) -> None:
        """Add a table, unless no method was asked for."""
        if methods:
            self.tables[name] = (methods, [draw() for _ in range(splits)])

    def run(self, advance: Advance, tell: Tell) -> dict[str, Standing]:
        """Every method on every split, the cheap ones of each split first; `tell` gets each row as it is finished."""
        outcomes = {
            name: [Outcome(method.name, method.label, method.kind, method.ours) for method in methods]
            for name, (methods, _) in self.tables.items()
        }
        steps, began, done = self._steps(), time.perf_counter(), 0.0
        total = sum(cost for _, cost, *_ in steps)
        for number, cost, name, place in steps:
            (methods, parts), rows = self.tables[name], outcomes[name]
            advance(0, text=methods[place].label)
            rows[place] = self._extended(rows[place], methods[place], parts[number], self.seed + number)
            advance(int(100 * (done + cost) / total) - int(100 * done / total))
            done += cost
            tell(rows[place], (time.perf_counter() - began) * (total - done) / done)
        return {name: self._standing(outcomes[name], parts) for name, (_, parts) in self.tables.items()}

    def _steps(self) -> list[tuple[int, float, str, int]]:
        """Split, cost, table and place of the method, in the order in which they are run."""
        return sorted(
            (number, 0.01 if method.obstacle(self._size(part)) else method.cost, name, place)
            for name, (methods, parts) in self.tables.items()
            for number, part in enumerate(parts)
            for place, method in enumerate(methods)
        )

    def _size(self, part: Part) -> Size:
        return Size(len(part.train), self.X.shape[1], len(np.unique(self.codes[part.train])), self.small)

    def _standing(self, outcomes: list[Outcome], parts: list[Part]) -> Standing:
        learned, searched = (len(np.unique(self.codes[rows])) for rows in (parts[0].train, parts[0].test))
        return Standing(len(parts[0].train), len(parts[0].test), (learned, searched), outcomes, parts)

    def _extended(self, outcome: Outcome, method: MethodSpec, part: Part, seed: int) -> Outcome:
        """The outcome with one more split; a failure ends this method, not the comparison."""
        if outcome.failed:
            return outcome
        size = self._size(part)
        remarks = dict.fromkeys([*outcome.remarks, *filter(None, [method.remark(size)])])
        error, runs = method.obstacle(size), outcome.runs
        if error is None:
            try:
                X, remark = self._scaled(part, seed) if method.scaled else (self.X, None)
                remarks |= dict.fromkeys([remark] if remark else [])
                run, caught = self._run(method.make(size, seed), X, part, method.kind != "posterior")
                runs, remarks = [*runs, run], remarks | dict.fromkeys(caught)
            except Exception as failure:  # a method of the caller may raise anything
                error = f"{type(failure).__name__}: {_first_line(failure)}"
        return replace(outcome, runs=runs, error=error, remarks=list(remarks))

    def _scaled(self, part: Part, seed: int) -> tuple[Any, str | None]:
        """The rows under the scaling that SimilarityLearner would choose for the training rows, and a remark."""
        if seed not in self.scaled:
            codes = np.unique(self.codes[part.train], return_inverse=True)[1]
            scaling = scaling_for(self.X[part.train], codes, int(codes.max()) + 1, seed)
            remark = {"standard": STANDARDISED, "roots": ROOTS}.get(scaling.name)
            self.scaled = {seed: (scaling(self.X) if remark else self.X, remark)}
        return self.scaled[seed]

    def _run(self, model: Any, X: Any, part: Part, spread: bool) -> tuple[MethodRun, list[str]]:
        """Fit on one part and rank the other, with neighbours too if `spread` and a cosine; also its warnings."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit = timed_fit(model, X[part.train], self.labels[part.train])
            rows, codes = X[part.test], self.codes[part.test]
            G = model.transform(rows)
            Q = model.transform_query(rows) if hasattr(model, "transform_query") else G
            run = _evaluated(Q, G, codes, fit.seconds["fit_seconds"], fit.setting)
            if spread and is_cosine(Q, G):
                Z = smoothed(G, K)
                run = replace(run, with_neighbours=_evaluated(Z, Z, codes, run.seconds, run.setting))
            if self.keep_models:
                run = replace(run, model=model)
        return run, [f"{warning.category.__name__}: {_first_line(warning.message)}" for warning in caught]


def _evaluated(Q: np.ndarray, G: np.ndarray, codes: np.ndarray, seconds: float, setting: dict[str, Any]) -> MethodRun:
    evaluation = evaluate(Q, G, codes, ks=(1,))
    return MethodRun(evaluation.means["P@1"], seconds, G.shape[1], setting, evaluation.average_precision)


def is_cosine(Q: np.ndarray, G: np.ndarray) -> bool:
    """Whether both sides are the same rows of length one; rows of zeros are as they are."""
    lengths = np.einsum("ij,ij->i", G, G)
    return np.array_equal(Q, G) and bool(np.all((np.abs(lengths - 1) < 1e-3) | (lengths == 0)))


def tell(row: Outcome, left: float) -> None:
    """Print a finished row, and the time that the others may take."""
    words = f"mAP {100 * row.mean_average_precision:5.1f}  {row.width:5,} wide  {row.seconds:6.1f} s to fit"
    print(f"{row.label:<30} {row.error or words}  (about {lasting(left)} left)", file=sys.stderr)


def lasting(seconds: float) -> str:
    """A time in whole minutes, or in seconds below two minutes."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _first_line(message: Any) -> str:
    return (str(message).strip().splitlines() or ["no message"])[0]
