"""A bar on standard error, or nothing."""

from __future__ import annotations

import pytest

from likewise.utils.progress import progress_bar, stage_bar


@pytest.mark.parametrize("enabled", [True, False])
def test_a_bar_is_drawn_on_standard_error_if_enabled(enabled: bool, capsys: pytest.CaptureFixture) -> None:
    with progress_bar("working", 3, enabled) as advance:
        advance()
        advance(2, "nearly done")
    out, err = capsys.readouterr()
    assert out == ""
    assert ("nearly done" in err) == enabled


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich take the captured stream for a terminal


@pytest.mark.usefixtures("terminal")
def test_stages_show_their_rate_and_what_is_done(capsys: pytest.CaptureFixture) -> None:
    with stage_bar("images") as show:
        show("looking for images", 0, 0)
        for done in range(5):
            show("extracting", done, 7)
    shown = capsys.readouterr().err
    assert "extracting" in shown
    assert "4/7" in shown
    assert "images/s" in shown
    assert "\x1b[3" not in shown  # no colour


@pytest.mark.usefixtures("terminal")
def test_an_unknown_total_is_not_shown(capsys: pytest.CaptureFixture) -> None:
    with stage_bar("images") as show:
        show("looking for images", 0, 0)
        show("learning from images", 41, 0)
    with progress_bar("choosing settings", None) as advance:
        advance(7)
    shown = capsys.readouterr().err
    assert "choosing settings" in shown
    assert "?" not in shown.replace("\x1b[?25", "")


def test_stages_are_silent_if_told_so(capsys: pytest.CaptureFixture) -> None:
    with stage_bar("images", enabled=False) as show:
        show("writing", 2, 3)
    assert capsys.readouterr().err == ""
