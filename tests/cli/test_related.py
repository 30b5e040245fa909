"""`likewise fit --relevance` with a click log: figures of held-out queries, and a refusal in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.clicked import clicked

from likewise import load


def _written(folder: Path, random: float) -> tuple[Any, ...]:
    log = clicked(random)
    np.savez(folder / "queries.npz", X=log.Q)
    np.savez(folder / "items.npz", X=log.G)
    pairs = log.clicks.R.tocoo()
    lines = [f"{q},{g}" for q, g in zip(pairs.row, pairs.col, strict=True)]
    (folder / "clicks.csv").write_text("\n".join(["query,item", *lines]) + "\n")
    words = ("fit", folder / "queries.npz", "--relevance", folder / "clicks.csv", "--gallery", folder / "items.npz")
    return (*words, "-o", folder / "m.likewise", "--kernel", "linear")


def test_a_good_log_prints_what_it_gains(run: Any, tmp_path: Path) -> None:
    words = _written(tmp_path, 0.0)
    result = run(*words)
    assert result.exit_code == 0, result.stderr
    assert "pair-lda on 250 rows, 64 columns" in result.stdout
    assert "held-out mAP 0." in result.stdout
    assert "raw cosine" not in result.stdout
    held = json.loads(run(*words, "--json").stdout)["held_out"]
    assert held["mAP"] > held["raw"]
    assert held["accepted"] is True
    assert load(tmp_path / "m.likewise").learned_


def test_a_noisy_log_is_refused_in_one_sentence(run: Any, tmp_path: Path) -> None:
    result = run(*_written(tmp_path, 1.0))
    assert result.exit_code == 0, result.stderr
    assert "does not rank held-out queries better: the model is the raw cosine." in " ".join(result.stdout.split())
    assert not load(tmp_path / "m.likewise").learned_


def test_two_clicks_are_too_few(run: Any, tmp_path: Path) -> None:
    words = _written(tmp_path, 0.0)
    (tmp_path / "clicks.csv").write_text("query,item\n0,1\n1,2\n")
    result = run(*words)
    assert "Too few queries share clicks to hold some out: the model is the raw cosine." in result.stdout


@pytest.mark.parametrize("option", [("--sides", "query"), ("--rank", 5), ("--whole",), ("--method", "slr")])
def test_settings_of_slr_mean_slr(run: Any, tmp_path: Path, option: tuple[Any, ...]) -> None:
    words = _written(tmp_path, 0.0)[:-2]
    result = run(*words, *option, "--n-iter", 1, "--json")
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert (summary["method"], summary["held_out"]) == ("slr", None)
