"""The settings of an anchored map, chosen on held-out rows: scaling, kernel, ridge and geometry, then how far to adapt.

How rows enter a map is settled first. The direction of a row is what embeddings, pixels and text mean. Columns in units
of their own, as tables have them, hide all but the largest from it: standardising is worth ten points there, and costs
as much where the large columns are those that matter. So it has to win clearly, on some of the rows, without adapting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from likewise.core.anchoring import AnchoredRegression, Head, Preparation, adapt, fixed_target
from likewise.core.engine import Engine, EngineInMemory
from likewise.core.kernels import Scaling, UnitRows, scaling_of
from likewise.core.labels import draw_landmarks
from likewise.data.memory import MemoryEngine
from likewise.errors import LikewiseError
from likewise.selection.holdout import CVResults, Split, each_score, mean_of_found, row_splits
from likewise.utils.threads import single_threaded_blas
from likewise.utils.validation import Interval, StrOptions

SCALINGS = ("unit", "standard")
WIDTHS = {"auto": (0.0, 0.5, 1.0, 2.0), "linear": (0.0,), "rbf": (0.5, 1.0, 2.0)}
RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
ADAPTING = ((1.0, 1.0), (1.0, 3.0), (0.5, 1.0), (0.5, 3.0), (0.0, 1.0))  # (s, κ)
TEMPERATURES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Setting:
    """One point of the search; `width` is γ in units of 1 / mean squared distance, and 0 is the linear map."""

    width: float = 0.0
    ridge: float = 0.1
    lda: bool = False
    pull: float = 0.0
    confidence: float = 1.0
    input: float = 0.0
    constant: float = 0.0
    raw: bool = False
    temperature: float = 0.0
    scaling: str = "unit"

    def learn(self, regression: AnchoredRegression, saved: Any = None) -> np.ndarray:
        """The anchored map L, in the eigenbasis."""
        target = fixed_target(regression, self.ridge, self.lda)
        return adapt(regression, target, self.ridge, self.pull, self.confidence, saved)

    def head(self, regression: AnchoredRegression, L: np.ndarray) -> Head:
        """The head of a map, with lengths and class means of the training images where it needs them."""
        if not (self.input or self.constant or self.temperature):
            return Head(raw=self.raw)
        input_scale = float(np.sqrt(max(regression.unit.mean_square_distance / 2, 1e-12)))
        head = Head(regression.rms(L) or 1.0, self.input, input_scale, self.constant, self.raw)
        if not self.temperature:
            return head
        return replace(head, means=regression.class_means(L, head), temperature=self.temperature)


FIXED = {
    "ridge": Interval(Real, 0, None, closed="neither"),
    "geometry": StrOptions({"one-hot", "lda"}),
    "pull": Interval(Real, 0, None, closed="left"),
    "confidence": Interval(Real, 0, None, closed="left"),
    "width": Interval(Real, 0, None, closed="left"),
    "temperature": Interval(Real, 0, None, closed="neither"),
}


def checked_fixed(fixed: dict[str, Any] | None) -> dict[str, Any]:
    """Settings that are not to be chosen, by the names users know, each of them valid."""
    given = {name: value for name, value in (fixed or {}).items() if value is not None}
    for name, value in given.items():
        if name not in FIXED or not FIXED[name].is_satisfied_by(value):
            expected = str(FIXED[name]) if name in FIXED else f"one of {', '.join(FIXED)}"
            raise LikewiseError(f"fixed={{{name!r}: {value!r}}}: expected {expected}")
    return given


@dataclass(frozen=True)
class Options:
    """What the caller has decided: which kernels and scaling to try, whether a posterior, and `fixed` settings."""

    kernel: str = "auto"
    scaling: str = "auto"
    posterior: bool = False
    fixed: dict[str, Any] = field(default_factory=dict)

    @property
    def widths(self) -> tuple[float, ...]:
        """Widths of the kernel to try."""
        return (self.fixed["width"],) if "width" in self.fixed else WIDTHS[self.kernel]

    @property
    def first_scaling(self) -> str:
        """The scaling that was asked for, or the one that any other has to beat."""
        return "unit" if self.scaling == "auto" else self.scaling

    def settings(self) -> dict[str, Any]:
        """The settings that are not to be chosen, by the names of `Setting`."""
        given = {name: value for name, value in self.fixed.items() if name not in ("width", "geometry")}
        if "geometry" in self.fixed:
            given["lda"] = self.fixed["geometry"] == "lda"
        if not self.posterior:
            given.pop("temperature", None)
        return given


# ---------------------------------------------------------------------------------------------------------------------
# Scoring one setting


class Search:
    """Scores settings on the held-out rows of some splits; what settings share is computed once per width."""

    def __init__(
        self,
        unit: UnitRows,
        splits: list[Split],
        prepare: Preparation,
        results: CVResults,
        on_score: Callable[[], None] = lambda: None,
    ) -> None:
        self.unit, self.splits, self.prepare, self.results = unit, splits, prepare, results
        self.on_score = on_score
        self._width, self._folds = -1.0, list[_Fold]()

    def score(self, setting: Setting) -> float:
        """Mean over the splits of the mAP of held-out rows; a setting is not tried twice."""
        known = self._known(setting)
        if known is not None:
            return known
        began = time.perf_counter()
        values = [mean_of_found(each) for each in self.average_precisions(setting)]
        mean = self.results.add(asdict(setting), values, time.perf_counter() - began)
        self.on_score()
        return mean if np.isfinite(mean) else -np.inf

    def average_precisions(self, setting: Setting) -> list[np.ndarray]:
        """What `score` is the mean of, for each split: every held-out row, nan where there is nothing to find."""
        folds = self._at(setting.width)  # by all BLAS threads
        # One BLAS thread: the products here are small, and between them others would spin on our own threads' cores.
        with single_threaded_blas():
            return [fold.average_precisions(setting) for fold in folds]

    def best(self, settings: Iterable[Setting], first: Setting | None = None) -> Setting:
        """The setting with the highest score; `first` has to be beaten."""
        chosen, value = first, -np.inf if first is None else self.score(first)
        for setting in settings:
            score = self.score(setting)
            if chosen is None or score > value:
                chosen, value = setting, score
        assert chosen is not None
        return chosen

    def _known(self, setting: Setting) -> float | None:
        known = self.results.score(asdict(setting))
        return known if known is None or np.isfinite(known) else -np.inf

    def _at(self, width: float) -> list[_Fold]:
        """The splits prepared for a kernel width; one width is kept."""
        if width != self._width:
            self._folds = []
            self._folds = [_Fold(self.unit, split, self.prepare, width) for split in self.splits]
            self._width = width
        return self._folds


class _Fold:
    """One split at one kernel width: a regression of its training rows, and its held-out rows in the same basis."""

    def __init__(self, unit: UnitRows, split: Split, prepare: Preparation, width: float) -> None:
        self.unit, self.split = unit, split
        self.regression = prepare(unit.part(split.train), width)
        self.held = self.regression.basis(self.regression.features(unit.engine.X[split.held]))
        self._map: tuple[Setting | None, np.ndarray] = (None, np.empty(0))

    def average_precisions(self, setting: Setting) -> np.ndarray:
        """Average precision of each held-out row."""
        L = self._learned(setting)
        head, L = setting.head(self.regression, L), L.astype(self.held.dtype)
        trained = self.regression.unit
        Z = head(self.held @ L, lambda: trained.centred(self._rows(self.split.held)))
        Z, codes = self._repeated(Z, self.split.held)
        if np.all(np.bincount(codes)[codes] > 1):
            return each_score(Z, codes, Z[:0], codes[:0])
        order = trained.engine.order
        images = head(self.regression.engine.project(L), lambda: trained.centred(self._rows(self.split.train[order])))
        return each_score(Z, codes, *self._repeated(images, self.split.train[order]))

    def _learned(self, setting: Setting) -> np.ndarray:
        """The map of a setting; settings that differ in their head alone share it."""
        bare = Setting(setting.width, setting.ridge, setting.lda, setting.pull, setting.confidence)
        if self._map[0] != bare:
            self._map = bare, bare.learn(self.regression)
        return self._map[1]

    def _rows(self, rows: np.ndarray) -> Any:
        return self.unit.engine.X[rows]

    def _repeated(self, Z: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A weight means repetition here too, where it is a whole number."""
        weights, codes = self.unit.engine.row_weights, self.unit.engine.row_codes[rows]
        if weights is None or not np.array_equal(weights, np.rint(weights)):
            return Z, codes
        times = weights[rows].astype(int)
        return Z.repeat(times, axis=0), codes.repeat(times)


