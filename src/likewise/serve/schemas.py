"""Requests and responses of the JSON API."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from typing_extensions import TypedDict

from likewise.search.filters import MOST_CHARACTERS
from likewise.serve.catalogue import ColumnFacet, Filters, MediaKind
from likewise.serve.session import Reference, SearchQuery, Session
from likewise.utils.wording import listed
from likewise.words.search import Phrase

Side = Literal["raw", "learned", "previous"]
Row = Annotated[int, Field(ge=0, le=2**31 - 1, description="Row number of an item in the index, from 0.")]
AtMostWrong = Annotated[
    float | None, Field(gt=0, lt=1, description="Results end where more than this share would be wrong on average.")
]
Label = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
]
Words = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), Field(description="A phrase.")
]
Id = Annotated[str | int, Field(description="Id of an item.")]
Vector = Annotated[list[float], Field(min_length=1, max_length=16_384, description="Raw features of a query.")]
Name = Annotated[str, StringConstraints(max_length=1000)]
Condition = Annotated[
    str, StringConstraints(max_length=MOST_CHARACTERS), Field(description='Such as price < 20 and topic == "space".')
]
Month = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}$")]


class ErrorResponse(BaseModel):
    """One sentence; for a malformed request, a list of what is wrong where."""

    detail: Any


ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorResponse} for code in (400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429)
}


class StrictModel(BaseModel):
    """A request body: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Marked(StrictModel):
    """What a mark is for: an item by its row or its id, or an upload by its name."""

    row: Row | None = None
    upload: Annotated[str, StringConstraints(max_length=64)] | None = None
    id: Id | None = None
    alternatives: ClassVar[tuple[str, ...]] = ("row", "id", "upload")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(getattr(self, name) is not None for name in self.alternatives) != 1:
            raise ValueError(f"give one of {listed(self.alternatives)}")
        return self

    def reference(self, session: Session) -> Any:
        """The row number, or the name of the upload."""
        if self.id is not None:
            return session.row_of(str(self.id))
        return self.upload if self.row is None else self.row


class Example(Marked):
    """What to search by: an item by its row or its id, an upload by its name, raw features, or words."""

    text: Words | None = None
    weight: Annotated[float, Field(gt=0, le=100, description="Of words, against a picture or other words.")] = 1.0
    vector: Vector | None = None
    alternatives: ClassVar[tuple[str, ...]] = ("row", "id", "upload", "vector", "text")

    def reference(self, session: Session) -> Reference:
        """The row number, the name of the upload, the raw features, or the words."""
        if self.text is not None:
            return Phrase(self.text, self.weight)
        return super().reference(session) if self.vector is None else session.vector(self.vector)


class Filtered(StrictModel):
    """Only items with one of these labels, in one of these folders, of one of these months, that pass conditions."""

    labels: list[Name] = Field(default_factory=list, max_length=64)
    folders: list[Name] = Field(default_factory=list, max_length=64)
    months: list[Month] = Field(default_factory=list, max_length=64)
    where: Condition | Annotated[list[Condition], Field(max_length=32)] = Field(default_factory=list)

    @property
    def filters(self) -> Filters:
        where = [self.where] if isinstance(self.where, str) else self.where
        return Filters(self.labels, self.folders, self.months, where)


class RowSearchRequest(BaseModel):
    """A query by one item, as parameters of the address."""

    row: Row
    k: int = Field(24, ge=1, le=200)
    side: Side = "learned"
    at_most_wrong: AtMostWrong = None


class Examples(Filtered):
    """A query of one or more examples, among the items that pass the filters."""

    like: list[Example] = Field(default_factory=list, max_length=16)
    unlike: list[Example] = Field(default_factory=list, max_length=16)
    side: Side = "learned"

    def query(self, session: Session, precision: bool = False) -> SearchQuery:
        """The query, its ids and vectors checked."""
        like, unlike = ([one.reference(session) for one in examples] for examples in (self.like, self.unlike))
        return SearchQuery(like, unlike, self.filters, precision)


