"""A kernel that has too few landmarks for all rows gives way to a linear map; one that has enough stays."""

import numpy as np
import pytest

from likewise import SimilarityLearner, open_rows


def modes(n: int, d: int, n_classes: int, per_class: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes around several centres each, in 16 directions."""
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((d, 16)))[0].T
    centres = rng.standard_normal((n_classes * per_class, 16)) @ directions
    which = rng.integers(0, len(centres), n)
    return centres[which] + 0.5 * rng.standard_normal((n, d)), which % n_classes


@pytest.mark.parametrize(("limit", "landmarks"), [("500kB", 111), ("20kB", None)])
def test_the_kernel_is_kept_where_its_landmarks_carry_it(limit: str, landmarks: int | None) -> None:
    X, y = modes(1700, 64, 20, 2)
    model = SimilarityLearner(scaling="unit").fit(open_rows(X[:1200], y[:1200], memory_limit=limit))
    assert (None if model.landmarks_ is None else len(model.landmarks_)) == landmarks
    other = SimilarityLearner("rbf" if landmarks is None else "linear", scaling="unit")
    assert model.score(X[1200:], y[1200:]) > other.fit(open_rows(X[:1200], y[:1200], memory_limit=limit)).score(
        X[1200:], y[1200:]
    )
