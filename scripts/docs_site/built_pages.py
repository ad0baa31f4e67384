"""What is wrong with a built site: empty pages, links into nothing, anything from elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself, as opposed to what a reader may follow.
_FETCHED = {"img": "src", "script": "src", "iframe": "src", "link": "href", "source": "src"}
_EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source"}
_WORDS = 20


@dataclass
class Page(HTMLParser):
    """One page as its parser met it: ids, links, what it fetches, and the words of its article."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    words: int = 0
    headings: int = 0
    _depth: int = 0
    _silent: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag names, leads to and fetches."""
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif _FETCHED.get(tag) in given and given.get("rel") not in ("canonical", "prev", "next"):
            self.fetched.append(given[_FETCHED[tag]])
        if tag == "article" or (self._depth and tag not in _EMPTY):
            self._depth += 1
            self.headings += tag == "h1"
        self._silent += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        """Leave the article when its last tag closes."""
        self._silent -= tag in ("script", "style")
        if self._depth and tag not in _EMPTY:
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        """Count the words of the article."""
        if self._depth and not self._silent:
            self.words += len(data.split())


def read(file: Path) -> Page:
    """Return what a page of HTML holds."""
    page = Page()
    page.feed(file.read_text("utf-8"))
    return page


def faults(site: Path) -> Iterator[str]:
    """Yield a sentence for each page without content and each address that leads nowhere."""
    pages = {file: read(file) for file in sorted(site.rglob("*.html"))}
    for file, page in pages.items():
        name = file.relative_to(site)
        # Not pages of the theme: exported ones that stand alone, and the one for wrong addresses.
        if page.headings and page.words < _WORDS and name.name != "404.html":
            yield f"{name} has {page.words} words."
        for address in page.fetched:
            if urlsplit(address).scheme not in ("", "data") or urlsplit(address).netloc:
                yield f"{name} fetches {address} from elsewhere."
        for address in (*page.links, *page.fetched):
            if fault := _lost(address, file, site, pages):
                yield f"{name} leads to {address}, {fault}."
        home = site / "index.html"
        alone = name.name == "404.html" or file == home
        if not alone and not any(_leads(file, one) == home for one in page.links):
            yield f"{name} has no way back to the index."


def _leads(file: Path, address: str) -> Path | None:
    """Return the file that an address on a page is of; None where it is elsewhere."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return None
    place = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    return place / "index.html" if place.is_dir() else place


def _lost(address: str, file: Path, site: Path, pages: dict[Path, Page]) -> str | None:
    parts, place = urlsplit(address), _leads(file, address)
    if place is None or file.name == "404.html":
        return None
    if not place.is_file() or not place.is_relative_to(site):
        return "which is not there"
    # In the address of a live page, which has no article, that part is its state.
    named = place in pages and pages[place].headings
    if parts.fragment and named and unquote(parts.fragment) not in pages[place].ids:
        return "where no such place is"
    return None
