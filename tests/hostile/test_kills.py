"""A few kills of each way to write; `make kills` does 200."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hostile.kills import DEEDS, run
from tests.hostile.runner import scratch_folder


@pytest.mark.parametrize("name", [name for name in DEEDS if name != "paper"])  # tests/paper/test_run.py kills that one
@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=pytest.mark.second)])
def test_a_kill_at_any_moment_loses_nothing(rounds: int, name: str) -> None:
    with scratch_folder() as scratch:
        assert run(DEEDS[name], rounds, np.random.default_rng(), scratch) == []
