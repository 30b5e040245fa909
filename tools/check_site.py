"""Check a built site: every link inside it leads somewhere, and nothing is fetched from elsewhere.

    python tools/check_site.py build/site

Links to other sites are not followed: the check needs no network.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself, by tag. The address of an <a> waits for a click, those of some links for a crawler.
_FETCHED = {**dict.fromkeys(("script", "img", "source", "video", "iframe"), "src"), "link": "href", "use": "href"}
_NOT_FETCHED = {"canonical", "author", "license", "next", "prev", "search", "index"}


class Page(HTMLParser):
    """Names that can be linked to, links, and what is fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif found.get(_FETCHED.get(tag, ""), "") and found.get("rel", "") not in _NOT_FETCHED:
            self.fetched.append(found[_FETCHED[tag]])


def problems(site: Path) -> list[str]:
    """One line for each link that leads nowhere and each thing from elsewhere."""
    pages = {path.resolve(): Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    return [line for path, page in pages.items() for line in _of_page(path, page, pages, site.resolve())]


def _of_page(path: Path, page: Page, pages: dict[Path, Page], site: Path) -> list[str]:
    name = path.relative_to(site)
    remote = [f"{name}: fetches {address}" for address in page.fetched if urlsplit(address).netloc]
    local = [address for address in [*page.links, *page.fetched] if not _is_elsewhere(address)]
    return remote + [f"{name}: {address} leads nowhere" for address in local if not _is_there(address, path, pages)]


def _is_elsewhere(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.scheme or parts.netloc)


def _is_there(address: str, path: Path, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(address)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if parts.fragment and target in pages:
        return unquote(parts.fragment) in pages[target].ids
    return target.exists()


def main() -> None:
    found = problems(Path(sys.argv[1]))
    print("\n".join(found) or "every link inside the site leads somewhere, and nothing is fetched from elsewhere")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
