"""Items, their pictures and labels."""

from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from starlette.exceptions import HTTPException

from likewise.search.rank import NotFoundError
from likewise.serve import schemas
from likewise.serve.catalogue import Filters, media_file
from likewise.serve.duplicates import LOWEST, Duplicates
from likewise.serve.exporting import Exports, zipped
from likewise.serve.map import DEEPEST
from likewise.serve.routes import (
    CACHED,
    IMAGE,
    NO_STORE,
    CurrentSession,
    Row,
    download,
    item_response,
    item_responses,
    state,
)  # fmt: skip
from likewise.serve.schemas import ERRORS, ItemResponse, LassoRequest, LassoResponse, MapResponse, MapTile
from likewise.serve.teaching import MOST_LABELLED
from likewise.utils.wording import csv_text

Many = Annotated[list[str], Query(max_length=64)]


async def _wanted(  # FastAPI copies the lists
    label: Many = [],  # noqa: B006
    folder: Many = [],  # noqa: B006
    month: Many = [],  # noqa: B006
    where: Annotated[list[schemas.Condition], Query(max_length=32)] = [],  # noqa: B006
) -> Filters:
    return Filters(label, folder, month, where)


Wanted = Annotated[Filters, Depends(_wanted)]
items = APIRouter(prefix="/api", tags=["items"], responses=ERRORS)


@items.get("/items", summary="List items")
def list_items(
    session: CurrentSession,
    wanted: Wanted,
    limit: Annotated[int, Query(ge=1, le=200)] = 24,
    offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    shuffle: Annotated[int | None, Query(ge=0, le=2**31 - 1, description="Seed of a random order.")] = None,
    keys: Annotated[str | None, Query(max_length=4000, description="Only these, separated by commas.")] = None,
    id: Annotated[str | None, Query(max_length=1000, description="Only the item with this id.")] = None,
) -> schemas.ItemsResponse:
    """Items in order, or in a random order given by a seed; unknown keys, labels, folders and months match nothing."""
    if id is not None:
        rows = np.array([session.row_of(id)])
    elif keys is not None:
        of_keys = map(session.index.identities.row_of_key, keys.split(","))
        rows = np.array([row for row in of_keys if row is not None], dtype=np.int64)
    else:
        try:
            rows = np.flatnonzero(session.passing(wanted))
        except NotFoundError:
            rows = np.arange(0)
    if shuffle is not None:
        rows = np.random.default_rng(shuffle).permutation(rows)
    shown = rows[offset : offset + limit].tolist()
    return schemas.ItemsResponse(total=len(rows), items=item_responses(session, shown))


@items.get("/items/{row}", summary="Get an item")
def get_item(session: CurrentSession, row: Row) -> ItemResponse:
    """An item by its row number, with the whole text and all columns of its card."""
    return item_response(session, session.check_row(row), whole=True)


@items.get("/items/{row}/media", summary="Get the sound or film of an item", response_class=FileResponse)
def get_media(session: CurrentSession, row: Row) -> FileResponse:
    """The file as it is; parts of it by the header Range."""
    path, kind = media_file(session.index, session.check_row(row))
    return FileResponse(path, media_type=kind, headers=CACHED)


@items.get("/items/{row}/picture", summary="Get the picture of an item", response_class=Response, responses=IMAGE)
def get_picture(
    session: CurrentSession,
    row: Row,
    size: Literal["small", "large"] = "small",
    v: Annotated[str | None, Query(max_length=16, description="Ignored; a new value bypasses a browser cache.")] = None,
) -> Response:
    """A JPEG encoded by the server, or a tile with the name of the item if it has no picture."""
    data, kind = session.picture(session.check_row(row), size)
    return Response(data, media_type=kind, headers=CACHED)


@items.get("/uploads/{name}", summary="Get an uploaded picture", response_class=Response, responses=IMAGE)
def get_upload(session: CurrentSession, name: Annotated[str, Path(max_length=64)]) -> Response:
    """A thumbnail of an uploaded picture."""
    picture = session.uploads[name].picture
    if picture is None:
        raise NotFoundError("this query is numbers, and has no picture")
    return Response(picture[0], media_type=picture[1], headers=CACHED)


@items.get("/labels", summary="List all labels with their counts")
def get_labels(session: CurrentSession) -> dict[str, int]:
    """The number of items of each label, sorted by label."""
    return session.label_facet.counts(np.ones(len(session), dtype=bool))


@items.get("/facets", summary="Count items by label, folder, month and column")
def get_facets(session: CurrentSession, wanted: Wanted) -> schemas.FacetsResponse:
    """Each facet is counted among the items that pass the filters of the others."""
    facets = session.facets().items()
    counts = {name: facet.counts(session.passing(wanted.without(name))) for name, facet in facets}
    columns = session.catalogue.columns
    masks = {name: session.passing(wanted.without_column(name)) for name in columns.names}
    return schemas.FacetsResponse(**counts, columns=columns.counted(masks))


