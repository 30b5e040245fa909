"""The order of choices, all on held-out rows: scaling, kernel or linear map, ridge, how far to adapt, the head.

How rows enter a map is settled first. The direction of a row is what embeddings, pixels and text mean. Signed roots of
the columns help counts and histograms a little. Columns in units of their own, as tables have them, hide all but the
largest from it: standardising is worth ten points there, and costs as much where the large columns are those that
matter. So either has to win clearly, on some of the rows, without adapting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from likewise.evaluate.calibration import Calibration
from likewise.learn.choose.holdout import CVResults, Split, each_score, mean_of_found, row_splits
from likewise.learn.choose.search import (
    ADAPTING,
    BESIDE,
    CLEARLY,
    COSTS_NOTHING,
    FAR_BELOW,
    FEW_RIDGES,
    KERNEL_RIDGES,
    RIDGES,
    SCALINGS,
    TEMPERATURES,
    Options,
    Search,
)
from likewise.learn.engines.memory import MemoryEngine
from likewise.learn.maths.engine import Engine, EngineInMemory
from likewise.learn.maths.kernels import UnitRows, scaling_of
from likewise.learn.maths.labels import draw_landmarks
from likewise.learn.maths.preparation import Preparation
from likewise.learn.maths.scaling import Scaling
from likewise.learn.maths.setting import Setting
from likewise.utils.arrays import dense, unit_rows

MOST_TRAIN, MOST_HELD = 3_000, 1_000  # rows that adapt an anchored map, weigh the raw part, and say what it is worth
MOST_CALIBRATING = 3_000  # rows that say what its scores mean: a cut-off holds for galleries of about so many or fewer
FEW_TRAIN, FEW_HELD = 1_200, 700  # rows that choose the scaling, whether a kernel, its ridge and its width
FEWER_TRAIN, FEWER_HELD, FEWER_LANDMARKS = 500, 300, 400  # the same where maps are anchored, for the scaling alone

Told = Callable[[], None]


class Chosen(NamedTuple):
    """A setting, its `SimilarityLearner.held_out_` and what its scores mean, None if nothing could be held out."""

    setting: Setting
    held_out: dict[str, float] | None
    calibration: Calibration | None = None


def choose_setting(
    unit: UnitRows,
    splits: list[Split],
    options: Options,
    prepare: Preparation,
    results: CVResults,
    on_score: Told = lambda: None,
    n_rows: int = 0,
) -> Chosen:
    """The setting that ranks held-out rows best; `n_rows` is how many rows there are, if these are some of them."""
    widths = options.widths(prepare.kernel_size is None)
    fixed = {"scaling": options.first_scaling, **options.settings()}
    if not splits:
        return Chosen(Setting(**fixed, width=widths[0], beside=options.beside or 0.0), None)
    few = FewRows(unit.source, splits, widths, prepare, results, on_score)
    if options.scaling == "auto":
        fixed["scaling"] = few.best_scaling(fixed)
    kernel, unit = None, unit.under(fixed["scaling"])
    if few.kernels:
        kernel = choose_kernel(few.search(fixed["scaling"]), widths, options, fixed)
    if kernel is not None and 0.0 in widths and not prepare.holds_kernel((n_rows, unit.engine.shape[1])):
        kernel = carried_by_landmarks(Search(unit, splits[:1], prepare, results, on_score), kernel, fixed)
    rng = np.random.default_rng(prepare.seed)
    held = [_drawn(unit.source, split.held, MOST_CALIBRATING, rng) for split in splits]
    splits = [_fewer(unit.source, split, MOST_TRAIN, MOST_HELD, rng) for split in splits]
    search = Search(unit, splits, prepare, results, on_score)
    if kernel is None:
        widths = tuple(width for width in widths if not prepare.full_resolution(width))
    raw = raw_score(unit, splits)
    setting = choose_head(search, kernel or choose_anchored(search, widths, options, fixed), options, fixed, raw)
    held_out = {"mAP": search.score(setting), "raw": raw, "rows": _n_held(splits), "learned_from": search.rows}
    held_out["splits"] = len(splits)
    calibration = search.calibration(setting, held)
    if kernel is None and "ridge" not in fixed:
        setting = _for_all_rows(setting, splits, unit.source.shape[0])
    return Chosen(setting, held_out if np.isfinite(held_out["mAP"]) else None, calibration)


def _n_held(splits: list[Split]) -> int:
    return len(np.unique(np.concatenate([split.held for split in splits])))


def _for_all_rows(setting: Setting, splits: list[Split], n: int) -> Setting:
    """The refit on all rows needs less of a ridge, by their number's root.

    An anchored map's ridge is in units of the Gram matrix's mean eigenvalue, which grows with the rows by itself.
    """
    fewer = np.sqrt(np.mean([len(split.train) for split in splits]) / n)
    return replace(setting, ridge=float(setting.ridge * fewer))


# ---------------------------------------------------------------------------------------------------------------------
# The map


def choose_kernel(search: Search, widths: tuple[float, ...], options: Options, fixed: dict[str, Any]) -> Setting | None:
    """Ridge, then width, of a kernel at full resolution; None if the linear map, where it may compete, is better."""
    given = Setting(**{**fixed, "pull": 0.0, "temperature": 0.0})
    first, *others = (width for width in widths if width)
    kernel = search.best(
        replace(given, width=first, ridge=ridge) for ridge in _candidates(fixed, "ridge", KERNEL_RIDGES)
    )
    for other in others:  # the middle is best for many rows, unless another width clearly is for few
        further = replace(kernel, width=other)
        while search.score(further) > search.score(kernel) + CLEARLY:
            kernel, further = further, replace(further, width=further.width * other / first)
    if 0.0 not in widths:
        return kernel
    first_linear = search.best(setting for setting in unadapted(0.0, fixed, FEW_RIDGES[1:]) if not setting.lda)
    if search.score(first_linear) < search.score(kernel) - FAR_BELOW:
        return kernel
    best = [kernel, search.best(unadapted(0.0, fixed, FEW_RIDGES), first=first_linear)]
    if options.posterior:
        best = [search.best(_heated(setting, fixed)) for setting in best]
    return kernel if search.score(best[0]) >= search.score(best[1]) else None


def carried_by_landmarks(search: Search, kernel: Setting, fixed: dict[str, Any]) -> Setting | None:
    """The kernel if landmarks, which a narrow one may be too few for, rank better than a linear map; else None.

    A kernel chosen on a thousand rows has each of them as a landmark. Of more rows than memory holds a kernel for, few
    are, while a linear map gains by every row: so both learn from all rows at hand, a third of them landmarks.
    """
    few = search.few_landmarks()
    linear = few.best(setting for setting in unadapted(0.0, fixed, FEW_RIDGES) if not setting.lda)
    return kernel if few.score(kernel) >= few.score(linear) else None


def choose_anchored(search: Search, widths: tuple[float, ...], options: Options, fixed: dict[str, Any]) -> Setting:
    """Width, ridge and geometry without adapting; then how far to adapt; then twice the ridge.

    A width that is best for the cosine need not be best for the posterior, which is not linear by itself.
    """
    start = search.best(setting for width in widths for setting in unadapted(width, {"lda": False, **fixed}))
    near = {start.ridge, *(ridge for ridge in RIDGES if 0.25 < ridge / start.ridge < 4)}
    start = search.best(unadapted(start.width, {"lda": True, **fixed}, tuple(sorted(near))), first=start)
    if options.posterior and len(widths) > 1:
        best = (search.best(unadapted(width, fixed)) for width in widths)
        start = replace(search.best(heated for setting in best for heated in _heated(setting, fixed)), temperature=0.0)
    pairs = [replace(start, pull=pull, confidence=confidence) for confidence, pull in _adapting(fixed)]
    adapted = search.best(pairs[:2], first=None if fixed.get("pull") else start)
    if adapted != start:  # else adapting does not pay, and less or more of it will not either
        adapted = search.best(pairs[2:], first=adapted)
    stiffer = [replace(adapted, ridge=2 * adapted.ridge)] if adapted.pull and "ridge" not in fixed else []
    return search.best(stiffer, first=adapted)


def unadapted(width: float, fixed: dict[str, Any], ridges: tuple[float, ...] = RIDGES) -> Iterator[Setting]:
    """Ridges and geometries of one width, without adapting."""
    for ridge in _candidates(fixed, "ridge", ridges):
        for lda in _candidates(fixed, "lda", (False, True)):
            yield replace(Setting(**fixed), width=width, ridge=ridge, lda=lda, pull=0.0, temperature=0.0)


def _adapting(fixed: dict[str, Any]) -> list[tuple[float, float]]:
    """Pairs (confidence, pull) to try; fixing one of them leaves the candidates of the other."""
    if fixed.get("pull", 1.0) == 0.0:
        return []
    pairs = [(fixed.get("confidence", s), fixed.get("pull", k)) for s, k in ADAPTING]
    return list(dict.fromkeys(pairs))


def _candidates(fixed: dict[str, Any], name: str, otherwise: tuple[Any, ...]) -> tuple[Any, ...]:
    return (fixed[name],) if name in fixed else otherwise


# ---------------------------------------------------------------------------------------------------------------------
# The head


def choose_head(
    search: Search, setting: Setting, options: Options, fixed: dict[str, Any], raw: float = np.inf
) -> Setting:
    """Of a chosen map: the plain cosine if it is better, a second coordinate for two classes, the temperature of a
    posterior; then the weight of the raw cosine, the largest that costs nothing.

    `raw` is the score of the plain cosine as the rows came, by which a centred one is tried or not.
    """
    heads = _coordinates(setting, search.unit.n_classes)
    if raw < search.score(setting) - FAR_BELOW:
        heads = heads[1:]
    setting = search.best(heads, first=setting)
    if options.posterior:
        setting = search.best(_heated(replace(setting, raw=False), fixed))
    if setting.raw:
        return setting
    if options.beside is not None:
        return replace(setting, beside=options.beside)
    least = search.score(setting) - COSTS_NOTHING
    weighed = (replace(setting, beside=weight) for weight in BESIDE)
    return next((candidate for candidate in weighed if search.score(candidate) >= least), setting)


def _coordinates(setting: Setting, n_classes: int) -> list[Setting]:
    """The plain cosine of the input is always a candidate; two classes need a second coordinate."""
    heads = [replace(setting, raw=True)]
    if n_classes == 2:
        heads += [replace(setting, constant=c) for c in (0.3, 1.0, 3.0)]
        heads += [replace(setting, input=c) for c in (0.3, 1.0, 3.0)]
    return heads


def _heated(setting: Setting, fixed: dict[str, Any]) -> list[Setting]:
    return [replace(setting, temperature=t) for t in _candidates(fixed, "temperature", TEMPERATURES)]


# ---------------------------------------------------------------------------------------------------------------------
# The scaling

ERRORS = {"unit": np.inf, "roots": 1.0, "standard": 1.5}  # standard errors by which it must gain, over queries


class FewRows:
    """Some rows of each split, drawn by class, under each scaling: what they choose needs no more."""

    def __init__(
        self,
        sample: EngineInMemory,
        splits: list[Split],
        widths: tuple[float, ...],
        prepare: Preparation,
        results: CVResults,
        on_score: Told = lambda: None,
    ) -> None:
        self.kernels = [width for width in widths if prepare.full_resolution(width)]
        self.widths = tuple(width for width in widths if width in (0.0, 1.0)) or widths
        if prepare.kernel_size is not None:
            prepare = replace(prepare, kernel_size=min(prepare.kernel_size, FEWER_LANDMARKS))
        most = (FEW_TRAIN, FEW_HELD) if self.kernels else (FEWER_TRAIN, FEWER_HELD)
        rng = np.random.default_rng(prepare.seed)
        few = [_fewer(sample, split, *most, rng) for split in splits]
        rows = np.unique(np.concatenate([part for split in few for part in (split.train, split.held)]))
        self.rows = sample.select(rows)
        self.splits = [Split(*(np.searchsorted(rows, part) for part in (split.train, split.held))) for split in few]
        self._searched = (prepare, results, on_score)
        self._searches: dict[str, Search] = {}

    def search(self, scaling: str) -> Search:
        """The search under one scaling; what it has computed stays."""
        if scaling not in self._searches:
            unit = UnitRows(self.rows, scaling_of(self.rows, scaling))
            self._searches[scaling] = Search(unit, self.splits, *self._searched)
        return self._searches[scaling]

    def best_scaling(self, fixed: dict[str, Any]) -> str:
        """Which scaling ranks held-out rows best at its best ridge; "unit" unless another clearly does."""
        names = [name for name in SCALINGS if name != "standard" or not sp.issparse(self.rows.X)]
        found = {name: self._best_under(name, fixed) for name in names}
        gains = {name: _standard_errors(each - found["unit"]) for name, each in found.items()}
        clear = [name for name in names if gains[name] > ERRORS[name]]
        best = max(clear, key=lambda name: mean_of_found(found[name]), default="unit")
        self._searches = {best: self._searches[best]}
        return best

    def _best_under(self, name: str, fixed: dict[str, Any]) -> np.ndarray:
        """Average precision of each held-out row at the best ridge under one scaling; nan with nothing to find."""
        search = self.search(name)
        best = search.best(self._settings({**fixed, "scaling": name, "temperature": 0.0}))
        return np.concatenate(search.average_precisions(best))

    def _settings(self, fixed: dict[str, Any]) -> Iterator[Setting]:
        """One kernel at full resolution, if there may be one; else linear maps, and some of few landmarks."""
        if not self.kernels:
            fixed = {"lda": False, **fixed}
            return (setting for width in self.widths for setting in unadapted(width, fixed, FEW_RIDGES))
        ridges = _candidates(fixed, "ridge", KERNEL_RIDGES[:2])
        return (replace(Setting(**{**fixed, "pull": 0.0}), width=self.kernels[0], ridge=ridge) for ridge in ridges)


def _standard_errors(gain: np.ndarray) -> float:
    """The mean of some differences, in units of its standard error."""
    gain = gain[np.isfinite(gain)]
    return float(gain.sum() / max(gain.std() * np.sqrt(len(gain)), 1e-300)) if len(gain) else 0.0


def scaling_for(X: Any, codes: np.ndarray, n_classes: int, seed: int) -> Scaling:
    """The scaling that SimilarityLearner would choose for labelled rows, learned from all of them."""
    engine, splits = MemoryEngine(X, codes, n_classes), row_splits(codes, np.random.default_rng(seed))
    if not splits:
        return Scaling()
    return scaling_of(engine, FewRows(engine, splits, (2.0,), Preparation(seed=seed), CVResults()).best_scaling({}))


def _fewer(sample: Engine, split: Split, most_train: int, most_held: int, rng: np.random.Generator) -> Split:
    """Some rows of a split, drawn by class."""
    return Split(_drawn(sample, split.train, most_train, rng), _drawn(sample, split.held, most_held, rng))


def _drawn(sample: Engine, rows: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    if len(rows) <= most:
        return rows
    codes = sample.row_codes[rows]
    order = np.argsort(codes, kind="stable")
    return np.sort(rows[order[draw_landmarks(codes[order], sample.n_classes, most, rng)]])


# ---------------------------------------------------------------------------------------------------------------------
# What it is worth


def raw_score(unit: UnitRows, splits: list[Split]) -> float:
    """mAP of the held-out rows by the plain cosine of the rows as they came, sparse ones in leading directions."""
    X, all_codes = unit.engine.X if sp.issparse(unit.source.X) else unit.source.X, unit.engine.row_codes
    scores = []
    for split in splits:
        held, codes = unit_rows(dense(X[split.held])), all_codes[split.held]
        alone = np.isin(all_codes[split.train], codes[np.bincount(codes)[codes] == 1])
        others = split.train[alone]  # those that rows alone in their class have to find, and as many more
        more = np.linspace(0, len(split.train) - 1, min(2 * len(others), len(split.train))).astype(int)
        others = np.union1d(others, split.train[more])  # spread over the classes, by which rows are sorted
        rows = unit_rows(dense(X[others])) if len(others) else held[:0]
        scores.append(mean_of_found(each_score(held, codes, rows, all_codes[others])))
    return mean_of_found(np.asarray(scores))
