"""Loops compile where numba is installed and run as they are where it is not."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import likewise
from likewise.baselines.oasis import steps_of_block

SCORES = """
import numpy as np
from likewise.baselines import FRML, LMNN, OASIS
rng = np.random.default_rng(0)
y = np.arange(60) % 3
X = np.eye(3)[y] @ rng.standard_normal((3, 5)) + rng.standard_normal((60, 5))
models = (OASIS(n_steps=300), OASIS(n_steps=50, engine="steps"), FRML(rank=2, n_iter=20), LMNN(rank=2, n_rounds=1))
scores = [model.fit(X, y).score(X, y) for model in models]
"""


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    environment = {**os.environ, "PYTHONPATH": str(Path(likewise.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def test_importing_the_baselines_imports_no_optional_dependency():
    code = "import sys, likewise.baselines; print([m for m in ('numba', 'matplotlib', 'torch') if m in sys.modules])"
    assert run(code) == "[]\n"


def test_without_numba_the_same_python_gives_the_same_ranking():
    pytest.importorskip("numba")
    plain = run("import sys; sys.modules['numba'] = None\n" + SCORES + "print(*scores)").split()
    compiled: dict[str, list[float]] = {}
    exec(SCORES, compiled)
    assert len(plain) == 4
    np.testing.assert_allclose(np.array(plain, float), compiled["scores"], atol=1e-6)


def test_a_compiled_function_keeps_its_name_and_takes_arrays():
    assert steps_of_block.__name__ == "steps_of_block"
    tau = steps_of_block(np.array([0.0, 0.0, 2.0]), np.ones((3, 3)), 0.25)
    assert tau == pytest.approx([0.25, 0.25, 0.0])
