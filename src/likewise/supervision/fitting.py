"""`SLR.fit` on what is more, or less, than one label a row: two sides, known pairs, many labels, a prior."""

from __future__ import annotations

from typing import Any

from likewise.core.targets import LabelTarget
from likewise.data.rows import checked_options, is_out_of_core
from likewise.errors import LikewiseError
from likewise.supervision.learner import Learner
from likewise.supervision.learning import Learned, Prepared, learn, learn_from_prior
from likewise.supervision.lessons import Given, read
from likewise.supervision.prior import choose_strength
from likewise.utils.arrays import to_host

__all__ = ["fit_taught"]


def fit_taught(model: Learner, X: Any, y: Any, sample_weight: Any, gallery: Any, target: LabelTarget) -> None:
    """Fit `model` and set what it learned."""
    _check_parameters(model)
    if is_out_of_core(X) or is_out_of_core(gallery):
        raise LikewiseError(
            "X is not in memory: a relevance, many labels, unlabelled rows, a gallery or a prior need arrays; "
            "one label a row is learned from anywhere"
        )
    given = read(model, to_host(X), to_host(y), to_host(sample_weight), to_host(gallery))
    if model.prior is not None and given.X.shape[1] != given.gallery.shape[1]:
        raise LikewiseError(
            f"prior={model.prior!r} needs two sides of one width: "
            f"X has {given.X.shape[1]} columns and gallery {given.gallery.shape[1]}"
        )
    if given.classes is not None:
        model.classes_ = given.classes
    if model.prior is None:
        _store(model, given, learn(model, given, target))
        return
    prepared = Prepared.of(given, target)
    model.strength_ = choose_strength(model, prepared)
    _store(model, given, learn_from_prior(model, prepared, model.strength_))


def _check_parameters(model: Learner) -> None:
    """What is meant for one label a row has no meaning here, and a wish is not silently dropped."""
    options = checked_options(model.rows)
    given = {name: getattr(model, name) for name in ("compress", "acceleration", "whitening_width", "init")}
    for name, value in {**given, "device": options.get("device"), "tile_dtype": options.get("tile_dtype")}.items():
        usual = "fixed" if name == "init" else None
        if value != usual:
            raise LikewiseError(
                f"{name}={value!r} is for one label per row, every row labelled and no prior: leave it at {usual!r}"
            )
    if model.prior is not None and model.alpha:
        raise LikewiseError(
            f"alpha={model.alpha!r} has no meaning with a prior: prior_strength is the ridge towards it"
        )


def _store(model: Learner, given: Given, learned: Learned) -> None:
    """Set the attributes of a fitted model, for both sides or for one of them alone."""
    model.rank_, model.condition_, model.n_samples_ = learned.rank, learned.condition, given.X.shape[0]
    model.unit_rows_ = model.prior is not None and model.sides == "both"
    model.n_gallery_features_ = given.gallery.shape[1]
    if model.sides == "both":
        model._set_factors(*learned.factors(), given.X.dtype)
    else:
        model._set_one_side(learned.matrix(), given.X.dtype)
