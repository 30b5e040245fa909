"""Choosing the settings of a map on held-out rows: scaling, kernel or linear map, ridge, how far to adapt, the head.

How rows enter a map is settled first. The direction of a row is what embeddings, pixels and text mean. Signed roots of
the columns help counts and histograms a little. Standardised columns are for tables, whose largest columns hide all
others from the direction: standardising is worth ten points there, and costs as much where the large columns are those
that matter. So either has to win clearly, on some of the rows, without adapting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from likewise.evaluate.calibration import Calibration, ScoredPairs, held_out_pairs
from likewise.learn.choose.search import CVResults, Search, Split, each_score, mean_interval, mean_of_found, row_splits
from likewise.learn.maths.engine import Engine, MemoryEngine
from likewise.learn.maths.kernels import Scaling, UnitRows, compact, scaling_of
from likewise.learn.maths.labels import draw_landmarks
from likewise.learn.maths.regressions import RegressionFactory
from likewise.learn.maths.setting import SCALINGS, LearnedMap, Setting, joined
from likewise.utils.arrays import unit_rows
from likewise.utils.threads import ordered_map, single_threaded_blas

GAMMAS = {"auto": (0.0, 2.0, 1.0, 4.0), "linear": (0.0,), "rbf": (2.0, 1.0, 4.0)}  # of a kernel at full resolution
FEW_LANDMARK_GAMMAS = {"auto": (0.0, 0.5, 1.0, 2.0), "linear": (0.0,), "rbf": (0.5, 1.0, 2.0)}
RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
FEW_RIDGES = (0.01, 0.1, 1.0)
KERNEL_RIDGES = (0.1, 0.01, 0.3)
ADAPTING = ((1.0, 1.0), (1.0, 3.0), (0.5, 1.0), (0.5, 3.0), (0.0, 1.0))  # (s, κ)
TEMPERATURES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
SHARES = tuple(1 / (1 + w) for w in (0.3, 0.1, 0.05, 0.02))  # of the learned part: 1 / (1 + w) for a base of w
BIASES = (0.3, 1.0, 3.0)
COSTS_NOTHING = 0.001  # of mAP
CLEARLY = 0.003  # of mAP
FAR_BELOW = 0.1  # of mAP: a plain cosine or a kind of map so far behind is not tried further

MOST_TRAIN, MOST_HELD = 3_000, 1_000  # rows that adapt an anchored map, weigh the base part, and say what it is worth
MOST_CALIBRATING = 3_000  # rows that say what its scores mean: a cut-off holds for galleries of about so many or fewer
FEW_TRAIN, FEW_HELD = 1_200, 700  # rows that choose the scaling, whether a kernel, its ridge and its γ
FEWER_TRAIN, FEWER_HELD, FEWER_LANDMARKS = 500, 300, 400  # the same where maps are anchored, for the scaling alone
MOST_REPEATED = 20  # times the rows: repeated more often, they would take the memory of that many


@dataclass(frozen=True)
class SearchSpace:
    """What the caller has decided: which kernels and scaling to try, whether a posterior, and `fixed` settings."""

    kernel: str = "auto"
    scaling: str = "auto"
    posterior: bool = False
    fixed: dict[str, Any] = field(default_factory=dict)

    def gammas(self, full_resolution: bool) -> tuple[float, ...]:
        """γ of the kernels to try, the most likely one first; 0 is the linear map."""
        if "gamma" in self.fixed:
            return (self.fixed["gamma"],)
        return (GAMMAS if full_resolution else FEW_LANDMARK_GAMMAS)[self.kernel]

    @property
    def first_scaling(self) -> str:
        """The scaling asked for, or the one that any other has to beat."""
        return str(self.fixed.get("scaling", "unit" if self.scaling == "auto" else self.scaling))

    @property
    def chooses_scaling(self) -> bool:
        return self.scaling == "auto" and "scaling" not in self.fixed

    def settings(self) -> dict[str, Any]:
        """The settings of a map that are not to be chosen, with the first scaling; its share comes last."""
        names = self.fixed.keys() - {"gamma", "share", *(() if self.posterior else ("temperature",))}
        return {"scaling": self.first_scaling, **{name: self.fixed[name] for name in sorted(names)}}


class Choice(NamedTuple):
    """A setting chosen, and the seed of the landmarks and columns that go with it.

    `held_out` is what it is worth, `calibration` what its scores mean; None if nothing could be held out.
    """

    setting: dict[str, Any]
    seed: int
    results: CVResults
    held_out: dict[str, Any] | None = None
    calibration: dict[str, Any] | None = None


# -- Scoring one setting -----------------------------------------------------------------------------------------------


class MapSearch(Search[Setting, "_Fold"]):
    """Scores settings on the held-out rows of some splits; what settings share is computed once for each γ."""

    def __init__(
        self,
        unit: UnitRows,
        splits: list[Split],
        factory: RegressionFactory,
        results: CVResults,
        on_score: Callable[[], None] = lambda: None,
    ) -> None:
        self.unit, self.splits, self.factory = unit, splits, factory
        self.rows = round(float(np.mean([len(split.train) for split in splits])))  # that each split learns from
        self._prepared = dict[float, list[_Fold]]()
        super().__init__(_Fold.score, [], results, lambda setting: {**asdict(setting), "rows": self.rows}, on_score)

    def try_all(self, candidates: Sequence[Setting]) -> None:
        """Score those that have not been tried; settings of one γ are tried side by side."""
        for _, together in groupby(candidates, key=lambda setting: setting.gamma):
            super().try_all(list(together))

    def timed(self, candidates: list[Setting]) -> Iterator[tuple[list[float], float]]:  # type: ignore[override]
        """The scores of settings of one γ, in threads; one that has no map in floating point drops out."""
        folds = self._at(candidates[0].gamma)  # by all BLAS threads

        def timed(setting: Setting) -> tuple[list[float], float]:
            began = time.perf_counter()
            try:
                scores = [fold.score(setting) for fold in folds]
            except np.linalg.LinAlgError:
                scores = [np.nan] * len(self.splits)
            return scores, time.perf_counter() - began

        # One BLAS thread where products are small: BLAS threads would spin on the cores of ours.
        small = len(candidates) > 1 or not self.factory.full_resolution(candidates[0].gamma)
        with single_threaded_blas() if small else nullcontext():
            yield from ordered_map(timed, candidates)

    def average_precisions(self, setting: Setting) -> list[np.ndarray]:
        """For each split the average precision of every held-out row, nan where there is nothing to find."""
        return [fold.average_precisions(setting) for fold in self._at(setting.gamma)]

    def calibration(self, setting: Setting, held: Iterable[np.ndarray]) -> Calibration | None:
        """What the scores of a setting mean; `held` are rows that each split has not learned from."""
        folds = zip(self._at(setting.gamma), held, strict=True)
        return Calibration.measured(fold.pairs(setting, rows) for fold, rows in folds)

    def few_landmarks(self) -> MapSearch:
        """The same search where memory holds no kernel of the rows learned from, and landmarks represent them."""
        n = min(len(split.train) for split in self.splits)
        memory = min(self.factory.memory, 4 * n * max(n, self.unit.engine.shape[1]) - 1)
        factory = replace(self.factory, memory=memory)
        return MapSearch(self.unit, self.splits, factory, CVResults(), self.on_score)

    def _at(self, gamma: float) -> list[_Fold]:
        """The splits prepared for a γ; those of the linear map and of one kernel are kept."""
        if gamma not in self._prepared:
            self._prepared = {0.0: self._prepared[0.0]} if 0.0 in self._prepared else {}  # before more is allocated
            self._prepared[gamma] = [_Fold(self.unit, split, self.factory, gamma) for split in self.splits]
        return self._prepared[gamma]


class _Fold:
    """One split at one γ: a regression of its training rows, and held-out rows in the same coordinates."""

    def __init__(self, unit: UnitRows, split: Split, factory: RegressionFactory, gamma: float) -> None:
        self.unit, self.split, self.factory = unit, split, factory
        self.regression = factory(unit.part(split.train), gamma)
        self.held = self.regression.encode(unit.engine.X[split.held])
        self._learned: tuple[Setting | None, LearnedMap | None] = (None, None)

    def score(self, setting: Setting) -> float:
        return mean_of_found(self.average_precisions(setting))

    def average_precisions(self, setting: Setting) -> np.ndarray:
        """Average precision of each held-out row."""
        Z, codes = self._repeated(*self._vectors(setting, self.held, self.split.held))
        if np.all(np.bincount(codes)[codes] > 1):
            return each_score(Z, codes, Z[:0], codes[:0])
        return each_score(Z, codes, *self._repeated(*self._vectors(setting)))

    def pairs(self, setting: Setting, held: np.ndarray) -> dict[int, ScoredPairs]:
        """Scores of held-out rows with each other and with the rows learned from."""
        codes, encoded = self.unit.engine.row_codes, self.regression.encode(self.unit.engine.X[held])
        Z, (learned, rows) = self._vectors(setting, encoded, held)[0], self._vectors(setting)
        return held_out_pairs((Z, Z), codes[held], learned, codes[rows])

    def _vectors(
        self, setting: Setting, encoded: np.ndarray | None = None, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """What is searched of encoded rows, and the rows; None is those learned from. The base part needs no labels."""
        learned = self._map(setting)
        if encoded is None or rows is None:
            Z, rows = learned.images(), self.split.train[self.regression.unit.engine.order]
        else:
            Z = encoded @ learned.L.astype(encoded.dtype)
        z = setting.head(learned)(Z)
        if setting.share == 1:
            return z, rows
        base = self.factory.base_map(self.unit, setting.share)(self.unit.engine.X[rows])
        return (joined(setting.share, z, base) if setting.share else base), rows

    def _map(self, setting: Setting) -> LearnedMap:
        """The map of a setting; settings that differ in their head alone share it."""
        bare, learned = self._learned  # read once: settings are scored in threads
        if bare != setting.bare or learned is None:
            learned = self.regression.learn(setting.bare)
            self._learned = setting.bare, learned
        return learned

    def _repeated(self, Z: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A weight means repetition here too, where it is a whole number."""
        weights, codes = self.unit.engine.row_weights, self.unit.engine.row_codes[rows]
        if weights is None or not np.array_equal(weights, np.rint(weights)):
            return Z, codes
        times = weights[rows].astype(int)
        if times.sum() > MOST_REPEATED * len(rows):
            return Z, codes
        return Z.repeat(times, axis=0), codes.repeat(times)


