"""What to mark next, and named sets: previewed, saved as labels, listed, written as keywords."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response
from starlette.exceptions import HTTPException

from likewise.serve import schemas
from likewise.serve.concepts import LEAST_SURE, Concepts
from likewise.serve.routes import CurrentSession, CurrentTeaching, Who, download, item_response, state
from likewise.serve.schemas import ERRORS, SuggestionResponse, SuggestionsResponse
from likewise.serve.session import Session
from likewise.serve.teaching import TeachingSession
from likewise.teach.suggest import REASONS, Suggestion

OfLabel = Annotated[str | None, Query(max_length=200, description="A label.")]
OfRow = Annotated[int | None, Query(ge=0, le=2**31 - 1, description="An item as query.")]
OfUpload = Annotated[str | None, Query(max_length=64, description="An upload as query.")]
CurrentConcepts = Annotated[Concepts, Depends(state("concepts"))]
concepts = APIRouter(prefix="/api", tags=["concepts"], responses=ERRORS)


@concepts.get("/suggestions", summary="The items whose marks would teach most")
def suggestions(
    session: CurrentSession,
    teaching: CurrentTeaching,
    label: OfLabel = None,
    row: OfRow = None,
    upload: OfUpload = None,
    n: Annotated[int, Query(ge=1, le=50)] = 10,
    new: Annotated[bool, Query(description="Items that came after the last lesson and fit the label.")] = False,
) -> schemas.SuggestionsResponse:
    """For a label or a query; without either, for all that was taught, or items that represent most others."""
    if sum(value is not None for value in (label, row, upload)) > 1:
        raise HTTPException(422, "give one of `label`, `row` and `upload`")
    query = upload if row is None else session.check_row(row)
    is_asked = label is not None or query is not None
    hits = teaching.new_in(label, n) if new and label is not None else teaching.suggest(label, query, n)
    return SuggestionsResponse(suggestions=[_suggestion(session, teaching, hit, is_asked) for hit in hits])


@concepts.get("/searches", summary="The labels that were given, as saved searches")
def searches(teaching: CurrentTeaching) -> list[schemas.SavedSearchResponse]:
    """How many items have each label, how many others fit it, and how many of these came after the last lesson."""
    return [schemas.SavedSearchResponse(**search.facts()) for search in teaching.searches()]


@concepts.get("/card", summary="What the marks for a query or a label say about it")
def card(
    session: CurrentSession,
    teaching: CurrentTeaching,
    label: OfLabel = None,
    row: Annotated[list[int], Query(max_length=200, description="Items as query.")] = [],  # noqa: B006
    upload: Annotated[list[str], Query(max_length=200, description="Uploads as query.")] = [],  # noqa: B006
) -> dict[str, Any] | None:
    """The expected precision of the first results that nobody marked, and what to do next; null without marks."""
    return teaching.card(label, [*map(session.check_row, row), *upload])


@concepts.post("/concepts", summary="Preview a label or a query at a cut-off")
def preview(session: CurrentSession, store: CurrentConcepts, body: schemas.ConceptRequest) -> schemas.ConceptResponse:
    """The items with the label, or the examples, and all that belong to them above the cut-off."""
    if body.label is not None:
        result = store.of_label(body.label, body.at_most_wrong)
    else:
        assert body.at_most_wrong is not None
        result = store.of_query(body.query(session), body.at_most_wrong)
    concept = result.concept
    P = {} if concept.probabilities is None else dict(zip(concept.rows.tolist(), concept.probabilities, strict=True))
    unsure = concept.least_sure(LEAST_SURE).tolist()
    return schemas.ConceptResponse(
        concept=result.name,
        items=len(concept),
        known=result.n_known,
        about_wrong=concept.about_wrong,
        least_sure=[{**item_response(session, row), "probability": float(P[row])} for row in unsure],
        writes=store.writes,
        written=store.is_written(body.label or ""),
    )


@concepts.post("/concepts/labels", status_code=201, summary="Save a previewed set as labels")
def save(teaching: CurrentTeaching, store: CurrentConcepts, who: Who, choice: schemas.ConceptChoice) -> dict[str, Any]:
    """One step, which undo takes back. Items that have another label keep it: their number is `kept`."""
    concept = store.take(choice.concept, choice.label, choice.without)
    others = teaching.label_set(concept, who or "")
    return {"labelled": len(concept) - len(others), "kept": len(others), **teaching.describe(who)}


@concepts.get("/concepts/{concept}.csv", summary="Download a previewed set as CSV", response_class=Response)
def concept_csv(
    store: CurrentConcepts,
    concept: Annotated[str, Path(max_length=64)],
    label: Annotated[str, Query(max_length=200)],
    without: Annotated[list[int], Query(max_length=200)] = [],  # noqa: B006  (FastAPI copies it)
) -> Response:
    """Path or id, label and, where known, probability."""
    return download(store.csv(store.take(concept, label, without)), "labels.csv")


@concepts.post("/concepts/keywords", status_code=202, summary="Write a previewed set as keywords next to the pictures")
def write(store: CurrentConcepts, choice: schemas.ConceptChoice) -> schemas.KeywordsResponse:
    """XMP sidecars, in the background; no picture is changed. Only for the person at this machine."""
    if not store.write(store.take(choice.concept, choice.label, choice.without)):
        raise HTTPException(409, "keywords are being written already")
    return schemas.KeywordsResponse(**store.describe())


@concepts.post("/concepts/keywords/undo", status_code=202, summary="Take the keywords of a label back")
def take_back(store: CurrentConcepts, body: schemas.KeywordUndo) -> schemas.KeywordsResponse:
    """Exactly what was written, in the background. Only for the person at this machine."""
    if not store.take_back(body.label):
        raise HTTPException(409, "keywords are being written; wait for the end")
    return schemas.KeywordsResponse(**store.describe())


@concepts.get("/concepts/keywords", summary="Progress of the keywords")
def keywords(store: CurrentConcepts) -> schemas.KeywordsResponse:
    """Ask until the state is done or failed."""
    return schemas.KeywordsResponse(**store.describe())


def _suggestion(session: Session, teaching: TeachingSession, hit: Suggestion, is_asked: bool) -> SuggestionResponse:
    label, row = None, None  # of the concept: what is marked wrong for a label is not of the label
    if hit.concept is not None and hit.concept.node.kind == "label":
        label = str(hit.concept.node.value)
        row = next((row for row, name in enumerate(session.labels) if name == label), None)
    elif hit.concept is not None and hit.concept.node.kind == "row":
        row = int(str(hit.concept.node.value))
    name = session.catalogue.name(row) if row is not None else "your picture"
    text = REASONS[hit.why].format(label or ("this query" if is_asked else name))  # a query on the page needs no name
    return {
        **item_response(session, hit.row),
        "of_label": label,
        "of_row": row,
        "of_upload": teaching.upload_of(hit.concept),
        "why": hit.why,
        "reason": text[0].upper() + text[1:],
        "gain": hit.gain,
    }
