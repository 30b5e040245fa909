"""What an operator asks for: health, metrics, status."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from likewise.serve.routes.common import Who
from likewise.serve.schemas import ERRORS

operations = APIRouter(tags=["operations"])


@operations.get("/healthz", summary="Health check")
async def health() -> dict[str, str]:
    """Answers without a token."""
    return {"status": "ok"}


@operations.get("/metrics", summary="Prometheus metrics", response_class=PlainTextResponse, responses=ERRORS)
async def metrics(request: Request) -> Response:
    """Counts and times since the start."""
    return Response(generate_latest(request.app.state.metrics.registry), media_type=CONTENT_TYPE_LATEST)


@operations.get("/api/status", summary="Status of the server", responses=ERRORS)
def status(request: Request, who: Who) -> dict[str, Any]:
    """The index, the lessons, and running jobs."""
    state = request.app.state
    session, index = state.session, state.session.index
    state.teaching.sync()
    return {
        "name": state.name,
        "boot": session.boot,
        "login": state.token.required,
        "items": len(session),
        "features": int(index.raw.shape[1]),
        "width": int(session.learned.G.shape[1]),
        "labels": len(session.codes()[0]),
        "pictures": session.has_pictures,
        "uploads": index.extractor is not None,
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
