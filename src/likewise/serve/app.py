"""The application: routes, middleware, error handlers, and the page."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from likewise.errors import LikewiseError, MissingExtraError

try:
    import cachetools  # noqa: F401  (these four are needed by other modules)
    import itsdangerous  # noqa: F401
    import prometheus_client  # noqa: F401
    import uvicorn  # noqa: F401
    from fastapi import FastAPI, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from starlette.concurrency import run_in_threadpool
    from starlette.datastructures import State
    from starlette.middleware import Middleware
    from starlette.requests import ClientDisconnect
except ImportError as error:
    raise MissingExtraError("likewise serve", "serve") from error

import likewise
from likewise.pictures.images import ImageTooCostlyError, ImageTooLargeError
from likewise.search.index import BaseIndex
from likewise.search.rank import NotFoundError
from likewise.serve.access import AccessToken, LoginThrottle
from likewise.serve.concepts import Concepts, RefusedError
from likewise.serve.duplicates import Duplicates
from likewise.serve.exporting import Exports
from likewise.serve.jobs import SearchBatcher, public_text
from likewise.serve.live import Live, OneVersionMiddleware, close_jobs, version_of
from likewise.serve.map import GalleryMap
from likewise.serve.middleware import Metrics, middleware_for
from likewise.serve.routes.concepts import concepts
from likewise.serve.routes.items import duplicates, exports, items, map_routes
from likewise.serve.routes.pages import operations, pages
from likewise.serve.routes.search import search
from likewise.serve.routes.teach import teach
from likewise.serve.session import Session
from likewise.serve.settings import ServerSettings
from likewise.serve.teaching import NothingToUndoError, TeachingLimitError, TeachingSession
from likewise.words import TextSide

log = logging.getLogger("likewise.serve")
# One flat list: FastAPI matches a request to an included router twice.
_ROUTERS = (search, items, map_routes, duplicates, exports, teach, concepts, pages, operations)
_PULSE = 1.0  # seconds between two readings of the journal, to which another process may have written
_DESCRIPTION = "Search an index by example, compare with the raw features, and teach it by clicking."
_STATUS_CODES: dict[type[Exception], int] = {
    NotFoundError: 404, NothingToUndoError: 409, ImageTooLargeError: 413, ImageTooCostlyError: 413,
    TeachingLimitError: 409, RefusedError: 403,
}  # fmt: skip


def create_app(
    index: BaseIndex, settings: ServerSettings | None = None, folder: Path | None = None, side: TextSide | None = None
) -> FastAPI:
    """The ASGI application for an index; feedback is saved in `folder`, the folder of the index.

    `side` is the text side of its words; None is the one that fits its features, if it is installed.
    """
    settings = settings or ServerSettings()
    token = AccessToken(settings.token, is_shared=settings.workers > 1)
    throttle, metrics = LoginThrottle(), Metrics()
    app = FastAPI(
        title="likewise",
        description=_DESCRIPTION,
        version=likewise.__version__,
        docs_url=None,  # FastAPI's pages load scripts from another host
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=_lifespan,
        middleware=[*middleware_for(settings, token, throttle, metrics), Middleware(OneVersionMiddleware)],
        routes=[route for router in _ROUTERS for route in router.routes],
        telemetry={"tracing": False, "metrics": False, "logs": False},  # /metrics and the log are ours
    )
    shared: dict[str, Any] = {"token": token, "throttle": throttle, "folder": folder, "metrics": metrics}
    shared |= {"stopping": lambda: False, "batcher": SearchBatcher(), "shown_root": None}
    if not settings.for_others and index.root is not None:  # only for the person at this machine
        shared["shown_root"] = str(index.root.resolve())
    shared["read_only"] = settings.workers > 1
    shared["streams"] = Counter()  # open ones of each client
    shared["name"] = "index" if folder is None else folder.resolve().stem

    def state_of(index: BaseIndex) -> State:
        if settings.trust and index.extractor is not None:
            index.image_extractor(trust=True)
        return _state(Session(index, settings.limits, side, settings.show), app.state, folder)

    app.state = State(shared)
    app.state = state_of(index)
    app.state.live = Live(app, folder, state_of)
    metrics.gauge("likewise_items", "Items in the index.", lambda: len(app.state.session))
    metrics.gauge("likewise_feedback", "Marks and labels.", lambda: app.state.teaching.count)
    metrics.counter("likewise_lessons", "Lessons learned.", lambda: app.state.teaching.job.count)
    metrics.counter("likewise_reloads", "New versions of the index taken over.", lambda: app.state.live.count)
    if settings.token is not None:
        app.openapi = partial(_with_token, app.openapi)  # type: ignore[method-assign]
    app.add_exception_handler(LikewiseError, _error)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(RequestValidationError, _validation_error)
    return app


def _with_token(schema_of: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The description of the API with the token that every request needs, so that clients ask for it."""
    schema = schema_of()
    schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schema["security"] = [{"token": []}]
    return schema


def _state(session: Session, before: State, folder: Path | None) -> State:
    """The state of a server for one version of its index, with what all versions share."""
    state = State({**before._state, "session": session, "uploading": 0, "in_flight": 0, "retired": False})
    state.version = version_of(session.index, folder)
    if hasattr(before, "session"):
        session.continue_from(before.session)
    state.teaching = TeachingSession(session, folder)
    state.maps = {side: GalleryMap(session, side) for side in ("raw", "learned")}
    state.duplicates = Duplicates(session, state.teaching.distinct)
    state.exports = Exports(session)
    state.concepts = Concepts(session, state.teaching, folder, before.shown_root is not None)
    return state


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(_pulse(app)), asyncio.create_task(app.state.live.follow())]
    yield
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    app.state.batcher.close()
    close_jobs(app.state)
    app.state.session.decoders.close()


async def _pulse(app: FastAPI) -> None:
    """Take over what other processes write to the journal, whether a page is open or not."""
    while True:
        await asyncio.sleep(_PULSE)
        try:
            await run_in_threadpool(app.state.teaching.sync)
        except Exception:
            log.exception("the journal cannot be followed")


async def _gone(request: Request, error: Exception) -> Response:
    """The client hung up before its request was complete: there is nobody to answer."""
    return Response(status_code=400)


async def _error(request: Request, error: Exception) -> JSONResponse:
    text = public_text(str(error), request.app.state.folder)
    return JSONResponse({"detail": text}, _STATUS_CODES.get(type(error), 422))


async def _validation_error(request: Request, error: Exception) -> JSONResponse:
    """What is wrong where, without the input itself, which may not be JSON-serialisable."""
    assert isinstance(error, RequestValidationError)
    problems = [{"loc": list(e["loc"]), "msg": e["msg"], "type": e["type"]} for e in error.errors()]
    return JSONResponse({"detail": problems}, 422)
