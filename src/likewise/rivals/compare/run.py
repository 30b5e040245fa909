"""Fit every method on the same splits and evaluate it on the same queries; a failure becomes a row of the table."""

import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array

from likewise.errors import LikewiseError
from likewise.evaluate import evaluate
from likewise.evaluate.evaluation import MetricName, metric_of
from likewise.learn.choose.anchored_search import scaling_for
from likewise.learn.choose.search import Split
from likewise.learn.maths.labels import encode_labels, sample_by_class, stratified_holdout
from likewise.rivals.compare.methods import (
    MethodSpec,
    Size,
    check_names,
    chosen_setting,
    mixed_methods,
    own_methods,
    seen_methods,
    timed_fit,
    unseen_methods,
)
from likewise.rivals.compare.results import Comparison, MethodRun, Outcome, Standing
from likewise.search import Index
from likewise.search.neighbors import K, smoothed
from likewise.utils.progress import Advance, progress_bar

STANDARDISED = "columns are standardised first, as SimilarityLearner chooses to here"
ROOTS = "signed roots of the columns are taken first, as SimilarityLearner chooses to here"
FIGURES = ("mAP", "P@1", "nDCG@10")  # that are shown whatever is compared by
Tell = Callable[[Outcome, str, float], None]


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
    mixed: bool = True,
    metric: MetricName = "map",
    max_rows: int | None = 10_000,
    small: int = 3_000,
    random_state: int = 0,
    keep_models: bool = False,
    verbose: int = 0,
) -> Comparison:
    """Compare how well the usual methods and SimilarityLearner rank these rows: a table with a recommendation.

    Every method learns from the same rows and tunes its settings on them alone. Then each held-out row is a query and
    ranks the other held-out rows. For known classes rows are held out, for new classes half of the classes; in a mixed
    gallery half of the classes are taught, and held-out rows of all classes are searched.

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
    seen, unseen, mixed : bool
        Whether to compare on known classes, on new classes, and on both in one gallery.
    metric : {"map", "ndcg@10", "precision@10", "precision@1"}
        The metric that methods are ranked, tested and recommended by.
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
    >>> comparison = compare(*load_iris(return_X_y=True), methods=["cosine", "lda"], unseen=False, mixed=False)
    >>> [outcome.label for outcome in comparison.seen.ranked]
    ['LDA + cosine', 'cosine']
    """
    _check(splits, test_size, seen or unseen or mixed)
    check_names(methods, [*seen_methods(), *unseen_methods()])
    # One generator per purpose: the splits of one table do not depend on whether there is another.
    draw, by_row, by_class, by_both = (np.random.default_rng([int(random_state), purpose]) for purpose in range(4))
    remarks: list[str] = []
    X, codes, labels = _rows(X, y, max_rows, draw, remarks)
    obstacle = class_obstacle(codes)
    tables: dict[str, tuple[list[MethodSpec], Callable[[], Split]]] = {}
    if seen:
        tables["seen"] = seen_methods(), lambda: row_part(codes, test_size, by_row)
    if unseen and obstacle is None:
        tables["unseen"] = unseen_methods(), lambda: class_part(codes, by_class)
    if mixed and obstacle is None:
        tables["mixed"] = mixed_methods(), lambda: mixed_part(codes, test_size, by_both)
    if (unseen or mixed) and obstacle is not None:
        remarks.append(obstacle)
    job = _Job(X, codes, labels, small, int(random_state), keep_models, metric)
    for name, (known, split) in tables.items():
        chosen = [method for method in known if methods is None or method.name in methods]
        job.plan(name, [*chosen, *own_methods(models or {})], splits, split)
    if not job.tables:
        why = ((unseen or mixed) and obstacle) or "none of the methods is in the tables asked for"
        raise LikewiseError(f"nothing is left to compare: {why}")
    with progress_bar("comparing", 100, enabled=bool(verbose)) as advance:
        standings = job.run(advance, tell if verbose else lambda *_: None)
    shape = (X.shape[0], X.shape[1], int(codes.max()) + 1)
    three = (standings.get("seen"), standings.get("unseen"), standings.get("mixed"))
    return Comparison(*shape, splits, test_size, int(random_state), *three, remarks, metric_of(metric).name)


