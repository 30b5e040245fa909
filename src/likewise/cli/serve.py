"""`likewise serve`: the web page to search, compare before and after, and teach."""

import os
import secrets
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option, confirm

from likewise.cli.console import held_out_line, note, working
from likewise.cli.features import keywords_sentence, skipped_sentence
from likewise.cli.options import Root, TextModel, TokenizerFile, Trust, expect, open_index
from likewise.errors import LikewiseError
from likewise.utils.wording import plural


def serve(
    path: Annotated[Path, Argument(metavar="PATH", help="Folder of pictures, of features, or an index.")],
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="INDEX", help="Index to write. [dim]Default: next to PATH.[/]")
    ] = None,
    labels: Annotated[
        str | None,
        Option(
            metavar="folders|keywords|none|FILE", help="Labels of pictures. [dim]Default: as last time, or asked.[/]"
        ),
    ] = None,
    extractor: Annotated[
        str | None, Option("--extractor", "-e", help="As in likewise features. [dim]Default: efficientnet-lite0.[/]")
    ] = None,
    refit: Annotated[bool, Option("--refit", help="Learn again from the labels.")] = False,
    root: Root = None,
    show: Annotated[
        str | None,
        Option(metavar="A,B,…", help="Columns of metadata on cards, such as title,text. [dim]Default: chosen.[/]"),
    ] = None,
    text: TextModel = None,
    tokenizer: TokenizerFile = None,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(help="Port; 0 picks a free one.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None, Option(envvar="LIKEWISE_TOKEN", help="Access token. [dim]Default: a random one.[/]")
    ] = None,
    no_token: Annotated[bool, Option("--no-token", help="Admit everybody who can reach this address.")] = False,
    allow_host: Annotated[list[str] | None, Option(metavar="NAME", help="Additional host name of this server.")] = None,
    proxy: Annotated[
        list[str] | None,
        Option(metavar="ADDRESS", help="Proxy in front of this server, whose X-Forwarded-For and -Proto are trusted."),
    ] = None,
    trust: Trust = False,
    workers: Annotated[int, Option(help="Processes that answer; from 2 on the server is read-only.", min=1)] = 1,
    no_browser: Annotated[bool, Option("--no-browser", help="Do not open a browser.")] = False,
    log_level: Annotated[
        Literal["debug", "info", "warning"],
        Option(help="debug logs every request, info changes and failures; logs are JSON on stderr."),
    ] = "info",
) -> None:
    """Serve a web page to search pictures, compare before and after, and teach it by clicking.

    PATH is a folder of pictures: their features go to PATH.features and their index to PATH.index next to it, nothing
    into PATH itself. With labels (sub-folders, keywords, or a CSV of paths and labels) a similarity is learned from
    them, else pictures are compared by the cosine. Run again, it goes on where it was: new pictures come in, deleted
    ones leave. [bold]likewise PHOTOS[/bold] is short for likewise serve PHOTOS. An index is served as it is.

    With the extra words the page is searched by words too; --text onnx:FILE --tokenizer FILE is the text tower of
    features other than those of efficientnet-lite0.

    The page is available on this machine only, unless --host, --allow-host or --proxy let others connect. Every request
    needs a token: a random one is part of the address that is printed and opened, --token chooses another, --no-token
    does without. Marks made on the page are saved at once, in the index folder.

    --workers N serves an index with N processes, for searches alone: marks, uploads and downloads are refused.

    [bold]Examples[/bold]

    \b
      likewise PHOTOS
      likewise serve PHOTOS --labels none -o elsewhere/photos.index
      likewise serve photos.index --port 8080 --no-browser
      likewise serve photos.index --root /media/disk/photos
      likewise serve docs.index --show title,text,price
      likewise serve docs.index --no-browser --workers 4
      likewise serve photos.index --host 0.0.0.0 --token "$(cat token.txt)"
    """
    from likewise.serve import ServerSettings
    from likewise.serve.server import listening, start_logging
    from likewise.serve.server import serve as run
    from likewise.words.search import text_side

    if workers > 1 and (text is not None or tokenizer is not None):
        raise LikewiseError("--text and --tokenizer are for one process: leave out --workers")
    if no_token and token is not None:
        raise LikewiseError("--no-token and a token (--token, or LIKEWISE_TOKEN) exclude each other")
    token = None if no_token else secrets.token_urlsafe(18) if token is None else token.strip()
    if token is not None and not 12 <= len(token) <= 128:
        raise LikewiseError(f"--token has {len(token)} characters; expected 12 to 128")
    hosts, proxies = tuple(allow_host or ()), tuple(proxy or ())
    shown = tuple(name.strip() for name in (show or "").split(",") if name.strip())
    settings = ServerSettings(host, port, token, hosts, proxies=proxies, show=shown, trust=trust, workers=workers)
    listening(host, port).close()  # a port in use is reported before minutes of work
    index = _index_of(path, output, labels, extractor, refit)
    with working(f"reading {index}"):
        loaded = open_index(index, root)
        side = None if text is None and tokenizer is None else text_side(loaded, text, tokenizer)
    start_logging(log_level)
    items, is_secret = plural(len(loaded), "item"), token == os.environ.get("LIKEWISE_TOKEN", "").strip()

    def ready(where: str) -> None:
        where = f"{where.partition('login?')[0]} with the token of LIKEWISE_TOKEN" if is_secret else where
        note(f"{items} at {where} (Ctrl-C stops)")

    run(loaded, index, settings, not no_browser, ready, side)


