"""From scikit-learn's `random_state` to a NumPy generator."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

__all__ = ["generator"]


def generator(random_state: Any) -> np.random.Generator:
    """A generator from a `random_state`; None is seed 0, so that a fit can be repeated."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng(0)
    return np.random.default_rng(check_random_state(random_state).randint(2**31))