def _check(splits: int, test_size: float, anything: bool) -> None:
    if splits < 1:
        raise LikewiseError(f"splits={splits} is below 1: expected the number of random splits")
    if not 0 < test_size < 1:
        raise LikewiseError(f"test_size={test_size} is outside (0, 1): 0.3 is usual")
    if not anything:
        raise LikewiseError("seen, unseen and mixed are all False: expected at least one to be True")


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


# -- Rows to learn from and rows to search: rows of the same classes, rows of other classes, or both -------------------


def row_part(codes: np.ndarray, test_size: float, rng: np.random.Generator) -> Split:
    """A share of every class to search, at least two rows, so that each has something to find; at least one stays.

    Classes of one or two rows are only learned from.
    """
    train, test = stratified_holdout(codes, test_size, rng, least=2, spare=1)
    if not len(test):
        most = np.bincount(codes).max()
        raise LikewiseError(
            f"the largest class of y has {most} rows: expected at least three, one to learn from and two to search"
        )
    return Split(train, test)


def class_part(codes: np.ndarray, rng: np.random.Generator) -> Split:
    """Half of the classes to learn from, the other half to search."""
    several = np.bincount(codes) > 1  # dealt first, so that both halves have rows with something to find
    order = np.concatenate([rng.permutation(np.flatnonzero(group)) for group in (several, ~several)])
    train = np.isin(codes, order[::2])
    return Split(np.flatnonzero(train), np.flatnonzero(~train))


def mixed_part(codes: np.ndarray, test_size: float, rng: np.random.Generator) -> Split:
    """Rows of half of the classes to learn from, a share of every class to search."""
    part, taught = row_part(codes, test_size, rng), codes[class_part(codes, rng).train]
    return Split(part.train[np.isin(codes[part.train], taught)], part.held)


def class_obstacle(codes: np.ndarray) -> str | None:
    """Why classes cannot be split, if so."""
    several = int((np.bincount(codes) > 1).sum())
    if several < 4:
        return f"new classes are not compared: expected at least four classes of two or more rows, got {several}"
    return None


# -- The comparison, split by split ------------------------------------------------------------------------------------


