"""Search by one item, by examples, and by uploaded pictures."""

import time
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from likewise.serve import schemas
from likewise.serve.routes import NO_STORE, CurrentSession, item_responses, milliseconds_since
from likewise.serve.schemas import ERRORS, RowSearchRequest, SearchRequest, SearchResponse
from likewise.serve.session import SearchQuery, SearchResult, Session, Upload

_MOST_UPLOADS = 4  # processed at a time: each keeps a core busy for some tens of milliseconds
_PICTURE_BODY = {
    "requestBody": {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
}
search = APIRouter(prefix="/api", tags=["search"], responses=ERRORS)


class SearchRoute(APIRoute):
    """Reads the query and writes the response by their Pydantic models alone, in half the time that FastAPI takes."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handler(request: Request) -> Response:
            is_get = request.method == "GET"
            try:
                if is_get:
                    query: Any = RowSearchRequest.model_validate(dict(request.query_params))
                elif "json" not in request.headers.get("content-type", ""):
                    raise HTTPException(415, "the body has no content type application/json")
                else:
                    query = SearchRequest.model_validate_json(await request.body())
            except ValidationError as error:
                place = "query" if is_get else "body"
                problems = [{**problem, "loc": (place, *problem["loc"])} for problem in error.errors()]
                raise RequestValidationError(problems) from error
            result: SearchResponse = await self.endpoint(request, query)
            return Response(result.model_dump_json(), headers=NO_STORE, media_type="application/json")

        return handler


async def search_by_row(request: Request, query: Annotated[RowSearchRequest, Query()]) -> SearchResponse:
    """Rank the gallery for the item `row`, excluding itself. Requests that arrive together share one product."""
    session: Session = request.app.state.session
    by_row = SearchQuery([session.check_row(query.row)])
    return await _answer(request, session, by_row, query)


async def search_by_examples(request: Request, query: SearchRequest) -> SearchResponse:
    """Examples are items by row or id, uploads, raw features or words; those in `unlike` push away."""
    session: Session = request.app.state.session
    examples = query.query(session, query.precision)
    return await _answer(request, session, examples, query, query.offset)


search.add_api_route(
    "/search", search_by_row, summary="Items most similar to one item", route_class_override=SearchRoute
)
search.add_api_route(
    "/search",
    search_by_examples,
    methods=["POST"],
    summary="Items similar to some examples and dissimilar to others",
    route_class_override=SearchRoute,
)


async def _answer(
    request: Request, session: Session, query: SearchQuery, wanted: RowSearchRequest | SearchRequest, offset: int = 0
) -> SearchResponse:
    began, batcher, space = time.perf_counter(), request.app.state.batcher, session.space(wanted.side)
    # Pages of an approximate index would overlap if nobody remembered its first results.
    has_pages = request.method == "POST" and space.approximate
    is_marked = wanted.side == "learned" and await run_in_threadpool(session.marked_for, query) is not None
    if query.is_single and wanted.at_most_wrong is None and not offset and not has_pages and not is_marked:
        example = query.like[0]
        features = example.features if isinstance(example, Upload) else example
        rows, scores, likely, novelty = await batcher.search(space, features, wanted.k)
        label, total = session.common_label(query), len(session) - len(query.rows)
        likely = {"probabilities": likely, "novelty": novelty, "calibrated": space.calibrated}
        result = SearchResult(space, rows, scores, label, None, total, **likely)
    else:
        result = await batcher.run(session.search, query, wanted.k, wanted.side, offset, wanted.at_most_wrong)
    return _response(session, result, wanted.side, began)


@search.post("/vectors", status_code=201, summary="Keep raw features to search by")
def keep_vector(session: CurrentSession, response: Response, body: schemas.VectorRequest) -> dict[str, str]:
    """The name is used like that of an upload: to search by, and to mark results for."""
    response.headers.update(NO_STORE)
    return {"upload": session.uploads.add(session.vector(body.vector), "vector.")}


@search.post("/uploads", status_code=201, summary="Upload a picture", openapi_extra=_PICTURE_BODY)
async def upload_picture(request: Request, response: Response) -> schemas.UploadResponse:
    """The body is the picture itself: jpg, png, webp, gif, bmp, tiff, heic or avif."""
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
    response.headers.update(NO_STORE)
    width, height = upload.size
    return schemas.UploadResponse(upload=name, width=width, height=height, milliseconds=milliseconds_since(began))


def _response(session: Session, result: SearchResult, side: schemas.Side, began: float) -> SearchResponse:
    hits: list[schemas.Hit] = []
    unknown = [None] * len(result.rows)
    likely, named = (unknown if part is None else part.tolist() for part in (result.probabilities, result.by_name))
    items = item_responses(session, result.rows.tolist())
    for item, score, p, name in zip(items, result.scores.tolist(), likely, named, strict=True):
        label = item["label"]
        relevant = None if result.label is None or label is None else label == result.label
        facts = {"score": score, "probability": p, "relevant": relevant, "by_name": name}
        hits.append({**item, **facts})  # type: ignore[typeddict-item]
    return SearchResponse(
        side=side,
        version=result.space.version,
        label=result.label,
        average_precision=result.average_precision,
        learned_from_query=result.learned_from_query,
        milliseconds=milliseconds_since(began),
        total=result.total,
        about_wrong=result.about_wrong,
        novelty=result.novelty,
        calibrated=result.calibrated,
        hits=hits,
    )
