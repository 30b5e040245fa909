"""The benchmark of the paper's largest run, at a small size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import likewise

ROOT = Path(likewise.__file__).parents[2]


@pytest.mark.second
def test_the_large_run_measures_both_variants() -> None:
    words = {"rows": 600, "features": 30, "classes": 5, "rank": 10, "iterations": 2, "sample": 200}
    command = [sys.executable, "-m", "benchmarks.scale_imagenet50", "--json"]
    command += [word for name, value in words.items() for word in (f"--{name}", str(value))]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["results"]
    assert list(results) == ["SLR", "SLR-C-200"]
    for found in results.values():
        assert found["mAP"] > 0.3  # five classes: chance is 0.2
        assert found["data_bytes"] == 600 * 30 * 4
        assert found["memory_bytes"] >= 0