@dataclass
class _Job:
    """The splits and methods of each table, run split by split."""

    X: Any
    codes: np.ndarray
    labels: np.ndarray  # as they were given
    small: int
    seed: int
    keep_models: bool
    metric: MetricName
    tables: dict[str, tuple[list[MethodSpec], list[Split]]] = field(default_factory=dict)
    scaled: dict[int, Any] = field(default_factory=dict)  # all rows under a scaling of a split's training rows

    def plan(self, name: str, methods: list[MethodSpec], splits: int, draw: Callable[[], Split]) -> None:
        """Add a table, unless no method was asked for."""
        if methods:
            self.tables[name] = (methods, [draw() for _ in range(splits)])

    def run(self, advance: Advance, tell: Tell) -> dict[str, Standing]:
        """Every method on every split, the cheap ones of each split first; `tell` gets each row as it is finished."""
        outcomes = {
            name: [Outcome(method.name, method.label, method.kind, method.ours) for method in methods]
            for name, (methods, _) in self.tables.items()
        }
        steps = sorted(  # split, cost, table and place of the method
            (number, 0.01 if method.obstacle(self._size(part)) else method.cost, name, place)
            for name, (methods, parts) in self.tables.items()
            for number, part in enumerate(parts)
            for place, method in enumerate(methods)
        )
        began, done = time.perf_counter(), 0.0
        total = sum(cost for _, cost, *_ in steps)
        for number, cost, name, place in steps:
            (methods, parts), rows = self.tables[name], outcomes[name]
            advance(0, text=methods[place].label)
            rows[place] = self._extended(rows[place], methods[place], parts[number], self.seed + number)
            advance(int(100 * (done + cost) / total) - int(100 * done / total))
            done += cost
            tell(rows[place], metric_of(self.metric).name, (time.perf_counter() - began) * (total - done) / done)
        return {name: self._standing(outcomes[name], parts) for name, (_, parts) in self.tables.items()}

    def _size(self, part: Split) -> Size:
        return Size(len(part.train), self.X.shape[1], len(np.unique(self.codes[part.train])), self.small)

    def _standing(self, outcomes: list[Outcome], parts: list[Split]) -> Standing:
        learned, searched = (len(np.unique(self.codes[rows])) for rows in (parts[0].train, parts[0].held))
        sizes, metric = (len(parts[0].train), len(parts[0].held)), metric_of(self.metric).name
        return Standing(*sizes, (learned, searched), outcomes, parts, metric)

    def _extended(self, outcome: Outcome, method: MethodSpec, part: Split, seed: int) -> Outcome:
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
                run, caught = self._run(method, method.make(size, seed), X, part)
                runs, remarks = [*runs, run], remarks | dict.fromkeys(caught)
            except Exception as failure:  # a method of the caller may raise anything
                error = f"{type(failure).__name__}: {_first_line(failure)}"
        return replace(outcome, runs=runs, error=error, remarks=list(remarks))

    def _scaled(self, part: Split, seed: int) -> tuple[Any, str | None]:
        """The rows under the scaling that SimilarityLearner would choose for the training rows, and a remark."""
        if seed not in self.scaled:
            codes = np.unique(self.codes[part.train], return_inverse=True)[1]
            scaling = scaling_for(self.X[part.train], codes, int(codes.max()) + 1, seed)
            remark = {"standard": STANDARDISED, "roots": ROOTS}.get(scaling.name)
            self.scaled = {seed: (scaling(self.X) if remark else self.X, remark)}
        return self.scaled[seed]

    def _run(self, method: MethodSpec, model: Any, X: Any, part: Split) -> tuple[MethodRun, list[str]]:
        """Fit on one part and rank the other, with neighbours too if it is a cosine; also its warnings."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            seconds, setting = timed_fit(model, X[part.train], self.labels[part.train]), chosen_setting(model)
            if method.indexed and not sp.issparse(X):  # an index holds no sparse rows
                model = Index.build(model, X[part.held]).model
            rows = X[part.held]
            G = model.transform(rows)
            Q = model.transform_query(rows) if hasattr(model, "transform_query") else G
            run = self._evaluated(Q, G, part, seconds["fit_seconds"], setting)
            if method.kind != "posterior" and is_cosine(Q, G):
                Z = smoothed(G, K)
                run = replace(run, with_neighbours=self._evaluated(Z, Z, part, run.seconds, setting))
            if self.keep_models:
                run = replace(run, model=model)
        return run, [f"{warning.category.__name__}: {_first_line(warning.message)}" for warning in caught]

    def _evaluated(
        self, Q: np.ndarray, G: np.ndarray, part: Split, seconds: float, setting: dict[str, Any]
    ) -> MethodRun:
        codes = self.codes[part.held]
        evaluation = evaluate(Q, G, codes, ks=(1, 10), metric=self.metric)
        names = dict.fromkeys((evaluation.metric, *FIGURES))
        figures = {name: float(evaluation.per_query[name].mean()) for name in names}
        is_taught = np.isin(codes[evaluation.queries], self.codes[part.train])
        if is_taught.any() and not is_taught.all():
            figures["taught"] = float(evaluation.values[is_taught].mean())
            figures["new"] = float(evaluation.values[~is_taught].mean())
        return MethodRun(figures, seconds, G.shape[1], setting, evaluation.values)


def is_cosine(Q: np.ndarray, G: np.ndarray) -> bool:
    """Whether both sides are the same rows of length one; rows of zeros are as they are."""
    lengths = np.einsum("ij,ij->i", G, G)
    return np.array_equal(Q, G) and bool(np.all((np.abs(lengths - 1) < 1e-3) | (lengths == 0)))


def tell(row: Outcome, metric: str, left: float) -> None:
    """Print a finished row, and the time that the others may take."""
    words = f"{metric} {100 * row.score:5.1f}  {row.width:5,} wide  {row.seconds:6.1f} s to fit"
    rest = f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min"
    print(f"{row.label:<30} {row.error or words}  (about {rest} left)", file=sys.stderr)


def _first_line(message: Any) -> str:
    return (str(message).strip().splitlines() or ["no message"])[0]
