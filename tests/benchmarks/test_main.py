"""The page of all ratios: goals are read, and what fell is found."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks.__main__ import Measured, draw, fallen, main, markdown


def line(what: str, ratio: float | str, goal: str) -> Measured:
    return Measured.of({"what": what, "ours": "1 s", "rival": "", "ratio": ratio, "goal": goal})


@pytest.mark.parametrize(
    ("ratio", "goal", "margin"),
    [
        (0.5, "≤ 1", 2),
        (2.0, "< 1 s", 0.5),
        (0.9, "≥ 0.75", 1.2),
        (20, "≥ 10 times faster", 2),
        (3.0, "< 1,000 MB", 1000 / 3),
        (1.0, "minutes", None),
        ("r = .9", "> 0", None),
        (1.0, "> 0", None),
    ],
)
def test_a_margin_is_how_many_times_better_than_the_goal(ratio: float, goal: str, margin: float | None) -> None:
    assert line("a", ratio, goal).margin == (None if margin is None else pytest.approx(margin))


def test_what_fell_by_more_than_a_tenth_is_said_and_what_rose_is_not(tmp_path: Path) -> None:
    before = [line("pass", 0.9, "≥ 0.75"), line("fit", 1.0, "≤ 2"), line("search", 1.0, "≤ 2"), line("gone", 1, "≤ 2")]
    now = [line("pass", 0.8, "≥ 0.75"), line("fit", 1.05, "≤ 2"), line("search", 0.5, "≤ 2"), line("new", 3, "≤ 2")]
    assert fallen(now, before) == ["pass: 1.07 times its goal, 1.20 before"]
    page = markdown(now, before, "today", "a machine")
    assert "3 of 4 goals are met." in page
    assert "| new | 1 s |  | 3 | ≤ 2 | **no** |" in page
    assert "- pass: 1.07 times its goal, 1.20 before" in page
    assert "Nothing fell" in markdown(now, now, "today", "a machine")
    draw(now, tmp_path / "bench.png")
    assert (tmp_path / "bench.png").stat().st_size > 5_000


def test_a_page_that_is_stored_is_the_one_compared_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = iter([0.9, 0.6])
    rows = SimpleNamespace(rows=lambda: [line("pass", next(ratios), "≥ 0.75")._asdict()])
    monkeypatch.setattr("benchmarks.__main__.import_module", lambda name: rows)
    for name, value in {"ROOT": tmp_path, "STORED": tmp_path / "stored"}.items():
        monkeypatch.setattr(f"benchmarks.__main__.{name}", value)
    for words in (["bench", "core", "--store"], ["bench", "core"]):
        monkeypatch.setattr("sys.argv", words)
        main()
    assert "1 of 1 goals are met." in (tmp_path / "stored" / "bench.md").read_text("utf-8")
    assert "- pass: 0.80 times its goal, 1.20 before" in (tmp_path / "build" / "bench.md").read_text("utf-8")
