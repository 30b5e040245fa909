"""The application: routes behind the gate, and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from likewise.errors import LikewiseError, MissingExtraError

try:
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from fastapi.staticfiles import StaticFiles
except ImportError as error:
    raise MissingExtraError("likewise serve", "serve") from error

import likewise
from likewise.web.atlas import Atlas
from likewise.web.batching import Batcher
from likewise.web.metrics import Metrics
from likewise.web.middleware import Gate
from likewise.web.quick import Quick
from likewise.web.routes import items, pages, search, teach
from likewise.web.security import Guard
from likewise.web.session import Desk, Missing
from likewise.web.settings import Settings
from likewise.web.teaching_session import Classroom

__all__ = ["PAGE", "create_app"]

PAGE = Path(__file__).parent / "page"
_ABOUT = "Search an index by example, see what the raw features would have found, and teach it by clicking."


def create_app(index: Any, settings: Settings | None = None, folder: Path | None = None) -> FastAPI:
    """The application for an index; feedback is kept in `folder`, which is where the index itself is."""
    settings = settings or Settings()
    app = FastAPI(
        title="likewise",
        description=_ABOUT,
        version=likewise.__version__,
        docs_url=None,  # FastAPI's pages load their scripts from another host
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=_lifespan,
    )
    guard, metrics = Guard(settings), Metrics()
    _furnish(app, Desk(index, settings.limits), folder, guard, metrics)
    for module in (search, items, teach, pages):
        app.include_router(module.router)
    app.mount("/static", StaticFiles(directory=PAGE), name="static")
    app.add_exception_handler(LikewiseError, _sentence)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_middleware(Quick, desk=app.state.desk, batcher=app.state.batcher, written=search.written)
    app.add_middleware(Gate, settings=settings, guard=guard, metrics=metrics)
    return app


def _furnish(app: FastAPI, desk: Desk, folder: Path | None, guard: Guard, metrics: Metrics) -> None:
    state = app.state
    state.desk, state.guard, state.metrics, state.atlas, state.uploading = desk, guard, metrics, Atlas(), 0
    state.batcher = Batcher(lambda: desk.learned)
    state.classroom = Classroom(desk, folder)
    state.name = "index" if folder is None else folder.resolve().stem
    metrics.watch("likewise_items", "Items in the index.", lambda: len(desk))
    metrics.watch("likewise_feedback", "Marks and labels given.", lambda: state.classroom.count)
    metrics.watch("likewise_lessons_total", "Lessons learned.", lambda: state.classroom.job.count, "counter")


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.batcher.close()
    app.state.atlas.job.close()
    app.state.classroom.close()


async def _sentence(request: Request, error: Exception) -> JSONResponse:
    """Errors people can do something about."""
    too_large = "above the limit" in str(error)
    return JSONResponse({"detail": str(error)}, 404 if isinstance(error, Missing) else 413 if too_large else 422)


async def _malformed(request: Request, error: Exception) -> JSONResponse:
    """What is wrong where, without what came: that may be infinite, or not text at all, and has no place in JSON."""
    assert isinstance(error, RequestValidationError)
    problems = [{"loc": list(e["loc"]), "msg": e["msg"], "type": e["type"]} for e in error.errors()]
    return JSONResponse({"detail": problems}, 422)
