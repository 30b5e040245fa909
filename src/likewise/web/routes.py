"""The routes: search, items, teaching, the page and what an operator asks for."""

import html
import time
from collections.abc import Callable, Coroutine
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

import numpy as np
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse
from fastapi.routing import APIRoute
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from likewise.web import schemas
from likewise.web.middleware import COOKIE
from likewise.web.schemas import ERRORS, ItemResponse, RowSearchRequest, SearchResponse
from likewise.web.session import SearchResult, Session
from likewise.web.teaching_session import TeachingSession

PAGE = FilePath(__file__).parent / "page"
_MOST_UPLOADS = 4  # processed at a time: each keeps a core busy for some tens of milliseconds
_NO_STORE = {"Cache-Control": "no-store"}
_REVALIDATE = {"Cache-Control": "no-cache"}
_CACHED = {"Cache-Control": "private, max-age=86400"}
_PICTURE_BODY = {
    "requestBody": {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
}
_IMAGE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {}, "image/svg+xml": {}}, "description": "The picture."}
}


async def _session(request: Request) -> Session:
    return request.app.state.session


async def _teaching(request: Request) -> TeachingSession:
    return request.app.state.teaching


Row = Annotated[int, Path(ge=0, le=2**31 - 1)]
CurrentSession = Annotated[Session, Depends(_session)]
CurrentTeaching = Annotated[TeachingSession, Depends(_teaching)]

search = APIRouter(prefix="/api", tags=["search"], responses=ERRORS)


class RowSearchRoute(APIRoute):
    """Reads the query and writes the response by their Pydantic models alone, in half the time that FastAPI takes."""

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


search.add_api_route(
    "/search", search_by_row, summary="Items most similar to one item", route_class_override=RowSearchRoute
)


@search.post("/search", summary="Items similar to some examples and dissimilar to others")
def search_by_examples(session: CurrentSession, response: Response, query: schemas.SearchRequest) -> SearchResponse:
    """Examples are items or uploads; those in `unlike` push away."""
    response.headers.update(_NO_STORE)
    began = time.perf_counter()
    like, unlike = ([example.reference for example in examples] for examples in (query.like, query.unlike))
    found = session.search(like, unlike, query.k, query.side, query.labels)
    return _response(session, found, query.side, began)


@search.post("/uploads", status_code=201, summary="Upload a picture", openapi_extra=_PICTURE_BODY)
async def upload_picture(request: Request, response: Response) -> schemas.UploadResponse:
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
    return schemas.UploadResponse(upload=name, width=width, height=height, milliseconds=_since(began))


def _response(session: Session, found: SearchResult, side: schemas.Side, began: float) -> SearchResponse:
    hits: list[schemas.Hit] = []
    names = session.index.ids[found.rows].tolist()
    for row, score, name in zip(found.rows.tolist(), found.scores.tolist(), names, strict=True):
        label = session.labels[row]
        relevant = None if found.label is None or label is None else label == found.label
        hits.append({"row": row, "id": name, "label": label, "score": score, "relevant": relevant})
    return SearchResponse(
        side=side,
        version=found.space.version,
        label=found.label,
        average_precision=found.average_precision,
        by_heart=found.by_heart,
        milliseconds=_since(began),
        hits=hits,
    )


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1e3, 3)


items = APIRouter(prefix="/api", tags=["items"], responses=ERRORS)


@items.get("/items", summary="List items")
def list_items(
    session: CurrentSession,
    limit: Annotated[int, Query(ge=1, le=200)] = 24,
    offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    label: Annotated[str | None, Query(max_length=200)] = None,
    shuffle: Annotated[int | None, Query(ge=0, le=2**31 - 1, description="Seed of a random order.")] = None,
) -> schemas.ItemsResponse:
    """Items in order, or in a random order given by a seed."""
    names, codes = session.codes()
    rows = np.arange(len(session))
    if label is not None:
        rows = np.flatnonzero(codes == names.index(label)) if label in names else rows[:0]
    if shuffle is not None:
        rows = np.random.default_rng(shuffle).permutation(rows)
    shown = rows[offset : offset + limit].tolist()
    return schemas.ItemsResponse(total=len(rows), items=[_item(session, row) for row in shown])


@items.get("/items/{row}", summary="Get an item")
def get_item(session: CurrentSession, row: Row) -> ItemResponse:
    """An item by its row number."""
    return _item(session, session.check_row(row))


@items.get("/items/{row}/picture", summary="Get the picture of an item", response_class=Response, responses=_IMAGE)
def get_picture(
    session: CurrentSession,
    row: Row,
    size: Literal["small", "large"] = "small",
    v: Annotated[str | None, Query(max_length=16, description="Ignored; a new value bypasses a browser cache.")] = None,
) -> Response:
    """A JPEG encoded by the server, or a tile with the name of the item if it has no picture."""
    data, kind = session.picture(session.check_row(row), size)
    return Response(data, media_type=kind, headers=_CACHED)


