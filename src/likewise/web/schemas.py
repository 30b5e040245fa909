"""Requests and responses of the JSON API."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from typing_extensions import TypedDict

Side = Literal["raw", "learned", "previous"]
Row = Annotated[int, Field(ge=0, le=2**31 - 1, description="Row number of an item in the index, from 0.")]
Label = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
]


class ErrorResponse(BaseModel):
    """One sentence; for a malformed request, a list of what is wrong where."""

    detail: Any


ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorResponse} for code in (400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429)
}


class StrictModel(BaseModel):
    """A request body: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Example(StrictModel):
    """A picture to search by: an item by its row, or an upload by its name."""

    row: Row | None = None
    upload: Annotated[str, StringConstraints(max_length=64)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.row is None) == (self.upload is None):
            raise ValueError("give either row or upload")
        return self

    @property
    def reference(self) -> int | str:
        """The row number, or the name of the upload."""
        return self.upload if self.row is None else self.row  # type: ignore[return-value]


class RowSearchRequest(BaseModel):
    """A query by one item, as parameters of the address."""

    row: Row
    k: int = Field(24, ge=1, le=200)
    side: Side = "learned"


class SearchRequest(StrictModel):
    """A query of one or more examples."""

    like: list[Example] = Field(default_factory=list, max_length=16)
    unlike: list[Example] = Field(default_factory=list, max_length=16)
    k: int = Field(24, ge=1, le=200)
    side: Side = "learned"
    labels: list[Annotated[str, StringConstraints(max_length=200)]] = Field(
        default_factory=list, max_length=64, description="Only items with one of these labels."
    )

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.like and not self.unlike:
            raise ValueError("give at least one example in like or unlike")
        return self


class MarkRequest(StrictModel):
    """Whether an item is right or wrong for a query."""

    query: list[Example] = Field(min_length=1, max_length=16)
    item: Row
    right: bool


class LabelRequest(StrictModel):
    """A label for an item."""

    item: Row
    label: Label


class ItemResponse(TypedDict):  # a TypedDict is validated in a third of the time of a model
    """An item of the index."""

    row: int
    id: int | str
    label: str | None


class Hit(ItemResponse):
    """An item that was found."""

    score: float
    relevant: Annotated[bool | None, Field(description="Whether it has the query's label; null if either is unknown.")]


class SearchResponse(BaseModel):
    """The items that were found, best first."""

    side: Side
    version: int = Field(description="Number of lessons behind the ranking.")
    label: str | None = Field(description="The label that all wanted examples share.")
    average_precision: float | None = Field(description="Over all items, if the query's label is known.")
    by_heart: bool = Field(description="Whether the model learned from the query: its precision is then no test.")
    milliseconds: float
    hits: list[Hit]


class ItemsResponse(BaseModel):
    """A page of items, and the number of all that match."""

    total: int
    items: list[ItemResponse]


class MapResponse(BaseModel):
    """Items in the plane, both axes in 0..65535; `rows` is null if all items are there, in order."""

    version: int
    method: Literal["quick", "neighbours"]
    x: list[int]
    y: list[int]
    rows: list[int] | None
    codes: list[int] = Field(description="Position of the item's label in `labels`, -1 without one.")
    labels: list[str]


class UploadResponse(BaseModel):
    """An uploaded picture, ready to be searched by."""

    upload: str
    width: int
    height: int
    milliseconds: float