# -- The order of choices ----------------------------------------------------------------------------------------------


def choose_setting(
    unit: UnitRows,
    splits: list[Split],
    space: SearchSpace,
    factory: RegressionFactory,
    results: CVResults,
    on_score: Callable[[], None] = lambda: None,
    n_rows: int = 0,
) -> Choice:
    """The setting that ranks held-out rows best; `n_rows` is how many rows there are, if these are some of them."""
    gammas = space.gammas(factory.n_landmarks is None)
    fixed = space.settings()
    splits = [split for split in splits if abs(unit.engine.X[split.train]).max() > 0]  # rows of zeros teach nothing
    if not splits:
        setting = Setting(**fixed, gamma=gammas[0], share=space.fixed.get("share", 1.0))
        return Choice(asdict(setting), factory.seed, results)
    few = Subsample(unit.source, splits, gammas, factory, results, on_score)
    if space.chooses_scaling:
        fixed["scaling"] = few.best_scaling(fixed)
    kernel, unit = None, unit.under(fixed["scaling"])
    if few.kernels:
        kernel = choose_kernel(few.search(fixed["scaling"]), gammas, space, fixed)
    if kernel is not None and 0.0 in gammas and not factory.holds_kernel((n_rows, unit.engine.shape[1])):
        kernel = carried_by_landmarks(MapSearch(unit, splits[:1], factory, results, on_score), kernel, fixed)
    rng = np.random.default_rng(factory.seed)
    held = [_drawn(unit.source, split.held, MOST_CALIBRATING, rng) for split in splits]
    splits = [_fewer(unit.source, split, MOST_TRAIN, MOST_HELD, rng) for split in splits]
    search = MapSearch(unit, splits, factory, results, on_score)
    if kernel is None:
        gammas = tuple(gamma for gamma in gammas if not factory.full_resolution(gamma))
    plain = raw_precisions(unit, splits)
    raw = mean_of_found(np.array([mean_of_found(each) for each in plain]))
    setting = choose_head(search, kernel or choose_anchored(search, gammas, space, fixed), space, fixed, raw)
    places = [split.held for split in splits]
    held_out: dict[str, Any] = {
        "mAP": search.score(setting),
        "mAP_interval": mean_interval(search.average_precisions(setting), places),
        "raw": raw,
        "raw_interval": mean_interval(plain, places),
        "rows": len(np.unique(np.concatenate(places))),
        "learned_from": search.rows,
        "splits": len(splits),
    }
    meaning = search.calibration(setting, held)
    if kernel is None and "ridge" not in fixed:
        # The refit on all rows needs less of a ridge, by the root of their number: an anchored map's ridge is in units
        # of the Gram matrix's mean eigenvalue, which grows with the rows by itself.
        fewer = np.sqrt(np.mean([len(split.train) for split in splits]) / unit.source.shape[0])
        setting = replace(setting, ridge=float(setting.ridge * fewer))
    worth = held_out if np.isfinite(held_out["mAP"]) else None
    return Choice(asdict(setting), factory.seed, results, worth, None if meaning is None else meaning.as_dict())


