"""`likewise search`: the items of an index most similar to a picture or to one of its rows, or that words describe."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from typer import Argument, Option, launch

from likewise.cli.console import emit_json, note, printable, results, say, working
from likewise.cli.options import AsJson, AtMostWrong, Root, TextModel, TokenizerFile, Trust, Where, open_index, share
from likewise.errors import LikewiseError

_MOST_CELL = 80  # characters of a title in the table


class _Query(NamedTuple):
    """A name, and an example (an image file, a row of the index, or raw features), words, or both."""

    name: str
    image: Path | None = None
    row: int | None = None
    raw: Any = None
    words: Any = None


class _Answer(NamedTuple):
    """A query, the facts of its results, best first, and its novelty if that is known."""

    query: _Query
    hits: list[dict[str, Any]]
    novelty: float | None = None


def search(
    index: Annotated[Path, Argument(metavar="INDEX", help="Index folder written by likewise index.")],
    images: Annotated[list[str] | None, Argument(metavar="[IMAGE|WORDS]...", help="Image files, or words.")] = None,
    row: Annotated[list[int] | None, Option(metavar="N", help="Search by a row of the index.")] = None,
    id_: Annotated[list[str] | None, Option("--id", metavar="ID", help="Search by an item, by its id.")] = None,
    vector: Annotated[
        list[str] | None, Option(metavar="NUMBERS", help="Search by raw features, such as [0.1, 0.5, …].")
    ] = None,
    where: Where = None,
    but: Annotated[list[str] | None, Option(metavar="WORDS", help="Words that results should match too.")] = None,
    not_: Annotated[
        list[str] | None, Option("--not", metavar="WORDS", help="Words that results should not match.")
    ] = None,
    weight: Annotated[float, Option(metavar="W", help="Weight of words against a picture.")] = 1.0,
    text: TextModel = None,
    tokenizer: TokenizerFile = None,
    k: Annotated[int, Option("-k", help="Number of results.", min=1)] = 10,
    before: Annotated[bool, Option("--before", help="Rank by the cosine of the raw features.")] = False,
    at_most_wrong: AtMostWrong = None,
    root: Root = None,
    trust: Trust = False,
    as_json: AsJson = False,
    open_: Annotated[bool, Option("--open", help="Show the pictures of the results in one.")] = False,
) -> None:
    """Find the items of an index most similar to a picture, or that words describe.

    A query is an image file, or several; --id or --row N uses an item of the index, which is excluded from its own
    results; --vector takes raw features. --before ranks by the cosine of the raw features instead, without learning.

    --where ranks only the items that pass a condition on the columns of the index: comparisons (== != < <= > >=), in
    [...], is null, contains, startswith, endswith, and, or, not. A column name that is not a plain word is put in
    backticks.

    An argument that is not a file is words (extra words; features of efficientnet-lite0, or --text onnx:FILE with
    --tokenizer FILE, the text tower of the features' model). --but and --not add words to a query, a picture's too. An
    item that has the words in its label or file name comes first.

    Where the model was calibrated, each result says how likely it matches. --at-most-wrong 10% keeps the share of wrong
    results below 10 % on average over queries of the classes it learned from, and shows none rather than guess.

    [bold]Examples[/bold]

    \b
      likewise search photos.index cat.jpg
      likewise search photos.index cat.jpg dog.jpg -k 20 --json
      likewise search photos.index --row 17 --row 230 --open
      likewise search docs.index --id doc-7108 --where 'price < 20 and topic == "space"'
      likewise search photos.index cat.jpg -k 500 --at-most-wrong 10%
      likewise search photos.index "a dog on a beach" --not "a cat"
      likewise search photos.index beach.jpg --but sunset --weight 0.5
      likewise search photos.index cat.jpg --root /media/disk/photos
    """
    from likewise.search.filters import where_mask
    from likewise.words.search import Wording

    at_most = None if at_most_wrong is None else share(at_most_wrong)
    if before and at_most is not None:
        raise LikewiseError("--before and --at-most-wrong exclude each other: raw features are not calibrated")
    queries = [_of_argument(argument, but or [], not_ or [], weight) for argument in images or []]
    if (before or at_most is not None) and (but or not_ or any(query.words is not None for query in queries)):
        raise LikewiseError("words go without --before and --at-most-wrong, which need a picture or a row")
    with working(f"searching {index}"):
        loaded = open_index(index, root, trust)
        words = Wording.of(but or [], not_ or [], weight) if but or not_ else None
        queries += _of_items(loaded, row or [], id_ or [], vector or [], words)
        if not queries:
            raise LikewiseError("nothing to search by: give an image file, words, --id, --row or --vector")
        passing = None if where is None else where_mask(loaded.items, [where])
        answers = list(_answers(loaded, queries, k, before, at_most, (text, tokenizer), passing))
    if as_json:
        emit_json([{"query": query.name, "novelty": new, "results": hits} for query, hits, new in answers])
    else:
        none = "no result is sure enough" if passing is None or passing.any() else "nothing passes the filter"
        for answer in answers:
            _print_table(loaded, answer, none)
    if open_:
        path = _write_sheet(loaded, answers)
        launch(str(path))
        note(f"pictures in {path}")


def _of_argument(argument: str, but: list[str], unwanted: list[str], weight: float) -> _Query:
    """An image file or words, together with further words."""
    from likewise.pictures.images import EXTENSIONS
    from likewise.words.search import Wording

    is_file = os.path.exists(argument)
    if not is_file and (Path(argument).suffix.lower() in EXTENSIONS or (os.sep in argument and " " not in argument)):
        raise LikewiseError(f"{argument} does not exist")  # named like a picture or a path, which may be a typing error
    wanted = [*([] if is_file else [argument]), *but]
    words = Wording.of(wanted, unwanted, weight) if wanted or unwanted else None
    return _Query(argument, Path(argument) if is_file else None, words=words)


def _of_items(index: Any, rows: list[int], ids: list[str], vectors: list[str], words: Any) -> Iterator[_Query]:
    """Queries by items of the index and by raw features, each together with words."""
    from likewise.search.rank import check_row, pasted_vector, query_vector

    named = [*((f"row {row}", row) for row in rows), *((name, index.items.row_of_text(name)) for name in ids)]
    for name, row in named:
        yield _Query(name, row=check_row(row, len(index)), raw=index.raw[row : row + 1], words=words)
    for text in vectors:
        raw = query_vector(pasted_vector(text), index.model.n_features_in_)[None]
        yield _Query("your vector", raw=raw, words=words)


def _answers(
    index: Any,
    queries: Sequence[_Query],
    k: int,
    before: bool,
    at_most_wrong: float | None,
    towers: tuple[Any, Any],
    where: Any = None,
) -> Iterator[_Answer]:
    images = [query.image for query in queries if query.image is not None]
    embedded, words = iter(index.embed(images) if images else ()), None
    if any(query.words is not None for query in queries):
        from likewise.words.search import Words, text_side

        words = Words(index, text_side(index, *towers))
    for query in queries:
        raw = query.raw if query.image is None else next(embedded)[None]
        if words is not None and query.words is not None:
            excluded = () if query.row is None else [query.row]
            worded = words.search(query.words, k, raw, excluded, None if where is None else where.nonzero()[0])
            yield _Answer(query, _facts(index, worded.rows, worded.scores, by_name=worded.by_name))
            continue
        example = {"queries": raw} if query.row is None else {"rows": [query.row]}
        space = "raw" if before else "learned"
        hits = index.search(**example, k=k, space=space, where=where, at_most_wrong=at_most_wrong)[0]
        new = None if before or not index.model.knows_classes else round(float(index.model.novelty(raw)[0]), 4)
        yield _Answer(query, _facts(index, hits.rows, hits.scores, hits.probabilities), new)


def _facts(index: Any, rows: Any, scores: Any, probabilities: Any = None, by_name: Any = None) -> list[dict[str, Any]]:
    from likewise.search.cards import shown_value

    hits = []
    for place, (row, score) in enumerate(zip(rows.tolist(), scores.tolist(), strict=True)):
        path = index.image_path(row)
        hit = {
            "id": index.ids[row],
            "row": row,
            "score": round(score, 6),
            "probability": None if probabilities is None else round(float(probabilities[place]), 4),
            "label": None if index.labels is None else index.labels[row],
            "path": None if path is None else str(path),
        }
        if index.metadata is not None:
            hit["metadata"] = {name: shown_value(value) for name, value in index.metadata.rows([row])[0].items()}
        if by_name is not None:
            hit["by_name"] = bool(by_name[place])
        hits.append(hit)
    return hits


def _print_table(index: Any, answer: _Answer, none: str) -> None:
    from rich.table import Table as Grid
    from rich.text import Text

    from likewise.search.cards import card_layout

    query, hits, novelty = answer
    if novelty is not None and novelty > 1:
        say(f"{query.name} is unlike anything the model learned from")
    if not hits:
        say(f"{query.name}: {none}")
        return
    grid = Grid(title=Text(printable(query.name)), title_justify="left")
    is_sure, is_worded = hits[0]["probability"] is not None, "by_name" in hits[0]
    for name in ("", "score", *(["match"] if is_sure else []), "row"):
        grid.add_column(name, justify="right")
    numbered = index.ids.dtype.kind == "i" and (index.ids == range(len(index))).all()  # such ids say nothing
    shown = {"id": not numbered, "label": index.labels is not None, "path": index.paths is not None}
    columns, layout = [name for name, informative in shown.items() if informative], card_layout(index.items)
    metadata = [name for name in (layout.title or layout.text, *layout.fields[:2]) if name is not None]
    for name in (*columns, *metadata):
        grid.add_column(name, overflow="fold")
    if is_worded:
        grid.add_column("matched by")
    for place, hit in enumerate(hits, start=1):
        values = [*(hit[name] for name in columns), *(hit["metadata"][name] for name in metadata)]
        cells = [Text("" if value is None else printable(str(value)[:_MOST_CELL])) for value in values]
        likely = [_percent(hit["probability"])] if is_sure else []
        matched = ["name" if hit["by_name"] else "content"] if is_worded else []
        grid.add_row(str(place), f"{hit['score']:.4f}", *likely, str(hit["row"]), *cells, *matched)
    results().print(grid)


def _percent(probability: float) -> str:
    """No result is called certain."""
    return "> 99 %" if probability > 0.995 else "< 1 %" if probability < 0.005 else f"{100 * probability:.0f} %"


def _write_sheet(index: Any, answers: Sequence[_Answer]) -> Path:
    """A picture of all queries and their results: hits framed red, misses blue, unknown labels grey."""
    import numpy as np

    from likewise.utils.reporting.pictures import Panel, retrieval_strips, write_png

    if index.paths is None:
        raise LikewiseError("the index has no pictures to show: it was built from numbers")
    rows = [[hit["row"] for hit in answer.hits] for answer in answers]
    gallery: Any = {row: _thumbnail(index.image_path(row)) for row in {row for ranked in rows for row in ranked}}
    queries = [answer.query for answer in answers]
    pictures = [_thumbnail(q.image if q.row is None else index.image_path(q.row)) for q in queries]
    labels = np.array([None] * len(index) if index.labels is None else index.labels, dtype=object)
    y_q = np.array([None if query.row is None else labels[query.row] for query in queries], dtype=object)
    panel = Panel("most similar", np.array(rows))
    path = Path(tempfile.mkdtemp(prefix="likewise-")) / "search.png"
    return write_png(path, retrieval_strips(pictures, gallery, [panel], y_q, labels, cell=96))


def _thumbnail(source: Any) -> Any:
    """A small picture; a grey square if there is none or it cannot be read."""
    import numpy as np

    from likewise.pictures import ImageError, load_image
    from likewise.pictures.images import shrink

    try:
        return shrink(load_image(source, 96), 192)
    except ImageError:  # of None, too
        return np.full((96, 96, 3), 225, dtype=np.uint8)
