"""Items, their pictures and labels."""

from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, Depends, Path, Query, Response
from fastapi.responses import FileResponse

from likewise.search.rank import NotFoundError
from likewise.serve import schemas
from likewise.serve.catalogue import Filters, media_file
from likewise.serve.routes.common import CACHED, IMAGE, CurrentSession, Row, item_response, item_responses
from likewise.serve.schemas import ERRORS, ItemResponse
from likewise.serve.session import Session

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
        known = (session.catalogue.row_of(key) for key in keys.split(","))
        rows = np.array([row for row in known if row is not None], dtype=np.int64)
    else:
        rows = _passing_rows(session, wanted)
    if shuffle is not None:
        rows = np.random.default_rng(shuffle).permutation(rows)
    shown = rows[offset : offset + limit].tolist()
    return schemas.ItemsResponse(total=len(rows), items=item_responses(session, shown))


def _passing_rows(session: Session, wanted: Filters) -> np.ndarray:
    try:
        return np.flatnonzero(session.passing(wanted))
    except NotFoundError:
        return np.arange(0)


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
    picture = session.upload(name).picture
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