# -- The map ----------------------------------------------------------------------------------------------------------


def choose_kernel(
    search: MapSearch, gammas: tuple[float, ...], space: SearchSpace, fixed: dict[str, Any]
) -> Setting | None:
    """Ridge, then γ, of a kernel at full resolution; None if the linear map, where it may compete, is better."""
    start = Setting(**{**fixed, "adaptation": 0.0, "temperature": 0.0})
    first, *others = (gamma for gamma in gammas if gamma)
    kernel, linear = search.best(_kernels(start, first, fixed, KERNEL_RIDGES)), None
    if 0.0 in gammas:
        linear = search.best(unadapted(0.0, {"geometry": "one-hot", **fixed}, FEW_RIDGES[1:]))
        if search.score(kernel) < search.score(linear) - FAR_BELOW:
            return None  # a narrower or wider one of these is noise too, or as good as linear, but without adapting
    for other in others:  # the middle is best for many rows, unless another clearly is for few
        further = replace(kernel, gamma=other)
        while search.score(further) > search.score(kernel) + CLEARLY:
            kernel, further = further, replace(further, gamma=further.gamma * other / first)
    if linear is None or search.score(linear) < search.score(kernel) - FAR_BELOW:
        return kernel
    best = [kernel, search.best(unadapted(0.0, fixed, FEW_RIDGES), first=linear)]
    if space.posterior:
        best = [search.best(_heated(setting, fixed)) for setting in best]
    return kernel if search.score(best[0]) >= search.score(best[1]) else None


