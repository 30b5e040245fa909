"""`likewise paper`: what it says when asked for what it cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.rows import FeatureStore


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "DATASET 'nothing' is neither digits nor a path: expected a feature store or a table"),
        (["digits", "--methods", "SLR,Nope"], "--methods: unknown method 'Nope'; expected some of Euclid, LMNN"),
        (["digits", "--splits", "0"], "--splits 0: expected 1 or more"),
        (["digits", "--only", "table7"], "--only 'table7': unknown experiment table7; expected table1, table2, table3"),
    ],
)
def test_bad_words_are_one_sentence(run: Any, tmp_path: Path, words: list[str], message: str) -> None:
    result = run("paper", *words, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_any_store_can_be_run(run: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(200) % 4
    X = rng.standard_normal((4, 12))[y] + rng.standard_normal((200, 12))
    FeatureStore.write(tmp_path / "mine.features", X, [f"class {c}" for c in y])
    result = run("paper", tmp_path / "mine.features", "--quick", "--methods", "Euclid,SLR", "--only",
                 "table1,figure1", "-o", tmp_path / "out")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    text = (tmp_path / "out" / "report.md").read_text()
    assert "experiments of the paper on mine" in text
    assert "| **SLR** |" in text
    assert (tmp_path / "out" / "figure1.png").is_file()  # labels stand for the pictures there are not


def test_an_earlier_run_is_moved_aside_with_a_remark(run: Any, tmp_path: Path) -> None:
    words = ("paper", "digits", "--quick", "--methods", "Euclid", "--only", "table1", "--splits", "1", "-o", tmp_path)
    assert run(*words).exit_code == 0
    result = run(*words)
    assert result.exit_code == 0
    assert "the results of an earlier run were moved to" in result.stderr


def test_resuming_another_run_is_refused(run: Any, tmp_path: Path) -> None:
    words = ("paper", "digits", "--quick", "--methods", "Euclid", "--only", "table1", "--splits", "1", "-o", tmp_path)
    assert run(*words).exit_code == 0
    result = run(*words, "--resume", "--seed", 5)
    assert result.exit_code == 2
    assert "has another run (seed was 0 and is 5)" in result.stderr
