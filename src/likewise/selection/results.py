"""The record of a search over settings, in the layout of scikit-learn's `cv_results_`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import rankdata

__all__ = ["CVResults"]

Record = dict[str, Any]
"""One setting: its "params", the "scores" of the splits and the "seconds" they took, all plain JSON values."""


@dataclass
class CVResults:
    """Settings tried, with a score for each split; nan where a split had nothing to score.

    `records` are plain values, so that a checkpoint can hold them: `CVResults(records)` continues from there.

    Examples
    --------
    >>> tried = CVResults()
    >>> tried.add({"alpha": 0.1}, [0.50, 0.70])
    0.6
    >>> tried.add({"alpha": 1.0}, [0.75, 0.75])
    0.75
    >>> tried.best_params
    {'alpha': 1.0}
    >>> tried.as_dict()["rank_test_score"].tolist()
    [2, 1]
    """

    records: list[Record] = field(default_factory=list)

    def add(self, params: dict[str, Any], split_scores: Sequence[float], seconds: float | None = None) -> float:
        """Record one setting and return its mean score; `seconds` is the time for all of its splits."""
        scores = [float(score) for score in split_scores]
        self.records.append({"params": params, "scores": scores, "seconds": seconds})
        return _mean(scores)

    def extend(self, results: dict[str, Any], **params: Any) -> float:
        """Add what another search tried (its `as_dict()`), each setting with further `params`; its best mean score."""
        splits = [results[name] for name in results if name.startswith("split")]
        times = results.get("mean_fit_time", [None] * len(results["params"]))
        for i, setting in enumerate(results["params"]):
            seconds = None if times[i] is None else float(times[i]) * max(1, len(splits))
            self.add({**params, **setting}, [column[i] for column in splits], seconds)
        return CVResults(self.records[len(self) - len(times) :]).best_score

    def score(self, params: dict[str, Any]) -> float | None:
        """The mean score of a setting; None if it has not been tried."""
        return next((_mean(record["scores"]) for record in self.records if record["params"] == params), None)

    def as_dict(self) -> dict[str, Any]:
        """The schema of scikit-learn's `cv_results_`; `mean_fit_time` includes the scoring."""
        scores, means = self._split_scores(), self._means()
        columns: dict[str, Any] = {
            "params": [record["params"] for record in self.records],
            **{f"split{i}_test_score": column for i, column in enumerate(scores.T)},
            "mean_test_score": means,
            "std_test_score": np.array([_std(record["scores"]) for record in self.records]),
            "rank_test_score": rankdata(-np.nan_to_num(means, nan=-np.inf), method="min").astype(np.int32),
        }
        times = self._fit_times()
        return columns if np.isnan(times).all() else {**columns, "mean_fit_time": times}

    @property
    def best_score(self) -> float:
        """The highest mean score; nan if nothing was scored."""
        means = self._means()
        return float(np.nanmax(means)) if np.isfinite(means).any() else float("nan")

    @property
    def best_params(self) -> dict[str, Any]:
        """The setting with the highest mean score; the first of equals, and the first if nothing was scored."""
        return dict(self.records[int(np.argmax(np.nan_to_num(self._means(), nan=-np.inf)))]["params"])

    def __len__(self) -> int:
        return len(self.records)

    def _means(self) -> np.ndarray:
        return np.array([_mean(record["scores"]) for record in self.records])

    def _split_scores(self) -> np.ndarray:
        """(settings, splits); nan where a setting was tried on fewer splits than others."""
        width = max((len(record["scores"]) for record in self.records), default=0)
        return np.array([record["scores"] + [np.nan] * (width - len(record["scores"])) for record in self.records])

    def _fit_times(self) -> np.ndarray:
        pairs = [(record["seconds"], max(1, len(record["scores"]))) for record in self.records]
        return np.array([np.nan if seconds is None else seconds / splits for seconds, splits in pairs])


def _scored(scores: list[float]) -> np.ndarray:
    values = np.array(scores, dtype=np.float64)
    return values[np.isfinite(values)]


def _mean(scores: list[float]) -> float:
    values = _scored(scores)
    return float(values.mean()) if len(values) else float("nan")


def _std(scores: list[float]) -> float:
    values = _scored(scores)
    return float(values.std()) if len(values) else float("nan")
