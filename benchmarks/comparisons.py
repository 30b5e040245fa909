"""`likewise compare` on real data, and a Markdown table of the results: the README's and docs/measured.md's.

usage: python -m benchmarks.comparisons prepare DIR              write the available data sets as DIR/*.npz
       python -m benchmarks.comparisons run DIR [STORE ...]      compare on each, and on labelled feature stores
       python -m benchmarks.comparisons table DIR [--unseen] [--neighbors]    print the results as Markdown

Digits, wine and breast-cancer come with scikit-learn; newsgroups is read from LIKEWISE_DATA/newsgroups20.npz,
Fashion-MNIST from the Debian package dataset-fashion-mnist; missing ones are skipped. `run` takes five splits for known
classes and three draws of unseen ones, in one process per data set, and skips results that DIR already has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.decomposition import PCA, TruncatedSVD

from benchmarks.fashion_mnist import load_fashion_mnist
from likewise.errors import LikewiseError
from likewise.paper.datasets import load_dataset
from likewise.utils.files import atomic_write

SPLITS = {"seen": 5, "unseen": 3}


def prepare(folder: Path) -> None:
    """Write all available data sets."""
    makers: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
        "digits": _digits,
        "fashion-mnist": fashion,
        "newsgroups": newsgroups,
        "wine": lambda: load_wine(return_X_y=True),
        "breast-cancer": lambda: load_breast_cancer(return_X_y=True),
    }
    for name, make in makers.items():
        try:
            X, y = make()
        except LikewiseError as error:
            print(f"{name} is skipped: {error}", file=sys.stderr)
            continue
        np.savez(folder / f"{name}.npz", X=X.astype(np.float32), y=y)


def _digits() -> tuple[np.ndarray, np.ndarray]:
    data = load_dataset("digits")
    return data.X, data.y


def fashion() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_fashion_mnist()
    rows = drawn(len(y), 10_000)
    return PCA(200, random_state=0).fit_transform(X[rows]), y[rows]


def newsgroups() -> tuple[np.ndarray, np.ndarray]:
    data = load_dataset("newsgroups20", Path(os.environ.get("LIKEWISE_DATA", ".")) / "newsgroups20.npz")
    rows = drawn(len(data.y), 9_000)
    return TruncatedSVD(300, random_state=0).fit_transform(data.X[rows]), data.y[rows]


def drawn(n: int, m: int) -> np.ndarray:
    return np.sort(np.random.default_rng(0).permutation(n)[:m])


def run(folder: Path, stores: Iterable[str]) -> None:
    """Both comparisons on each data set, each in its own process and written when finished."""
    for source in [*sorted(folder.glob("*.npz")), *map(Path, stores)]:
        for kind, splits in SPLITS.items():
            result = folder / f"{source.stem}.{kind}.json"
            if result.exists():
                continue
            options = [
                "--splits",
                str(splits),
                "--no-unseen" if kind == "seen" else "--no-seen",
                "--no-mixed",
                "--json",
            ]
            command = [sys.executable, "-m", "likewise", "compare", str(source), *options]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
            if done.returncode == 0:  # otherwise it has printed the reason, such as too few classes to hold any out
                atomic_write(result, done.stdout)


def table(folder: Path, kind: str, neighbours: bool = False) -> str:
    """One row per method and one column per data set; bold: best of its kind, "=": tie with ours by the paired test."""
    files = sorted(folder.glob(f"*.{kind}.json"))
    sets = {path.name.removesuffix(f".{kind}.json"): _outcomes(path, kind, neighbours) for path in files}
    labels: dict[str, str] = {}
    for outcomes in sets.values():
        labels |= {label: outcome["kind"] for label, outcome in outcomes.items()}
    order = sorted(labels, key=lambda label: _KINDS.index(labels[label]))
    rows = (
        f"| {label} | " + " | ".join(_cell(outcomes, label) for outcomes in sets.values()) + " |" for label in order
    )
    head = ["| | " + " | ".join(sets) + " |", "|---" * (1 + len(sets)) + "|"]
    return "\n".join([*head, *rows])


_KINDS = ("linear", "kernel", "posterior")


def _outcomes(path: Path, kind: str, neighbours: bool) -> dict[str, dict[str, Any]]:
    scores = json.loads(path.read_text())[kind]
    methods = ((scores.get("with_neighbours") or {}) if neighbours else scores).get("methods", [])
    return {method["label"]: method for method in methods if method.get("mAP") is not None}


def _cell(outcomes: dict[str, dict[str, Any]], label: str) -> str:
    if label not in outcomes:
        return ""
    outcome = outcomes[label]
    best = max(one["mAP"] for one in outcomes.values() if one["kind"] == outcome["kind"])
    text = f"{100 * outcome['mAP']:.1f} ± {100 * (outcome['mAP_deviation'] or 0):.1f}"
    text = f"**{text}**" if outcome["mAP"] == best else text
    verdict = (outcome["against_ours"] or {}).get("verdict")
    return text + (" =" if verdict == "tie" else "")


def main() -> None:
    match sys.argv[1:]:
        case ["prepare", folder]:
            prepare(Path(folder))
        case ["run", folder, *stores]:
            run(Path(folder), stores)
        case ["table", folder, *rest]:
            print(table(Path(folder), "unseen" if "--unseen" in rest else "seen", "--neighbors" in rest))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
