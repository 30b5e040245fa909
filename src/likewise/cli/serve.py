"""`likewise serve`: the web page to search, compare before and after, and teach."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from likewise.cli.console import note, working
from likewise.cli.kinds import open_index
from likewise.cli.options import Root, TextModel, TokenizerFile
from likewise.errors import LikewiseError
from likewise.utils.wording import plural


def serve(
    path: Annotated[
        Path, Argument(metavar="PATH", help="Folder of pictures, of features, or an index.", show_default=False)
    ],
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="INDEX", help="Index to write. [dim]Default: beside PATH.[/]")
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
        str | None, Option(envvar="LIKEWISE_TOKEN", help="Access token for clients.", show_default=False)
    ] = None,
    allow_host: Annotated[list[str] | None, Option(metavar="NAME", help="Additional host name of this server.")] = None,
    proxy: Annotated[
        list[str] | None,
        Option(metavar="ADDRESS", help="Proxy in front of this server, whose X-Forwarded-For and -Proto are believed."),
    ] = None,
    no_browser: Annotated[bool, Option("--no-browser", help="Do not open a browser.")] = False,
    log_level: Annotated[
        Literal["debug", "info", "warning"],
        Option(help="debug logs every request, info changes and failures; logs are JSON on stderr."),
    ] = "info",
) -> None:
    """Serve a web page to search pictures, compare before and after, and teach it by clicking.

    PATH is a folder of pictures: their features go to PATH.features and their index to PATH.index beside it, nothing
    into PATH itself. With labels (sub-folders, keywords, or a CSV of paths and labels) a similarity is learned from
    them, else pictures are compared by the cosine. Run again, it goes on where it was: new pictures come in, deleted
    ones leave.
    With the extra words the page is searched by words too; --text onnx:FILE --tokenizer FILE is for other features
    than those of efficientnet-lite0: the text tower that belongs to their model.
    [bold]likewise PHOTOS[/bold] is short for likewise serve PHOTOS. An index is served as it is.

    The page is available on this machine only. With --host, --allow-host or --proxy others can connect, and then a
    token is required; without --token a random one is printed with the address. Marks made on the page are saved
    at once, in the index folder.

    [bold]Examples[/bold]

    \b
      likewise PHOTOS
      likewise serve PHOTOS --labels none -o elsewhere/photos.index
      likewise serve photos.index --port 8080 --no-browser
      likewise serve photos.index --root /media/disk/photos
      likewise serve docs.index --show title,text,price
      likewise serve photos.index --host 0.0.0.0 --token "$(cat token.txt)"
    """
    from likewise.cli.photos import index_of
    from likewise.serve import ServerSettings
    from likewise.serve.server import listening, start_logging
    from likewise.serve.server import serve as run
    from likewise.words.search import text_side

    token = None if token is None else token.strip()
    if token is not None and not 12 <= len(token) <= 128:
        raise LikewiseError(f"--token has {len(token)} characters; expected 12 to 128")
    hosts, proxies = tuple(allow_host or ()), tuple(proxy or ())
    shown = tuple(name.strip() for name in (show or "").split(",") if name.strip())
    settings = ServerSettings(host, port, token, hosts, proxies=proxies, show=shown)
    listening(host, port).close()  # a port in use is said before minutes of work
    index = index_of(path, output, labels, extractor, refit)
    with working(f"reading {index}"):
        loaded = open_index(index, root)
        side = None if text is None and tokenizer is None else text_side(loaded, text, tokenizer)
    start_logging(log_level)
    items = plural(len(loaded), "item")
    run(loaded, index, settings, not no_browser, lambda where: note(f"{items} at {where} (Ctrl-C stops)"), side)
