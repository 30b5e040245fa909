"""Where a fit goes on after it was stopped: the factors of the last iteration, and what they belong to."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from likewise.engines.contract import Engine
from likewise.errors import LikewiseError
from likewise.persistence import read_tensors, write_tensors
from likewise.starts import Start
from likewise.whitening import Whitening

__all__ = ["Checkpoint"]

_NOT_COMPARED = ("n_iter", "verbose", "memory_limit", "checkpoint", "random_state")
_SAMPLED_ROWS = 64


class Checkpoint:
    """A file with the last iterate of one fit, told from every other by its parameters, labels and rows."""

    def __init__(self, path: Any, model: Any, engine: Engine, whitening: Whitening, rng: np.random.Generator) -> None:
        self.path, self.model, self.rng = Path(path), model, rng
        self.facts = _facts(model, engine, rng)
        # One vector stands for the whole map, and so for all rows: factors mean nothing under another whitening.
        self.whitening = whitening.W.sum(axis=1)

    def resume(self, start: Start) -> Start:
        """The iterate of the file if there is one, with history and generator as they were; else `start`."""
        if not self.path.exists():
            return start
        tensors, card = read_tensors(self.path)
        self._check(tensors, card)
        self.model.history_, self.model.n_iter_ = card["history"], len(card["history"])
        self.rng.bit_generator.state = card["generator"]
        return Start(tensors["A"], tensors["B"])

    def save(self, latest: Start) -> None:
        """Replace the file by what the model has now."""
        tensors = {"A": latest.A, "B": latest.B, "whitening": self.whitening}
        generator = self.rng.bit_generator.state
        write_tensors(self.path, tensors, {"facts": self.facts, "history": self.model.history_, "generator": generator})

    def _check(self, tensors: dict[str, np.ndarray], card: dict[str, Any]) -> None:
        facts = card.get("facts")
        if facts is None or "A" not in tensors:
            raise LikewiseError(f"checkpoint={str(self.path)!r} is a likewise file, but no checkpoint")
        for name, value in self.facts.items():
            if facts.get(name) != value:
                raise self._other(f"{name} was {_short(facts.get(name))} and is {_short(value)} now")
        scale = float(np.abs(self.whitening).max())
        if not np.allclose(tensors["whitening"], self.whitening, rtol=0.0, atol=1e-5 * scale):
            raise self._other("the rows of X were others")
        if len(card["history"]) > self.model.n_iter:
            raise self._other(
                f"{len(card['history'])} iterations are done, and n_iter={self.model.n_iter} asks for fewer"
            )

    def _other(self, why: str) -> LikewiseError:
        return LikewiseError(
            f"checkpoint={str(self.path)!r} belongs to another fit: {why}; delete it or name another file"
        )


def _facts(model: Any, engine: Engine, rng: np.random.Generator) -> dict[str, Any]:
    """What must be the same for a fit to go on; all of it plain JSON."""
    parameters = {name: value for name, value in model.get_params(deep=False).items() if name not in _NOT_COMPARED}
    parameters = {name: list(v) if isinstance(v, tuple) else v for name, v in parameters.items()}
    n = engine.shape[0]
    sampled = engine.take(np.unique(np.linspace(0, n - 1, _SAMPLED_ROWS).astype(int))).rows(slice(None))
    return {
        **parameters,
        "shape of X": list(engine.shape),
        "dtype": engine.dtype.name,
        "labels": _digest(engine.codes.astype(np.int64), engine.weights),
        "sampled rows of X": _digest(sampled.toarray() if hasattr(sampled, "toarray") else sampled),
        "random_state": _digest(np.frombuffer(repr(rng.bit_generator.state).encode(), dtype=np.uint8)),
    }


def _digest(*arrays: np.ndarray | None) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(b"none" if array is None else np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _short(value: Any) -> str:
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 else text
