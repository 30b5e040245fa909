"""The order of choices, all on held-out rows: scaling, kernel or linear map, ridge, how far to adapt, the head.

How rows enter a map is settled first. The direction of a row is what embeddings, pixels and text mean. Signed roots of
the columns help counts and histograms a little. Columns in units of their own, as tables have them, hide all but the
largest from it: standardising is worth ten points there, and costs as much where the large columns are those that
matter. So either has to win clearly, on some of the rows, without adapting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from likewise.core.engine import Engine, EngineInMemory
from likewise.core.kernels import Scaling, UnitRows, scaling_of
from likewise.core.labels import draw_landmarks
from likewise.core.preparation import Preparation
from likewise.core.setting import Setting
from likewise.data.memory import MemoryEngine
from likewise.selection.holdout import CVResults, Split, each_score, mean_of_found, row_splits
from likewise.selection.search import (
    ADAPTING,
    BESIDE,
    COSTS_NOTHING,
    KERNEL_RIDGES,
    RIDGES,
    SCALINGS,
    TEMPERATURES,
    Options,
    Search,
)
from likewise.utils.arrays import dense, unit_rows

MOST_TRAIN, MOST_HELD = 5_000, 2_000  # rows that choose between kernels at full resolution and weigh the raw part
FEW_TRAIN, FEW_HELD = 2_000, 1_000  # that choose a kernel's ridge and width, and whether it is one

Told = Callable[[], None]


class Chosen(NamedTuple):
    """A setting, and what it is worth: {"mAP", "raw", "rows"} of held-out rows, None if nothing could be held out."""

    setting: Setting
    held_out: dict[str, float] | None


def choose_setting(
    unit: UnitRows,
    splits: list[Split],
    options: Options,
    prepare: Preparation,
    results: CVResults,
    on_score: Told = lambda: None,
) -> Chosen:
    """The setting that ranks held-out rows best."""
    widths = options.widths(prepare.kernel_size is None)
    fixed, sample = {"scaling": options.first_scaling, **options.settings()}, unit.source
    if options.scaling == "auto":
        fixed["scaling"] = choose_scaling(sample, splits, widths, fixed, prepare, results)
    if not splits:
        return Chosen(Setting(**fixed, width=widths[0], beside=options.beside or 0.0), None)
    unit = unit.under(fixed["scaling"])
    kernel, rng = None, np.random.default_rng(prepare.seed)
    if any(map(prepare.full_resolution, widths)):
        few = [_fewer(sample, split, FEW_TRAIN, FEW_HELD, rng) for split in splits]
        kernel = choose_kernel(Search(unit, few, prepare, results, on_score), widths, options, fixed)
    if kernel is not None:
        splits = [_fewer(sample, split, MOST_TRAIN, MOST_HELD, rng) for split in splits]
    search = Search(unit, splits, prepare, results, on_score)
    if kernel is None:
        widths = tuple(width for width in widths if not prepare.full_resolution(width))
    setting = choose_head(search, kernel or choose_anchored(search, widths, options, fixed), options, fixed)
    held_out = {"mAP": search.score(setting), "raw": raw_score(sample, splits), "rows": _n_held(splits)}
    if kernel is None and "ridge" not in fixed:
        setting = _for_all_rows(setting, splits, sample.shape[0])
    return Chosen(setting, held_out if np.isfinite(held_out["mAP"]) else None)


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
    kernel = search.best((replace(kernel, width=width) for width in others), first=kernel)
    if 0.0 not in widths:
        return kernel
    best = [kernel, search.best(unadapted(0.0, fixed, FEW_RIDGES))]
    if options.posterior:
        best = [search.best(_heated(setting, fixed)) for setting in best]
    return kernel if search.score(best[0]) >= search.score(best[1]) else None


def choose_anchored(search: Search, widths: tuple[float, ...], options: Options, fixed: dict[str, Any]) -> Setting:
    """Width, ridge and geometry without adapting; then how far to adapt; then twice the ridge.

    A width that is best for the cosine need not be best for the posterior, which is not linear by itself.
    """
    start = search.best(setting for width in widths for setting in unadapted(width, fixed))
    if options.posterior and len(widths) > 1:
        first = (search.best(unadapted(width, fixed)) for width in widths)
        start = replace(search.best(heated for setting in first for heated in _heated(setting, fixed)), temperature=0.0)
    adapted = search.best(
        (replace(start, pull=pull, confidence=confidence) for confidence, pull in _adapting(fixed)),
        first=None if fixed.get("pull") else start,
    )
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


def choose_head(search: Search, setting: Setting, options: Options, fixed: dict[str, Any]) -> Setting:
    """Of a chosen map: the plain cosine if it is better, a second coordinate for two classes, the temperature of a
    posterior; then the weight of the raw cosine, the largest that costs nothing.
    """
    setting = search.best(_coordinates(setting, search.unit.n_classes), first=setting)
    if options.posterior:
        setting = search.best(_heated(replace(setting, raw=False), fixed))
    if setting.raw:
        return setting
    if options.beside is not None:
        return replace(setting, beside=options.beside)
    weights = [*BESIDE, 0.0]
    scores = [search.score(replace(setting, beside=weight)) for weight in weights]
    free = next(weight for weight, score in zip(weights, scores, strict=True) if score >= max(scores) - COSTS_NOTHING)
    return replace(setting, beside=free)


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

SCALING_TRAIN, SCALING_HELD, SCALING_LANDMARKS = 1_500, 1_000, 400
FEW_RIDGES = (0.01, 0.1, 1.0)
ERRORS = 1.5  # standard errors of the mean difference over queries


def choose_scaling(
    sample: EngineInMemory,
    splits: list[Split],
    widths: tuple[float, ...],
    fixed: dict[str, Any],
    prepare: Preparation,
    results: CVResults,
) -> str:
    """Which scaling ranks held-out rows best at its best ridge; "unit" unless another clearly does."""
    if not splits:
        return "unit"
    rng = np.random.default_rng(prepare.seed)
    parts = [_few_rows(sample, split, rng) for split in splits]
    settings = _to_compare_scalings(widths, fixed, prepare)
    if prepare.kernel_size is not None:
        prepare = replace(prepare, kernel_size=min(prepare.kernel_size, SCALING_LANDMARKS))
    names = [name for name in SCALINGS if name != "standard" or not sp.issparse(sample.X)]
    found = {name: _best_under(name, parts, settings, prepare, results) for name in names}
    clear = {name: _standard_errors(each - found["unit"]) for name, each in found.items()}
    best = max(names, key=lambda name: mean_of_found(found[name]) if clear[name] > ERRORS else -np.inf)
    return best if clear[best] > ERRORS else "unit"


def _to_compare_scalings(widths: tuple[float, ...], fixed: dict[str, Any], prepare: Preparation) -> list[Setting]:
    """One kernel at full resolution, if there may be one; else a linear map, and one of few landmarks."""
    kernels = [width for width in widths if prepare.full_resolution(width)]
    if kernels:
        ridges = _candidates(fixed, "ridge", KERNEL_RIDGES[:2])
        return [replace(Setting(**{**fixed, "temperature": 0.0}), width=kernels[0], ridge=ridge) for ridge in ridges]
    widths = tuple(width for width in widths if width in (0.0, 1.0)) or widths
    return [setting for width in widths for setting in unadapted(width, fixed, FEW_RIDGES)]


def _standard_errors(gain: np.ndarray) -> float:
    """The mean of some differences, in units of its standard error."""
    gain = gain[np.isfinite(gain)]
    return float(gain.sum() / max(gain.std() * np.sqrt(len(gain)), 1e-300)) if len(gain) else 0.0


def scaling_for(X: Any, codes: np.ndarray, n_classes: int, seed: int) -> Scaling:
    """The scaling that AnchoredSLR would choose for labelled rows, learned from all of them."""
    engine, splits = MemoryEngine(X, codes, n_classes), row_splits(codes, None, np.random.default_rng(seed))
    return scaling_of(engine, choose_scaling(engine, splits, (2.0,), {}, Preparation(seed=seed), CVResults()))


def _few_rows(sample: Any, split: Split, rng: np.random.Generator) -> tuple[Any, Split]:
    """Some rows of a split, drawn by class, numbered anew."""
    few = _fewer(sample, split, SCALING_TRAIN, SCALING_HELD, rng)
    rows = np.concatenate([few.train, few.held])
    return sample.select(rows), Split(np.arange(len(few.train)), np.arange(len(few.train), len(rows)))


def _fewer(sample: Engine, split: Split, most_train: int, most_held: int, rng: np.random.Generator) -> Split:
    """Some rows of a split, drawn by class."""
    return Split(_drawn(sample, split.train, most_train, rng), _drawn(sample, split.held, most_held, rng))


def _drawn(sample: Engine, rows: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    if len(rows) <= most:
        return rows
    codes = sample.row_codes[rows]
    order = np.argsort(codes, kind="stable")
    return np.sort(rows[order[draw_landmarks(codes[order], sample.n_classes, most, rng)]])


def _best_under(
    name: str, parts: list[tuple[Any, Split]], settings: list[Setting], prepare: Preparation, results: CVResults
) -> np.ndarray:
    """Average precision of each held-out row at the best setting under one scaling; nan where there is none to find."""
    began, best, chosen = time.perf_counter(), list[np.ndarray](), settings[0]
    searches = [
        Search(UnitRows(sample, scaling_of(sample.select(split.train), name)), [split], prepare, CVResults())
        for sample, split in parts
    ]
    for setting in settings:
        values = [search.average_precisions(setting)[0] for search in searches]
        if not best or mean_of_found(np.concatenate(values)) > mean_of_found(np.concatenate(best)):
            best, chosen = values, setting
    tried = {**asdict(replace(chosen, scaling=name)), "rows": searches[0].rows}
    results.add(tried, [mean_of_found(value) for value in best], time.perf_counter() - began)
    return np.concatenate(best)


# ---------------------------------------------------------------------------------------------------------------------
# What it is worth


def raw_score(sample: Any, splits: list[Split]) -> float:
    """mAP of the held-out rows by the plain cosine of the rows as they came."""
    scores = []
    for split in splits:
        held, codes = unit_rows(dense(sample.X[split.held])), sample.row_codes[split.held]
        alone = np.isin(sample.row_codes[split.train], codes[np.bincount(codes)[codes] == 1])
        others = split.train[alone]  # those that rows alone in their class have to find, and as many more
        others = np.union1d(others, split.train[: 2 * len(others)])
        rows = unit_rows(dense(sample.X[others])) if len(others) else held[:0]
        scores.append(mean_of_found(each_score(held, codes, rows, sample.row_codes[others])))
    return mean_of_found(np.asarray(scores))
