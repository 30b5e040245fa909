"""Checkpoint files: the last iteration of a fit or the settings it chose, and the facts that identify the fit."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import FileFormatError, LikewiseError
from likewise.learn.choose.anchored_search import Choice
from likewise.learn.choose.search import CVResults
from likewise.learn.maths.engine import Engine
from likewise.learn.maths.scatter import WhiteningMap
from likewise.learn.maths.solvers import Factors, Result
from likewise.learn.model_file import read_tensors, write_tensors
from likewise.utils.arrays import dense

_NOT_COMPARED = ("max_iter", "verbose", "random_state")
_SAMPLED_ROWS = 64
_FIELDS: dict[str, tuple[type, ...]] = {
    "setting": (dict,), "seed": (int,), "tried": (list,), "held_out": (dict, type(None)),
    "calibration": (dict, type(None)),
}  # fmt: skip
LARGEST = 1e30  # squares of larger numbers overflow in float32 ; no factor has any


class CheckpointFile:
    """A file that belongs to one fit, identified by its parameters, labels and rows (`facts_of`)."""

    def __init__(self, path: Path, facts: dict[str, Any]) -> None:
        self.path, self.facts = path, facts

    def read(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """Tensors and card of the file, or None if it does not exist; raises if it belongs to another fit."""
        if not self.path.exists():
            return None
        tensors, card = read_tensors(self.path)
        facts = card.get("facts")
        if not isinstance(facts, dict):
            raise LikewiseError(f"checkpoint={str(self.path)!r} is a likewise file, but not a checkpoint")
        for name, value in self.facts.items():
            if facts.get(name) != value:
                raise self.other(f"{name} was {_short(facts.get(name))} and is {_short(value)} now")
        return tensors, card

    def write(self, tensors: dict[str, np.ndarray], card: dict[str, Any]) -> None:
        write_tensors(self.path, tensors, {"facts": self.facts, **card})

    def check_close(self, then: np.ndarray, now: np.ndarray) -> None:
        """Raise if a vector computed from all rows has changed; rounding may differ between machines."""
        if then.shape != now.shape or not np.allclose(then, now, rtol=0.0, atol=1e-5 * float(np.abs(now).max())):
            raise self.other("the rows of X were others")

    def tensor(self, tensors: dict[str, np.ndarray], name: str) -> np.ndarray:
        """A tensor of the file, which must be there and hold numbers that can be computed with."""
        tensor = tensors.get(name)
        if tensor is None or tensor.dtype.kind != "f" or not np.all(np.abs(tensor) < LARGEST):
            raise self.damaged(name)
        return tensor

    def damaged(self, field: str) -> LikewiseError:
        name = str(self.path)
        return FileFormatError(f"checkpoint={name!r} is damaged in {field!r}: delete it, or name another file")

    def other(self, why: str) -> LikewiseError:
        name = str(self.path)
        return LikewiseError(f"checkpoint={name!r} belongs to another fit: {why}; delete it or name another file")


class Checkpoint(CheckpointFile):
    """The last iteration of one fit of `SLR`: its `SavedIterations`."""

    def __init__(self, path: Path, model: Any, engine: Engine, rng: np.random.Generator) -> None:
        super().__init__(path, {})
        self.model, self.engine, self.rng = model, engine, rng
        self.whitening = np.zeros(0)

    def begin(self, whitening: WhiteningMap) -> None:
        self.facts = facts_of(self.model, self.engine, self.rng)
        # The sum of its columns identifies the map, and with it all rows: factors mean nothing under another whitening.
        self.whitening = whitening.W.sum(axis=1)

    def resume(self, start: Factors) -> Result:
        """The iterations of the file if there is one, with the generator as it was; else none, and `start`."""
        content = self.read()
        if content is None:
            return Result(start)
        tensors, card = content
        A, B, whitening = (self.tensor(tensors, name) for name in ("A", "B", "whitening"))
        self.check_close(whitening, self.whitening)
        history = card.get("history")
        if not isinstance(history, list) or not all(
            isinstance(record, dict) and isinstance(record.get("loss"), int | float) for record in history
        ):
            raise self.damaged("history")
        if len(history) > self.model.max_iter:
            raise self.other(f"{len(history)} iterations are done, and max_iter={self.model.max_iter} asks for fewer")
        for name, now, then in (("A", start.A, A), ("B", start.B, B)):
            if then.shape[:1] != now.shape[:1] or then.ndim != now.ndim:
                raise self.damaged(name)
        try:
            self.rng.bit_generator.state = card["generator"]
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise self.damaged("generator") from error
        return Result(Factors(A, B), history)

    def save(self, result: Result) -> None:
        tensors = {"A": result.factors.A, "B": result.factors.B, "whitening": self.whitening}
        self.write(tensors, {"history": result.history, "generator": self.rng.bit_generator.state})


class SavedChoice(CheckpointFile):
    """A file with the settings that a fit of `SimilarityLearner` chose.

    The `mean` of the unit rows identifies them: settings chosen on other rows are refused.
    """

    def __init__(self, path: Path, facts: dict[str, Any], mean: np.ndarray) -> None:
        super().__init__(path, facts)
        self._mean = np.asarray(mean, dtype=np.float64)

    def choice(self) -> Choice | None:
        """What an existing file says was chosen; None if there is none."""
        content = self.read()
        if content is None:
            return None
        tensors, card = content
        self.check_close(self.tensor(tensors, "mean"), self._mean)
        for field, kinds in _FIELDS.items():
            if not isinstance(card.get(field, ...), kinds) or isinstance(card[field], bool):
                raise self.damaged(field)
        return Choice(card["setting"], card["seed"], CVResults(card["tried"]), card["held_out"], card["calibration"])

    def keep(self, choice: Choice) -> None:
        """Write what was chosen."""
        card = {"setting": choice.setting, "seed": choice.seed, "tried": choice.results.records}
        self.write({"mean": self._mean}, {**card, "held_out": choice.held_out, "calibration": choice.calibration})


def facts_of(model: Any, engine: Engine, rng: np.random.Generator) -> dict[str, Any]:
    """What must be the same for a fit to be resumed, in plain JSON."""
    n = engine.shape[0]
    sampled = engine.take(np.unique(np.linspace(0, n - 1, _SAMPLED_ROWS).astype(int))).rows(slice(None))
    return {
        "method": type(model).__name__,
        **_parameters(model),
        "shape of X": list(engine.shape),
        "dtype": engine.dtype.name,
        "labels": _digest(np.bincount(engine.codes, engine.weights)),
        "sampled rows of X": _digest(dense(sampled)),
        "random_state": _digest(np.frombuffer(repr(rng.bit_generator.state).encode(), dtype=np.uint8)),
    }


def _parameters(model: Any) -> dict[str, Any]:
    """Parameters that a checkpoint depends on; each entry of `settings` counts as one."""
    parameters = model.get_params(deep=False)
    settings = parameters.pop("settings", None) or {}
    parameters |= {f"settings: {name}": value for name, value in settings.items()}
    return {name: _plain(value) for name, value in parameters.items() if name not in _NOT_COMPARED}


def _plain(value: Any) -> Any:
    """A parameter as JSON: an array by a digest of its content, anything else that JSON lacks by its repr."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _digest(value)
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | None) else repr(value)


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def _short(value: Any) -> str:
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 else text