def carried_by_landmarks(search: MapSearch, kernel: Setting, fixed: dict[str, Any]) -> Setting | None:
    """The kernel if landmarks, which a narrow one may be too few for, rank better than a linear map; else None.

    A kernel chosen on a thousand rows has each of them as a landmark. Of more rows than memory holds a kernel for, few
    are, while a linear map gains by every row: so both learn from all rows at hand, a third of them landmarks.
    """
    few = search.few_landmarks()
    linear = few.best(setting for setting in unadapted(0.0, fixed, FEW_RIDGES) if setting.geometry == "one-hot")
    return kernel if few.score(kernel) >= few.score(linear) else None


def choose_anchored(search: MapSearch, gammas: tuple[float, ...], space: SearchSpace, fixed: dict[str, Any]) -> Setting:
    """γ, ridge and geometry without adapting; then how far to adapt; then twice the ridge.

    A γ that is best for the cosine need not be best for the posterior, which is not linear by itself.
    """
    start = search.best(setting for gamma in gammas for setting in unadapted(gamma, {"geometry": "one-hot", **fixed}))
    near = {start.ridge, *(ridge for ridge in RIDGES if 0.25 < ridge / start.ridge < 4)}
    start = search.best(unadapted(start.gamma, {"geometry": "lda", **fixed}, tuple(sorted(near))), first=start)
    if space.posterior and len(gammas) > 1:
        best = (search.best(unadapted(gamma, fixed)) for gamma in gammas)
        start = replace(search.best(heated for setting in best for heated in _heated(setting, fixed)), temperature=0.0)
    tried = () if fixed.get("adaptation", 1.0) == 0.0 else ADAPTING
    several = dict.fromkeys((fixed.get("trust", s), fixed.get("adaptation", k)) for s, k in tried)
    pairs = [replace(start, adaptation=adaptation, trust=trust) for trust, adaptation in several]
    adapted = search.best(pairs[:2], first=None if fixed.get("adaptation") else start)
    if adapted != start:  # else adapting does not pay, and less or more of it will not either
        adapted = search.best(pairs[2:], first=adapted)
    stiffer = [replace(adapted, ridge=2 * adapted.ridge)] if adapted.adaptation and "ridge" not in fixed else []
    return search.best(stiffer, first=adapted)


