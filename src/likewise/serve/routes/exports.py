"""Results to download: CSV and ZIP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.responses import StreamingResponse

from likewise.serve import schemas
from likewise.serve.exporting import Exports, zipped
from likewise.serve.routes.common import NO_STORE, CurrentSession
from likewise.serve.schemas import ERRORS


async def _exports(request: Request) -> Exports:
    return request.app.state.exports


CurrentExports = Annotated[Exports, Depends(_exports)]
ExportName = Annotated[str, Path(max_length=64)]
exports = APIRouter(prefix="/api", tags=["export"], responses=ERRORS)


@exports.post("/exports", status_code=201, summary="Prepare a download of results or items")
def export(session: CurrentSession, store: CurrentExports, query: schemas.ExportRequest) -> schemas.ExportResponse:
    """The name leads to a CSV and a ZIP until 32 newer ones were prepared."""
    if query.items:
        name, prepared = store.add([session.check_row(row) for row in query.items])
    else:
        hits = session.search(session.query(*query.references, query.filters), query.k, query.side)
        name, prepared = store.add(hits.rows.tolist(), hits.scores.tolist())
    return schemas.ExportResponse(
        export=name, items=len(prepared.rows), pictures=len(prepared.pictures), note=prepared.note
    )


@exports.get("/exports/{name}.csv", summary="Download as CSV", response_class=Response)
def export_csv(store: CurrentExports, name: ExportName) -> Response:
    """Rank, id, path, label and score."""
    headers = {"Content-Disposition": 'attachment; filename="results.csv"', **NO_STORE}
    return Response(store.csv(store.get(name)), media_type="text/csv; charset=utf-8", headers=headers)


@exports.get("/exports/{name}.zip", summary="Download the pictures as ZIP", response_class=StreamingResponse)
def export_zip(store: CurrentExports, name: ExportName) -> StreamingResponse:
    """The files as they are, at most 500 of them and 1 GB."""
    headers = {"Content-Disposition": 'attachment; filename="pictures.zip"', **NO_STORE}
    return StreamingResponse(zipped(store.get(name).pictures), media_type="application/zip", headers=headers)
