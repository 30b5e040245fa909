"""Save and load models: one safetensors file with a JSON card inside, never pickle.

The tensors are the fitted arrays; the card holds everything else: class, constructor parameters, scalar and label
attributes, and what the model is: its id, its date, its source and the versions it was fitted with. A checksum covers
both. Nothing in a file depends on how long a fit took: equal fits of one day give equal bytes. A model inside a model,
as a parameter or as a fitted attribute, is written to the same file: its tensors as `name.tensor`, its own card under
`models`.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors
from sklearn.base import BaseEstimator

import likewise
from likewise.errors import FileFormatError, LikewiseError
from likewise.utils.files import StrPath, atomic_write

Tensors = dict[str, np.ndarray]
Card = dict[str, Any]

FORMAT = 2
_KEY = "likewise"
_MARK = "__ndarray__"
_MOST_BYTES = 1 << 28  # of an array in a card
_TIMES = frozenset({"seconds", "mean_fit_time"})  # of fits, which are not written
# Attributes that describe a fit, or how good it is, without changing a ranking.
_EVIDENCE = re.compile(
    r"(provenance|held_out|cv_results|history|calibration|training_rows|gate_rows|recall|novelty_\w+|n_samples)_"
)
_ASIDE = ("verbose", "random_state", "cv")  # parameters that matter during a fit only
_DTYPE = re.compile(r"[<>|=]?([?biufOS]|[biuf]\d{1,2}|[US]\d{1,9}|[mM]8(\[\w{1,4}\])?)")


def write_tensors(path: StrPath, tensors: Tensors, card: Card) -> Path:
    """Write `tensors` and a JSON `card` to one file, atomically, with a checksum over both."""
    tensors = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    # In ASCII: names of files may hold bytes that are not UTF-8, which a file of UTF-8 cannot hold as they are.
    text = json.dumps({"format": FORMAT, **card}, sort_keys=True)
    metadata = {_KEY: text, "sha256": _checksum(tensors, text)}
    return atomic_write(path, _ordered(to_safetensors(tensors, metadata)))


def _ordered(data: bytes) -> bytes:
    """The same file with sorted metadata: safetensors shuffles it, and equal models would differ in bytes."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    metadata = header.pop("__metadata__")
    header = {"__metadata__": dict(sorted(metadata.items())), **header}
    encoded = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    encoded += b" " * (-len(encoded) % 8)
    return len(encoded).to_bytes(8, "little") + encoded + data[end:]


def read_tensors(path: StrPath) -> tuple[Tensors, Card]:
    """Read what `write_tensors` wrote; anything else is a `FileFormatError`."""
    path = Path(path)
    if not path.is_file():
        raise LikewiseError(f"{path} does not exist" if not path.exists() else f"{path} is not a file")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, TypeError, ValueError, AttributeError, OverflowError, MemoryError) as error:
        raise FileFormatError(f"{path} is not a likewise file, or it is truncated: {error}") from error
    return tensors, _verified_card(path, tensors, metadata)


def is_model_file(path: StrPath) -> bool:
    """Whether this is a file that `write_tensors` wrote; its content is not verified."""
    try:
        with safe_open(path, framework="numpy") as file:
            return _KEY in (file.metadata() or {})
    except (SafetensorError, OSError, TypeError, ValueError):
        return False


def _verified_card(path: Path, tensors: Tensors, metadata: dict[str, str]) -> dict[str, Any]:
    if _KEY not in metadata:
        raise FileFormatError(f"{path} is a safetensors file, but not one that likewise wrote")
    if metadata.get("sha256") != _checksum(tensors, metadata[_KEY]):
        raise FileFormatError(f"{path} has been altered or damaged: its checksum does not match its content")
    try:
        card: Any = json.loads(metadata[_KEY])
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is damaged: its card is not JSON: {error!r}") from error
    if not isinstance(card, dict) or type(card.get("format")) is not int:
        raise FileFormatError(f"{path} is damaged: its card has no field 'format'")
    if card["format"] != FORMAT:
        raise FileFormatError(
            f"{path} has format {card['format']}; likewise {likewise.__version__} reads format {FORMAT}"
        )
    return card


def _checksum(tensors: Tensors, text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype.str} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()


