"""Sparse rows: processor time of a fit; on 20 newsgroups mAP of each method on one 70/30 split, and peak memory.

The second needs the folder of newsgroups20.npz in the environment variable LIKEWISE_DATA.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import sparse

from likewise import SimilarityLearner
from likewise.utils.threads import single_threaded_blas

Row = dict[str, object]

_SCRIPT = """
import json, sys, time
from benchmarks.measure import mark_memory, peak_resident
from sklearn.preprocessing import normalize
from likewise import SimilarityLearner
from likewise.rivals import LDA, Cosine
from likewise.evaluate import mean_average_precision
from likewise.paper import variant
from likewise.paper.datasets import load_dataset
from likewise.paper.protocol import TrainingBudget, Protocol, ProtocolSettings
from likewise.learn.maths.scatter import leading_directions

name, path = sys.argv[1:]
data = load_dataset("newsgroups20", path)
train, test = Protocol(data, ProtocolSettings(), TrainingBudget()).rows(0)
X, y, Q, y_q = normalize(data.X[train]), data.y[train], normalize(data.X[test]), data.y[test]
before, began = mark_memory(), time.perf_counter()
if name == "tf-idf":
    score = mean_average_precision(Q, Q, y_q)
elif name.startswith("LSA"):
    width = int(name.split()[1])
    V = leading_directions(X, None, width)[1]
    score = (LDA(random_state=0) if "LDA" in name else Cosine()).fit(X @ V, y).score(Q @ V, y_q)
else:
    model = SimilarityLearner(random_state=0) if name == "SimilarityLearner" else variant(name, random_state=0)
    score = model.fit(X, y).score(Q, y_q)
dense = X.shape[0] * X.shape[1] * X.dtype.itemsize
seconds = time.perf_counter() - began
print(json.dumps({"mAP": 100 * score, "grown": peak_resident() - before, "seconds": seconds, "dense": dense}))
"""


def rows() -> Iterator[Row]:
    """One process per method; the baselines come first, since ours are compared with them."""
    yield _fit()
    path = Path(os.environ.get("LIKEWISE_DATA", "")) / "newsgroups20.npz"
    if not path.is_file():
        yield _row("20 newsgroups: set LIKEWISE_DATA to the folder of newsgroups20.npz", "", "", "", "")
        return
    scores = {name: _measured(name, path) for name in (*_RIVALS, *_OURS)}
    for name in _RIVALS:
        yield _row(f"20 newsgroups, {name} cosine", _shown(scores[name]), "", "", "")
    for name in _OURS:
        for rival in ("tf-idf", "LSA 100", "LSA 1000 + LDA"):
            ratio = scores[name]["mAP"] / scores[rival]["mAP"]
            goal = "" if "LDA" in rival else "> 1.2"
            yield _row(
                f"20 newsgroups, {name} against {rival} cosine",
                _shown(scores[name]),
                _shown(scores[rival]),
                ratio,
                goal,
            )
        grown, dense = scores[name]["grown"], scores[name]["dense"]
        sizes = f"{grown / 1e6:.0f} MB", f"dense X {dense / 1e6:.0f} MB"
        yield _row(f"20 newsgroups, {name}: memory that fit and score add", *sizes, grown / dense, "< 1")


_RIVALS = ("tf-idf", *(f"LSA {width}{then}" for then in ("", " + LDA") for width in (100, 300, 1000)))
_OURS = ("SLR-Fixed", "SLR", "SimilarityLearner")


def _fit() -> Row:
    """A default fit of random rows with a hundred entries each."""
    rng = np.random.default_rng(0)
    X, y = sparse.random(3_000, 100_000, 0.001, format="csr", rng=rng), rng.integers(0, 30, 3_000)
    began = time.process_time()
    with single_threaded_blas():  # threads that wait for a busy core would count as work
        SimilarityLearner(random_state=0).fit(X, y)
    seconds = time.process_time() - began
    what = "SimilarityLearner.fit, sparse 3,000 × 100,000, .1 % of entries: processor time, one BLAS thread"
    return _row(what, f"{seconds:.1f} s", "", seconds / 30, "≤ 1 of 30 s")


def _measured(name: str, path: Path) -> dict[str, float]:
    command = [sys.executable, "-c", _SCRIPT, name, str(path)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, float] = json.loads(output.splitlines()[-1])
    return result


def _shown(scores: dict[str, float]) -> str:
    return f"mAP {scores['mAP']:.1f} %, {scores['seconds']:.0f} s"


def _row(what: str, ours: str, rival: str, ratio: object, goal: str) -> Row:
    return {"what": what, "ours": ours, "rival": rival, "ratio": ratio, "goal": goal}
