"""Suggestions as the page shows them: an item, why it is worth a mark, and what a mark would be for."""

from likewise.serve.routes.common import item_response
from likewise.serve.schemas import OutlookResponse, SuggestionResponse, SuggestionsResponse
from likewise.serve.session import Session
from likewise.serve.teaching import TeachingSession
from likewise.teach.learning_curve import Outlook
from likewise.teach.suggest import REASONS, Concept, Suggestion


def described(
    session: Session, teaching: TeachingSession, found: list[Suggestion], outlook: Outlook | None, is_asked: bool
) -> SuggestionsResponse:
    """Suggestions as JSON; `is_asked` if they are for a query, or for a label."""
    return SuggestionsResponse(
        suggestions=[_one(session, teaching, one, is_asked) for one in found],
        outlook=None if outlook is None else OutlookResponse(**outlook._asdict()),
    )


def _one(session: Session, teaching: TeachingSession, found: Suggestion, is_asked: bool) -> SuggestionResponse:
    label, row = _concept(session, found.concept)
    return {
        **item_response(session, found.row),
        "of_label": label,
        "of_row": row,
        "of_upload": teaching.upload_of(found.concept),
        "why": found.why,
        "reason": _reason(session, found, label, row, is_asked),
        "gain": found.gain,
    }


def _reason(session: Session, found: Suggestion, label: str | None, row: int | None, is_asked: bool) -> str:
    """Why, in words; a query that is on the page needs no name."""
    name = session.catalogue.name(row) if row is not None else "your picture"
    text = REASONS[found.why].format(label or ("this query" if is_asked else name))
    return text[0].upper() + text[1:]


def _concept(session: Session, concept: Concept | None) -> tuple[str | None, int | None]:
    """The label of a concept, and a row that belongs to it: what is marked wrong for it is not of the label."""
    if concept is None:
        return None, None
    node = concept.node
    if node.kind == "label":
        name = str(node.value)
        return name, next((row for row, label in enumerate(session.labels) if label == name), None)
    return None, int(str(node.value)) if node.kind == "row" else None
