"""The page, the login form, health, metrics and status."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse
from prometheus_client import CONTENT_TYPE_LATEST

from likewise.web.authentication import COOKIE
from likewise.web.schemas import ERRORS

__all__ = ["PAGE", "router"]

router = APIRouter()
PAGE = Path(__file__).parents[1] / "page"
_REVALIDATE = {"Cache-Control": "no-cache"}


@router.get("/", include_in_schema=False)
def page() -> FileResponse:
    """The page."""
    return FileResponse(PAGE / "index.html", headers=_REVALIDATE)


@router.get("/docs", include_in_schema=False)
def docs() -> FileResponse:
    """The JSON API, rendered from its OpenAPI document without scripts from other hosts."""
    return FileResponse(PAGE / "docs.html", headers=_REVALIDATE)


@router.get("/favicon.ico", include_in_schema=False)
def icon() -> FileResponse:
    """The icon."""
    return FileResponse(PAGE / "icon.svg", media_type="image/svg+xml")


@router.get("/login", include_in_schema=False)
def login(request: Request, token: str | None = None) -> Response:
    """The login form; a token in the address, as the server prints it, logs in at once."""
    return _login_page() if token is None else _logged_in(request, token)


@router.post("/login", include_in_schema=False)
async def submit_login(request: Request) -> Response:
    """Log in with the token from the form."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    return _logged_in(request, fields.get("token", [""])[0].strip())


def _logged_in(request: Request, given: str) -> Response:
    token = request.app.state.token
    if not token.matches(given):
        return _login_page("This is not the token.", 401)
    response = RedirectResponse("/", 303)
    response.set_cookie(COOKIE, token.cookie, httponly=True, samesite="strict", max_age=30 * 86400)
    return response


def _login_page(problem: str = "", status: int = 200) -> HTMLResponse:
    text = (PAGE / "login.html").read_text("utf-8").replace("<!-- problem -->", html.escape(problem))
    return HTMLResponse(text, status, headers={"Cache-Control": "no-store"})


@router.get("/healthz", tags=["operations"], summary="Health check")
async def health() -> dict[str, str]:
    """Answers without a token."""
    return {"status": "ok"}


@router.get(
    "/metrics",
    tags=["operations"],
    summary="Prometheus metrics",
    response_class=PlainTextResponse,
    responses=ERRORS,
)
async def metrics(request: Request) -> Response:
    """Counts and times since the start."""
    return Response(request.app.state.metrics.text(), media_type=CONTENT_TYPE_LATEST)


@router.get("/api/status", tags=["operations"], summary="Status of the server", responses=ERRORS)
def status(request: Request) -> dict[str, Any]:
    """The index, the lessons, and running jobs."""
    state = request.app.state
    session, index = state.session, state.session.index
    return {
        "name": state.name,
        "boot": session.boot,
        "items": len(session),
        "features": int(index.raw.shape[1]),
        "width": int(session.learned.G.shape[1]),
        "labels": len(session.codes()[0]),
        "pictures": session.has_pictures,
        "uploads": index.extractor is not None,
        "model": type(index.model).__name__,
        "version": session.learned.version,
        "map": state.map.job.describe(),
        **state.teaching.describe(),
    }