# -- Classes by name: what a saved file names is imported when it is first needed -------------------------------------

# Where a class lives; one that is not listed is one of the rivals.
_HOMES = {
    "Cosine": "learn.cosine",
    "EmbeddingMap": "learn.embedding_map",
    "RelevanceLearner": "learn.relevance",
    "SLR": "learn.slr",
    "SimilarityLearner": "learn.similarity",
    "Taught": "teach.taught",
}
_CLASSES: dict[str, type] = {}


def register_model(model: type) -> None:
    """Remember a class by its name; every subclass of `SimilarityModel` is registered when it is defined."""
    earlier = _CLASSES.get(model.__name__, model)
    if not earlier.__module__.startswith("likewise.") or model.__module__.startswith("likewise."):
        _CLASSES[model.__name__] = model


def model_class(name: str) -> type | None:
    """The class of this name; None if there is none."""
    import_module(f"likewise.{_HOMES.get(name, 'rivals')}")
    return _CLASSES.get(name)


def save_model(model: Any, path: StrPath, metrics: dict[str, float] | None = None) -> Path:
    """Save a fitted estimator: its parameters and every attribute whose name ends with an underscore."""
    tensors, card = _packed(model)
    return write_tensors(path, tensors, {**card, "about": about(model), "metrics": metrics or {}})


def about(model: Any) -> Card:
    """What a model is, as plain values: id, date, source, classes, label column, seed and versions."""
    provenance = getattr(model, "provenance_", None) or getattr(getattr(model, "base_", None), "provenance_", {})
    classes, rows = getattr(model, "classes_", None), getattr(model, "training_rows_", None)
    seed = _plain_parameters(model).get("random_state")
    source = {
        "path": None,
        "rows": getattr(model, "n_samples_", None),
        "columns": getattr(model, "n_features_in_", None),
        "checksum": None if rows is None else f"rows:{hashlib.sha256(rows.tobytes()).hexdigest()}",
    }
    return {
        "id": identity(model),
        "class": type(model).__name__,
        "date": provenance.get("date"),
        "source": {**source, **provenance.get("source", {})},
        "classes": None if classes is None else len(classes),
        "label_column": provenance.get("label_column"),
        "seed": None if seed is None else int(seed),
        "versions": provenance.get("versions"),
    }


def identity(model: Any) -> str:
    """16 hexadecimal digits that are equal for models that rank equally: a hash of the fitted arrays and settings.

    Not of when, from which file and with which versions the model was fitted, nor of what was measured about it.
    """
    tensors, card = _packed(model, _EVIDENCE)
    return _checksum(tensors, json.dumps(card, sort_keys=True))[:16]


def load_model(path: StrPath, find: Callable[[str], type | None], expected: str) -> Any:
    """Rebuild what `save_model` wrote; `find` gives the class by its name, None if it is not `expected`."""
    tensors, card = read_tensors(path)
    name = card.get("class", "no model")
    kind = find(name) if isinstance(name, str) and name.isidentifier() else None
    if kind is None:
        raise FileFormatError(f"{path} holds {str(name)[:60]}, not {expected}")
    try:
        model = _unpacked(kind, tensors, card)
        facts = card.get("about", {})
        if facts.get("date") is not None:
            model.provenance_ = {name: facts[name] for name in ("date", "source", "label_column", "versions")}
        if hasattr(model, "_check_loaded"):
            model._check_loaded()
    except KeyError as error:
        raise FileFormatError(f"{path} is damaged: its card has no field {error}") from error
    except Exception as error:  # a card that somebody changed: whatever it leads to, the file is the reason
        reason = error if isinstance(error, LikewiseError) else repr(error)
        raise FileFormatError(f"{path} is damaged: its card does not fit {name}: {reason}") from error
    return model


