"""Settings: loopback addresses, and names that are kept for older programs."""

from __future__ import annotations

import pytest

from likewise.errors import LikewiseError
from likewise.serve import ServerSettings
from likewise.serve.settings import is_loopback


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False), ("photos.example", False)],
)
def test_a_loopback_address_is_recognised(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected


@pytest.mark.parametrize("proxy", ["*", "photos.example", "10.0.0.1/8", ""])
def test_a_proxy_is_named_by_its_address(proxy: str) -> None:
    with pytest.raises(LikewiseError, match="is not an IP address; expected an address or a network"):
        ServerSettings(proxies=(proxy,))
