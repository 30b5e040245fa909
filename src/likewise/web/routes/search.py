"""Search: by row number, by several examples, by an uploaded picture."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from likewise.web.schemas import ERRORS, Hit, RowSearchRequest, SearchRequest, SearchResponse, Side, UploadResponse
from likewise.web.session import SearchResult, Session

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["search"], responses=ERRORS)
_NO_STORE = {"Cache-Control": "no-store"}
_MOST_UPLOADS = 4  # processed at a time: each keeps a core busy for some tens of milliseconds
_PICTURE_BODY = {
    "requestBody": {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
}


class RowSearchRoute(APIRoute):
    """Reads the query and writes the response by their Pydantic models alone.

    FastAPI's general handling of parameters and responses takes twice as long, and is half the time of a search.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handler(request: Request) -> Response:
            try:
                query = RowSearchRequest.model_validate(dict(request.query_params))
            except ValidationError as error:
                problems = [{**problem, "loc": ("query", *problem["loc"])} for problem in error.errors()]
                raise RequestValidationError(problems) from error
            found: SearchResponse = await self.endpoint(request, query)
            return Response(found.model_dump_json(), headers=_NO_STORE, media_type="application/json")

        return handler


async def search_by_row(request: Request, query: Annotated[RowSearchRequest, Query()]) -> SearchResponse:
    """Rank the gallery for the item `row`, excluding itself. Requests that arrive together share one product."""
    began = time.perf_counter()
    session: Session = request.app.state.session
    row = session.check_row(query.row)
    if query.side == "learned":
        space, (rows, scores) = await request.app.state.batcher.search(row, query.k)
        found = SearchResult(space, rows, scores, session.labels[row], None)
    else:
        found = await run_in_threadpool(session.search, [row], [], query.k, query.side)
    return _response(session, found, query.side, began)


router.add_api_route(
    "/search", search_by_row, summary="Items most similar to one item", route_class_override=RowSearchRoute
)


@router.post("/search", summary="Items similar to some examples and dissimilar to others")
def search_by_examples(request: Request, response: Response, query: SearchRequest) -> SearchResponse:
    """Examples are items or uploads; those in `unlike` push away."""
    response.headers.update(_NO_STORE)
    began = time.perf_counter()
    session: Session = request.app.state.session
    like, unlike = ([example.reference for example in examples] for examples in (query.like, query.unlike))
    found = session.search(like, unlike, query.k, query.side, query.labels)
    return _response(session, found, query.side, began)


@router.post("/uploads", status_code=201, summary="Upload a picture", openapi_extra=_PICTURE_BODY)
async def upload_picture(request: Request, response: Response) -> UploadResponse:
    """The body is the picture itself: jpg, png, webp, gif, bmp or tiff."""
    began, state = time.perf_counter(), request.app.state
    body = await request.body()
    if not body:
        raise HTTPException(422, "the body is empty; expected a picture")
    if state.uploading >= _MOST_UPLOADS:
        raise HTTPException(429, "too many pictures at once; wait a moment", {"Retry-After": "1"})
    state.uploading += 1
    try:
        name, upload = await run_in_threadpool(state.session.add_upload, body)
    finally:
        state.uploading -= 1
    response.headers.update(_NO_STORE)
    width, height = upload.size
    return UploadResponse(upload=name, width=width, height=height, milliseconds=_since(began))


def _response(session: Session, found: SearchResult, side: Side, began: float) -> SearchResponse:
    return SearchResponse(
        side=side,
        version=found.space.version,
        label=found.label,
        average_precision=found.average_precision,
        milliseconds=_since(began),
        hits=list(_hits(session, found)),
    )


def _hits(session: Session, found: SearchResult) -> Iterator[Hit]:
    rows, labels = found.rows, session.labels
    for row, score, name in zip(rows.tolist(), found.scores.tolist(), session.index.ids[rows].tolist(), strict=True):
        relevant = None if found.label is None or labels[row] is None else labels[row] == found.label
        yield {"row": row, "id": name, "label": labels[row], "score": score, "relevant": relevant}


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1e3, 3)
