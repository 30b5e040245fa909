"""The application: routes, middleware, error handlers, and the page."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from likewise.errors import LikewiseError, MissingExtraError

try:
    import cachetools  # noqa: F401  (this and the next two are needed further down)
    import prometheus_client  # noqa: F401
    import uvicorn  # noqa: F401
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from fastapi.staticfiles import StaticFiles
except ImportError as error:
    raise MissingExtraError("likewise serve", "serve") from error

import likewise
from likewise.features.images import ImageTooLargeError
from likewise.retrieval import Index
from likewise.retrieval.search import NotFoundError
from likewise.web.map import GalleryMap
from likewise.web.middleware import AccessToken, middleware_for
from likewise.web.monitoring import Metrics
from likewise.web.routes import PAGE, routes
from likewise.web.session import Session
from likewise.web.settings import ServerSettings
from likewise.web.teaching_session import TeachingSession
from likewise.web.workers import SearchBatcher

_DESCRIPTION = "Search an index by example, compare with the raw features, and teach it by clicking."
_STATUS_CODES: dict[type[Exception], int] = {NotFoundError: 404, ImageTooLargeError: 413}


def create_app(index: Index, settings: ServerSettings | None = None, folder: Path | None = None) -> FastAPI:
    """The ASGI application for an index; feedback is saved in `folder`, the folder of the index."""
    settings = settings or ServerSettings()
    token, metrics = AccessToken(settings.token), Metrics()
    app = FastAPI(
        title="likewise",
        description=_DESCRIPTION,
        version=likewise.__version__,
        docs_url=None,  # FastAPI's pages load scripts from another host
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=_lifespan,
        middleware=middleware_for(settings, token, metrics),
        routes=routes,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # /metrics and the log are ours
    )
    _set_state(app, Session(index, settings.limits), folder, token, metrics)
    app.mount("/static", StaticFiles(directory=PAGE), name="static")
    app.add_exception_handler(LikewiseError, _error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    return app


def _set_state(app: FastAPI, session: Session, folder: Path | None, token: AccessToken, metrics: Metrics) -> None:
    state = app.state
    state.session, state.token, state.metrics, state.uploading = session, token, metrics, 0
    state.batcher = SearchBatcher(lambda: session.learned)
    state.teaching = TeachingSession(session, folder)
    state.map = GalleryMap(session)
    state.name = "index" if folder is None else folder.resolve().stem
    metrics.gauge("likewise_items", "Items in the index.", lambda: len(session))
    metrics.gauge("likewise_feedback", "Marks and labels given.", lambda: state.teaching.count)
    metrics.counter("likewise_lessons", "Lessons learned.", lambda: state.teaching.job.count)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.batcher.close()
    app.state.map.job.close()
    app.state.teaching.close()


async def _error(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, _STATUS_CODES.get(type(error), 422))


async def _validation_error(request: Request, error: Exception) -> JSONResponse:
    """What is wrong where, without the input itself, which may be infinite or no text and then has no JSON."""
    assert isinstance(error, RequestValidationError)
    problems = [{"loc": list(e["loc"]), "msg": e["msg"], "type": e["type"]} for e in error.errors()]
    return JSONResponse({"detail": problems}, 422)
