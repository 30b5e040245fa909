"""Searching: by row number, quickly; by several examples; by a picture that is brought along."""

from __future__ import annotations

import json
import time
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from likewise.web.schemas import ERRORS, Answer, SearchRequest, Side, Uploaded
from likewise.web.session import Desk, Found

__all__ = ["router", "written"]

router = APIRouter(prefix="/api", tags=["search"], responses=ERRORS)
_BUSY = 4  # uploads worked on at a time; each keeps a core busy for some tens of milliseconds


@router.get("/search", response_model=Answer, summary="Items most like one item")
async def search_by_row(
    request: Request,
    row: Annotated[int, Query(ge=0, le=2**31 - 1)],
    k: Annotated[int, Query(ge=1, le=200)] = 24,
    side: Side = "learned",
) -> Response:
    """Rank the gallery for the item `row`, itself left out. Requests that meet are answered together."""
    state = request.app.state
    desk: Desk = state.desk
    began = time.perf_counter()
    desk.checked(row)
    if side == "learned":
        space, rows, scores = await state.batcher.search(row, k)
        found = Found(space, rows, scores, desk.labels[row], None)
    else:
        found = await run_in_threadpool(desk.search, [row], [], k, side)
    return _json(written(desk, found, side, began))


@router.post("/search", response_model=Answer, summary="Items like some examples and unlike others")
def search_by_examples(request: Request, asked: SearchRequest) -> Response:
    """Examples may be items or uploads; those in `unlike` push away."""
    desk: Desk = request.app.state.desk
    began = time.perf_counter()
    like, unlike = ([example.reference for example in examples] for examples in (asked.like, asked.unlike))
    found = desk.search(like, unlike, asked.k, asked.side, asked.labels)
    return _json(written(desk, found, asked.side, began))


_PICTURE = {
    "requestBody": {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
}


@router.post("/uploads", response_model=Uploaded, status_code=201, summary="Bring a picture", openapi_extra=_PICTURE)
async def bring_picture(request: Request) -> Response:
    """The body is the picture itself: jpg, png, webp, gif, bmp or tiff."""
    state = request.app.state
    began = time.perf_counter()
    body = await request.body()
    if not body:
        raise HTTPException(422, "the body is empty; expected a picture")
    if state.uploading >= _BUSY:
        raise HTTPException(429, "too many pictures at once; wait a moment", {"Retry-After": "1"})
    state.uploading += 1
    try:
        name, upload = await run_in_threadpool(state.desk.receive, body)
    finally:
        state.uploading -= 1
    facts = {"upload": name, "width": upload.size[0], "height": upload.size[1], "milliseconds": _since(began)}
    return _json(json.dumps(facts), 201)


def written(desk: Desk, found: Found, side: str, began: float) -> str:
    """The answer as JSON, from pieces that are written once."""
    labels, own = desk.labels, found.label
    hits = []
    for row, score in zip(found.rows.tolist(), found.scores.tolist(), strict=True):
        label = labels[row]
        relevant = "null" if own is None or label is None else "true" if label == own else "false"
        hits.append(f'{{{desk.describe(row)},"score":{score:.6g},"relevant":{relevant}}}')
    precision = "null" if found.average_precision is None else f"{found.average_precision:.6g}"
    return (
        f'{{"side":"{side}","version":{found.space.version},"label":{json.dumps(own)},"average_precision":{precision},'
        f'"milliseconds":{_since(began)},"hits":[{",".join(hits)}]}}'
    )


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1e3, 3)


def _json(text: str, status: int = 200) -> Response:
    return Response(text, status, {"Cache-Control": "no-store"}, "application/json")