# -- the map -----------------------------------------------------------------------------------------------------------

MapSide = Literal["raw", "learned"]
At = Annotated[int, Query(ge=0, lt=2**DEEPEST)]
map_routes = APIRouter(prefix="/api/map", tags=["items"], responses=ERRORS)


@map_routes.get("", summary="Get the map of the gallery")
def get_map(request: Request, side: MapSide = "learned") -> MapResponse:
    """A quick map at first; the one with neighbourhoods follows when it has been computed (see /api/status)."""
    return MapResponse(**request.app.state.maps[side].current())


@map_routes.get("/tile", summary="Get a square of the map")
def get_tile(
    request: Request, z: Annotated[int, Query(ge=0, le=DEEPEST)], x: At, y: At, side: MapSide = "learned"
) -> MapTile:
    """How many items there are where; a tile of few has their points."""
    return MapTile(**request.app.state.maps[side].tile(z, x, y))


@map_routes.post("/lasso", summary="Items inside a line on the map")
def lasso(request: Request, drawn: LassoRequest) -> LassoResponse:
    """Rows in order, as many of them as one step labels."""
    rows = request.app.state.maps[drawn.side].inside(drawn.line)
    return LassoResponse(total=len(rows), rows=rows[:MOST_LABELLED].tolist())


# -- near-duplicates ---------------------------------------------------------------------------------------------------

CurrentDuplicates = Annotated[Duplicates, Depends(state("duplicates"))]
Threshold = Annotated[float, Query(ge=LOWEST, le=1, description="Cosine of the raw features.")]
duplicates = APIRouter(prefix="/api", tags=["duplicates"], responses=ERRORS)


@duplicates.get("/duplicates", summary="Groups of near-duplicates")
def get_duplicates(
    finder: CurrentDuplicates,
    threshold: Threshold = 0.97,
    offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> schemas.DuplicatesResponse:
    """The first request starts the comparison of all pairs; ask again until the state is ready."""
    state = finder.state()
    groups = finder.groups(threshold) if state == "ready" else []
    return schemas.DuplicatesResponse(
        state=state,
        error=finder.job.error,
        threshold=threshold,
        lowest=finder.pairs.lowest,
        progress=finder.progress,
        total=len(groups),
        n_extra=sum(len(group) - 1 for group in groups),
        groups=[item_responses(finder.session, finder.best_first(group)) for group in groups[offset : offset + limit]],
    )


@duplicates.get("/duplicates.csv", summary="List all but the best of each group", response_class=Response)
def duplicates_csv(finder: CurrentDuplicates, threshold: Threshold = 0.97) -> Response:
    """The path of each item, and of the best of its group, which is not in the list."""
    if finder.state() != "ready":
        raise HTTPException(409, "the items are still being compared; ask again in a moment")
    index = finder.session.index
    names = index.ids if index.paths is None else index.paths
    groups = map(finder.best_first, finder.groups(threshold))
    lines = [(str(names[row]), str(names[best])) for best, *rest in groups for row in rest]
    return download(csv_text(("path", "kept"), lines), "duplicates.csv", "text/csv")


# -- downloads ---------------------------------------------------------------------------------------------------------

CurrentExports = Annotated[Exports, Depends(state("exports"))]
ExportName = Annotated[str, Path(max_length=64)]
exports = APIRouter(prefix="/api", tags=["export"], responses=ERRORS)


@exports.post("/exports", status_code=201, summary="Prepare a download of results or items")
def export(session: CurrentSession, store: CurrentExports, query: schemas.ExportRequest) -> schemas.ExportResponse:
    """The name leads to a CSV and a ZIP until 32 newer ones were prepared."""
    if query.items:
        name, prepared = store.add([session.check_row(row) for row in query.items])
    else:
        hits = session.search(query.query(session), query.k, query.side)
        name, prepared = store.add(hits.rows.tolist(), hits.scores.tolist())
    return schemas.ExportResponse(
        export=name, items=len(prepared.rows), pictures=len(prepared.pictures), note=prepared.note
    )


@exports.get("/exports/{name}.csv", summary="Download as CSV", response_class=Response)
def export_csv(store: CurrentExports, name: ExportName) -> Response:
    """Rank, id, path, label and score."""
    return download(store.csv(store.get(name)), "results.csv")


@exports.get("/exports/{name}.zip", summary="Download the pictures as ZIP", response_class=StreamingResponse)
def export_zip(store: CurrentExports, name: ExportName) -> StreamingResponse:
    """The files as they are, at most 500 of them and 1 GB."""
    headers = {"Content-Disposition": 'attachment; filename="pictures.zip"', **NO_STORE}
    return StreamingResponse(zipped(store.get(name).pictures), media_type="application/zip", headers=headers)
