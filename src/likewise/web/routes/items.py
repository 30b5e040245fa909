"""The items: lists of them, their pictures, the map they lie on."""

from __future__ import annotations

import gzip
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Path, Query, Request, Response

from likewise.web.schemas import ERRORS, Item, Items, MapOfGallery
from likewise.web.session import Desk

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["items"], responses=ERRORS)
Row = Annotated[int, Path(ge=0, le=2**31 - 1)]
_IMAGE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {}, "image/svg+xml": {}}, "description": "The picture."}
}


@router.get("/items", summary="Some items", response_model=Items)
def list_items(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=200)] = 24,
    offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    label: Annotated[str | None, Query(max_length=200)] = None,
    shuffle: Annotated[int | None, Query(ge=0, le=2**31 - 1, description="Seed of a random order.")] = None,
) -> dict[str, Any]:
    """Items in order, or in a random order that a seed repeats."""
    desk: Desk = request.app.state.desk
    names, codes = desk.codes()
    if label is None:
        rows = np.arange(len(desk))
    else:
        rows = np.flatnonzero(codes == names.index(label)) if label in names else np.arange(0)
    if shuffle is not None:
        rows = np.random.default_rng(shuffle).permutation(rows)
    return {"total": len(rows), "items": [_item(desk, int(row)) for row in rows[offset : offset + limit]]}


@router.get("/items/{row}", response_model=Item, summary="One item")
def get_item(request: Request, row: Row) -> dict[str, Any]:
    """An item by its row number."""
    desk: Desk = request.app.state.desk
    return _item(desk, desk.checked(row))


@router.get("/items/{row}/picture", summary="The picture of an item", response_class=Response, responses=_IMAGE)
def get_picture(
    request: Request,
    row: Row,
    size: Literal["small", "large"] = "small",
    v: Annotated[str | None, Query(max_length=16, description="Anything; keeps a browser from older pictures.")] = None,
) -> Response:
    """Always JPEG made here from the pixels, or a tile with the item's name; a row number is all it takes."""
    desk: Desk = request.app.state.desk
    data, kind = desk.picture(desk.checked(row), size)
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=86400"})


@router.get("/uploads/{name}", summary="A picture that was brought", response_class=Response, responses=_IMAGE)
def get_upload(request: Request, name: Annotated[str, Path(max_length=64)]) -> Response:
    """How an uploaded picture looks."""
    data, kind = request.app.state.desk.upload(name).picture
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=86400"})


@router.get("/labels", summary="All labels with their counts", response_model=dict[str, int])
def get_labels(request: Request) -> dict[str, int]:
    """Label to number of items, in order."""
    names, codes = request.app.state.desk.codes()
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    return dict(zip(names, counts.tolist(), strict=True))


@router.get("/map", summary="The gallery in the plane", response_model=MapOfGallery)
def get_map(request: Request) -> Response:
    """Two directions at once; the neighbourhoods follow when they have been worked out (see /api/status)."""
    data = request.app.state.atlas.json(request.app.state.desk)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(data, media_type="application/json")
    packed = gzip.compress(data, 5)
    return Response(
        packed, media_type="application/json", headers={"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    )


def _item(desk: Desk, row: int) -> dict[str, Any]:
    name = desk.index.ids[row]
    return {"row": row, "id": name.item() if isinstance(name, np.generic) else name, "label": desk.labels[row]}