class SearchRequest(Examples):
    """A query, and which of its results to send."""

    k: int = Field(24, ge=1, le=200)
    offset: int = Field(0, ge=0, le=2**31 - 1, description="Number of the best results to leave out.")
    at_most_wrong: AtMostWrong = None
    precision: bool = Field(False, description="Whether to compute average_precision, which takes as long again.")
    text: Words | None = Field(None, description="Short for {text: …} in like.")
    without: Words | None = Field(None, alias="not", description="Short for {text: …} in unlike.")
    id: Id | None = Field(None, description="Short for {id: …} in like.")
    vector: Vector | None = Field(None, description="Short for {vector: …} in like.")

    @model_validator(mode="after")
    def _some(self) -> Self:
        self.like += [] if self.text is None else [Example(text=self.text)]
        self.like += [] if self.id is None else [Example(id=self.id)]
        self.like += [] if self.vector is None else [Example(vector=self.vector)]
        self.unlike += [] if self.without is None else [Example(text=self.without)]
        if not self.like and not self.unlike:
            raise ValueError("give at least one example in like or unlike, or text, an id or a vector")
        return self


Rows = Annotated[list[Row], Field(min_length=1, max_length=10_000)]


class ItemsRequest(StrictModel):
    """Items by their rows or by their ids."""

    items: Rows | None = None
    ids: Annotated[list[Id], Field(min_length=1, max_length=10_000)] | None = None

    @model_validator(mode="after")
    def _either(self) -> Self:
        if (self.items is None) == (self.ids is None):
            raise ValueError("give either items, by their rows, or ids")
        return self

    def rows(self, session: Session) -> list[int]:
        """The rows of the items."""
        return [session.row_of(str(name)) for name in self.ids or ()] if self.items is None else self.items


class MarkRequest(ItemsRequest):
    """Whether items are right or wrong for a query; null takes their marks off."""

    query: list[Marked] = Field(min_length=1, max_length=16)
    right: bool | None


class LabelRequest(ItemsRequest):
    """A label for items; null takes theirs away."""

    label: Label | None


class DistinctRequest(StrictModel):
    """Items that are no duplicates of one another."""

    items: Annotated[list[Row], Field(min_length=2, max_length=1000)]


class CardResponse(TypedDict):
    """What is shown of an item that has metadata."""

    title: str | None
    text: Annotated[str | None, Field(description="The first of it; in full at /api/items/{row}.")]
    url: Annotated[str | None, Field(description="Only http and https.")]
    fields: list[tuple[str, str | int | float | bool]]


class ItemResponse(TypedDict):  # a TypedDict is validated in a third of the time of a model
    """An item of the index."""

    row: int
    id: int | str
    key: Annotated[str, Field(description="Stays the same when other items come and go.")]
    name: Annotated[str, Field(description="The file name, or the id.")]
    folder: Annotated[str | None, Field(description="Relative to the folder of all pictures.")]
    date: str | None
    label: str | None
    kind: MediaKind
    card: CardResponse | None


class Hit(ItemResponse):
    """A result."""

    score: float
    probability: Annotated[float | None, Field(description="That it matches the query; null without a calibration.")]
    relevant: Annotated[bool | None, Field(description="Whether it has the query's label; null if either is unknown.")]
    by_name: Annotated[
        bool | None, Field(description="Whether the words are in its label or name; null without words.")
    ]


class SearchResponse(BaseModel):
    """The results, best first."""

    side: Side
    version: int = Field(description="Number of lessons behind the ranking.")
    label: str | None = Field(description="The label that all wanted examples share.")
    average_precision: float | None = Field(
        description="Over all items, if it was requested and the query's label is known."
    )
    learned_from_query: bool = Field(description="The precision of such a query says nothing about others.")
    milliseconds: float
    total: int = Field(description="How many items were ranked, or are above the cut-off.")
    about_wrong: float | None = Field(description="How many of `total` are expected to be wrong, with a cut-off.")
    novelty: float | None = Field(description="Above 1, the query is unlike anything the model learned from.")
    calibrated: bool = Field(description="Whether this query has a cut-off.")
    hits: list[Hit]


class ItemsResponse(BaseModel):
    """A page of items, and the number of all that match."""

    total: int
    items: list[ItemResponse]


