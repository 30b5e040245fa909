"""Settings of a server."""

import ipaddress
import secrets
from dataclasses import dataclass, field
from functools import cached_property

from likewise.errors import LikewiseError


@dataclass(frozen=True)
class Limits:
    """Limits on what a client may request, all far above what the page needs."""

    upload_bytes: int = 20 * 2**20  # a large photograph
    json_bytes: int = 512 * 2**10  # a query of 16,384 numbers
    pixels: int = 50_000_000  # 150 MB once decoded
    picture_bytes: int = 640 * 2**20  # memory to decode a picture in,
    picture_seconds: int = 10  # and the time
    header_bytes: int = 16 * 2**10
    header_seconds: float = 10.0
    body_seconds: float = 15.0
    login_bytes: int = 1024
    login_seconds: float = 2.0
    uploads: int = 64  # uploaded pictures kept in memory
    labels: int = 2000  # names that may be given on the page
    journal_bytes: int = 64 * 2**20  # of all marks and labels
    connections: int = 512  # beyond, only /healthz is answered,
    client_connections: int = 256  # and to one client beyond these
    streams: int = 64  # of events, to one client
    idle_seconds: int = 30  # between two requests on a connection


@dataclass(frozen=True)
class ServerSettings:
    """Address, token (None admits everybody), allowed host names, proxies to believe, and limits of a server."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    proxies: tuple[str, ...] = ()
    show: tuple[str, ...] = ()  # columns of a card; without any they are chosen
    trust: bool = False  # run an extractor that was never used on this machine
    workers: int = 1  # processes that answer; more than one are read-only
    secret: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)  # signs the cookies of all workers

    def __post_init__(self) -> None:
        self._networks  # noqa: B018  (raises)

    @cached_property
    def _networks(self) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        networks = []
        for proxy in self.proxies:
            try:
                networks.append(ipaddress.ip_network(proxy))
            except ValueError as error:
                expected = "expected an address or a network such as 10.0.0.0/8"
                raise LikewiseError(f"proxy {proxy!r} is not an IP address; {expected}") from error
        return networks

    def is_proxy(self, address: str) -> bool:
        """Whether an address is that of a named proxy."""
        try:
            return any(ipaddress.ip_address(address) in network for network in self._networks)
        except ValueError:
            return False

    @property
    def for_others(self) -> bool:
        """Whether other machines can connect, directly or through a proxy."""
        return bool(self.proxies) or not all(map(is_loopback, (self.host, *self.allowed_hosts)))


def is_loopback(host: str) -> bool:
    """Whether a name or address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
