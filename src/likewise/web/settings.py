"""Settings of a server."""

import ipaddress
import warnings
from dataclasses import InitVar, dataclass, field


@dataclass(frozen=True)
class Limits:
    """Limits on what a client may request, all far above what the page needs."""

    upload_bytes: int = 20 * 2**20  # a large photograph
    json_bytes: int = 64 * 2**10
    pixels: int = 50_000_000  # 150 MB once decoded
    header_seconds: InitVar[float | None] = None
    body_seconds: float = 15.0
    write_seconds: InitVar[float | None] = None
    uploads: int = 64  # uploaded pictures kept in memory
    rate: float = 100.0  # requests per second and client, sustained
    burst: float = 600.0  # a page of pictures is some hundred requests at once
    upload_rate: float = 2.0
    upload_burst: float = 20.0
    connections: int = 512
    idle_seconds: int = 30  # between two requests on a connection

    def __post_init__(self, header_seconds: float | None, write_seconds: float | None) -> None:
        if header_seconds is not None or write_seconds is not None:
            text = "header_seconds and write_seconds have no effect: put a reverse proxy in front for slow clients"
            warnings.warn(text, FutureWarning, stacklevel=3)


@dataclass(frozen=True)
class ServerSettings:
    """Address, token, allowed host names and limits of a server."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    rate_limited: bool = True
    limits: Limits = field(default_factory=Limits)


def is_loopback(host: str) -> bool:
    """Whether a name or address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
