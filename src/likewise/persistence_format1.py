"""Files of format 1, where the attributes of a model inside a model had a prefix and stood beside the outer ones."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["nested"]

_BASES = {"lda": "LDA", "ridge": "RidgeOneHot", "logistic": "LogisticPosterior"}

Tensors = dict[str, np.ndarray]
Card = dict[str, Any]


def nested(tensors: Tensors, card: Card) -> tuple[Tensors, Card]:
    """Tensors and card as format 2 has them: the base of `Kernelised` and of `Taught` is a model of its own."""
    if card["class"] == "Kernelised":
        return _with_base(tensors, card, "base_", _kernelised_base(card["parameters"]))
    if card["class"] == "Taught":
        state = dict(card["state"])
        base = {"class": state.pop("base_class_"), "parameters": state.pop("base_parameters_")}
        return _with_base(tensors, {**card, "state": state}, "base_of_", base)
    return tensors, card


def _kernelised_base(parameters: dict[str, Any]) -> Card:
    return {
        "class": _BASES[parameters["base"]],
        "parameters": {"normalize": False, "random_state": parameters["random_state"]},
    }


def _with_base(tensors: Tensors, card: Card, prefix: str, base: Card) -> tuple[Tensors, Card]:
    """What starts with `prefix` belongs to `base`, which may hold a model itself."""
    its_tensors, its_card = nested(_inside(tensors, prefix), {**base, "state": _inside(card["state"], prefix)})
    moved = {f"base_.{name}": value for name, value in its_tensors.items()}
    state = _outside(card["state"], prefix)
    return _outside(tensors, prefix) | moved, {**card, "state": state, "models": {"base_": its_card}}


def _inside(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def _outside(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if not name.startswith(prefix)}
