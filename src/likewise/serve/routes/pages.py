"""The page, its login form, its scripts and style sheets, and the description of the API."""

import html
from pathlib import Path
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from likewise.serve.access import client_key, too_many_attempts
from likewise.serve.routes.common import NO_STORE

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
