"""`likewise serve`: the web page to search, compare before and after, and teach."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from likewise.cli.console import note, working
from likewise.errors import LikewiseError


def serve(
    index: Annotated[
        Path, Argument(metavar="INDEX", help="Index folder written by likewise index.", show_default=False)
    ],
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(help="Port; 0 picks a free one.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None, Option(envvar="LIKEWISE_TOKEN", help="Access token for clients.", show_default=False)
    ] = None,
    allow_host: Annotated[list[str] | None, Option(metavar="NAME", help="Additional host name of this server.")] = None,
    no_browser: Annotated[bool, Option("--no-browser", help="Do not open a browser.")] = False,
    no_rate_limit: Annotated[bool, Option("--no-rate-limit", help="Disable rate limiting.")] = False,
    log_level: Annotated[
        Literal["debug", "info", "warning"], Option(help="debug logs every request; logs are JSON on stderr.")
    ] = "info",
) -> None:
    """Serve a web page to search an index, compare before and after, and teach it by clicking.

    The page is available on this machine only. With --host other machines can connect, and then a token is required;
    without --token a random one is printed with the address. Marks made on the page are saved at once, in the index
    folder.

    [bold]Examples[/bold]

    \b
      likewise serve photos.index
      likewise serve photos.index --port 8080 --no-browser
      likewise serve photos.index --host 0.0.0.0 --token "$(cat token.txt)"
    """
    from likewise.retrieval import Index
    from likewise.web import ServerSettings
    from likewise.web.monitoring import start_logging
    from likewise.web.server import serve as run

    if token is not None and len(token.strip()) < 8:
        raise LikewiseError(f"--token has {len(token.strip())} characters; expected at least 8")
    settings = ServerSettings(host, port, token, tuple(allow_host or ()), not no_rate_limit)
    with working(f"reading {index}"):
        loaded = Index.load(index)
    start_logging(log_level)
    run(loaded, index, settings, not no_browser, lambda where: note(f"{len(loaded):,} items at {where} (Ctrl-C stops)"))
