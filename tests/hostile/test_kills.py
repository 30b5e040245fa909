"""A few kills of each way to write; `make kills` does 200."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hostile.kills import DEEDS, run
from tests.hostile.runner import scratch_folder


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DEEDS if name != "paper"])  # tests/paper/test_run.py kills that one
def test_a_kill_at_any_moment_loses_nothing(name: str) -> None:
    with scratch_folder() as scratch:
        assert run(DEEDS[name], 2, np.random.default_rng(), scratch) == []
