"""`likewise pull`: rows of a database in a file that `likewise fit` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_export import built

from likewise.rivals import LDA


def test_what_was_pulled_can_be_learned_from(run: Any, files: Path, tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    folder = built(files, tmp_path / "t.index", LDA(shrinkage=0.1))
    place = f"lancedb:{tmp_path / 'db'}"
    assert run("export", folder, "--to", place, "--table", "items").exit_code == 0
    assert run("pull", place, "--table", "items", "-o", tmp_path / "rows.parquet", "--json").exit_code == 0
    words = ["--features", "vector", "--label-column", "label", "--method", "lda"]
    result = run("fit", tmp_path / "rows.parquet", *words, "-o", tmp_path / "m.likewise")
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(
    ("place", "output", "message"),
    [
        ("redis://me:secret@host", "rows.npz", "redis://me:***@host is no store; expected postgresql://…"),
        ("lancedb:folder", "no/rows.npz", "the folder no of --output does not exist"),
        ("lancedb:folder", "rows.npz", "there is no table 'likewise'"),
    ],
)
def test_what_cannot_be_pulled_is_one_sentence(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, output: str, message: str
) -> None:
    pytest.importorskip("lancedb")
    monkeypatch.chdir(tmp_path)
    result = run("pull", place, "-o", output)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "secret" not in result.output
