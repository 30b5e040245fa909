"""The page, its login form, its files and the description of the API; health, metrics and status for operators."""

import html
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from likewise.serve.access import client_key, too_many_attempts
from likewise.serve.jobs import public_text
from likewise.serve.routes import NO_STORE, Who
from likewise.serve.schemas import ERRORS

PAGE = Path(__file__).parents[1] / "page"
static = StaticFiles(directory=PAGE)
pages = APIRouter(include_in_schema=False, routes=[Mount("/static", static)])


async def _file(request: Request, name: str) -> Response:
    """A file of the page, or 304 to a browser that has it."""
    response = await static.get_response(name, request.scope)
    response.headers["Cache-Control"] = "no-cache"
    return response


@pages.get("/")
async def page(request: Request) -> Response:
    return await _file(request, "index.html")


@pages.get("/docs")
async def docs(request: Request) -> Response:
    """The JSON API, rendered from its OpenAPI document without scripts from other hosts."""
    return await _file(request, "docs.html")


@pages.get("/favicon.ico")
async def icon(request: Request) -> Response:
    return await _file(request, "icon.svg")


@pages.get("/login")
async def login(request: Request, token: str | None = None) -> Response:
    """The login form; a token in the address, as the server prints it, logs in at once."""
    return _login_page() if token is None else _logged_in(request, token)


@pages.post("/login")
async def submit_login(request: Request) -> Response:
    """Log in with the token from the form."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    return _logged_in(request, fields.get("token", [""])[0].strip())


@pages.post("/logout")
async def logout(request: Request) -> Response:
    """End the session, here and wherever its cookie has been copied to."""
    if request.app.state.token.required:
        request.app.state.token.end(request.session)
    return RedirectResponse("/login", 303, {"Clear-Site-Data": '"cache", "storage"'})


def _logged_in(request: Request, text: str) -> Response:
    token, throttle = request.app.state.token, request.app.state.throttle
    client = client_key(request.scope)
    wait = throttle.wait(client)
    if wait:
        seconds = too_many_attempts(wait).headers["retry-after"]
        return _login_page(f"Too many wrong tokens; try again in {seconds} s.", 429, {"Retry-After": seconds})
    if not token.matches(text):
        throttle.failed(client)
        return _login_page("This is not the token.", 401)
    throttle.succeeded(client)
    if token.required:
        token.begin(request.session)
    return RedirectResponse("/", 303)


def _login_page(problem: str = "", status: int = 200, headers: dict[str, str] | None = None) -> HTMLResponse:
    text = (PAGE / "login.html").read_text("utf-8").replace("<!-- problem -->", html.escape(problem))
    return HTMLResponse(text, status, headers={**NO_STORE, **(headers or {})})


# -- for operators -----------------------------------------------------------------------------------------------------

operations = APIRouter(tags=["operations"])


@operations.get("/healthz", summary="Health check")
async def health() -> dict[str, str]:
    """Answers without a token."""
    return {"status": "ok"}


@operations.get("/metrics", summary="Prometheus metrics", response_class=PlainTextResponse, responses=ERRORS)
async def metrics(request: Request) -> Response:
    """Counts and times since the start."""
    return Response(generate_latest(request.app.state.metrics.registry), media_type=CONTENT_TYPE_LATEST)


@operations.post("/api/reload", summary="Serve the newest version of the index", responses=ERRORS)
async def reload(request: Request) -> dict[str, Any]:
    """Within seconds this happens by itself; here the answer says when it has, or why the version cannot be served."""
    live = request.app.state.live
    reloaded = await live.reload()
    return {"reloaded": reloaded, "version": live.app.state.version, "items": len(live.app.state.session)}


@operations.get("/api/status", summary="Status of the server", responses=ERRORS)
def status(request: Request, who: Who) -> dict[str, Any]:
    """The index, the lessons, and running jobs."""
    state = request.app.state
    session, index = state.session, state.session.index
    state.teaching.sync()
    return {
        "name": state.name,
        "boot": session.boot,
        "index_version": state.version,
        "not_served": None if state.live.problem is None else public_text(state.live.problem, state.folder),
        "login": state.token.required,
        "items": len(session),
        "features": int(index.raw.shape[1]),
        "width": int(session.learned.G.shape[1]),
        "labels": len(session.label_facet.names),
        "pictures": session.has_pictures,
        "uploads": index.extractor is not None and not state.read_only,
        "words": session.has_words,
        "columns": session.catalogue.columns.names,
        "texts": session.catalogue.layout.text is not None,
        "model": type(index.model).__name__,
        "compare": session.compares,
        "folders": len(session.catalogue.folder_facet.names),
        "missing": session.catalogue.missing(),
        "root": state.shown_root,
        "maps": {side: drawn.job.describe() for side, drawn in state.maps.items()},
        **state.teaching.describe(who),
    }
