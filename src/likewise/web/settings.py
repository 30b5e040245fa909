"""What a server is told when it starts."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

__all__ = ["Limits", "Settings", "is_loopback"]


@dataclass(frozen=True)
class Limits:
    """How much a client may ask for. Each number is far above what the page needs."""

    upload_bytes: int = 20 * 2**20  # a large photograph from a camera
    json_bytes: int = 64 * 2**10
    pixels: int = 50_000_000  # 150 MB once decoded
    header_seconds: float = 10.0
    body_seconds: float = 15.0
    write_seconds: float = 30.0
    uploads: int = 64  # pictures kept in memory to search by
    rate: float = 100.0  # requests a second and client, over time
    burst: float = 600.0  # a page of pictures is some hundred requests at once
    upload_rate: float = 2.0
    upload_burst: float = 20.0
    connections: int = 512


@dataclass(frozen=True)
class Settings:
    """Where to listen, who may come in, how much they may ask for."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    rate_limited: bool = True
    limits: Limits = field(default_factory=Limits)


def is_loopback(host: str) -> bool:
    """True for names and addresses that only this machine reaches."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
