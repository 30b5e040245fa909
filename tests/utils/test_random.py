"""From scikit-learn's seeds to generators."""

from __future__ import annotations

import numpy as np

from likewise.learn.maths.labels import generator


def test_equal_seeds_draw_equal_numbers_and_none_is_one_of_them():
    for seed in (None, 7, np.int64(7)):
        assert generator(seed).random() == generator(seed).random()
    assert generator(np.random.RandomState(3)).random() == generator(np.random.RandomState(3)).random()
    assert generator(1).random() != generator(2).random()


def test_a_generator_is_taken_as_it_is():
    rng = np.random.default_rng(0)
    assert generator(rng) is rng
