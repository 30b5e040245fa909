"""What comes in and goes out as JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

__all__ = [
    "ERRORS",
    "Answer",
    "Example",
    "Item",
    "Items",
    "LabelGiven",
    "MapOfGallery",
    "Mark",
    "SearchRequest",
    "Side",
]

Side = Literal["raw", "learned", "previous"]
Row = Annotated[int, Field(ge=0, le=2**31 - 1, description="Place of an item in the index, from 0.")]
Label = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
]


class Problem(BaseModel):
    """One sentence on what is wrong; for a malformed request, a list of what is wrong where."""

    detail: Any


ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem} for code in (400, 401, 403, 404, 405, 408, 409, 413, 415, 421, 422, 429)
}


class Strict(BaseModel):
    """A request: what is not known is refused."""

    model_config = ConfigDict(extra="forbid")


class Example(Strict):
    """A picture to search by: an item by its row, or one that was uploaded."""

    row: Row | None = None
    upload: Annotated[str, StringConstraints(max_length=64)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Example:
        if (self.row is None) == (self.upload is None):
            raise ValueError("give either row or upload")
        return self

    @property
    def reference(self) -> int | str:
        """The row number, or the name of the upload."""
        return self.upload if self.row is None else self.row  # type: ignore[return-value]


class SearchRequest(Strict):
    """Several examples are one query."""

    like: list[Example] = Field(default_factory=list, max_length=16)
    unlike: list[Example] = Field(default_factory=list, max_length=16)
    k: int = Field(24, ge=1, le=200)
    side: Side = "learned"
    labels: list[Annotated[str, StringConstraints(max_length=200)]] = Field(
        default_factory=list, max_length=64, description="Only items with one of these labels."
    )

    @model_validator(mode="after")
    def _some(self) -> SearchRequest:
        if not self.like and not self.unlike:
            raise ValueError("give at least one example in like or unlike")
        return self


class Mark(Strict):
    """Right: the item belongs with the query. Wrong: it does not."""

    query: list[Example] = Field(min_length=1, max_length=16)
    item: Row
    right: bool


class LabelGiven(Strict):
    """An item and the label it gets."""

    item: Row
    label: Label


class Item(BaseModel):
    """An item of the index."""

    row: int
    id: int | str
    label: str | None


class Hit(Item):
    """An item that was found."""

    score: float
    relevant: bool | None = Field(description="Whether it has the query's label; null where either is not known.")


class Answer(BaseModel):
    """What a search found, best first."""

    side: Side
    version: int = Field(description="How many lessons the ranking rests on.")
    label: str | None = Field(description="The label that all wanted examples share.")
    average_precision: float | None = Field(description="Over all items, where the query's label is known.")
    milliseconds: float
    hits: list[Hit]


class Items(BaseModel):
    """Some items."""

    total: int
    items: list[Item]


class MapOfGallery(BaseModel):
    """Items in the plane, both axes in 0..65535; `rows` is null when all items are there in order."""

    version: int
    method: Literal["quick", "neighbours"]
    x: list[int]
    y: list[int]
    rows: list[int] | None
    codes: list[int] = Field(description="Number of the item's label in `labels`, -1 without one.")
    labels: list[str]


class Uploaded(BaseModel):
    """A picture that is ready to be searched by."""

    upload: str
    width: int
    height: int
    milliseconds: float