class FacetsResponse(BaseModel):
    """The number of items of each label, in each folder and of each month."""

    labels: dict[str, int]
    folders: dict[str, int]
    months: dict[str, int]
    columns: list[ColumnFacet]


class DuplicatesResponse(BaseModel):
    """Groups of near-duplicates, largest first, the best picture of each first; empty while they are computed."""

    state: Literal["ready", "running", "failed"]
    error: str | None = None
    threshold: float
    lowest: float = Field(description="Pairs below this similarity are dropped.")
    progress: float
    total: int = Field(description="Number of groups.")
    n_extra: int = Field(description="Number of items beyond the best of each group.")
    groups: list[list[ItemResponse]]


class ExportRequest(Examples):
    """The first results of a query, or some items."""

    items: list[Row] = Field(default_factory=list, max_length=10_000)
    k: int = Field(200, ge=1, le=100_000)

    @model_validator(mode="after")
    def _either(self) -> Self:
        if bool(self.items) == bool(self.like or self.unlike):
            raise ValueError("give either items or examples in like or unlike")
        return self


class ExportResponse(BaseModel):
    """Items ready to be downloaded."""

    export: str
    items: int
    pictures: int = Field(description="Files in the ZIP.")
    note: str | None = Field(description="What the ZIP leaves out.")


class ConceptRequest(Examples):
    """A label, or a query of one or more examples, and the cut-off; a label may go without."""

    label: Label | None = None
    at_most_wrong: AtMostWrong = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.label is None) != bool(self.like):
            raise ValueError("give either a label, or examples in like")
        if self.label is None and self.at_most_wrong is None:
            raise ValueError("a query needs at_most_wrong")
        return self


class Unsure(ItemResponse):
    """An item of a previewed set."""

    probability: float


class ConceptResponse(BaseModel):
    """A set that was previewed."""

    concept: str = Field(description="The name under which it can be saved, listed and written.")
    items: int
    known: int = Field(description="How many of them have the label, or are examples.")
    about_wrong: float | None = Field(description="How many are expected not to belong; null without a cut-off.")
    least_sure: list[Unsure]
    writes: bool = Field(description="Whether keywords may be written next to the pictures.")
    written: bool = Field(description="Whether keywords of the label were written and can be taken back.")


class ConceptChoice(StrictModel):
    """A previewed set, the label for it, and items that are taken out of it."""

    concept: Annotated[str, StringConstraints(max_length=64)]
    label: Label
    without: list[Row] = Field(default_factory=list, max_length=200)


class KeywordUndo(StrictModel):
    """The label whose keywords are taken back."""

    label: Label


class KeywordsResponse(BaseModel):
    """Progress of the keywords; when done, how many sidecars were created, changed and skipped."""

    state: Literal["idle", "running", "done", "failed"]
    error: str | None
    done: int
    total: int
    outcome: dict[str, Any] | None


class SuggestionResponse(ItemResponse):
    """An item that is worth a mark: for a label (of which `of_row` is an example), an item, or an upload as query."""

    of_label: str | None
    of_row: int | None
    of_upload: str | None
    why: Literal["unlike", "border", "likely", "unlikely", "typical", "another", "new"]
    reason: str
    gain: Annotated[
        float, Field(description="Share of the uncertainty about the first results that a mark would remove.")
    ]


class SavedSearchResponse(BaseModel):
    """A label that was given: how many items have it, how many others fit, and how many of these are new.

    `fitting` is null with too few marks for a cut-off.
    """

    label: str
    items: int
    fitting: int | None
    new: int


class SuggestionsResponse(BaseModel):
    """Items to mark next, the most informative first."""

    suggestions: list[SuggestionResponse]


class VectorRequest(StrictModel):
    """Raw features to search by."""

    vector: Vector


class UploadResponse(BaseModel):
    """An uploaded picture, ready to be searched by."""

    upload: str
    width: int
    height: int
    milliseconds: float


# -- the map ----------------------------------------------------------------------------------------------------------

Place = Annotated[int, Field(ge=-(2**17), le=2**17)]  # on the map, 0..65535, or outside of it


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
