"""`likewise search`: what in an index is most like a picture, or like one of its own rows?"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from likewise.cli.console import emit_json, results, working
from likewise.cli.options import AsJson
from likewise.errors import LikewiseError

__all__ = ["register"]

_HELP = """Find in an index what is most like a picture.

A query is an image file, several, - for one image or a list of paths on standard input, or, with --row, the number of
a row of the index, which is then left out of its own results. --before ranks by the cosine of the raw features
instead, as one would have without learning.

[bold]Examples[/bold]

\b
  likewise search photos.index cat.jpg
  likewise search photos.index cat.jpg dog.jpg -k 20 --json
  likewise search photos.index --row 17 --row 230 --open
  find . -name '*.jpg' | likewise search photos.index -
  curl -s $URL | likewise search photos.index -
"""

_MOST_INPUT = 200 * 2**20


class _Query(NamedTuple):
    """What was asked by: a name, and the image itself as a path or bytes, or a row."""

    name: str
    image: Any = None
    row: int | None = None


def register(app: typer.Typer) -> None:
    """Add the verb to the application."""
    app.command("search", help=_HELP)(search)


def search(
    index: Annotated[
        Path, typer.Argument(metavar="INDEX", help="A folder that likewise index wrote.", show_default=False)
    ],
    queries: Annotated[
        list[str] | None, typer.Argument(metavar="[IMAGE]...", help="Image files, or -.", show_default=False)
    ] = None,
    row: Annotated[list[int] | None, typer.Option(metavar="N", help="Search by a row of the index.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many to find.", min=1)] = 10,
    before: Annotated[bool, typer.Option("--before", help="Rank by the cosine of raw features.")] = False,
    as_json: AsJson = False,
    open_: Annotated[bool, typer.Option("--open", help="Show the pictures.")] = False,
    sheet: Annotated[
        Path | None, typer.Option("--sheet", metavar="FILE.png", help="Write the pictures to a file.")
    ] = None,
) -> None:
    """Load, search, print; then the pictures."""
    from likewise.retrieval import Index

    asked = _asked(queries or [], row or [])
    with working(f"searching {index}"):
        loaded = Index.load(index)
        rows, scores = _found(loaded, asked, k, before)
    if as_json:
        emit_json([_outcome(loaded, query, *pair) for query, *pair in zip(asked, rows, scores, strict=True)])
    else:
        for query, *pair in zip(asked, rows, scores, strict=True):
            _show(loaded, query, *pair)
    if open_ or sheet is not None:
        path = _sheet(loaded, asked, rows, sheet)
        if open_:
            typer.launch(str(path))
        print(f"likewise: pictures in {path}", file=sys.stderr)


def _asked(words: list[str], rows: list[int]) -> list[_Query]:
    """The queries in their order; `-` becomes what standard input holds."""
    asked: list[_Query] = []
    for word in words:
        asked += _from_input() if word == "-" else [_Query(word, Path(word))]
    asked += [_Query(f"row {row}", row=row) for row in rows]
    if not asked:
        raise LikewiseError("nothing to search by: give an image file, - for standard input, or --row N")
    return asked


def _from_input() -> list[_Query]:
    """One image, or one path a line."""
    data = sys.stdin.buffer.read(_MOST_INPUT + 1)
    if len(data) > _MOST_INPUT:
        raise LikewiseError(f"standard input holds more than {_MOST_INPUT >> 20} MB; expected an image or paths")
    if not data.strip():
        raise LikewiseError("standard input is empty; expected an image or a list of paths")
    try:
        lines = data.decode("utf-8", "surrogateescape" if b"\0" not in data else "strict").splitlines()
        paths = [line.strip() for line in lines if line.strip()]
        if b"\0" not in data and all(Path(path).is_file() for path in paths):
            return [_Query(path, Path(path)) for path in paths]
        if data.isascii():
            missing = next((path for path in paths if not Path(path).is_file()), paths[0])
            raise LikewiseError(f"{missing} does not exist")
    except (UnicodeDecodeError, OSError):
        pass
    return [_Query("standard input", data)]


def _found(index: Any, asked: list[_Query], k: int, before: bool) -> tuple[list[Any], list[Any]]:
    """Rows and scores, one array a query."""
    import numpy as np

    images = [query.image for query in asked if query.row is None]
    embedded = iter(_embedded(index, images)) if images else iter(())
    rows, scores = [], []
    for query in asked:
        if query.row is not None:
            found = index.search_rows([query.row], k, raw=before)
        elif before:
            found = index.search_raw(next(embedded), k)
        else:
            found = index.search_vectors(index.model.transform_query(np.atleast_2d(next(embedded))), k)
        rows.append(found[0][0])
        scores.append(found[1][0])
    return rows, scores


def _embedded(index: Any, images: list[Any]) -> Any:
    missing = next((path for path in images if isinstance(path, Path) and not path.exists()), None)
    if missing is not None:
        raise LikewiseError(f"{missing} does not exist")
    return index.embed(images)


def _outcome(index: Any, query: _Query, rows: Any, scores: Any) -> dict[str, Any]:
    return {"query": query.name, "results": [_hit(index, *pair) for pair in zip(rows, scores, strict=True)]}


def _hit(index: Any, row: Any, score: Any) -> dict[str, Any]:
    path = index.image_path(int(row))
    return {
        "id": index.ids[row],
        "row": int(row),
        "score": round(float(score), 6),
        "label": None if index.labels is None else index.labels[row],
        "path": None if path is None else str(path),
    }


def _show(index: Any, query: _Query, rows: Any, scores: Any) -> None:
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(title=Text(query.name), title_justify="left")
    for name in ("", "score", "row"):
        grid.add_column(name, justify="right")
    columns = [name for name in ("id", "label", "path") if _worth_showing(index, name)]
    for name in columns:
        grid.add_column(name, overflow="fold")
    for place, pair in enumerate(zip(rows, scores, strict=True), start=1):
        hit = _hit(index, *pair)
        cells = [Text("" if hit[name] is None else str(hit[name])) for name in columns]
        grid.add_row(str(place), f"{hit['score']:.4f}", str(hit["row"]), *cells)
    results().print(grid)


def _worth_showing(index: Any, name: str) -> bool:
    """A column that says something: ids that are only row numbers do not."""
    if name == "id":
        return bool((index.ids != range(len(index))).any()) if index.ids.dtype.kind == "i" else True
    return (index.labels if name == "label" else index.paths) is not None


def _sheet(index: Any, asked: list[_Query], rows: list[Any], path: Path | None) -> Path:
    """A picture of all queries and what was found: hits framed red, misses blue, unknown labels grey."""
    import numpy as np

    from likewise.reporting.pictures import write_png
    from likewise.reporting.strips import Panel, retrieval_strips

    if index.paths is None:
        raise LikewiseError("the index has no pictures to show: it was built from numbers")
    gallery: Any = _Pictures(index)
    pictures = [_picture(query.image) if query.row is None else gallery[query.row] for query in asked]
    labels = np.array([None] * len(index) if index.labels is None else index.labels, dtype=object)
    own = [None if query.row is None else labels[query.row] for query in asked]
    panel = Panel("most alike", np.array(rows))
    if path is None:
        path = Path(tempfile.mkdtemp(prefix="likewise-")) / "search.png"
    return write_png(path, retrieval_strips(pictures, gallery, [panel], np.array(own, dtype=object), labels, cell=96))


class _Pictures:
    """The pictures of the items, read when they are needed; one that cannot be read is a grey square."""

    def __init__(self, index: Any) -> None:
        self.index = index

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, row: int) -> Any:
        return _picture(self.index.image_path(int(row)))


def _picture(source: Any) -> Any:
    import numpy as np

    from likewise.features import ImageError, load_image
    from likewise.features.images import shrink

    try:
        return shrink(load_image(source, 96), 192)
    except ImageError:
        return np.full((96, 96, 3), 225, dtype=np.uint8)
