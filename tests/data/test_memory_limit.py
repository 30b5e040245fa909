"""Memory limits, and how they are divided."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.data.memory_limit import MemoryBudget, in_bytes
from likewise.errors import LikewiseError


@pytest.mark.parametrize(
    ("words", "expected"),
    [("1GB", 10**9), ("1.5 gib", 3 * 2**29), ("512 MB", 512 * 10**6), ("64k", 64_000), (12345, 12345), ("7", 7)],
)
def test_limits_are_read_as_people_write_them(words: Any, expected: int) -> None:
    assert in_bytes(words) == expected


@pytest.mark.parametrize("words", ["much", "-1GB", "0", 0, -5, "1XB", True, ""])
def test_limits_that_make_no_sense_are_refused(words: Any) -> None:
    with pytest.raises(LikewiseError, match=r"memory_limit=.*expected bytes as a positive number"):
        in_bytes(words)


@given(limit=st.integers(10**5, 10**11), d=st.integers(1, 5000), size=st.sampled_from([4, 8]), n=st.integers(2, 10**8))
def test_what_is_shared_out_stays_within_the_limit(limit: int, d: int, size: int, n: int) -> None:
    fixed = 6 * 8 * d * d + 40 * n
    if limit - fixed < 64 * 4 * d * size:
        with pytest.raises(LikewiseError, match="is too little for"):
            MemoryBudget.of(limit, d, d * size, n)
        return
    budget = MemoryBudget.of(limit, d, d * size, n)
    assert fixed + 4 * budget.block_rows * d * size + budget.gallery_bytes <= limit
    assert budget.block_rows >= 64