def unadapted(gamma: float, fixed: dict[str, Any], ridges: tuple[float, ...] = RIDGES) -> Iterator[Setting]:
    """Ridges and geometries of one γ, without adapting."""
    for ridge in _candidates(fixed, "ridge", ridges):
        for geometry in _candidates(fixed, "geometry", ("one-hot", "lda")):
            setting = Setting(**{**fixed, "ridge": ridge, "geometry": geometry})
            yield replace(setting, gamma=gamma, adaptation=0.0, temperature=0.0)


def _kernels(start: Setting, gamma: float, fixed: dict[str, Any], ridges: tuple[float, ...]) -> Iterator[Setting]:
    return (replace(start, gamma=gamma, ridge=ridge) for ridge in _candidates(fixed, "ridge", ridges))


def _candidates(fixed: dict[str, Any], name: str, otherwise: tuple[Any, ...]) -> tuple[Any, ...]:
    return (fixed[name],) if name in fixed else otherwise


# -- The head ----------------------------------------------------------------------------------------------------------


def choose_head(
    search: MapSearch, setting: Setting, space: SearchSpace, fixed: dict[str, Any], raw: float = np.inf
) -> Setting:
    """Of a chosen map: a second coordinate for two classes, the temperature of a posterior, and the share.

    The share is the smallest that costs nothing, or 0 if the base part is better alone. `raw` is the score of the plain
    cosine as the rows came, by which that is tried or not.
    """
    if search.unit.n_classes == 2 and "bias" not in fixed:
        setting = search.best(replace(setting, bias=c) for c in BIASES)
    if space.posterior:
        setting = search.best(_heated(setting, fixed))
    if "share" in space.fixed:
        return replace(setting, share=space.fixed["share"])
    least = search.score(setting) - COSTS_NOTHING
    if raw >= least - FAR_BELOW and search.score(replace(setting, share=0.0)) > search.score(setting):
        return replace(setting, share=0.0)
    shared = (replace(setting, share=share) for share in SHARES)
    return next((candidate for candidate in shared if search.score(candidate) >= least), setting)


def _heated(setting: Setting, fixed: dict[str, Any]) -> list[Setting]:
    return [replace(setting, temperature=t) for t in _candidates(fixed, "temperature", TEMPERATURES)]


# -- The scaling -------------------------------------------------------------------------------------------------------

ERRORS = {"unit": np.inf, "roots": 1.0, "standard": 1.5}  # standard errors by which it must gain, over queries


