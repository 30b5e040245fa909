"""Settings: loopback addresses, and names that are kept for older programs."""

from __future__ import annotations

import pytest

import likewise.web
from likewise.web import Limits, ServerSettings
from likewise.web.settings import is_loopback


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False), ("photos.example", False)],
)
def test_a_loopback_address_is_recognised(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected


def test_the_former_name_of_the_settings_still_works() -> None:
    with pytest.warns(FutureWarning, match="likewise.web.Settings is now ServerSettings"):
        assert likewise.web.Settings is ServerSettings


@pytest.mark.parametrize("name", ["header_seconds", "write_seconds"])
def test_a_limit_without_effect_is_accepted_with_a_warning(name: str) -> None:
    with pytest.warns(FutureWarning, match="header_seconds and write_seconds have no effect"):
        assert Limits(**{name: 1.0}) == Limits()
