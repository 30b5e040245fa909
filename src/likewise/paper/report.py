"""The report of a run: `report.md` and `report.html` with all results of the journal."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import numpy as np

import likewise
from likewise.paper.markdown import Block, Code, Facts, Heading, Text, to_html, to_markdown
from likewise.paper.run import EXPERIMENTS, PaperRun, modules
from likewise.paper.words import plural
from likewise.utils.files import atomic_write

__all__ = ["write_report"]


def write_report(run: PaperRun) -> dict[str, Path]:
    """Write the report and its pictures to the folder of the run, and return the files by name."""
    blocks: list[Block] = []
    for module in modules(EXPERIMENTS):
        blocks.extend(module.section(run))
    blocks += [
        Heading("Protocol"),
        *map(Text, _protocol(run)),
        Code("\n".join(run.journal.commands)),
        Facts(_facts(run)),
    ]
    title = f"The experiments of the paper on {run.data.name}"
    atomic_write(run.folder / "report.md", to_markdown(title, _lead(run), blocks).encode())
    atomic_write(run.folder / "report.html", to_html(title, _lead(run), blocks).encode())
    pictures = sorted(path.name for path in run.folder.glob("*.png"))
    return {name: run.folder / name for name in ("report.md", "report.html", "cells.csv", *pictures)}


def _lead(run: PaperRun) -> str:
    n, d = run.data.X.shape
    features = f" ({run.data.facts['features']})" if "features" in run.data.facts else ""
    said = (
        f"{n:,} rows of {d:,} features{features} in {plural(len(np.unique(run.data.y)), 'class')}, "
        f"{run.protocol.n_train:,} for training and {n - run.protocol.n_train:,} for testing in random 70/30 splits."
    )
    if run.settings.quick:
        said += " A quick run: few rows and short training; its figures are not those of a full run."
    return said


def _protocol(run: PaperRun) -> list[str]:
    settings, budget = run.settings, run.budget
    ours = (
        f"SLR and its variants are as in the paper: its starts, no ridge, rank {settings.rank}, T = {settings.n_iter}, "
        f"δ1 = {settings.margins[0]:g} and δ2 = {settings.margins[1]:g}."
    )
    rivals = (
        "Rivals choose their sensitive parameters by mAP on held-out training rows; no method sees a test row. OASIS "
        f"takes {budget.oasis_steps:,} triplets, FRML {budget.frml_steps:,} steps of 5 queries each, and LMNN updates "
        f"its impostors {budget.lmnn_rounds} times; FRML and LMNN also have rank {settings.rank}."
    )
    seeds = (
        f"The seed of split s = 0, 1, … is ({settings.seed}, s), that of a method on it {settings.seed} + s. Standard "
        "deviations are sample standard deviations (n - 1). cells.csv has all figures of this report."
    )
    if run.is_small:
        seeds += " The matrices are small: BLAS ran on one thread."
    return [f"{_reduction(run)} {_scaling(run)}", ours, rivals, seeds]


def _reduction(run: PaperRun) -> str:
    settings, d = run.settings, run.data.X.shape[1]
    if settings.components is None or d <= settings.components:
        return f"Features are used as they are, {d:,} columns."
    method = "TruncatedSVD" if hasattr(run.data.X, "toarray") else "PCA"
    learned = "the training rows" if settings.pca_on == "train" else "all rows"
    return f"Features are reduced from {d:,} to {settings.components:,} columns by {method}, learned from {learned}."


def _scaling(run: PaperRun) -> str:
    if not run.settings.normalise:
        return "Rows are not scaled."
    return "Rows are then scaled to unit length for all methods, so Euclidean distance and cosine rank alike."


def _facts(run: PaperRun) -> dict[str, str]:
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