class Subsample:
    """Some rows of each split, drawn by class, under each scaling: what they choose needs no more."""

    def __init__(
        self,
        sample: MemoryEngine,
        splits: list[Split],
        gammas: tuple[float, ...],
        factory: RegressionFactory,
        results: CVResults,
        on_score: Callable[[], None] = lambda: None,
    ) -> None:
        self.kernels = [gamma for gamma in gammas if factory.full_resolution(gamma)]
        self.gammas = tuple(gamma for gamma in gammas if gamma in (0.0, 1.0)) or gammas
        if factory.n_landmarks is not None:
            factory = replace(factory, n_landmarks=min(factory.n_landmarks, FEWER_LANDMARKS))
        most = (FEW_TRAIN, FEW_HELD) if self.kernels else (FEWER_TRAIN, FEWER_HELD)
        rng = np.random.default_rng(factory.seed)
        few = [_fewer(sample, split, *most, rng) for split in splits]
        rows = np.unique(np.concatenate([part for split in few for part in (split.train, split.held)]))
        self.rows = sample.select(rows)
        self.splits = [Split(*(np.searchsorted(rows, part) for part in (split.train, split.held))) for split in few]
        self._searched = (factory, results, on_score)
        self._searches: dict[str, MapSearch] = {}

    def search(self, scaling: str) -> MapSearch:
        """The search under one scaling; what it has computed stays."""
        if scaling not in self._searches:
            unit = UnitRows(self.rows, scaling_of(self.rows, scaling))
            self._searches[scaling] = MapSearch(unit, self.splits, *self._searched)
        return self._searches[scaling]

    def best_scaling(self, fixed: dict[str, Any]) -> str:
        """Which scaling ranks held-out rows best at its best ridge; "unit" unless another clearly does."""
        names = [name for name in SCALINGS if name != "standard" or not sp.issparse(self.rows.X)]
        precisions = {}  # of each held-out row at the best setting under each scaling; nan with nothing to find
        for name in names:
            search = self.search(name)
            best_setting = search.best(self._settings({**fixed, "scaling": name, "temperature": 0.0}))
            precisions[name] = np.concatenate(search.average_precisions(best_setting))
        gains = {name: _standard_errors(each - precisions["unit"]) for name, each in precisions.items()}
        clear = [name for name in names if gains[name] > ERRORS[name]]
        best = max(clear, key=lambda name: mean_of_found(precisions[name]), default="unit")
        self._searches = {best: self._searches[best]}
        return best

    def _settings(self, fixed: dict[str, Any]) -> Iterator[Setting]:
        """Linear maps, and one kernel at full resolution, if there may be one, else some of few landmarks.

        A kernel alone would not do: where a few directions that say nothing dominate, all of its scores are noise.
        """
        linear = {"geometry": "one-hot", **fixed}
        if not self.kernels:
            return (setting for gamma in self.gammas for setting in unadapted(gamma, linear, FEW_RIDGES))
        kernels = _kernels(Setting(**{**fixed, "adaptation": 0.0}), self.kernels[0], fixed, KERNEL_RIDGES[:2])
        return chain(unadapted(0.0, linear, FEW_RIDGES[1:]) if 0.0 in self.gammas else (), kernels)


def _standard_errors(gain: np.ndarray) -> float:
    """The mean of some differences, in units of its standard error."""
    gain = gain[np.isfinite(gain)]
    return float(gain.sum() / max(gain.std() * np.sqrt(len(gain)), 1e-300)) if len(gain) else 0.0


def scaling_for(X: Any, codes: np.ndarray, n_classes: int, seed: int) -> Scaling:
    """The scaling that SimilarityLearner would choose for labelled rows, learned from all of them."""
    engine, splits = MemoryEngine(X, codes, n_classes), row_splits(codes, np.random.default_rng(seed))
    if not splits:
        return Scaling()
    few = Subsample(engine, splits, (0.0, 2.0), RegressionFactory(seed=seed), CVResults())
    return scaling_of(engine, few.best_scaling({}))


def _fewer(sample: Engine, split: Split, most_train: int, most_held: int, rng: np.random.Generator) -> Split:
    """Some rows of a split, drawn by class."""
    return Split(_drawn(sample, split.train, most_train, rng), _drawn(sample, split.held, most_held, rng))


def _drawn(sample: Engine, rows: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    if len(rows) <= most:
        return rows
    codes = sample.row_codes[rows]
    order = np.argsort(codes, kind="stable")
    return np.sort(rows[order[draw_landmarks(codes[order], sample.n_classes, most, rng)]])


# -- What it is worth --------------------------------------------------------------------------------------------------


def raw_precisions(unit: UnitRows, splits: list[Split]) -> list[np.ndarray]:
    """Average precisions of held-out rows by the cosine of the rows as they came, sparse ones in leading directions."""
    X, all_codes = unit.engine.X if sp.issparse(unit.source.X) else unit.source.X, unit.engine.row_codes
    scores = []
    for split in splits:
        held, codes = unit_rows(compact(X[split.held])), all_codes[split.held]
        alone = np.isin(all_codes[split.train], codes[np.bincount(codes)[codes] == 1])
        others = split.train[alone]  # those that rows alone in their class have to find, and as many more
        more = np.linspace(0, len(split.train) - 1, min(2 * len(others), len(split.train))).astype(int)
        others = np.union1d(others, split.train[more])  # spread over the classes, by which rows are sorted
        rows = unit_rows(compact(X[others])) if len(others) else held[:0]
        scores.append(each_score(held, codes, rows, all_codes[others]))
    return scores
