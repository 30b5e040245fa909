"""The map of the gallery: points, or tiles where there are too many, and what a lasso encloses."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from likewise.serve.map import DEEPEST, GalleryMap
from likewise.serve.schemas import ERRORS, LassoRequest, LassoResponse, MapResponse, MapTile
from likewise.serve.teaching import MOST_LABELLED

Side = Literal["raw", "learned"]
At = Annotated[int, Query(ge=0, lt=2**DEEPEST)]
map_routes = APIRouter(prefix="/api/map", tags=["items"], responses=ERRORS)


@map_routes.get("", summary="Get the map of the gallery")
def get_map(request: Request, side: Side = "learned") -> MapResponse:
    """A quick map at first; the one with neighbourhoods follows when it has been computed (see /api/status)."""
    return MapResponse(**_of(request, side).current())


@map_routes.get("/tile", summary="Get a square of the map")
def get_tile(
    request: Request, z: Annotated[int, Query(ge=0, le=DEEPEST)], x: At, y: At, side: Side = "learned"
) -> MapTile:
    """How many items there are where; a tile of few has their points."""
    return MapTile(**_of(request, side).tile(z, x, y))


@map_routes.post("/lasso", summary="Items inside a line on the map")
def lasso(request: Request, drawn: LassoRequest) -> LassoResponse:
    """Rows in order, as many of them as one step labels."""
    rows = _of(request, drawn.side).inside(drawn.line)
    return LassoResponse(total=len(rows), rows=rows[:MOST_LABELLED].tolist())


def _of(request: Request, side: Side) -> GalleryMap:
    gallery_map: GalleryMap = request.app.state.maps[side]
    return gallery_map
