"""Teaching: marks and labels, lessons, undo, and all of it as CSV."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from likewise.web.schemas import ERRORS, LabelGiven, Mark
from likewise.web.teaching_session import Classroom

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["teach"], responses=ERRORS)


def _room(request: Request) -> Classroom:
    room: Classroom = request.app.state.classroom
    return room


@router.post("/marks", status_code=201, summary="Right or wrong?")
def give_mark(request: Request, mark: Mark) -> dict[str, Any]:
    """Saved before the answer is sent."""
    room = _room(request)
    room.mark([example.reference for example in mark.query], mark.item, mark.right)
    return room.describe()


@router.post("/labels", status_code=201, summary="Give an item a label")
def give_label(request: Request, given: LabelGiven) -> dict[str, Any]:
    """Saved before the answer is sent."""
    room = _room(request)
    room.label(given.item, given.label)
    return room.describe()


@router.post("/learn", status_code=202, summary="Learn from what was marked")
def learn(request: Request) -> dict[str, Any]:
    """Begins in the background; /api/status tells when it is done."""
    room = _room(request)
    if not room.learn():
        raise HTTPException(409, "a lesson is being learned already")
    return room.describe()


@router.post("/undo", summary="Take the last step back")
def undo(request: Request) -> dict[str, Any]:
    """A mark, a label or a lesson, whichever came last."""
    room = _room(request)
    undone = room.undo()
    if undone is None:
        raise HTTPException(409, "there is nothing to undo")
    return {"undone": undone, **room.describe()}


@router.get("/feedback", summary="All marks and labels")
def feedback(request: Request) -> list[dict[str, Any]]:
    """In the order in which they were given."""
    return _room(request).entries()


@router.get("/feedback.csv", summary="All marks and labels as CSV", response_class=Response)
def feedback_csv(request: Request) -> Response:
    """For a spreadsheet, or to learn from elsewhere."""
    headers = {"Content-Disposition": 'attachment; filename="feedback.csv"', "Cache-Control": "no-store"}
    return Response(_room(request).csv(), media_type="text/csv; charset=utf-8", headers=headers)
