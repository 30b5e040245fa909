"""Marks, labels, lessons, undo, and the stream of events for open pages."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from likewise.serve import schemas
from likewise.serve.access import client_key
from likewise.serve.routes import NO_STORE, CurrentTeaching, Who, download
from likewise.serve.schemas import ERRORS
from likewise.teach.feedback import feedback_to_csv

_MOST_WAITING = 1000  # events that a slow page may lag behind before its stream ends
_PULSE = 1.0  # seconds until a comment shows whether the page is still there


teach = APIRouter(prefix="/api", tags=["teach"], responses=ERRORS)


@teach.post("/marks", status_code=201, summary="Mark items right or wrong for a query")
def give_mark(teaching: CurrentTeaching, who: Who, mark: schemas.MarkRequest) -> dict[str, Any]:
    """One step, on disk before the response is sent; `right: null` takes marks off."""
    query = [example.reference(teaching.session) for example in mark.query]
    teaching.mark(query, mark.rows(teaching.session), mark.right, who or "")
    return teaching.describe(who)


@teach.post("/labels", status_code=201, summary="Give items a label")
def give_label(teaching: CurrentTeaching, who: Who, body: schemas.LabelRequest) -> dict[str, Any]:
    """One step, on disk before the response is sent; `label: null` takes labels away."""
    teaching.label(body.rows(teaching.session), body.label, who or "")
    return teaching.describe(who)


@teach.post("/distinct", status_code=201, summary="Remember that items are not duplicates of one another")
def keep_apart(teaching: CurrentTeaching, who: Who, apart: schemas.DistinctRequest) -> dict[str, Any]:
    """One step, on disk before the response is sent."""
    teaching.keep_apart(apart.items, who or "")
    return teaching.describe(who)


@teach.post("/learn", status_code=202, summary="Learn from all marks and labels")
def learn(teaching: CurrentTeaching, who: Who) -> dict[str, Any]:
    """Runs in the background; /api/status and /api/events report the end."""
    if not teaching.learn(who or ""):
        raise HTTPException(409, "a lesson is running already")
    return teaching.describe(who)


@teach.post("/undo", summary="Undo one's own last step")
def undo(teaching: CurrentTeaching, who: Who) -> dict[str, Any]:
    """The last mark, label or lesson of the person that asks; without a name, of anybody."""
    undone = teaching.undo(who)
    return {"undone": undone.words, "by": undone.who, **teaching.describe(who)}


@teach.get("/feedback", summary="List all marks and labels")
def feedback(teaching: CurrentTeaching) -> list[dict[str, Any]]:
    """In chronological order."""
    return teaching.entries()


@teach.get("/feedback.csv", summary="Download all marks and labels as CSV", response_class=Response)
def feedback_csv(teaching: CurrentTeaching) -> Response:
    """For a spreadsheet, or to learn from elsewhere."""
    return download(feedback_to_csv(teaching.events), "feedback.csv")


@teach.get("/model", summary="Download the model in force", response_class=Response)
def get_model(request: Request, teaching: CurrentTeaching) -> Response:
    """A file for `likewise index` and `likewise.load`: what was taught serves another folder too."""
    with tempfile.TemporaryDirectory() as folder:
        data = teaching.model().save(Path(folder) / "model.likewise").read_bytes()
    return download(data, f"{request.app.state.name}-taught.likewise", "application/octet-stream")


@teach.get("/events", summary="Listen to every step", response_class=StreamingResponse)
async def events(request: Request, teaching: CurrentTeaching, who: str | None = None) -> StreamingResponse:
    """Server-sent events: `status`, `feedback` (an entry, or what was undone), `learned` (a lesson), `reloaded`."""
    limit, streams, client = teaching.session.limits.streams, request.app.state.streams, client_key(request.scope)
    if streams[client] >= limit:
        raise HTTPException(503, f"{limit} pages are open, the limit for one client", {"Retry-After": "60"})
    stream = _stream(request, teaching, unquote(who or ""))
    return StreamingResponse(stream, media_type="text/event-stream", headers=NO_STORE)


async def _stream(request: Request, teaching: Any, who: str) -> AsyncIterator[str]:
    queue: asyncio.Queue[str] = asyncio.Queue(_MOST_WAITING)
    loop = asyncio.get_running_loop()

    def send(kind: str, data: dict[str, Any]) -> None:
        text = f"event: {kind}\ndata: {json.dumps(data)}\n\n"
        loop.call_soon_threadsafe(lambda: None if queue.full() else queue.put_nowait(text))

    streams, client = request.app.state.streams, client_key(request.scope)
    streams[client] += 1
    subscriber = teaching.subscribe(who, send)
    try:
        yield f"event: status\ndata: {json.dumps(teaching.describe(who))}\n\n"
        state = request.app.state
        while not (state.stopping() or state.retired or queue.full()):
            try:
                async with asyncio.timeout(_PULSE):
                    yield await queue.get()
            except TimeoutError:
                yield ":\n\n"  # fails if the page has gone
        if state.retired:
            yield f"event: reloaded\ndata: {json.dumps({'version': state.live.app.state.version})}\n\n"
    finally:
        teaching.unsubscribe(subscriber)
        streams[client] -= 1
