"""The files of the page, read once: a first visit asks for three dozen of them at the same time."""

import gzip
import hashlib
import mimetypes
from pathlib import Path
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_COMPRESSED_FROM = 1024  # bytes


class PageFile(NamedTuple):
    """A file as it is sent: its bytes, plain and compressed, and what names this content."""

    plain: bytes
    compressed: bytes | None
    kind: str
    etag: str

    @classmethod
    def read(cls, path: Path) -> "PageFile":
        data = path.read_bytes()
        kind = "text/javascript" if path.suffix == ".js" else mimetypes.guess_type(path.name)[0] or "text/plain"
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


FILES = {path.name: PageFile.read(path) for path in (Path(__file__).parent / "page").iterdir() if path.is_file()}


async def page_file(request: Request) -> Response:
    """The file that the address names."""
    found = FILES.get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    return found.response(request)
