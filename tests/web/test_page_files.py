"""The files of the page: compressed for those who take it, and not sent again to those who have them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import likewise.web.page_files

PAGE = Path(likewise.web.page_files.__file__).parent / "page"


def test_every_file_is_sent_as_it_is_on_disk(client: Any) -> None:
    for path in PAGE.iterdir():
        for coding in ("gzip", "identity"):
            answer = client.get(f"/static/{path.name}", headers={"accept-encoding": coding})
            assert answer.content == path.read_bytes()  # decompressed by the client


def test_large_files_are_compressed_once(client: Any) -> None:
    raw = likewise.web.page_files.FILES["app.js"]
    assert raw.compressed is not None
    assert gzip.decompress(raw.compressed) == raw.plain
    answer = client.get("/static/app.js", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) == len(raw.compressed)
    assert "content-encoding" not in client.get("/static/app.js", headers={"accept-encoding": "identity"}).headers


def test_a_browser_that_has_a_file_is_told_so(client: Any) -> None:
    for path in ("/", "/docs", "/favicon.ico", "/static/app.js"):
        etag = client.get(path).headers["etag"]
        answer = client.get(path, headers={"if-none-match": f'"other", {etag}'})
        assert (answer.status_code, answer.content) == (304, b"")
        assert client.get(path, headers={"if-none-match": '"other"'}).status_code == 200


def test_scripts_and_styles_are_what_browsers_take(client: Any) -> None:
    kinds = {"app.js": "text/javascript", "style.css": "text/css", "icon.svg": "image/svg+xml"}
    for name, kind in kinds.items():
        assert client.get(f"/static/{name}").headers["content-type"].startswith(kind)
    assert client.get("/static/nothing.js").status_code == 404


def test_everything_the_page_asks_for_is_there(client: Any) -> None:
    for path in re.findall(r'(?:href|src)="(/static/[^"]+)"', client.get("/").text):
        assert client.head(path).status_code == 200