# ---------------------------------------------------------------------------------------------------------------------
# The order of choices


def choose_setting(
    unit: UnitRows,
    splits: list[Split],
    options: Options,
    prepare: Preparation,
    results: CVResults,
    on_score: Callable[[], None] = lambda: None,
) -> Setting:
    """The setting that ranks held-out rows best; the refit on all rows needs less of a ridge, by their number's root.

    The ridge is in units of the Gram matrix's mean eigenvalue, which grows with the rows by itself.
    """
    fixed, sample = {"scaling": options.first_scaling, **options.settings()}, unit.source
    if options.scaling == "auto":
        fixed["scaling"] = choose_scaling(sample, splits, options.widths, fixed, prepare, results)
    if not splits:
        return Setting(**fixed, width=options.widths[0])
    search = Search(unit.under(fixed["scaling"]), splits, prepare, results, on_score)
    setting = (choose_posterior if options.posterior else choose_cosine)(search, options.widths, fixed)
    if "ridge" in fixed:
        return setting
    fewer = np.sqrt(np.mean([len(split.train) for split in splits]) / sample.shape[0])
    return replace(setting, ridge=float(setting.ridge * fewer))


def choose_cosine(search: Search, widths: tuple[float, ...], fixed: dict[str, Any]) -> Setting:
    """Width, ridge and geometry without adapting; then how far to adapt; then twice the ridge; then the head."""
    start = search.best(setting for width in widths for setting in unadapted(width, fixed))
    adapted = search.best(
        (replace(start, pull=pull, confidence=confidence) for confidence, pull in _adapting(fixed)),
        first=None if fixed.get("pull") else start,
    )
    stiffer = [replace(adapted, ridge=2 * adapted.ridge)] if adapted.pull and "ridge" not in fixed else []
    adapted = search.best(stiffer, first=adapted)
    return search.best(_heads(adapted, search.unit.n_classes), first=adapted)


