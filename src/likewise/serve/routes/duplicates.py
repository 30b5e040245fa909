"""Near-duplicates."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.exceptions import HTTPException

from likewise.serve import schemas
from likewise.serve.duplicates import LOWEST, Duplicates
from likewise.serve.exporting import csv_text
from likewise.serve.routes.common import NO_STORE, item_response
from likewise.serve.schemas import ERRORS


async def _duplicates(request: Request) -> Duplicates:
    return request.app.state.duplicates


CurrentDuplicates = Annotated[Duplicates, Depends(_duplicates)]
Threshold = Annotated[float, Query(ge=LOWEST, le=1, description="Cosine of the raw features.")]
duplicates = APIRouter(prefix="/api", tags=["duplicates"], responses=ERRORS)


@duplicates.get("/duplicates", summary="Groups of near-duplicates")
def get_duplicates(
    finder: CurrentDuplicates,
    threshold: Threshold = 0.97,
    offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> schemas.DuplicatesResponse:
    """The first request starts the comparison of all pairs; ask again until the state is ready."""
    state = finder.state()
    groups = finder.groups(threshold) if state == "ready" else []
    return schemas.DuplicatesResponse(
        state=state,
        error=finder.job.error,
        threshold=threshold,
        lowest=finder.pairs.lowest,
        progress=finder.progress,
        total=len(groups),
        n_extra=sum(len(group) - 1 for group in groups),
        groups=[
            [item_response(finder.session, row) for row in finder.best_first(group)]
            for group in groups[offset : offset + limit]
        ],
    )


@duplicates.get("/duplicates.csv", summary="List all but the best of each group", response_class=Response)
def duplicates_csv(finder: CurrentDuplicates, threshold: Threshold = 0.97) -> Response:
    """The path of each item, and of the best of its group, which is not in the list."""
    if finder.state() != "ready":
        raise HTTPException(409, "the items are still being compared; ask again in a moment")
    headers = {"Content-Disposition": 'attachment; filename="duplicates.csv"', **NO_STORE}
    return Response(csv_text(("path", "kept"), _rest(finder, threshold)), media_type="text/csv", headers=headers)


def _rest(finder: Duplicates, threshold: float) -> Iterator[tuple[str, str]]:
    index = finder.session.index
    names = index.ids if index.paths is None else index.paths
    for group in finder.groups(threshold):
        best, *rest = finder.best_first(group)
        yield from ((str(names[row]), str(names[best])) for row in rest)
