"""The files of the page: compressed for clients that accept it, and not sent again to browsers that have them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from likewise.serve.routes.pages import PAGE


def _imports(path: Path) -> set[str]:
    return set(re.findall(r'^(?:import|export) .*?from "\./([\w/.-]+)";$', path.read_text(), re.MULTILINE | re.DOTALL))


def test_every_module_that_the_page_imports_is_preloaded() -> None:
    wanted, waiting = set(), {"app.js"}
    while waiting:
        wanted |= waiting
        waiting = set().union(*(_imports(PAGE / name) for name in waiting)) - wanted
    links = re.findall(r'<link rel="modulepreload" href="/static/([^"]+)">', (PAGE / "index.html").read_text())
    assert sorted(links) == sorted(wanted - {"app.js"})
    on_disk = {path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*.js")}
    assert on_disk == wanted | {"docs.js"}


def test_no_line_of_a_script_is_longer_than_120_characters() -> None:
    lines = [(path.name, line) for path in PAGE.glob("*.js") for line in path.read_text().splitlines()]
    assert [(name, line) for name, line in lines if len(line) > 120] == []


@pytest.mark.parametrize("path", ["/", "/docs", "/login", "/static/docs.js", "/static/plain.css", "/static/icon.svg"])
@pytest.mark.parametrize("coding", ["gzip", "identity"])
def test_files_are_sent_as_they_are_on_disk(client: Any, path: str, coding: str) -> None:
    name = {"/": "index.html", "/docs": "docs.html", "/login": "login.html"}.get(path, path.rpartition("/")[2])
    answer = client.get(path, headers={"accept-encoding": coding})  # decompressed by the client
    assert answer.text == (PAGE / name).read_text().replace("<!-- problem -->", "")


def test_large_files_are_compressed(client: Any) -> None:
    answer = client.get("/static/style.css", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in client.get("/static/style.css", headers={"accept-encoding": "identity"}).headers


def test_a_browser_that_has_a_file_gets_304(client: Any) -> None:
    for path in ("/", "/docs", "/favicon.ico", "/static/app.js"):
        etag = client.get(path).headers["etag"]
        answer = client.get(path, headers={"if-none-match": f'"other", {etag}'})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["cache-control"] == "no-cache"
        assert client.get(path, headers={"if-none-match": '"other"'}).status_code == 200


def test_scripts_and_styles_are_what_browsers_take(client: Any) -> None:
    kinds = {"app.js": "text/javascript", "style.css": "text/css", "icon.svg": "image/svg+xml"}
    for name, kind in kinds.items():
        assert client.get(f"/static/{name}").headers["content-type"].startswith(kind)
    assert client.get("/static/nothing.js").status_code == 404


def test_everything_the_page_asks_for_is_there(client: Any) -> None:
    for path in re.findall(r'(?:href|src)="(/static/[^"]+)"', client.get("/").text):
        assert client.head(path).status_code == 200