def choose_posterior(search: Search, widths: tuple[float, ...], fixed: dict[str, Any]) -> Setting:
    """The width by what the posterior ranks, without adapting; then the map by its cosine; then the temperature.

    A kernel that is best for the cosine need not be best for the posterior, which is not linear by itself.
    """
    temperatures = _candidates(fixed, "temperature", TEMPERATURES)
    fixed = {name: value for name, value in fixed.items() if name != "temperature"}
    first = (search.best(unadapted(width, fixed)) for width in widths)
    best = search.best(replace(start, temperature=t) for start in first for t in temperatures)
    setting = replace(choose_cosine(search, (best.width,), fixed), raw=False)
    return search.best(replace(setting, temperature=t) for t in temperatures)


def unadapted(width: float, fixed: dict[str, Any], ridges: tuple[float, ...] = RIDGES) -> Iterator[Setting]:
    """Ridges and geometries of one width, without adapting."""
    for ridge in _candidates(fixed, "ridge", ridges):
        for lda in _candidates(fixed, "lda", (False, True)):
            yield replace(Setting(**fixed), width=width, ridge=ridge, lda=lda, pull=0.0)


def _heads(setting: Setting, n_classes: int) -> list[Setting]:
    """The plain cosine of the input is always a candidate; two classes need a second coordinate."""
    heads = [replace(setting, raw=True)]
    if n_classes == 2:
        heads += [replace(setting, constant=c) for c in (0.3, 1.0, 3.0)]
        heads += [replace(setting, input=c) for c in (0.3, 1.0, 3.0)]
    return heads


