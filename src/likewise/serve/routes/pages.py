"""The page, its login form, and the description of the API."""

import html
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from likewise.serve.access import cookie_name
from likewise.serve.middleware import client_key, is_secure, too_many_attempts
from likewise.serve.page_files import FILES, page_file
from likewise.serve.routes.common import NO_STORE

pages = APIRouter(include_in_schema=False)


pages.add_route("/static/{name}", page_file, ["GET"])


@pages.get("/")
async def page(request: Request) -> Response:
    return FILES["index.html"].response(request)


@pages.get("/docs")
async def docs(request: Request) -> Response:
    """The JSON API, rendered from its OpenAPI document without scripts from other hosts."""
    return FILES["docs.html"].response(request)


@pages.get("/favicon.ico")
async def icon(request: Request) -> Response:
    return FILES["icon.svg"].response(request)


@pages.get("/login")
def login(request: Request, token: str | None = None) -> Response:
    """The login form; a token in the address, as the server prints it, logs in at once."""
    return _login_page() if token is None else _logged_in(request, token)


@pages.post("/login")
async def submit_login(request: Request) -> Response:
    """Log in with the token from the form."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    return _logged_in(request, fields.get("token", [""])[0].strip())


@pages.post("/logout")
def logout(request: Request) -> Response:
    """End the session, here and wherever its cookie has been copied to."""
    token, secure = request.app.state.token, is_secure(request.scope)
    session = token.session(request.headers, secure)
    if session is not None:
        token.end(session)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(cookie_name(secure), secure=secure, httponly=True, samesite="strict")
    response.headers["Clear-Site-Data"] = '"cache", "storage"'
    return response


def _logged_in(request: Request, given: str) -> Response:
    token, throttle = request.app.state.token, request.app.state.throttle
    client, secure = client_key(request.scope), is_secure(request.scope)
    wait = throttle.wait(client)
    if wait:
        refusal = too_many_attempts(wait)
        problem = f"Too many wrong tokens; try again in {refusal.headers['retry-after']} s."
        return _login_page(problem, 429, {"Retry-After": refusal.headers["retry-after"]})
    if not token.matches(given):
        throttle.failed(client)
        return _login_page("This is not the token.", 401)
    throttle.succeeded(client)
    response = RedirectResponse("/", 303)
    token.set_cookie(response, token.begin(), secure)
    return response


def _login_page(problem: str = "", status: int = 200, headers: dict[str, str] | None = None) -> HTMLResponse:
    text = FILES["login.html"].plain.decode().replace("<!-- problem -->", html.escape(problem))
    return HTMLResponse(text, status, headers={**NO_STORE, **(headers or {})})
