"""Teaching: marks, labels, lessons, undo, and the feedback as CSV."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from likewise.web.schemas import ERRORS, LabelRequest, MarkRequest
from likewise.web.teaching_session import TeachingSession

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["teach"], responses=ERRORS)


def _teaching(request: Request) -> TeachingSession:
    teaching: TeachingSession = request.app.state.teaching
    return teaching


@router.post("/marks", status_code=201, summary="Mark an item right or wrong for a query")
def give_mark(request: Request, mark: MarkRequest) -> dict[str, Any]:
    """The mark is on disk before the response is sent."""
    teaching = _teaching(request)
    teaching.mark([example.reference for example in mark.query], mark.item, mark.right)
    return teaching.describe()


@router.post("/labels", status_code=201, summary="Give an item a label")
def give_label(request: Request, given: LabelRequest) -> dict[str, Any]:
    """The label is on disk before the response is sent."""
    teaching = _teaching(request)
    teaching.label(given.item, given.label)
    return teaching.describe()


@router.post("/learn", status_code=202, summary="Learn from all marks and labels")
def learn(request: Request) -> dict[str, Any]:
    """Runs in the background; /api/status tells when it has finished."""
    teaching = _teaching(request)
    if not teaching.learn():
        raise HTTPException(409, "a lesson is running already")
    return teaching.describe()


@router.post("/undo", summary="Undo the last step")
def undo(request: Request) -> dict[str, Any]:
    """The last mark, label or lesson."""
    teaching = _teaching(request)
    undone = teaching.undo()
    if undone is None:
        raise HTTPException(409, "there is nothing to undo")
    return {"undone": undone, **teaching.describe()}


@router.get("/feedback", summary="List all marks and labels")
def feedback(request: Request) -> list[dict[str, Any]]:
    """In the order in which they were given."""
    return _teaching(request).entries()


@router.get("/feedback.csv", summary="Download all marks and labels as CSV", response_class=Response)
def feedback_csv(request: Request) -> Response:
    """For a spreadsheet, or to learn from elsewhere."""
    headers = {"Content-Disposition": 'attachment; filename="feedback.csv"', "Cache-Control": "no-store"}
    return Response(_teaching(request).csv(), media_type="text/csv; charset=utf-8", headers=headers)
