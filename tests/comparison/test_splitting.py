"""Splits: every class in its share, something to find for every query, no row on both sides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.comparison.splitting import class_obstacle, class_part, row_part
from likewise.errors import LikewiseError

sizes = st.lists(st.integers(1, 25), min_size=2, max_size=8)


@given(sizes, st.floats(0.05, 0.95), st.integers(0, 99))
def test_rows_are_split_by_class_and_every_query_has_something_to_find(
    sizes: list[int], share: float, seed: int
) -> None:
    codes = np.repeat(np.arange(len(sizes)), sizes)
    if max(sizes) < 3:
        with pytest.raises(LikewiseError, match=f"the largest class of y has {max(sizes)} rows"):
            row_part(codes, share, np.random.default_rng(seed))
        return
    part = row_part(codes, share, np.random.default_rng(seed))
    np.testing.assert_array_equal(np.sort(np.concatenate([part.train, part.test])), np.arange(len(codes)))
    held = np.bincount(codes[part.test], minlength=len(sizes))
    for size, count in zip(sizes, held, strict=True):
        assert count == 0 if size < 3 else 2 <= count < size


def test_the_usual_share_is_held_out() -> None:
    codes = np.repeat(np.arange(5), 100)
    part = row_part(codes, 0.3, np.random.default_rng(0))
    np.testing.assert_array_equal(np.bincount(codes[part.test]), [30] * 5)


@given(st.lists(st.integers(1, 9), min_size=4, max_size=9), st.integers(0, 99))
def test_classes_are_on_one_side_only(sizes: list[int], seed: int) -> None:
    codes = np.repeat(np.arange(len(sizes)), sizes)
    if sum(size > 1 for size in sizes) < 4:
        assert "expected at least four classes of two or more rows" in (class_obstacle(codes) or "")
        return
    assert class_obstacle(codes) is None
    part = class_part(codes, np.random.default_rng(seed))
    learned, searched = set(codes[part.train]), set(codes[part.test])
    assert not learned & searched
    assert len(learned | searched) == len(sizes)
    assert np.bincount(codes[part.test]).max() > 1
    assert sum(sizes[c] > 1 for c in learned) >= 2
