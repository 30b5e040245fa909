"""The map as JSON: its points, or tiles of how many there are, and what a lasso encloses."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from likewise.serve.schemas import StrictModel

Place = Annotated[int, Field(ge=-(2**17), le=2**17)]  # on the map, 0..65535, or beside it


class MapName(BaseModel):
    """A label, how many items have it, and the middle of these."""

    text: str
    count: int
    x: int
    y: int


class MapResponse(BaseModel):
    """Items in the plane, both axes in 0..65535, in the order of their rows.

    Of more items than a browser draws smoothly there are tiles instead (`tiles`), and x, y and codes are empty.
    """

    version: int
    side: Literal["raw", "learned"]
    method: Literal["quick", "neighbours"]
    total: int
    tiles: str | None = Field(description="What names this state of the tiles; null where there are points.")
    x: list[int]
    y: list[int]
    codes: list[int] = Field(description="Position of the item's label in `labels`, -1 without one.")
    labels: list[str]
    names: list[MapName] | None = Field(description="Largest labels and where they are; null where there are points.")


class MapPoints(BaseModel):
    """Items of a tile with few of them."""

    rows: list[int]
    x: list[int]
    y: list[int]
    codes: list[int]


class MapTile(BaseModel):
    """A square of the map, in 64 × 64 cells: those that are not empty, how many items each has, and their usual label.

    A tile of few items has their points as well.
    """

    cells: list[int]
    counts: list[int]
    codes: list[int]
    points: MapPoints | None


class LassoRequest(StrictModel):
    """A closed line on the map."""

    side: Literal["raw", "learned"] = "learned"
    line: list[tuple[Place, Place]] = Field(min_length=3, max_length=2000)


class LassoResponse(BaseModel):
    """Rows inside a line, at most as many as one step labels, and how many there are."""

    total: int
    rows: list[int]