def _index_of(path: Path, output: Path | None, labels: str | None, extractor: str | None, refit: bool) -> Path:
    """The folder of the index to serve: the path itself, or the index built from its pictures or features."""
    from likewise.search.storage import is_left_of_index
    from likewise.serve.library import PhotoLibrary
    from likewise.utils.progress import stage_bar

    if is_left_of_index(path):
        options = {"--output": output, "--labels": labels, "--extractor": extractor, "--refit": refit or None}
        for option, value in options.items():
            if value is not None:
                raise LikewiseError(f"{option} is for a folder of pictures, and {path} is an index")
        return path
    expect(("index", "pictures", "features"), path)
    library = PhotoLibrary(path, output, note, working, verbose=int(sys.stderr.isatty()))
    if library.places.photos is not None:
        choice, n_skipped_before = library.choose_labels(labels, _use_as_labels), library.n_skipped
        with stage_bar("images") as progress:
            summary = library.extract(choice, extractor, progress)
        note(_changes(summary))
        if summary.n_several_keywords and not summary.n_reused:
            note(keywords_sentence(summary))
        if summary.n_skipped and summary.n_skipped != n_skipped_before:  # the same every time would be noise
            note(skipped_sentence(summary))
    elif labels is not None or extractor is not None:
        option = "labels" if extractor is None else "extractor"
        raise LikewiseError(f"--{option} is for a folder of pictures, and {path} is a folder of features")
    built = library.build(refit)
    if built.learned:
        note(f"learned from {plural(built.n_learned, 'labelled picture')}")
    if built.held_out:
        note(held_out_line(built.held_out))
    return built.folder


def _use_as_labels(seen: Any) -> bool:
    """Ask on a terminal; elsewhere say what was chosen."""
    if sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
        return confirm(f"{seen.sentence}: use them as labels?", default=True, err=True)
    note(f"{seen.sentence}: used as labels (--labels none leaves them out)")
    return True


def _changes(summary: Any) -> str:
    """What has changed since the last time, or how many pictures there are."""
    pictures = plural(summary.n_items, "picture")
    if not summary.n_reused:
        return f"{pictures} read in {summary.seconds:.1f} s"
    counts = {"new": summary.n_new, "renamed": summary.n_renamed, "gone": summary.n_removed}
    changes = [f"{count:,} {word}" for word, count in counts.items() if count]
    return f"{pictures}: {', '.join(changes) if changes else 'none new, none gone'}"
