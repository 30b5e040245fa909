"""A model that was taught by clicks: the model one had, and beside it one coordinate for each group that was taught."""

from __future__ import annotations

import threading
from typing import Any, Self

import numpy as np

from likewise.base import SimilarityModel
from likewise.core.heads import unit
from likewise.core.kernels import Features

__all__ = ["Taught"]

_PREFIX = "base_"
_LOCK = threading.Lock()


class Taught(SimilarityModel):
    """A base model and taught coordinates f: rows become [z, w f(z)], at length 1 where those of the base are.

    z is the gallery side of the base at length 1. f(z) is exp(-γ ‖z - l‖²) A, a kernel with landmarks l and one column
    of A for each group, less a threshold: rows that no group has much to do with stay exactly what they were. It is
    made by `Teacher`, not by `fit`, and is saved and loaded like any model.

    Attributes
    ----------
    base : SimilarityModel
        The model before it was taught.
    landmarks_, gamma_, coefficients_ : the kernel, and A.
    cosine_ : bool
        The base compares unit rows; the taught model then does so too.
    weight_, threshold_ : float
        w, and the threshold.
    scale_ : float
        Of the taught part against the base's scores; 1 for a cosine.
    """

    landmarks_: np.ndarray
    coefficients_: np.ndarray
    centre_: np.ndarray
    gamma_: float
    scale_: float
    weight_: float
    threshold_: float
    cosine_: bool

    @classmethod
    def of(
        cls,
        base: SimilarityModel,
        features: Features,
        coefficients: np.ndarray,
        centre: np.ndarray,
        *,
        weight: float,
        threshold: float,
        cosine: bool,
        scale: float = 1.0,
    ) -> Self:
        """Put a taught model together; `base` is shared, not copied."""
        model = cls()
        model._base = base
        assert features.landmarks is not None
        model.landmarks_, model.gamma_, model.coefficients_ = features.landmarks, float(features.gamma), coefficients
        model.centre_, model.cosine_, model.scale_ = centre, bool(cosine), float(scale)
        model.weight_, model.threshold_ = float(weight), float(threshold)
        model.n_features_in_ = base.n_features_in_
        model.base_class_, model.base_parameters_ = type(base).__name__, base.get_params(deep=False)
        for name, value in vars(base).items():
            if name.endswith("_") and not name.startswith("_"):
                setattr(model, _PREFIX + "of_" + name, value)
        if hasattr(base, "classes_"):
            model.classes_ = base.classes_
        return model

    def fit(self, X: Any, y: Any = None) -> Self:
        """A taught model comes from a `Teacher`: there is nothing to fit."""
        raise NotImplementedError("Taught is made by Teacher.learn(), not by fit")

    @property
    def base(self) -> SimilarityModel:
        """The model before it was taught."""
        with _LOCK:
            if not hasattr(self, "_base"):
                self._base = self._rebuilt()
        return self._base

    def _rebuilt(self) -> SimilarityModel:
        """The base from the attributes that the file keeps, all under one prefix."""
        from likewise.models import model_class

        base = model_class(self.base_class_)(**self.base_parameters_)
        prefix = _PREFIX + "of_"
        for name, value in vars(self).items():
            if name.startswith(prefix):
                setattr(base, name.removeprefix(prefix), value)
        return base

    def lifted(self, V: np.ndarray, kernel_part: np.ndarray | None = None) -> np.ndarray:
        """The gallery side from that of the base, so that a gallery is not transformed again."""
        f = self._kernel_part(V) if kernel_part is None else kernel_part
        return self._joined(V, self._above(f))

    def _above(self, f: np.ndarray) -> np.ndarray:
        """What exceeds the threshold, weighted, full at 1."""
        t = f.dtype.type(self.threshold_)
        return np.maximum(f - t, 0) * f.dtype.type(self.weight_ / (1 - self.threshold_))

    def _kernel_part(self, V: np.ndarray) -> np.ndarray:
        z = _directions(V, self.centre_)
        features = Features(self.landmarks_.astype(z.dtype, copy=False), self.gamma_)(z)
        return np.asarray(features @ self.coefficients_.astype(z.dtype, copy=False))

    def _joined(self, V: np.ndarray, f: np.ndarray) -> np.ndarray:
        joined = np.hstack([V, f * V.dtype.type(np.sqrt(self.scale_))])
        return unit(joined) if self.cosine_ else joined

    def _gallery_side(self, X: Any) -> np.ndarray:
        return self.lifted(self.base._gallery_side(X))

    def _query_side(self, X: Any) -> np.ndarray:
        V = self.base._gallery_side(X)
        return self._joined(V if self.cosine_ else self.base._query_side(X), self._above(self._kernel_part(V)))

    @property
    def _n_features_out(self) -> int:
        return len(self.centre_) + self.coefficients_.shape[1]


def _directions(V: np.ndarray, centre: np.ndarray) -> np.ndarray:
    return unit(V - centre.astype(V.dtype, copy=False))
