"""`likewise search`: the items of an index most similar to a picture or to one of its rows, or that words describe."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer import Argument, Option

from likewise.cli.console import emit_json, note, printable, results, say, working
from likewise.cli.options import (
    AsJson,
    AtMostWrong,
    Root,
    TextModel,
    TokenizerFile,
    Trust,
    Where,
    check_writable,
    open_index,
    share,
)
from likewise.errors import LikewiseError

_MOST_INPUT = 200 * 2**20
_MOST_CELL = 80  # characters of a title in the table


class _Query(NamedTuple):
    """A name, and an image (path or bytes), a row or id of the index, or raw features; words alone or with these."""

    name: str
    image: Any = None
    row: int | None = None
    words: Any = None
    id: str | None = None
    vector: Any = None


def search(
    index: Annotated[
        Path, Argument(metavar="INDEX", help="Index folder written by likewise index.", show_default=False)
    ],
    images: Annotated[
        list[str] | None, Argument(metavar="[IMAGE|WORDS]...", help="Image files, words, or -.", show_default=False)
    ] = None,
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
    open_: Annotated[bool, Option("--open", help="Show the pictures.")] = False,
    sheet: Annotated[Path | None, Option("--sheet", metavar="FILE.png", help="Write the pictures to a file.")] = None,
) -> None:
    """Find the items of an index most similar to a picture, or that words describe.

    A query is an image file, or several; - reads one image, or a list of paths, from standard input; --id or --row N
    uses an item of the index, which is excluded from its own results; --vector takes raw features. --before ranks by
    the cosine of the raw features instead, without learning.

    --where ranks only the items that pass a condition on the columns of the index: comparisons (== != < <= > >=), in
    [...], is null, contains, startswith, endswith, and, or, not. A column name that is not a plain word is put in
    backticks.

    An argument that is not a file is words: likewise search photos.index "a dog on a beach" (extra words; features of
    efficientnet-lite0, or --text onnx:FILE with --tokenizer FILE, the text tower of the features' model). --but and
    --not add words to a query, a picture's too. An item that has the words in its label or file name comes first.

    Where the model was calibrated, each result says how likely it matches. --at-most-wrong 10% keeps the share of wrong
    results below 10 % on average over queries of the classes it learned from, and shows none rather than guess. A
    picture unlike everything the model learned from is reported as such.

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
      find . -name '*.jpg' | likewise search photos.index -
      curl -s $URL | likewise search photos.index -
    """
    from likewise.search.filters import where_mask

    check_writable(sheet, index, *(images or []), option="--sheet")
    at_most = None if at_most_wrong is None else share(at_most_wrong)
    if before and at_most is not None:
        raise LikewiseError("--before and --at-most-wrong exclude each other: raw features are not calibrated")
    queries = _queries(images or [], row or [], id_ or [], vector or [])
    if but or not_:
        queries = [_with_words(query, but or [], not_ or [], weight) for query in queries]
    if any(query.words is not None for query in queries) and (before or at_most is not None):
        raise LikewiseError("words go without --before and --at-most-wrong, which need a picture or a row")
    with working(f"searching {index}"):
        loaded = open_index(index, root, trust)
        queries = [q if q.id is None else q._replace(row=loaded.items.row_of_text(q.id)) for q in queries]
        check_writable(sheet, loaded.root, option="--sheet")
        passing = None if where is None else where_mask(loaded.items, [where])
        rankings = list(_rankings(loaded, queries, k, before, at_most, (text, tokenizer), passing))
    if as_json:
        outcomes = []
        for query, ranking in zip(queries, rankings, strict=True):
            novelty = None if ranking.novelty is None else round(ranking.novelty, 4)
            outcomes.append({"query": query.name, "novelty": novelty, "results": _hits(loaded, ranking)})
        emit_json(outcomes)
    else:
        none = "no result is sure enough" if passing is None or passing.any() else "nothing passes the filter"
        for query, ranking in zip(queries, rankings, strict=True):
            _print_table(loaded, query, ranking, none)
    if open_ or sheet is not None:
        path = _write_sheet(loaded, queries, [ranking.rows for ranking in rankings], sheet)
        if open_:
            typer.launch(str(path))
        note(f"pictures in {path}")


def _queries(images: list[str], rows: list[int], ids: list[str], vectors: list[str]) -> list[_Query]:
    """All queries in order; `-` reads standard input."""
    from likewise.pictures.images import EXTENSIONS
    from likewise.search.rank import pasted_vector
    from likewise.words.search import Wording

    queries: list[_Query] = []
    for word in images:
        if word == "-":
            queries += _from_stdin()
        elif os.path.exists(word):
            queries.append(_Query(word, Path(word)))
        elif Path(word).suffix.lower() in EXTENSIONS or (os.sep in word and " " not in word):
            raise LikewiseError(f"{word} does not exist")  # named like a picture or a path, which may be a typing error
        else:
            queries.append(_Query(word, words=Wording.of([word])))
    queries += [_Query(f"row {row}", row=row) for row in rows]
    queries += [_Query(name, id=name) for name in ids]
    queries += [_Query("your vector", vector=pasted_vector(text)) for text in vectors]
    if not queries:
        raise LikewiseError(
            "nothing to search by: give an image file, words, - for standard input, --id, --row or --vector"
        )
    return queries


def _with_words(query: _Query, but: list[str], unwanted: list[str], weight: float) -> _Query:
    """A query together with words."""
    from likewise.words.search import Wording

    wanted = [] if query.words is None else [phrase.text for phrase in query.words.wanted]
    return query._replace(words=Wording.of([*wanted, *but], unwanted, weight))


def _from_stdin() -> list[_Query]:
    """One image, or one path per line."""
    from likewise.rows.reading import standard_input

    data = standard_input().buffer.read(_MOST_INPUT + 1)
    if len(data) > _MOST_INPUT:
        raise LikewiseError(f"standard input holds more than {_MOST_INPUT >> 20} MB; expected an image or paths")
    if not data.strip():
        raise LikewiseError("standard input is empty; expected an image or a list of paths")
    lines = [] if b"\0" in data else data.decode("utf-8", "surrogateescape").splitlines()
    paths = [line.strip() for line in lines if line.strip()]
    missing = [path for path in paths if not os.path.isfile(path)]  # unlike Path.is_file, False for any text
    if paths and not missing:
        return [_Query(path, Path(path)) for path in paths]
    if paths and data.isascii():
        raise LikewiseError(f"{missing[0]} does not exist")
    return [_Query("standard input", data)]


class _Ranking(NamedTuple):
    """Rows and scores of results, their probabilities if the model was calibrated, and the novelty of the query.

    Of a search by words, `by_name` says which of them have the words in their label or name.
    """

    rows: Any
    scores: Any
    probabilities: Any = None
    novelty: float | None = None
    by_name: Any = None


def _rankings(
    index: Any,
    queries: list[_Query],
    k: int,
    before: bool,
    at_most_wrong: float | None,
    towers: tuple[Any, Any],
    where: Any = None,
) -> Iterator[_Ranking]:
    images = [query.image for query in queries if query.image is not None]
    embedded = iter(index.embed(images) if images else ())
    words = None
    if any(query.words is not None for query in queries):
        from likewise.words.search import Words, text_side

        words = Words(index, text_side(index, *towers))
    for query in queries:
        raw = _raw(index, query, embedded)
        if words is not None and query.words is not None:
            excluded = () if query.row is None else [query.row]
            worded = words.search(query.words, k, raw, excluded, None if where is None else where.nonzero()[0])
            yield _Ranking(worded.rows, worded.scores, by_name=worded.by_name)
            continue
        example = {"queries": raw} if query.row is None else {"rows": [query.row]}
        space = "raw" if before else "learned"
        hits = index.search(**example, k=k, space=space, where=where, at_most_wrong=at_most_wrong)[0]
        new = None if before or not index.model.knows_classes else float(index.model.novelty(raw)[0])
        yield _Ranking(hits.rows, hits.scores, hits.probabilities, new)


def _raw(index: Any, query: _Query, embedded: Iterator[Any]) -> Any:
    """Raw features of the example of a query, (1, d); None if it has words alone."""
    if query.row is not None:
        return index.raw[query.row : query.row + 1]
    if query.vector is None:
        return None if query.image is None else next(embedded)[None]
    from likewise.search.rank import query_vector

    return query_vector(query.vector, index.model.n_features_in_)[None]


def _hits(index: Any, ranking: _Ranking) -> list[dict[str, Any]]:
    from likewise.search.cards import shown_value

    hits = []
    for place, (row, score) in enumerate(zip(ranking.rows.tolist(), ranking.scores.tolist(), strict=True)):
        path, probabilities = index.image_path(row), ranking.probabilities
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
        if ranking.by_name is not None:
            hit["by_name"] = bool(ranking.by_name[place])
        hits.append(hit)
    return hits


def _print_table(index: Any, query: _Query, ranking: _Ranking, none: str) -> None:
    from rich.table import Table as Grid
    from rich.text import Text

    from likewise.search.cards import card_layout

    if ranking.novelty is not None and ranking.novelty > 1:
        say(f"{query.name} is unlike anything the model learned from")
    if not len(ranking.rows):
        say(f"{query.name}: {none}")
        return
    grid = Grid(title=Text(printable(query.name)), title_justify="left")
    is_sure = ranking.probabilities is not None
    for name in ("", "score", *(["match"] if is_sure else []), "row"):
        grid.add_column(name, justify="right")
    numbered = index.ids.dtype.kind == "i" and (index.ids == range(len(index))).all()  # such ids say nothing
    shown = {"id": not numbered, "label": index.labels is not None, "path": index.paths is not None}
    columns, layout = [name for name, informative in shown.items() if informative], card_layout(index.items)
    metadata = [name for name in (layout.title or layout.text, *layout.fields[:2]) if name is not None]
    for name in (*columns, *metadata):
        grid.add_column(name, overflow="fold")
    if is_worded := ranking.by_name is not None:
        grid.add_column("matched by")
    for place, hit in enumerate(_hits(index, ranking), start=1):
        values = [*(hit[name] for name in columns), *(hit["metadata"][name] for name in metadata)]
        cells = [Text("" if value is None else printable(str(value)[:_MOST_CELL])) for value in values]
        likely = [_percent(hit["probability"])] if is_sure else []
        matched = ["name" if hit["by_name"] else "content"] if is_worded else []
        grid.add_row(str(place), f"{hit['score']:.4f}", *likely, str(hit["row"]), *cells, *matched)
    results().print(grid)


def _percent(probability: float) -> str:
    """No result is called certain."""
    return "> 99 %" if probability > 0.995 else "< 1 %" if probability < 0.005 else f"{100 * probability:.0f} %"


def _write_sheet(index: Any, queries: list[_Query], rows: list[Any], path: Path | None) -> Path:
    """A picture of all queries and their results: hits framed red, misses blue, unknown labels grey."""
    import numpy as np

    from likewise.utils.reporting.pictures import Panel, retrieval_strips, write_png

    if index.paths is None:
        raise LikewiseError("the index has no pictures to show: it was built from numbers")
    gallery: Any = {row: _thumbnail(index.image_path(int(row))) for ranked in rows for row in ranked}
    sources = [q.image if q.row is None else index.image_path(q.row) for q in queries]
    labels = np.array([None] * len(index) if index.labels is None else index.labels, dtype=object)
    query_labels = [None if query.row is None else labels[query.row] for query in queries]
    panel = Panel("most similar", np.array(rows))
    if path is None:
        path = Path(tempfile.mkdtemp(prefix="likewise-")) / "search.png"
    y_q, shown = np.array(query_labels, dtype=object), [_thumbnail(source) for source in sources]
    return write_png(path, retrieval_strips(shown, gallery, [panel], y_q, labels, cell=96))


def _thumbnail(source: Any) -> Any:
    """A small picture; a grey square if there is none or it cannot be read."""
    import numpy as np

    from likewise.pictures import ImageError, load_image
    from likewise.pictures.images import shrink

    try:
        return shrink(load_image(source, 96), 192)
    except ImageError:  # of None, too
        return np.full((96, 96, 3), 225, dtype=np.uint8)
