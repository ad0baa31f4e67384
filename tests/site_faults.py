"""What is wrong with a built site: empty pages, links into nothing, anything from elsewhere."""

import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The ids, the links, the fetched addresses and the number of words of a page."""

    def __init__(self, html):
        super().__init__()
        self.ids, self.links, self.fetched = set(), [], []
        text = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.S)
        _, article, text = text.partition("<article")
        self.is_themed = bool(article)  # not a page that stands alone
        self.words = len(re.sub(r"<[^>]*>", " ", f"<{text}".partition("</article>")[0]).split())
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in ("img", "script", "iframe", "source") and "src" in values:
            self.fetched.append(values["src"])
        elif tag == "link" and values.get("rel") not in ("canonical", "prev", "next"):
            self.fetched.append(values["href"])


def find_faults(site):
    """List the pages without content and the addresses that lead nowhere or elsewhere."""
    pages = {file: Page(file.read_text("utf-8")) for file in sorted(site.rglob("*.html"))}
    home, faults = site / "index.html", []
    for file, page in pages.items():
        name, targets = file.relative_to(site).as_posix(), set()
        if page.is_themed and page.words < 20 and name != "404.html":
            faults.append(f"{name} has {page.words} words.")
        for address in (*page.links, *page.fetched):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.fetched and parts.scheme != "data":
                    faults.append(f"{name} fetches {address} from elsewhere.")
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            targets.add(target)
            if name == "404.html":  # its addresses begin at the root of a server
                continue
            if not target.is_file() or not target.is_relative_to(site):
                faults.append(f"{name} leads to {address}, which is not there.")
                continue
            # In the address of a live page, which has no article, that part is its state.
            has_ids = bool(parts.fragment) and target in pages and pages[target].is_themed
            if has_ids and unquote(parts.fragment) not in pages[target].ids:
                faults.append(f"{name} leads to {address}, where no such place is.")
        if name != "404.html" and file != home and home not in targets:
            faults.append(f"{name} has no way back to the index.")
    return faults
