"""The routes: search, items, teaching, the page and what an operator asks for; and here what they share."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, Header, Path, Request, Response

from likewise.search.cards import cards
from likewise.serve.catalogue import media_kind
from likewise.serve.schemas import ItemResponse
from likewise.serve.session import Session
from likewise.serve.teaching import TeachingSession

NO_STORE = {"Cache-Control": "no-store"}
CACHED = {"Cache-Control": "private, max-age=86400"}
IMAGE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {}, "image/svg+xml": {}}, "description": "The picture."}
}


def state(name: str) -> Callable[[Request], Awaitable[Any]]:
    """A dependency on a part of the state of the application."""

    async def part(request: Request) -> Any:
        return getattr(request.app.state, name)

    return part


def _who(x_likewise_who: Annotated[str | None, Header(max_length=200)] = None) -> str | None:
    """The name of the person, as the page sends it; None for programs, which may undo anybody's step."""
    if x_likewise_who is None:
        return None
    return "".join(letter for letter in unquote(x_likewise_who) if letter.isprintable())[:60]


Who = Annotated[str | None, Depends(_who)]
Row = Annotated[int, Path(ge=0, le=2**31 - 1)]
CurrentSession = Annotated[Session, Depends(state("session"))]
CurrentTeaching = Annotated[TeachingSession, Depends(state("teaching"))]


def milliseconds_since(began: float) -> float:
    """Milliseconds since a time of `perf_counter`."""
    return round((time.perf_counter() - began) * 1e3, 3)


def item_response(session: Session, row: int, whole: bool = False) -> ItemResponse:
    """An item as JSON; with `whole`, its card has the whole text and all columns."""
    return item_responses(session, [row], whole)[0]


def item_responses(session: Session, rows: Sequence[int], whole: bool = False) -> list[ItemResponse]:
    """Items as JSON."""
    index, catalogue, dates = session.index, session.catalogue, session.index.items.dates
    return [
        {
            "row": row,
            "id": index.ids[[row]].tolist()[0],
            "key": index.identities.key(row),
            "name": catalogue.name(row),
            "folder": catalogue.folder(row),
            "date": None if dates is None else dates[row],
            "label": session.labels[row],
            "kind": media_kind(catalogue.path(row)),
            "card": None if card is None else vars(card),  # type: ignore[typeddict-item]
        }
        for row, card in zip(rows, cards(index.items, catalogue.layout, rows, whole), strict=True)
    ]


def download(content: str | bytes, name: str, media_type: str = "text/csv; charset=utf-8") -> Response:
    """A file that the browser saves under a name."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', **NO_STORE}
    return Response(content, media_type=media_type, headers=headers)
