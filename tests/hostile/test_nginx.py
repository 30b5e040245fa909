"""The nginx file of the documentation, run by Debian's nginx in front of a real server."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serve.conftest import application, index_folder, made_index, running  # noqa: F401  fixtures

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
TOKEN = "a long secret"
DOCUMENTED = Path(__file__).parents[2] / "docs" / "nginx.conf"
pytestmark = pytest.mark.skipif(
    NGINX is None or shutil.which("openssl") is None, reason="nginx or openssl is not installed"
)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        return int(made.getsockname()[1])


def _certificate(folder: Path) -> None:
    wanted = ["-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=photos.example"]
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "pem")]
    subprocess.run(["openssl", "req", "-x509", *wanted, *files], check=True, capture_output=True)


def _documented(folder: Path, port: int, to: int) -> str:
    """The documented file, of which only ports and places differ."""
    _certificate(folder)
    text = DOCUMENTED.read_text()
    for old, new in (
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("127.0.0.1:8000", f"127.0.0.1:{to}"),
        ("/etc/ssl/photos.example.pem", str(folder / "pem")),
        ("/etc/ssl/photos.example.key", str(folder / "key")),
    ):
        assert old in text
        text = text.replace(old, new)
    return re.sub(r"client_header_timeout \d+s", "client_header_timeout 1s", text)


def _alone(folder: Path, port: int, to: int) -> str:
    """What somebody writes who reads no documentation."""
    return f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{to}; }} }}"


@contextmanager
def _proxied(folder: Path, to: int, configuration: Callable[[Path, int, int], str] = _documented) -> Iterator[int]:
    """nginx in front of a server."""
    port = _free_port()
    text = configuration(folder, port, to)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    head = f"pid {folder}/pid;\ndaemon off;\nerror_log {folder}/error.log;\nevents {{}}\n"
    (folder / "nginx.conf").write_text(f"{head}http {{\naccess_log off;\n{temporary}{text}}}\n")
    with subprocess.Popen([str(NGINX), "-c", str(folder / "nginx.conf"), "-p", str(folder)]) as process:
        try:
            _until_it_listens(port)
            yield port
        finally:
            process.terminate()


def _until_it_listens(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError("nginx does not listen")


def test_the_documented_proxy_brings_clients_through_with_their_address_and_tls(
    application: Callable[..., Any],  # noqa: F811
    tmp_path: Path,
) -> None:
    app = application(token=TOKEN, proxies=("127.0.0.1",), allowed_hosts=("photos.example",))
    with running(app) as to, _proxied(tmp_path, to) as port:
        host = {"host": "photos.example"}
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=False, headers=host) as client:
            assert client.get("/api/status").status_code == 401
            answer = client.post("/login", data={"token": TOKEN})
            assert answer.headers["set-cookie"].startswith("__Host-likewise=")
            cookie = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
            status = client.get("/api/status", headers=cookie)
            assert status.status_code == 200
            assert status.headers["strict-transport-security"]
            forged = {**cookie, "x-forwarded-for": "192.0.2.1", "x-forwarded-proto": "http"}
            assert client.get("/api/status", headers=forged).status_code == 200
            assert client.get("/", headers={"x": "y" * 40_000}).status_code == 400
            with client.stream("GET", "/api/events", headers=cookie) as stream:
                assert next(stream.iter_lines()) == "event: status"


def test_the_documented_proxy_times_out_half_a_request(
    application: Callable[..., Any],  # noqa: F811
    tmp_path: Path,
) -> None:
    import ssl

    context = ssl._create_unverified_context()
    with running(application()) as to, _proxied(tmp_path, to) as port:
        plain = socket.create_connection(("127.0.0.1", port), timeout=30)
        with context.wrap_socket(plain) as half:
            half.sendall(b"GET / HTTP/1.1\r\nHost: photos")
            assert half.recv(65536) == b""


def test_proxy_pass_alone_lets_nobody_in_without_the_token_and_no_browser_change_anything(
    application: Callable[..., Any],  # noqa: F811
    tmp_path: Path,
) -> None:
    with (
        running(application(token=TOKEN)) as to,
        _proxied(tmp_path, to, _alone) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        label = {"items": [1], "label": "by a stranger"}
        assert client.get("/api/status").status_code == 401
        assert client.post("/api/labels", json=label).status_code == 401
        assert client.get("/login", params={"token": TOKEN}).headers["location"] == "/"
        assert client.get("/api/status").status_code == 200
        browser = {"origin": "https://photos.example", "sec-fetch-site": "same-origin"}
        assert client.post("/api/labels", json=label, headers=browser).status_code == 403
