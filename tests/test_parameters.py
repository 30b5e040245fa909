"""Every constructor parameter of every model has a constraint, and nonsense is refused in one sentence at fit."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from sklearn.utils._param_validation import make_constraint

from likewise import SLR, RelevanceLearner, SimilarityLearner, SimilarityModel
from likewise import rivals as baselines
from likewise.learn.embedding_map import EmbeddingMap
from likewise.teach import Taught
from tests.planted import planted


class Nonsense:
    """No parameter takes this."""

    def __repr__(self) -> str:
        return "Nonsense()"


MODELS: list[type[SimilarityModel]] = [
    SLR,
    SimilarityLearner,
    RelevanceLearner,
    EmbeddingMap,
    Taught,
    *(getattr(baselines, name) for name in baselines.__all__),
]
CANDIDATES = [Nonsense(), "a wrong word", -1, -0.5, [Nonsense()]]

every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)


def constraints(model: type, name: str) -> list[Any]:
    return [make_constraint(kind) for kind in getattr(model, "_parameter_constraints", {}).get(name, [])]


def test_all_public_models_are_here() -> None:
    """A subclass that is neither listed nor private nor a mere base of another would go unchecked."""
    found, stack = set(), [SimilarityModel]
    while stack:
        model = stack.pop()
        below = [
            kind
            for kind in model.__subclasses__()
            if kind.__module__.startswith("likewise.") and not kind.__module__.startswith("likewise.paper")
        ]
        found |= set() if (below and model not in MODELS) or model.__name__.startswith("_") else {model}
        stack += below
    assert found == set(MODELS)


@every_model
def test_every_parameter_has_a_constraint_that_its_default_meets(model: type) -> None:
    for name, parameter in inspect.signature(model).parameters.items():
        assert constraints(model, name), name
        assert any(kind.is_satisfied_by(parameter.default) for kind in constraints(model, name)), name


def test_no_constraint_is_without_a_parameter() -> None:
    for model in MODELS:
        assert set(getattr(model, "_parameter_constraints", {})) <= set(inspect.signature(model).parameters), model


@every_model
def test_nonsense_is_refused_in_one_sentence_that_names_the_parameter(model: type) -> None:
    X, y = planted(30, 4, 3)
    for name in inspect.signature(model).parameters:
        allowed = constraints(model, name)
        wrong = [value for value in CANDIDATES if not any(kind.is_satisfied_by(value) for kind in allowed)]
        assert wrong, name
        for value in wrong:
            with pytest.raises(ValueError, match=rf"\b{name}\b") as caught:
                model(**{name: value}).fit(X, X if model is EmbeddingMap else y)
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", [model for model in MODELS if getattr(model, "_grids", {})], ids=lambda m: m.__name__)
def test_a_grid_holds_values_that_its_parameter_takes(model: type) -> None:
    X, y = planted(30, 4, 3)
    for name, grid in model._grids.items():  # type: ignore[attr-defined]
        for values in ((), (Nonsense(),), (-1,), np.array([0.5, -1.0])):
            with pytest.raises(ValueError, match=rf"^{grid} (is empty|holds ).*\b{name}\b"):
                model(**{grid: values}).fit(X, y)
