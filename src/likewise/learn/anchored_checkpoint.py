"""The checkpoint of an anchored fit: what was chosen, then the map after each round."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

import likewise
from likewise.learn.checkpoints import CheckpointFile
from likewise.learn.choose.anchored_search import Choice
from likewise.learn.choose.search import CVResults
from likewise.learn.engines.partial_sums import PartialSums

_FIELDS: dict[str, tuple[type, ...]] = {
    "setting": (dict,), "seed": (int,), "tried": (list,), "held_out": (dict, type(None)), "rounds": (int,),
    "calibration": (dict, type(None)),
}  # fmt: skip


class AnchoredCheckpoint(CheckpointFile):
    """A file written when the settings are chosen and after each round.

    `mean` of the unit rows stands for all of them: settings chosen on other rows are refused. A vector of the
    eigenbasis tells whether coordinates still mean the same.
    """

    def __init__(self, path: Path, facts: dict[str, Any], mean: np.ndarray) -> None:
        super().__init__(path, facts)
        self._tensors: dict[str, np.ndarray] = {"mean": np.asarray(mean, dtype=np.float64)}
        self._card: dict[str, Any] = {}

    def choice(self) -> Choice | None:
        """What an existing file says was chosen; None if there is none."""
        found = self.read()
        if found is None:
            return None
        self.check_close(self.tensor(found[0], "mean"), self._tensors["mean"])
        for field, kinds in _FIELDS.items():
            if not isinstance(found[1].get(field, ...), kinds) or isinstance(found[1][field], bool):
                raise self.damaged(field)
        self._tensors, self._card = found
        results, kept = CVResults(self._card["tried"]), (self._card["held_out"], self._card["calibration"])
        return Choice(self._card["setting"], self._card["seed"], results, *kept)

    def keep(self, choice: Choice) -> None:
        """Write what was chosen."""
        card = {"setting": choice.setting, "seed": choice.seed, "tried": choice.results.records}
        self._card = {**card, "held_out": choice.held_out, "calibration": choice.calibration, "rounds": 0}
        self.write(self._tensors, self._card)

    def sums(self, memory_limit: int) -> PartialSums:
        """The file beside this one for the sums of a pass, in blocks that the limit allows."""
        about = [self.facts, self._card["setting"], self._card["seed"], memory_limit, likewise.__version__]
        key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        return PartialSums(self.path.with_name(f"{self.path.name}.sums"), key)

    def rounds_of(self, V: np.ndarray) -> AnchoredCheckpoint:
        """The rounds in an eigenbasis V."""
        self._basis = V.sum(axis=1)
        return self

    def resume(self, FP: np.ndarray) -> tuple[np.ndarray, int]:
        """FᵀP of the last round in the file and its number; what is given if there is none."""
        done = int(self._card["rounds"])
        if not done:
            return FP, 0
        self.check_close(self.tensor(self._tensors, "basis"), self._basis)
        if self.tensor(self._tensors, "FP").shape != FP.shape:
            raise self.damaged("FP")
        return self._tensors["FP"], done

    def save(self, FP: np.ndarray, done: int) -> None:
        """Replace the file by one with FᵀP after `done` rounds."""
        tensors = {"mean": self._tensors["mean"], "FP": FP, "basis": self._basis}
        self.write(tensors, {**self._card, "rounds": done})
