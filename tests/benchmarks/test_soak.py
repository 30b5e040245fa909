"""The verdict of the soak: growth is seen, and a short run does not pass for a flat one."""

from __future__ import annotations

import pytest
from benchmarks.soak import growth


def test_a_short_run_tells_nothing() -> None:
    assert growth([291, 298, 305, 307]) is None


def test_growth_after_the_warm_up_is_seen_and_the_warm_up_itself_is_not() -> None:
    assert growth([100] * 4 + [200] * 16) == 0
    assert growth([100 + minute for minute in range(60)]) == pytest.approx(32 / 119.5, rel=0.02)
