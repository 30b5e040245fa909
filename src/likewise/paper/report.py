"""The report of a run: `report.md` and `report.html` with everything the journal holds."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import numpy as np

import likewise
from likewise.paper.markdown import Block, Code, Facts, Heading, Text, to_html, to_markdown
from likewise.paper.run import EXPERIMENTS, Run, modules
from likewise.paper.words import plural
from likewise.utils.files import atomic_write

__all__ = ["write_report"]


def write_report(run: Run) -> dict[str, Path]:
    """Write the report and its pictures to the run's folder; the files by their names."""
    blocks: list[Block] = []
    for module in modules(EXPERIMENTS):
        blocks.extend(module.section(run))
    blocks += [
        Heading("How it was done"),
        *map(Text, _protocol(run)),
        Code("\n".join(run.journal.commands)),
        Facts(_facts(run)),
    ]
    title = f"The paper's experiments on {run.data.name}"
    atomic_write(run.folder / "report.md", to_markdown(title, _lead(run), blocks).encode())
    atomic_write(run.folder / "report.html", to_html(title, _lead(run), blocks).encode())
    pictures = sorted(path.name for path in run.folder.glob("*.png"))
    return {name: run.folder / name for name in ("report.md", "report.html", "cells.csv", *pictures)}


def _lead(run: Run) -> str:
    n, d = run.data.X.shape
    features = f" ({run.data.facts['features']})" if "features" in run.data.facts else ""
    said = (
        f"{n:,} rows of {d:,} features{features} in {plural(len(np.unique(run.data.y)), 'class')}, "
        f"{run.protocol.n_train:,} to learn from and {n - run.protocol.n_train:,} to test, in random splits of 70/30."
    )
    if run.settings.quick:
        said += " A quick run: few rows, short training; its figures are not those of a full run."
    return said


def _protocol(run: Run) -> list[str]:
    settings, budget = run.settings, run.budget
    ours = (
        f"SLR and its variants are the paper's: its starts, no ridge, rank {settings.rank}, T = {settings.n_iter}, "
        f"δ1 = {settings.margins[0]:g} and δ2 = {settings.margins[1]:g}."
    )
    rivals = (
        "Rivals choose what they are sensitive to by mAP on held-out training rows; no method sees a test row. OASIS "
        f"takes {budget.oasis_steps:,} triplets, FRML {budget.frml_steps:,} steps of 5 queries each, LMNN looks its "
        f"impostors up {budget.lmnn_rounds} times; FRML and LMNN have rank {settings.rank}, too."
    )
    seeds = (
        f"The seed of split s is ({settings.seed}, s), that of a method on it {settings.seed} + s, s from 0. Standard "
        "deviations are those of a sample (n - 1). cells.csv holds every figure of this report."
    )
    if run.is_small:
        seeds += " The matrices are small: BLAS ran on one thread."
    return [f"{_reduction(run)} {_scaling(run)}", ours, rivals, seeds]


def _reduction(run: Run) -> str:
    settings, d = run.settings, run.data.X.shape[1]
    if settings.components is None or d <= settings.components:
        return f"Features are taken as they come, {d:,} columns."
    method = "TruncatedSVD" if hasattr(run.data.X, "toarray") else "PCA"
    learned = "the training rows" if settings.pca_on == "train" else "all rows"
    return f"Features are reduced from {d:,} to {settings.components:,} columns by {method}, learned from {learned}."


def _scaling(run: Run) -> str:
    if not run.settings.normalise:
        return "Rows are not scaled."
    return "Rows are then scaled to length 1, for all methods; so Euclidean distance and cosine rank alike."


def _facts(run: Run) -> dict[str, str]:
    import scipy
    import sklearn

    loads = [load for load in run.loads if load == load]
    found = {
        "likewise": likewise.__version__,
        "Python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        **_optional_versions("numba", "matplotlib"),
        "machine": f"{_processor()}, {plural(os.cpu_count() or 1, 'core')}, {platform.system()}",
    }
    if loads:
        found["load while running"] = f"{min(loads):.1f} to {max(loads):.1f}"
    return found


def _optional_versions(*names: str) -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
