"""Items: lists of them, their pictures, and the map."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Path, Query, Request, Response

from likewise.web.schemas import ERRORS, ItemResponse, ItemsResponse, MapResponse
from likewise.web.session import Session

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["items"], responses=ERRORS)
Row = Annotated[int, Path(ge=0, le=2**31 - 1)]
_IMAGE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {}, "image/svg+xml": {}}, "description": "The picture."}
}
_CACHED = {"Cache-Control": "private, max-age=86400"}


@router.get("/items", summary="List items")
def list_items(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=200)] = 24,
    offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    label: Annotated[str | None, Query(max_length=200)] = None,
    shuffle: Annotated[int | None, Query(ge=0, le=2**31 - 1, description="Seed of a random order.")] = None,
) -> ItemsResponse:
    """Items in order, or in a random order given by a seed."""
    session: Session = request.app.state.session
    names, codes = session.codes()
    if label is None:
        rows = np.arange(len(session))
    else:
        rows = np.flatnonzero(codes == names.index(label)) if label in names else np.arange(0)
    if shuffle is not None:
        rows = np.random.default_rng(shuffle).permutation(rows)
    shown = rows[offset : offset + limit].tolist()
    return ItemsResponse(total=len(rows), items=[_item(session, row) for row in shown])


@router.get("/items/{row}", summary="Get an item")
def get_item(request: Request, row: Row) -> ItemResponse:
    """An item by its row number."""
    session: Session = request.app.state.session
    return _item(session, session.check_row(row))


@router.get("/items/{row}/picture", summary="Get the picture of an item", response_class=Response, responses=_IMAGE)
def get_picture(
    request: Request,
    row: Row,
    size: Literal["small", "large"] = "small",
    v: Annotated[str | None, Query(max_length=16, description="Ignored; a new value bypasses a browser cache.")] = None,
) -> Response:
    """A JPEG encoded by the server, or a tile with the name of the item if it has no picture."""
    session: Session = request.app.state.session
    data, kind = session.picture(session.check_row(row), size)
    return Response(data, media_type=kind, headers=_CACHED)


@router.get("/uploads/{name}", summary="Get an uploaded picture", response_class=Response, responses=_IMAGE)
def get_upload(request: Request, name: Annotated[str, Path(max_length=64)]) -> Response:
    """A thumbnail of an uploaded picture."""
    data, kind = request.app.state.session.upload(name).picture
    return Response(data, media_type=kind, headers=_CACHED)


@router.get("/labels", summary="List all labels with their counts")
def get_labels(request: Request) -> dict[str, int]:
    """The number of items of each label, sorted by label."""
    names, codes = request.app.state.session.codes()
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    return dict(zip(names, counts.tolist(), strict=True))


@router.get("/map", summary="Get the map of the gallery")
def get_map(request: Request) -> MapResponse:
    """A quick map at first; the one with neighbourhoods follows when it has been computed (see /api/status)."""
    return MapResponse(**request.app.state.map.current())


def _item(session: Session, row: int) -> ItemResponse:
    return {"row": row, "id": session.index.ids[[row]].tolist()[0], "label": session.labels[row]}
