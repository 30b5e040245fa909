"""Every kind of file, damaged again and again (`make fuzz`): a sentence or a success, in a gigabyte and 5 seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.kinds import KINDS

ROOT = Path(__file__).parents[2]
SHARES = [list(KINDS)[start::2] for start in range(2)]  # side by side, each in a process that imports everything once
PASSED_OVER = ("lesson",)  # a damaged lesson is learned again: never a sentence
SELDOM = ("extraction",)  # a tenth: most damages only mean that pictures are read once more
SCRIPT = """
import json, sys
from pathlib import Path
from tests.hostile.kinds import KINDS
from tests.hostile.runner import run, scratch_folder
with scratch_folder() as scratch:
    for name in sys.argv[2:]:
        print(json.dumps(vars(run(KINDS[name], range(int(sys.argv[1])), 0, Path(scratch)))), flush=True)
"""


@pytest.mark.parametrize("names", SHARES, ids=" ".join)
@pytest.mark.parametrize("n", [25, pytest.param(150, marks=pytest.mark.second)])
def test_a_damaged_file_ends_in_a_sentence_or_a_success(n: int, names: list[str]) -> None:
    """In a process of its own, whose forks read the files: libraries are imported once."""
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(n), *names],
        cwd=ROOT,
        env={**os.environ, **paths, **one_thread},
        capture_output=True,
        text=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [outcome["name"] for outcome in found] == names, done.stderr
    for outcome in found:
        assert outcome["wrong"] == []
        assert outcome["sentences"] + outcome["successes"] == n
        passed_over = (*PASSED_OVER, *SELDOM) if n < 150 else PASSED_OVER
        assert outcome["sentences"] > 0 or outcome["name"] in passed_over
        assert outcome["memory"] < 1 << 30
