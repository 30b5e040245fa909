"""The files of the page, read once: its modules as one script, its style sheets as one."""

import gzip
import hashlib
import mimetypes
from pathlib import Path
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from likewise.serve.bundle import bundled_script, bundled_sheet

_COMPRESSED_FROM = 1024  # bytes
_ALONE = {"docs.js", "docs.css", "login.css"}  # of the other two pages


class PageFile(NamedTuple):
    """A file as it is sent: its bytes, plain and compressed, and what names this content."""

    plain: bytes
    compressed: bytes | None
    kind: str
    etag: str

    @classmethod
    def of(cls, name: str, text: str) -> "PageFile":
        data = text.encode()
        kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0] or "text/plain"
        compressed = gzip.compress(data, mtime=0) if len(data) >= _COMPRESSED_FROM else None
        return cls(data, compressed, kind, f'"{hashlib.sha256(data).hexdigest()[:32]}"')

    def response(self, request: Request) -> Response:
        """The file, or 304 to a browser that has it."""
        headers = {"Cache-Control": "no-cache", "ETag": self.etag, "Vary": "Accept-Encoding"}
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if self.compressed is None or "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.plain, headers=headers, media_type=self.kind)
        return Response(self.compressed, headers={**headers, "Content-Encoding": "gzip"}, media_type=self.kind)


def _read_page(folder: Path) -> dict[str, PageFile]:
    """What a browser can ask for, by name."""
    sources = {path.name: path.read_text("utf-8") for path in folder.iterdir() if path.is_file()}
    texts = {name: text for name, text in sources.items() if name in _ALONE or not name.endswith((".js", ".css"))}
    texts |= {"app.js": bundled_script(sources, "app.js"), "page.css": bundled_sheet(sources, "page.css")}
    return {name: PageFile.of(name, text) for name, text in texts.items()}


FILES = _read_page(Path(__file__).parent / "page")


async def page_file(request: Request) -> Response:
    """The file that the address names."""
    found = FILES.get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    return found.response(request)
