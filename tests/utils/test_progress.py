"""A bar on standard error, or nothing."""

from __future__ import annotations

import pytest

from likewise.utils.progress import progress_bar


@pytest.mark.parametrize("enabled", [True, False])
def test_a_bar_is_drawn_on_standard_error_if_enabled(enabled: bool, capsys: pytest.CaptureFixture) -> None:
    with progress_bar("working", 3, enabled) as advance:
        advance()
        advance(2, "nearly done")
    out, err = capsys.readouterr()
    assert out == ""
    assert ("nearly done" in err) == enabled