@items.get("/uploads/{name}", summary="Get an uploaded picture", response_class=Response, responses=_IMAGE)
def get_upload(session: CurrentSession, name: Annotated[str, Path(max_length=64)]) -> Response:
    """A thumbnail of an uploaded picture."""
    data, kind = session.upload(name).picture
    return Response(data, media_type=kind, headers=_CACHED)


@items.get("/labels", summary="List all labels with their counts")
def get_labels(session: CurrentSession) -> dict[str, int]:
    """The number of items of each label, sorted by label."""
    names, codes = session.codes()
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    return dict(zip(names, counts.tolist(), strict=True))


@items.get("/map", summary="Get the map of the gallery")
def get_map(request: Request) -> schemas.MapResponse:
    """A quick map at first; the one with neighbourhoods follows when it has been computed (see /api/status)."""
    return schemas.MapResponse(**request.app.state.map.current())


def _item(session: Session, row: int) -> ItemResponse:
    return {"row": row, "id": session.index.ids[[row]].tolist()[0], "label": session.labels[row]}


teach = APIRouter(prefix="/api", tags=["teach"], responses=ERRORS)


@teach.post("/marks", status_code=201, summary="Mark an item right or wrong for a query")
def give_mark(teaching: CurrentTeaching, mark: schemas.MarkRequest) -> dict[str, Any]:
    """The mark is on disk before the response is sent."""
    teaching.mark([example.reference for example in mark.query], mark.item, mark.right)
    return teaching.describe()


@teach.post("/labels", status_code=201, summary="Give an item a label")
def give_label(teaching: CurrentTeaching, given: schemas.LabelRequest) -> dict[str, Any]:
    """The label is on disk before the response is sent."""
    teaching.label(given.item, given.label)
    return teaching.describe()


@teach.post("/learn", status_code=202, summary="Learn from all marks and labels")
def learn(teaching: CurrentTeaching) -> dict[str, Any]:
    """Runs in the background; /api/status tells when it has finished."""
    if not teaching.learn():
        raise HTTPException(409, "a lesson is running already")
    return teaching.describe()


@teach.post("/undo", summary="Undo the last step")
def undo(teaching: CurrentTeaching) -> dict[str, Any]:
    """The last mark, label or lesson."""
    undone = teaching.undo()
    if undone is None:
        raise HTTPException(409, "there is nothing to undo")
    return {"undone": undone, **teaching.describe()}


@teach.get("/feedback", summary="List all marks and labels")
def feedback(teaching: CurrentTeaching) -> list[dict[str, Any]]:
    """In the order in which they were given."""
    return teaching.entries()


@teach.get("/feedback.csv", summary="Download all marks and labels as CSV", response_class=Response)
def feedback_csv(teaching: CurrentTeaching) -> Response:
    """For a spreadsheet, or to learn from elsewhere."""
    headers = {"Content-Disposition": 'attachment; filename="feedback.csv"', **_NO_STORE}
    return Response(teaching.journal.to_csv(), media_type="text/csv; charset=utf-8", headers=headers)


pages = APIRouter(include_in_schema=False)


@pages.get("/")
def page() -> FileResponse:
    return FileResponse(PAGE / "index.html", headers=_REVALIDATE)


@pages.get("/docs")
def docs() -> FileResponse:
    """The JSON API, rendered from its OpenAPI document without scripts from other hosts."""
    return FileResponse(PAGE / "docs.html", headers=_REVALIDATE)


@pages.get("/favicon.ico")
def icon() -> FileResponse:
    return FileResponse(PAGE / "icon.svg", media_type="image/svg+xml")


@pages.get("/login")
def login(request: Request, token: str | None = None) -> Response:
    """The login form; a token in the address, as the server prints it, logs in at once."""
    return _login_page() if token is None else _logged_in(request, token)


@pages.post("/login")
async def submit_login(request: Request) -> Response:
    """Log in with the token from the form."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    return _logged_in(request, fields.get("token", [""])[0].strip())


def _logged_in(request: Request, given: str) -> Response:
    token = request.app.state.token
    if not token.matches(given):
        return _login_page("This is not the token.", 401)
    response = RedirectResponse("/", 303)
    response.set_cookie(COOKIE, token.cookie, httponly=True, samesite="strict", max_age=30 * 86400)
    return response


def _login_page(problem: str = "", status: int = 200) -> HTMLResponse:
    text = (PAGE / "login.html").read_text("utf-8").replace("<!-- problem -->", html.escape(problem))
    return HTMLResponse(text, status, headers=_NO_STORE)


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
def status(request: Request) -> dict[str, Any]:
    """The index, the lessons, and running jobs."""
    state = request.app.state
    session, index = state.session, state.session.index
    return {
        "name": state.name,
        "boot": session.boot,
        "items": len(session),
        "features": int(index.raw.shape[1]),
        "width": int(session.learned.G.shape[1]),
        "labels": len(session.codes()[0]),
        "pictures": session.has_pictures,
        "uploads": index.extractor is not None,
        "model": type(index.model).__name__,
        "version": session.learned.version,
        "map": state.map.job.describe(),
        **state.teaching.describe(),
    }


# One flat list: FastAPI matches a request to an included router twice.
routes = [route for router in (search, items, teach, pages, operations) for route in router.routes]
