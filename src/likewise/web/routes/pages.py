"""The page itself, the way in, and what machines want to know."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse

from likewise.web.schemas import ERRORS
from likewise.web.security import COOKIE

__all__ = ["router"]

router = APIRouter()
_PAGE = Path(__file__).parents[1] / "page"


@router.get("/", include_in_schema=False)
def page() -> FileResponse:
    """The page."""
    return FileResponse(_PAGE / "index.html", headers={"Cache-Control": "no-cache"})


@router.get("/docs", include_in_schema=False)
def docs() -> FileResponse:
    """The interface, described from its OpenAPI document without any script of another host."""
    return FileResponse(_PAGE / "docs.html", headers={"Cache-Control": "no-cache"})


@router.get("/favicon.ico", include_in_schema=False)
def icon() -> FileResponse:
    """The icon."""
    return FileResponse(_PAGE / "icon.svg", media_type="image/svg+xml")


@router.get("/login", include_in_schema=False)
def ask(request: Request, token: str | None = None) -> Response:
    """Ask for the token, or take it from the address that the server printed."""
    return _login_page() if token is None else _let_in(request, token)


@router.post("/login", include_in_schema=False)
async def enter(request: Request) -> Response:
    """Take the token from the form."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    return _let_in(request, fields.get("token", [""])[0].strip())


def _let_in(request: Request, token: str) -> Response:
    guard = request.app.state.guard
    if not guard.is_token(token):
        return _login_page("That is not the token.", 401)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(COOKIE, guard.session, httponly=True, samesite="strict", max_age=30 * 86400)
    return answer


def _login_page(problem: str = "", status: int = 200) -> HTMLResponse:
    text = (_PAGE / "login.html").read_text("utf-8").replace("<!-- problem -->", html.escape(problem))
    return HTMLResponse(text, status, headers={"Cache-Control": "no-store"})


@router.get("/healthz", tags=["machines"], summary="Is the server well?", response_model=dict[str, str])
async def health() -> dict[str, str]:
    """Answers without a token."""
    return {"status": "ok"}


@router.get(
    "/metrics", tags=["machines"], summary="Figures for Prometheus", response_class=PlainTextResponse, responses=ERRORS
)
async def metrics(request: Request) -> PlainTextResponse:
    """Counts and times since the start."""
    return PlainTextResponse(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4")


@router.get("/api/status", tags=["machines"], summary="What is going on?", responses=ERRORS)
def status(request: Request) -> dict[str, Any]:
    """The index, the lessons and what is being worked on."""
    state = request.app.state
    desk, index = state.desk, state.desk.index
    return {
        "name": state.name,
        "boot": desk.boot,
        "items": len(desk),
        "features": int(index.raw.shape[1]),
        "width": int(desk.learned.G.shape[1]),
        "labels": len(desk.codes()[0]),
        "pictures": desk.has_pictures,
        "uploads": index.extractor is not None,
        "model": type(index.model).__name__,
        "version": desk.learned.version,
        "map": state.atlas.job.describe(),
        **state.classroom.describe(),
    }
