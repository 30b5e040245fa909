"""The doctor names the lines of the decision page that concern the data."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import likewise.rows.doctor.examining as examining
from likewise.rows.doctor import examine

ROOT = Path(__file__).parents[3]
LINES = tomllib.loads((ROOT / "src/likewise/rows/doctor/choosing.toml").read_text())["line"]
X = np.random.default_rng(0).normal(size=(60, 4))


@pytest.mark.parametrize(
    ("rows", "y", "expected"),
    [
        (
            X,
            np.arange(60) % 3,
            ["SimilarityLearner()", 'SimilarityLearner(output="posterior")', "SimilarityLearner(unseen_classes=True)"],
        ),
        (X, None, ["Teacher", "PairLDA()"]),
        (X, np.arange(60), ["PairLDA()", "Relevance"]),
        (X, np.arange(60) % 2, ["a classifier of scikit-learn"]),
        (sp.csr_array(X), np.arange(60) % 3, ["CSR rows"]),
    ],
)
def test_lines_follow_from_the_data(rows: object, y: object, expected: list[str]) -> None:
    said = " ".join(line.use for line in examine(rows, y).choosing).replace("`", "")
    assert all(use in said for use in expected)


def test_rows_beyond_the_memory_limit_are_pointed_to_the_line_on_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examining, "MANY_BYTES", 100)
    assert any("More rows than memory" in line.have for line in examine(X, np.arange(60) % 3).choosing)


def test_numbers_are_those_of_the_page_and_of_its_chart() -> None:
    page = (ROOT / "docs" / "choosing.md").read_text()
    for line in examine(X, None).choosing:
        assert f"| {line.number} | {line.have} | {line.use} |" in page
    chart = (ROOT / "docs" / "images" / "choosing.svg").read_text()
    drawn = dict(re.findall(r'class="use" data-line="(\d+)">([^<]+)<', chart))
    assert sorted(map(int, drawn)) == list(range(1, 11))
    for number, name in drawn.items():
        assert name in LINES[int(number) - 1]["use"].replace("`", ""), name


def test_every_word_that_brings_a_line_is_known() -> None:
    known = {"labels", "no-labels", "sparse", "many-rows", *examining._ADVICE}
    assert {word for line in LINES for word in line["when"]} <= known
