"""`likewise doctor`: words for people, JSON for programs, and an exit code for scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from likewise.rows import read_table
from likewise.rows.doctor import examine


def test_digits_are_healthy_enough(run: Any, files: Path) -> None:
    result = run("doctor", files / "train.csv")
    assert result.exit_code == 0
    assert "train.csv: 500 rows, 64 columns, 10 classes, rank 56, condition number" in result.stdout
    assert "· note: " in result.stdout
    assert "0 serious, 0 warnings" in result.stdout


def test_something_serious_exits_with_1(run: Any, files: Path, tmp_path: Path) -> None:
    table = read_table(files / "train.npz")
    np.savez(tmp_path / "d.npz", X=np.where(table.X == 16, np.nan, table.X), y=table.y)
    result = run("doctor", tmp_path / "d.npz")
    assert result.exit_code == 1
    assert "✗ serious: there is NaN or inf in" in result.stdout
    assert "→ Drop these rows or impute them" in result.stdout
    assert result.stderr == ""


def test_json_is_what_the_library_finds(run: Any, files: Path) -> None:
    result = run("doctor", files / "train.npy", "--labels", files / "train.txt", "--json")
    table = read_table(files / "train.npz")
    printed = json.loads(result.stdout)
    assert printed.pop("source") == str(files / "train.npy")
    assert printed == json.loads(json.dumps(examine(table.X, table.y).to_dict()))


def test_a_table_without_labels_is_examined_too(run: Any, files: Path) -> None:
    result = run("doctor", files / "train.npy")
    assert result.exit_code == 1
    assert "there are no labels" in result.stdout


def test_healthy_data_is_called_so(run: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X=np.random.default_rng(0).normal(size=(60, 3)), y=np.arange(60) % 3)
    result = run("doctor", tmp_path / "d.npz")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "No problems found.")


def test_one_warning_is_one_warning(run: Any, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(12, 3))
    np.savez(tmp_path / "d.npz", X=X, y=["a", "b"] * 5 + ["c", "a"])
    result = run("doctor", tmp_path / "d.npz")
    assert "! warning: 1 of 3 classes has one row only" in result.stdout
    assert result.stdout.splitlines()[-1] == "0 serious, 1 warning, 0 notes"
