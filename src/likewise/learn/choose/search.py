"""Scoring the settings of a map on held-out rows, and what a caller may fix."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from numbers import Real
from typing import Any

import numpy as np

from likewise.errors import LikewiseError
from likewise.evaluate.calibration import Calibration, ScoredPairs, held_out_pairs
from likewise.learn.choose.holdout import CVResults, Split, each_score, mean_of_found
from likewise.learn.maths.kernels import UnitRows
from likewise.learn.maths.preparation import Preparation
from likewise.learn.maths.setting import Head, Setting
from likewise.utils.threads import ordered_map, single_threaded_blas
from likewise.utils.validation import Interval, StrOptions

SCALINGS = ("unit", "roots", "standard")
WIDTHS = {"auto": (0.0, 2.0, 1.0, 4.0), "linear": (0.0,), "rbf": (2.0, 1.0, 4.0)}  # of a kernel at full resolution
FEW_LANDMARK_WIDTHS = {"auto": (0.0, 0.5, 1.0, 2.0), "linear": (0.0,), "rbf": (0.5, 1.0, 2.0)}
RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
FEW_RIDGES = (0.01, 0.1, 1.0)
KERNEL_RIDGES = (0.1, 0.01, 0.3)
ADAPTING = ((1.0, 1.0), (1.0, 3.0), (0.5, 1.0), (0.5, 3.0), (0.0, 1.0))  # (s, κ)
TEMPERATURES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
BESIDE = (0.3, 0.1, 0.05, 0.02)  # weights of the raw cosine
COSTS_NOTHING = 0.001  # of mAP
CLEARLY = 0.003  # of mAP
FAR_BELOW = 0.1  # of mAP: a plain cosine so far behind is not tried


FIXED = {
    "ridge": Interval(Real, 0, None, closed="neither"),
    "geometry": StrOptions({"one-hot", "lda"}),
    "pull": Interval(Real, 0, None, closed="left"),
    "confidence": Interval(Real, 0, None, closed="left"),
    "width": Interval(Real, 0, None, closed="left"),
    "temperature": Interval(Real, 0, None, closed="neither"),
    "raw_weight": Interval(Real, 0, None, closed="left"),
}
ANCHORED = ("geometry", "pull", "confidence")  # settings that a kernel at full resolution does not have


def checked_fixed(fixed: dict[str, Any] | None) -> dict[str, Any]:
    """Settings that are not to be chosen, by the names users know, each of them valid."""
    given = {name: value for name, value in (fixed or {}).items() if value is not None}
    for name, value in given.items():
        if name not in FIXED or not FIXED[name].is_satisfied_by(value):
            expected = str(FIXED[name]) if name in FIXED else f"one of {', '.join(FIXED)}"
            raise LikewiseError(f"fixed={{{name!r}: {value!r}}}: expected {expected}")
    return given


MOST_REPEATED = 20  # times the rows: repeated more often, they would take the memory of that many


@dataclass(frozen=True)
class Options:
    """What the caller has decided: which kernels and scaling to try, whether a posterior, and `fixed` settings."""

    kernel: str = "auto"
    scaling: str = "auto"
    posterior: bool = False
    fixed: dict[str, Any] = field(default_factory=dict)

    def widths(self, full_resolution: bool) -> tuple[float, ...]:
        """Widths of the kernel to try, the most likely one first; 0 is the linear map."""
        if "width" in self.fixed:
            return (self.fixed["width"],)
        return (WIDTHS if full_resolution else FEW_LANDMARK_WIDTHS)[self.kernel]

    @property
    def first_scaling(self) -> str:
        """The scaling that was asked for, or the one that any other has to beat."""
        return "unit" if self.scaling == "auto" else self.scaling

    @property
    def beside(self) -> float | None:
        """The weight of the raw cosine, None where it is to be chosen."""
        return self.fixed.get("raw_weight")

    def settings(self) -> dict[str, Any]:
        """The settings that are not to be chosen, by the names of `Setting`."""
        elsewhere = ("width", "geometry", "raw_weight")
        given = {name: value for name, value in self.fixed.items() if name not in elsewhere}
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
        self.rows = round(float(np.mean([len(split.train) for split in splits])))  # that each split learns from
        self._width, self._folds = -1.0, list[_Fold]()

    def score(self, setting: Setting) -> float:
        """Mean over the splits of the mAP of held-out rows; a setting is not tried twice."""
        self._try([setting])
        known = self.results.score(self._tried(setting))
        return known if known is not None and np.isfinite(known) else -np.inf

    def best(self, settings: Iterable[Setting], first: Setting | None = None) -> Setting:
        """The setting with the highest score; `first` has to be beaten. Those of one width are tried side by side."""
        candidates = [*([] if first is None else [first]), *settings]
        for _, together in groupby(candidates, key=lambda setting: setting.width):
            self._try(list(together))
        return max(candidates, key=self.score)

    def average_precisions(self, setting: Setting) -> list[np.ndarray]:
        """What `score` is the mean of, for each split: every held-out row, nan where there is nothing to find."""
        return [fold.average_precisions(setting) for fold in self._at(setting.width)]

    def calibration(self, setting: Setting, held: Iterable[np.ndarray]) -> Calibration | None:
        """What the scores of a setting mean; `held` are rows that each split has not learned from."""
        folds = zip(self._at(setting.width), held, strict=True)
        return Calibration.measured(fold.pairs(setting, rows) for fold, rows in folds)

    def few_landmarks(self) -> Search:
        """The same search where memory holds no kernel of the rows learned from, and landmarks stand for them."""
        n = min(len(split.train) for split in self.splits)
        memory = min(self.prepare.memory, 4 * n * max(n, self.unit.engine.shape[1]) - 1)
        prepare = replace(self.prepare, memory=memory)
        return Search(self.unit, self.splits, prepare, CVResults(), self.on_score)

    def _tried(self, setting: Setting) -> dict[str, Any]:
        return {**asdict(setting), "rows": self.rows}

    def _try(self, settings: list[Setting]) -> None:
        """Score those settings, all of one width, that have not been tried."""
        fresh = [setting for setting in dict.fromkeys(settings) if self.results.score(self._tried(setting)) is None]
        if not fresh:
            return
        self._at(fresh[0].width)  # by all BLAS threads
        # One BLAS thread where products are small: between them others would spin on our own threads' cores.
        small = len(fresh) > 1 or not self.prepare.full_resolution(fresh[0].width)
        with single_threaded_blas() if small else nullcontext():
            for setting, (values, seconds) in zip(fresh, ordered_map(self._timed, fresh), strict=True):
                self.results.add(self._tried(setting), values, seconds)
                self.on_score()

    def _timed(self, setting: Setting) -> tuple[list[float], float]:
        began = time.perf_counter()
        try:
            values = [mean_of_found(each) for each in self.average_precisions(setting)]
        except np.linalg.LinAlgError:  # a setting that has no map in floating point drops out
            values = [np.nan] * len(self.splits)
        return values, time.perf_counter() - began

    def _at(self, width: float) -> list[_Fold]:
        """The splits prepared for a kernel width; one width is kept."""
        if width != self._width:
            self._folds = []
            self._folds = [_Fold(self.unit, split, self.prepare, width) for split in self.splits]
            self._width = width
        return self._folds


class _Fold:
    """One split at one kernel width: a regression of its training rows, and held-out rows in the same coordinates."""

    def __init__(self, unit: UnitRows, split: Split, prepare: Preparation, width: float) -> None:
        self.unit, self.split, self.prepare = unit, split, prepare
        self.regression = prepare(unit.part(split.train), width)
        self.held = self.regression.encode(unit.engine.X[split.held])
        self._learned: tuple[Setting | None, Any] = (None, None)

    def average_precisions(self, setting: Setting) -> np.ndarray:
        """Average precision of each held-out row."""
        head = self._head(setting)
        Z, codes = self._repeated(self._images(setting, head, self.held, self.split.held), self.split.held)
        if np.all(np.bincount(codes)[codes] > 1):
            return each_score(Z, codes, Z[:0], codes[:0])
        return each_score(Z, codes, *self._repeated(self._learned_images(setting, head), self._learned_rows))

    def pairs(self, setting: Setting, held: np.ndarray) -> dict[int, ScoredPairs]:
        """Scores of held-out rows with each other and with the rows learned from."""
        head, codes = self._head(setting), self.unit.engine.row_codes
        Z = self._images(setting, head, self.regression.encode(self._rows(held)), held)
        learned = self._learned_images(setting, head)
        return held_out_pairs((Z, Z), codes[held], learned, codes[self._learned_rows])

    def _head(self, setting: Setting) -> Head:
        directions = self.prepare.raw_directions(self.unit) if setting.beside else None  # these need no labels
        return setting.head(self._map(setting), directions)

    def _images(self, setting: Setting, head: Head, encoded: Any, rows: np.ndarray) -> np.ndarray:
        L = self._map(setting).L.astype(encoded.dtype)
        return head(encoded @ L, lambda: self.regression.unit.centred(self._rows(rows)))

    def _learned_images(self, setting: Setting, head: Head) -> np.ndarray:
        rows = self._learned_rows
        return head(self._map(setting).images(), lambda: self.regression.unit.centred(self._rows(rows)))

    @property
    def _learned_rows(self) -> np.ndarray:
        """Rows of the images of a map, in its order."""
        return self.split.train[self.regression.unit.engine.order]

    def _map(self, setting: Setting) -> Any:
        """The map of a setting; settings that differ in their head alone share it."""
        bare, last = Setting(setting.width, setting.ridge, setting.lda, setting.pull, setting.confidence), self._learned
        if last[0] != bare:
            last = self._learned = bare, self.regression.learn(bare)
        return last[1]

    def _rows(self, rows: np.ndarray) -> Any:
        return self.unit.engine.X[rows]

    def _repeated(self, Z: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A weight means repetition here too, where it is a whole number."""
        weights, codes = self.unit.engine.row_weights, self.unit.engine.row_codes[rows]
        if weights is None or not np.array_equal(weights, np.rint(weights)):
            return Z, codes
        times = weights[rows].astype(int)
        if times.sum() > MOST_REPEATED * len(rows):
            return Z, codes
        return Z.repeat(times, axis=0), codes.repeat(times)
