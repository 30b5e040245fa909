"""The checkpoint of an anchored fit: what was chosen, then the map after each round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from likewise.checkpoints import CheckpointFile
from likewise.core.kernels import Basis
from likewise.selection.search import Journal

__all__ = ["AnchoredCheckpoint", "Choice", "SavedRounds"]


class Choice(NamedTuple):
    """The settings chosen, and the seed of the landmarks and columns that go with them."""

    setting: dict[str, Any]
    seed: int


class AnchoredCheckpoint(CheckpointFile):
    """A file written when the settings are chosen and after each round.

    `mean` of the unit rows stands for all of them: settings chosen on others are refused.
    """

    def __init__(self, path: Any, facts: dict[str, Any], mean: np.ndarray) -> None:
        super().__init__(path, facts)
        self._mean = np.asarray(mean, dtype=np.float64)
        self._tensors: dict[str, np.ndarray] = {}
        self._card: dict[str, Any] = {}

    def choice(self, journal: Journal, choose: Callable[[], Choice]) -> Choice:
        """What the file says was chosen, with what was tried for it; or what `choose` finds, which is then kept."""
        found = self.read()
        if found is not None:
            self._tensors, self._card = found
            self.check_close(self._tensors["mean"], self._mean)
            journal.tried = self._card["tried"]
            return Choice(self._card["setting"], self._card["seed"])
        setting, seed = choose()
        self._card = {"setting": setting, "seed": seed, "tried": journal.tried, "rounds": 0}
        self._tensors = {"mean": self._mean}
        self.write(self._tensors, self._card)
        return Choice(setting, seed)

    def rounds(self, basis: Basis) -> SavedRounds:
        """The rounds done in an eigenbasis."""
        return SavedRounds(self, basis.V.sum(axis=1))

    def resume(self, FP: np.ndarray, basis: np.ndarray) -> tuple[np.ndarray, int]:
        """FᵀP of the last round in the file and its number; what is given if there is none."""
        done = int(self._card["rounds"])
        if not done:
            return FP, 0
        self.check_close(self._tensors["basis"], basis)
        return self._tensors["FP"], done

    def save(self, FP: np.ndarray, basis: np.ndarray, done: int) -> None:
        """Replace the file by one with FᵀP after `done` rounds."""
        self.write({"mean": self._mean, "FP": FP, "basis": basis}, {**self._card, "rounds": done})


@dataclass(frozen=True)
class SavedRounds:
    """FᵀP after each round, in one eigenbasis: a vector of it tells whether coordinates still mean the same."""

    checkpoint: AnchoredCheckpoint
    basis: np.ndarray

    def resume(self, FP: np.ndarray) -> tuple[np.ndarray, int]:
        """FᵀP to go on from, and how many rounds it has behind it."""
        return self.checkpoint.resume(FP, self.basis)

    def save(self, FP: np.ndarray, done: int) -> None:
        """Keep FᵀP after a round."""
        self.checkpoint.save(FP, self.basis, done)