def _adapting(fixed: dict[str, Any]) -> list[tuple[float, float]]:
    """Pairs (confidence, pull) to try; fixing one of them leaves the candidates of the other."""
    if fixed.get("pull", 1.0) == 0.0:
        return []
    pairs = [(fixed.get("confidence", s), fixed.get("pull", k)) for s, k in ADAPTING]
    return list(dict.fromkeys(pairs))


def _candidates(fixed: dict[str, Any], name: str, otherwise: tuple[Any, ...]) -> tuple[Any, ...]:
    return (fixed[name],) if name in fixed else otherwise


# ---------------------------------------------------------------------------------------------------------------------
# The scaling

FEW_TRAIN, FEW_HELD, FEW_LANDMARKS = 500, 300, 400  # enough to tell: a right choice gains many points
FEW_RIDGES = (0.01, 0.1, 1.0)
FEW_WIDTHS = (0.0, 1.0)  # of the kernel, where it may choose: none, or the middle one
ERRORS = 1.5  # standard errors of the mean difference over queries


def choose_scaling(
    sample: EngineInMemory,
    splits: list[Split],
    widths: tuple[float, ...],
    fixed: dict[str, Any],
    prepare: Preparation,
    results: CVResults,
) -> str:
    """Which scaling ranks held-out rows better at its best width and ridge; "unit" unless the other clearly does."""
    if sp.issparse(sample.X) or not splits:
        return "unit"
    few = replace(prepare, kernel_size=min(prepare.kernel_size, FEW_LANDMARKS))
    rng = np.random.default_rng(prepare.seed)
    parts = [_few_rows(sample, split, rng) for split in splits]
    widths = tuple(width for width in widths if width in FEW_WIDTHS) or widths
    settings = [setting for width in widths for setting in unadapted(width, fixed, FEW_RIDGES)]
    unit, standard = (_best_under(name, parts, settings, few, results) for name in SCALINGS)
    gain = standard - unit
    gain = gain[np.isfinite(gain)]
    return "standard" if gain.sum() > ERRORS * gain.std() * np.sqrt(len(gain)) else "unit"


def scaling_for(X: Any, codes: np.ndarray, n_classes: int, seed: int) -> Scaling:
    """The scaling that AnchoredSLR would choose for labelled rows, learned from all of them."""
    engine, splits = MemoryEngine(X, codes, n_classes), row_splits(codes, None, np.random.default_rng(seed))
    prepare = Preparation(FEW_LANDMARKS, None, seed)
    return scaling_of(engine, choose_scaling(engine, splits, FEW_WIDTHS, {}, prepare, CVResults()))


def _few_rows(sample: Any, split: Split, rng: np.random.Generator) -> tuple[Any, Split]:
    """Some rows of a split, drawn by class, numbered anew."""
    train, held = (_drawn(sample, rows, most, rng) for rows, most in ((split.train, FEW_TRAIN), (split.held, FEW_HELD)))
    rows = np.concatenate([train, held])
    return sample.select(rows), Split(np.arange(len(train)), np.arange(len(train), len(rows)))


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
    tried = {**asdict(replace(chosen, scaling=name)), "rows": sum(len(split.train) for _, split in parts)}
    results.add(tried, [mean_of_found(value) for value in best], time.perf_counter() - began)
    return np.concatenate(best)
