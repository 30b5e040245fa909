"""Small pictures as features, for comparison and for tests without a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from likewise.errors import LikewiseError
from likewise.features.base import ImageExtractor
from likewise.features.images import centre_crop

__all__ = ["Pixels"]


class Pixels(ImageExtractor):
    """The central square of each image at `size` × `size` pixels, in 0..1, flattened.

    Parameters
    ----------
    size : side in pixels
    colour : three channels, or only brightness
    n_jobs : number of threads; None uses all cores
    """

    name: ClassVar[str] = "pixels"

    def __init__(self, size: int = 32, colour: bool = True, n_jobs: int | None = None) -> None:
        self.size = size
        self.colour = colour
        self.n_jobs = n_jobs

    def prepare(self) -> None:
        if not isinstance(self.size, int | np.integer) or self.size < 1:
            raise LikewiseError(f"size={self.size!r} is not a size; expected pixels, 1 or more")

    def rows(self, images: Sequence[np.ndarray]) -> np.ndarray:
        small = np.stack([centre_crop(image, (self.size, self.size)) for image in images]) / np.float32(255)
        return (small if self.colour else small @ LUMA).reshape(len(images), -1)

    def at_least(self) -> int | None:
        return int(self.size)

    def n_features_out(self) -> int:
        self.prepare()
        return int(self.size) ** 2 * (3 if self.colour else 1)


# Brightness of R, G and B (ITU-R BT.601), as in JPEG and Pillow.
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