def _packed(model: Any, without: re.Pattern[str] | None = None) -> tuple[Tensors, Card]:
    """Tensors and card of a model, those of the models inside it included; `without` names attributes to leave out."""
    parameters, state = _plain_parameters(model), vars(model)
    state = {name: value for name, value in state.items() if name.endswith("_") and not name.startswith("_")}
    state.pop("provenance_", None)  # it is part of what the card says about the model
    if without is not None:
        parameters = {name: value for name, value in parameters.items() if name not in _ASIDE}
        state = {name: value for name, value in state.items() if not without.fullmatch(name)}
    estimators = {name: value for name, value in {**parameters, **state}.items() if isinstance(value, BaseEstimator)}
    inner = {name: value for name, value in estimators.items() if model_class(type(value).__name__) is type(value)}
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    tensors = {name: value for name, value in arrays.items() if value.dtype.kind in "biuf" and value.ndim > 0}
    card: Card = {
        "class": type(model).__name__,
        "parameters": _to_json({name: value for name, value in parameters.items() if name not in inner}),
        "state": _to_json({name: value for name, value in state.items() if name not in inner | tensors}),
    }
    for name, value in inner.items():
        its_tensors, its_card = _packed(value, without)
        tensors |= {f"{name}.{key}": tensor for key, tensor in its_tensors.items()}
        card.setdefault("models", {})[name] = its_card
    return tensors, card


def _unpacked(kind: type, tensors: Tensors, card: Card) -> Any:
    for field in ("parameters", "state", "models"):
        if not isinstance(card.get(field, {}), dict):
            raise FileFormatError(f"the field {field!r} is {str(card[field])[:60]!r}: expected an object")
    inner = {name: _inner(name, tensors, part) for name, part in card.get("models", {}).items()}
    parameters = {name: value for name, value in inner.items() if not name.endswith("_")}
    model = kind(**_from_json(card["parameters"]), **parameters)
    arrays = {name: value for name, value in tensors.items() if "." not in name}
    fitted = {name: value for name, value in inner.items() if name.endswith("_")}
    for name, value in {**arrays, **_from_json(card["state"]), **fitted}.items():
        if not name.endswith("_") or name.startswith("_"):
            raise FileFormatError(f"unexpected attribute {name!r} in the model file")
        setattr(model, name, value)
    return model


def _inner(name: str, tensors: Tensors, card: Any) -> Any:
    """The model that the attribute `name` holds."""
    class_name = str(card.get("class") if isinstance(card, dict) else card)
    kind = model_class(class_name) if class_name.isidentifier() else None
    if kind is None:
        raise FileFormatError(f"the model in {name} is of class {class_name[:60]}, which is not known")
    start = f"{name}."
    inner = {key.removeprefix(start): t for key, t in tensors.items() if key.startswith(start)}
    return _unpacked(kind, inner, card)


def _plain_parameters(model: Any) -> dict[str, Any]:
    """Constructor parameters; a random generator cannot be written and becomes None."""
    parameters = model.get_params(deep=False)
    seed = parameters.get("random_state")
    if seed is not None and not isinstance(seed, int | np.integer):
        parameters["random_state"] = None
    return parameters


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "MS":  # dates as ISO text, bytes as the characters 0 … 255
        text = np.datetime_as_string(value) if value.dtype.kind == "M" else np.char.decode(value, "latin-1")
        return {_MARK: value.dtype.str, "values": text.tolist()}
    if isinstance(value, np.ndarray):
        return {_MARK: value.dtype.str, "values": [_to_json(item) for item in value.tolist()]}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items() if key not in _TIMES}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, str | int | float | bool | type(None)):
        return value
    raise LikewiseError(f"cannot save a value of type {type(value).__name__}: a model file holds arrays and plain JSON")


def _from_json(value: Any) -> Any:
    if isinstance(value, dict) and _MARK in value:
        return _array(value)
    if isinstance(value, dict):
        return {key: _from_json(item) for key, item in value.items()}
    return [_from_json(item) for item in value] if isinstance(value, list) else value


def _array(value: dict[str, Any]) -> np.ndarray:
    """An array of a card: text, numbers, dates or plain objects, one value per place."""
    name, values = value[_MARK], value["values"]
    if not isinstance(name, str) or not _DTYPE.fullmatch(name) or not isinstance(values, list):
        raise FileFormatError(f"unexpected array type {str(name)[:40]!r} in the card")
    dtype = np.dtype(name)
    if len(values) * dtype.itemsize > _MOST_BYTES:  # NumPy gives every text the size that the type claims
        raise FileFormatError(f"an array of {len(values):,} values of type {dtype} is too large for a card")
    return np.array([str(text).encode("latin-1", "replace") for text in values] if dtype.kind == "S" else values, dtype)
