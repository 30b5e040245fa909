"""The files of the page: compressed for those who take it, and not sent again to those who have them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

import likewise.serve.page_files
from likewise.serve.bundle import bundled_script

PAGE = Path(likewise.serve.page_files.__file__).parent / "page"


def test_every_module_and_style_sheet_is_in_the_bundle(client: Any) -> None:
    script, sheet = client.get("/static/app.js").text, client.get("/static/page.css").text
    for path in PAGE.glob("*.js"):
        assert path.name == "docs.js" or script.count(f"// {path.name}\n") == 1
    for path in PAGE.glob("*.css"):
        assert path.name in ("docs.css", "login.css", "page.css") or path.read_text() in sheet
    assert "@import" not in sheet


def test_modules_are_called_in_the_order_of_their_imports() -> None:
    sources = {
        "app.js": 'import { twice as double } from "./b.js";\nimport { one } from "./a.js";\ndouble(one);\n',
        "b.js": 'import { one } from "./a.js";\nconst own = one;\nexport function twice(x) { return 2 * x * own; }\n',
        "a.js": "export const one = 1;\nconst own = 5;\n",
    }
    script = bundled_script(sources, "app.js")
    assert script.index("// a.js") < script.index("// b.js") < script.index("// app.js")
    assert "const { twice: double } = b$;" in script
    assert "return { twice };" in script


@pytest.mark.parametrize(
    "source", ['import "./a.js";', "export default 3;", "export let x = 1;", 'import { x } from "./app.js";']
)
def test_what_the_bundle_does_not_understand_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"app\.js"):
        bundled_script({"app.js": source, "a.js": ""}, "app.js")


@pytest.mark.parametrize("path", ["/", "/docs", "/login", "/static/docs.js", "/static/login.css", "/static/icon.svg"])
@pytest.mark.parametrize("coding", ["gzip", "identity"])
def test_the_other_files_are_sent_as_they_are_on_disk(client: Any, path: str, coding: str) -> None:
    name = {"/": "index.html", "/docs": "docs.html", "/login": "login.html"}.get(path, path.rpartition("/")[2])
    answer = client.get(path, headers={"accept-encoding": coding})  # decompressed by the client
    assert answer.text == (PAGE / name).read_text().replace("<!-- problem -->", "")


def test_large_files_are_compressed_once(client: Any) -> None:
    raw = likewise.serve.page_files.FILES["app.js"]
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
    kinds = {"app.js": "text/javascript", "page.css": "text/css", "icon.svg": "image/svg+xml"}
    for name, kind in kinds.items():
        assert client.get(f"/static/{name}").headers["content-type"].startswith(kind)
    assert client.get("/static/nothing.js").status_code == 404


def test_everything_the_page_asks_for_is_there(client: Any) -> None:
    for path in re.findall(r'(?:href|src)="(/static/[^"]+)"', client.get("/").text):
        assert client.head(path).status_code == 200
