"""Rows averaged with their nearest neighbours, against the formula row by row."""

import numpy as np
from sklearn.preprocessing import normalize

from likewise.comparison.neighbours import smoothed


def test_each_row_is_itself_and_the_mean_of_its_nearest_weighted_by_their_cosines() -> None:
    Z = normalize(np.random.default_rng(0).standard_normal((1500, 6)))  # more than one block
    found = smoothed(Z, k=4, power=2.0)
    for i in (0, 700, 1499):
        cosines = Z @ Z[i]
        cosines[i] = -1
        nearest = np.argsort(-cosines)[:4]
        z = Z[i] + np.mean(cosines[nearest, None] ** 2 * Z[nearest], axis=0)
        np.testing.assert_allclose(found[i], z / np.linalg.norm(z), atol=1e-12)


def test_few_rows_are_all_neighbours_and_opposite_ones_do_not_count() -> None:
    np.testing.assert_allclose(smoothed(np.array([[1.0, 0.0], [-1.0, 0.0]])), [[1.0, 0.0], [-1.0, 0.0]])
