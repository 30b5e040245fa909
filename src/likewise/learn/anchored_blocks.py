"""Learning an anchored map from blocks of rows: what is summed, and which settings can be.

The fixed solution hangs on the Gram matrix of the features and their sum per class, both of which add up as long as the
features of a row do not hang on other rows: unit rows themselves, or random features. Adapting compares pairs, and
choosing settings holds rows out: neither adds up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from likewise.errors import LikewiseError, UnavailableError
from likewise.learn.choose.search import checked_fixed
from likewise.learn.engines.memory import MemoryEngine
from likewise.learn.engines.running_sums import RunningSums, block_weights
from likewise.learn.maths.anchoring import FixedRegression
from likewise.learn.maths.kernels import Features, FeatureSums, gram_basis, squared_lengths
from likewise.learn.maths.labels import class_sums, distinct_labels, generator
from likewise.learn.maths.preparation import gram_directions, half_whitened
from likewise.learn.maths.random_features import RandomFeatures
from likewise.learn.maths.scaling import Scaling
from likewise.learn.maths.setting import Setting
from likewise.learn.maths.whitening import check_room, gram

RANDOM_FEATURES = 2_000  # unless kernel_size says otherwise
TWO_CLASSES = 1.0  # constant coordinate: the image of a row is a single number, whose cosine is only a sign


@dataclass(frozen=True)
class AnchoredSums(RunningSums):
    """Sums over features, and over unit rows for their centre and the raw part of a score."""

    added: ClassVar[tuple[str, ...]] = (*RunningSums.added, "unit_sum", "unit_squares", "unit_gram")

    unit_sum: np.ndarray  # (d,)
    unit_squares: float  # sum of squared lengths: the number of rows, but for zero ones
    unit_gram: np.ndarray  # (d, d); (0, 0) without a raw part, so that rows may be wide

    @classmethod
    def of_block(
        cls, X: Any, y: Any, sample_weight: Any, scaling: Scaling, features: Features, raw: bool
    ) -> AnchoredSums:
        """The sums of one block of rows."""
        width = max(features.width(X.shape[1]), X.shape[1] if raw else 0)
        check_room(width, (X.shape[0], width))
        (classes, codes), weights = distinct_labels(y), block_weights(X, sample_weight)
        unit, c = scaling(X), len(classes)
        engine = MemoryEngine(unit, codes, c, weights)
        G, sums = engine.sum(FeatureSums(None, features, c))
        unit_gram = np.zeros((0, 0)) if not raw else G if features.is_linear else gram(unit, weights)
        of_classes = classes, G, sums, np.bincount(codes, weights, minlength=c), int(np.count_nonzero(weights))
        unit_sum = class_sums(unit, np.zeros_like(codes), weights, 1)[0]
        return cls(*of_classes, unit_sum, float(weights @ squared_lengths(unit)), unit_gram)

    # -- what a regression asks of its rows ---------------------------------------------------------------------------

    @property
    def size(self) -> np.ndarray:
        """Weight of each class."""
        return self.class_weights

    @property
    def mean(self) -> np.ndarray:
        """Mean of the unit rows."""
        return self.unit_sum / self.size.sum()

    @property
    def mean_square_distance(self) -> float:
        """Over all pairs of unit rows."""
        return float(2 * (self.unit_squares / self.size.sum() - self.mean @ self.mean))

    @property
    def rms(self) -> float:
        """RMS length of the unit rows less their mean."""
        return float(np.sqrt(max(self.mean_square_distance / 2, 1e-12)))

    def regression(self, features: Features) -> FixedRegression:
        """The fixed regression of all rows seen."""
        mean = self.class_sums.sum(axis=0) / self.size.sum()
        basis = gram_basis(self.gram, mean, float(self.size.sum()), None)
        return FixedRegression(self, features, basis, self.class_sums @ basis.V - np.outer(self.size, basis.offset))

    def raw_directions(self, width: int | None) -> np.ndarray:
        """Leading directions of the raw part, half whitened."""
        if not len(self.unit_gram):
            raise LikewiseError("raw_weight in fixed was 0 while blocks were added: their raw part was not summed")
        scatter = self.unit_gram - self.size.sum() * np.outer(self.mean, self.mean)
        return half_whitened(*gram_directions(scatter, width or len(scatter)))


def block_setting(model: Any, n_classes: int = 0) -> Setting:
    """The setting of a model that learns from blocks; raises for what sums cannot give."""
    _check_shape(model)
    given = checked_fixed(model.fixed)
    needed = ["ridge", "geometry", "raw_weight", *(["gamma"] if model.kernel == "random" else [])]
    missing = [name for name in needed if name not in given]
    if missing:
        raise UnavailableError(f"partial_fit holds no rows out to choose {' and '.join(missing)} on: set them in fixed")
    if given.get("pull") != 0:
        raise UnavailableError("partial_fit cannot adapt, which compares all pairs: set pull to 0 in fixed")
    width = 1.0 if model.kernel == "random" else 0.0
    constant = TWO_CLASSES if n_classes == 2 else 0.0
    chosen = {"scaling": model.scaling, "beside": given["raw_weight"], "constant": constant}
    return Setting(width, given["ridge"], given["geometry"] == "lda", **chosen)


def _check_shape(model: Any) -> None:
    """Raise for parameters by which a model hangs on all rows at once."""
    for name, value, why in [
        ("unseen_classes", True, "is chosen on held-out classes"),
        ("output", "posterior", "needs the images of all rows"),
        ("kernel", "auto", "is chosen on held-out rows"),
        ("kernel", "rbf", "has rows as landmarks"),
        ("scaling", "auto", "is chosen on held-out rows"),
        ("scaling", "standard", "needs the moments of all rows"),
    ]:
        if getattr(model, name) == value:
            expected = {"kernel": "'linear' or 'random'", "scaling": "'unit' or 'roots'", "output": "'cosine'"}
            raise UnavailableError(f"{name}={value!r} {why}: partial_fit needs {name}={expected.get(name, 'False')}")
    if model.whitening_width is not None:
        raise UnavailableError("whitening_width takes the leading directions of all rows: partial_fit needs None")
    if model.checkpoint is not None:
        raise UnavailableError("checkpoint has no meaning for partial_fit: save the model after a block instead")


def block_features(model: Any, d: int) -> Features:
    """Unit rows themselves, or random features, drawn once in the life of a model."""
    if model.kernel != "random":
        return Features()
    gamma = model.fixed["gamma"]
    if getattr(model, "gram_", None) is None:
        rng = np.random.default_rng(feature_seed(model, int(generator(model.random_state).integers(2**31))))
        return RandomFeatures.drawn(d, model.kernel_size or RANDOM_FEATURES, gamma, rng)
    return RandomFeatures(None, gamma, model.frequencies_)


def feature_seed(model: Any, otherwise: int) -> int:
    """The seed of random features: by random_state alone, whatever the rows are; a generator has moved on since."""
    if isinstance(model.random_state, int | np.integer | None):
        return int(generator(model.random_state).integers(2**31))
    return otherwise
