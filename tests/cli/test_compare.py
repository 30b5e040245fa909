"""`likewise compare`: a table for people, JSON for programs, a page for both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FEW = ("--methods", "cosine, lda,anchored-linear")


def test_people_get_tables_and_a_recommendation(run: Any, files: Path) -> None:
    result = run("compare", files / "train.npz", *FEW, env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.stderr
    for words in (
        "Known classes",
        "New classes",
        "Both in one gallery",
        "taught",
        "mAP",
        "P@1",
        "LDA + cosine",
        "For known classes: ",
    ):
        assert words in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stderr == ""


def test_programs_get_json_and_the_page_is_written(run: Any, files: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    words = (
        "compare",
        files / "train.csv",
        *FEW,
        "--no-unseen",
        "--no-mixed",
        "--splits",
        2,
        "--seed",
        3,
        "--json",
        "-o",
        page,
    )
    result = run(*words)
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["unseen"] is None
    assert (summary["seed"], summary["n_splits"], summary["n_rows"]) == (3, 2, 500)
    assert {row["method"] for row in summary["seen"]["methods"]} == {"cosine", "lda", "anchored-linear"}
    assert all(len(row["splits"]) == 2 for row in summary["seen"]["methods"])
    assert summary["recommendation"].startswith("For known classes: ")
    assert "train.csv: which similarity?" in page.read_text()
    assert str(page) in result.stderr


def test_large_data_is_sampled(run: Any, files: Path) -> None:
    result = run("compare", files / "train.npz", "--methods", "cosine", "--max-rows", 100, "--json")
    assert "of 500 rows were drawn" in json.loads(result.stdout)["remarks"][0]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--methods", "magic"], "methods has 'magic', which is not known"),
        (["--methods", ","], "methods is empty"),
        (["-o", "missing/report.html"], "the folder missing of --output does not exist"),
        (["-o", "."], "--output . is a folder"),
        (["--test-size", 2], "test_size=2.0 is outside (0, 1)"),
        (["--no-seen", "--no-unseen", "--no-mixed"], "seen, unseen and mixed are all False: expected at least one"),
    ],
)
def test_what_cannot_be_done_gets_a_sentence(run: Any, files: Path, words: list[str], sentence: str) -> None:
    result = run("compare", files / "train.npz", *words)
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_classes_of_one_alone_cannot_be_compared(run: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=np.eye(4), y=[0, 0, 1, 2])
    result = run("compare", tmp_path / "x.npz")
    assert result.exit_code == 2
    assert "the largest class of y has 2 rows: expected at least three" in result.stderr
