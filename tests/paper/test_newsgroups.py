"""Documents in the paper's tables: sparse rows, never reduced beforehand, in a table of their own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from likewise.cli import app
from likewise.evaluate import mean_average_precision
from likewise.paper import newsgroups
from likewise.paper.run import pending, perform, prepare
from likewise.rivals import Cosine

pytest.importorskip("matplotlib")


@pytest.fixture
def news(tmp_path: Path) -> Path:
    """Tf-idf rows of four topics, each with words of its own."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 4
    liking = rng.gamma(0.2, size=(4, 500)) + 0.05
    X = sp.csr_array(rng.poisson(0.2 * liking[y]).astype(np.float32))
    path = tmp_path / "news.npz"
    np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    return path


def test_every_method_has_a_row_in_one_table(news: Path, tmp_path: Path) -> None:
    words = ["paper", "newsgroups20", news, "-o", tmp_path / "out", "--only", "documents", "--splits", "1", "--json"]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.stderr
    found = {row["method"]: row["mAP"] for row in json.loads(result.stdout)["documents"]}
    assert list(found) == [
        "tf-idf cosine",
        "LSA 100 cosine",
        "LSA 100 + LDA cosine",
        "SLR-Fixed",
        "SLR",
        "SimilarityLearner",
    ]
    assert all(0 < score <= 1 for score in found.values())
    assert found["SimilarityLearner"] > found["tf-idf cosine"]
    report = (tmp_path / "out" / "report.md").read_text()
    assert "## Documents as sparse rows" in report
    assert "LSA 100 + LDA cosine" in report


def test_the_rows_are_measured_as_they_are_named(news: Path, tmp_path: Path) -> None:
    run = prepare("newsgroups20", news, tmp_path / "out", splits=1, only="documents")
    for _ in perform(run, [task for task in pending(run) if "cosine" in task.key[1]]):
        pass
    _, test = run.protocol.rows(0)
    Q, y = run.data.X[test], run.data.y[test]
    expected = 100 * Cosine().fit(Q).score(Q, y)
    assert run.journal.scores("documents", "tf-idf cosine")[0] == pytest.approx(
        expected, abs=0.02
    )  # near ties of counts fall either way
    assert mean_average_precision(Q, Q, y) != pytest.approx(expected / 100, abs=1e-4)  # lengths matter without it
    assert run.journal.seconds("documents", "tf-idf cosine") is None
    assert run.journal.seconds("documents", "LSA 100 + LDA cosine") > 0


def test_dense_rows_have_no_such_table(tmp_path: Path) -> None:
    run = prepare("digits", None, tmp_path / "out", quick=True, only="documents")
    assert pending(run) == []
    assert newsgroups.section(run) == []
