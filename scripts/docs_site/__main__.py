"""Build the site from ``docs/`` and look through it; ``scripts/docs`` runs this.

PYTHONPATH=scripts python -m docs_site [FOLDER]              into build/site, or FOLDER/site
PYTHONPATH=scripts python -m docs_site --publish PLACE       and a copy beside other versions
"""

import argparse
import os.path
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from html import escape
from itertools import chain
from pathlib import Path
from urllib.parse import urlencode

import limelight
from docs_site.built_pages import faults
from docs_site.formulas import FormulaError, copy_style, render_formulas
from docs_site.llms import write_llms
from docs_site.navigation import ROOT, read_sections
from docs_site.paper_page import paper_page
from docs_site.search import SearchError, rank_search
from docs_site.settings import settings
from docs_site.staging import stage
from docs_site.versions import VERSIONS, publish, write_versions, zipped
from limelight.live import live_page

LIVE = "live-page.html"
PAPER = "paper-figures.html"
WORKER = "frame_worker.js"
# What zensical would fetch for searching on a disk; ours takes its place.
_SHIM = "https://unpkg.com/iframe-worker/shim"
# Who has opened a page that stands alone finds the way back.
_BACK = ' <a href="index.html" target="_top">limelight: all pages</a>'
_ROLE = re.compile(r":(?:func|class|meth|mod|data|attr):<code>~?([\w.]+)(?:\(\))?</code>")
_ANY = (
    '<code><span title="typing.Any">Any</span></code>'  # of a verb with overloads, which say more
)
_DOCUMENTED = re.compile(r'<h\d id="(limelight[\w.]*)"')
_MARK = re.compile(r"^<!-- live(?:: ([\w-]+) \| (.*))? -->$", re.M)
_FIGURE = re.compile(r"^<!-- live figure (\d) -->\n(!\[.*\]\(.*\))$", re.M)


def with_live_pages(text: str, up: str) -> str:
    """Return a page in which every mark ``<!-- live: METHOD | TEXT -->`` has become a frame.

    It shows the live page, ``up`` the tree; a mark without method and text starts with its own.
    ``<!-- live figure N -->`` above a picture is a figure of the paper, of which the picture is
    left where nothing moves: in print, and without a script.
    """

    def frame(found: re.Match[str]) -> str:
        state = {"method": found[1], "text": found[2]} if found[1] else {}
        address = f"{up}{LIVE}{'#' if state else ''}{urlencode(state)}"
        lead = "" if state else "Type a sentence of your own. The model runs in your browser:\n\n"
        return (
            f'{lead}<iframe class="live" loading="lazy" src="{escape(address)}" '
            'title="Type a sentence"></iframe>\n\n'
            "The model itself is on this page: nothing that you type leaves it. "
            f'<a href="{escape(address)}" target="_blank">Open it alone</a>, or save it: '
            "it is one file and works without a network.\n"
        )

    def figure(found: re.Match[str]) -> str:
        return (
            f'<iframe class="live moving" loading="lazy" src="{up}{PAPER}#figure={found[1]}" '
            f'title="Figure {found[1]}, for a text of yours"></iframe>\n\n'
            f"{found[2]}{{ .still }}\n"
        )

    return _FIGURE.sub(figure, _MARK.sub(frame, text))


def build(folder: Path) -> list[str]:
    """Build the site in ``folder / "site"`` and return what is wrong with it, a sentence each."""
    chapters = read_sections()
    pages, site, plan = folder / "pages", folder / "site", folder / "mkdocs.yml"
    for place in (pages, site):
        shutil.rmtree(place, ignore_errors=True)
    stage(pages, chain.from_iterable(chapter.pages for chapter in chapters))
    for name in ("site.css", WORKER):
        shutil.copyfile(Path(__file__).with_name(name), pages / name)
    try:
        copy_style(pages)
    except FormulaError as error:
        return [str(error)]
    model = limelight.load()
    for name, text in (
        (LIVE, live_page(model, title="Type a sentence")),
        (PAPER, paper_page(model)),
    ):
        (pages / name).write_text(text.replace("</footer>", f"{_BACK}</footer>"), "utf-8")
    for page in pages.rglob("*.md"):
        up = "../" * (len(page.relative_to(pages).parts) - 1)
        page.write_text(with_live_pages(page.read_text("utf-8"), up), "utf-8")
    plan.write_text(settings(chapters), "utf-8")
    zensical = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    if subprocess.run([*zensical, "--config-file", plan]).returncode:
        return ["zensical could not build the site."]
    try:
        written = render_formulas({page: page.read_text("utf-8") for page in site.rglob("*.html")})
    except FormulaError as error:
        return str(error).splitlines()
    homes = {name: page for page, text in written.items() for name in _DOCUMENTED.findall(text)}
    for page, text in written.items():
        for mark, name in ((_SHIM, WORKER), (f'"{VERSIONS}"', VERSIONS)):
            address = os.path.relpath(site / name, page.parent)
            text = text.replace(mark, f'"{address}"' if mark.startswith('"') else address)
        page.write_text(with_links(text, page, homes), "utf-8")
    try:
        rank_search(site)
    except SearchError as error:
        return [str(error)]
    write_llms(site, chapters)
    write_versions(site, limelight.__version__)
    return list(faults(site))


def with_links(text: str, page: Path, homes: Mapping[str, Path]) -> str:
    """Return a built page in which every :func:`name` of a docstring is code.

    It leads to the page that documents the name, where there is one. The type Any is left out.
    """

    def linked(found: re.Match[str]) -> str:
        code, name = f"<code>{found[1]}</code>", found[1]
        full = name if name in homes else f"limelight.{name}"
        if full not in homes:
            return code
        return f'<a href="{os.path.relpath(homes[full], page.parent)}#{full}">{code}</a>'

    return _ROLE.sub(linked, text.replace(f"({_ANY})", "").replace(f"{_ANY}, ", ""))


def main() -> int:
    """Build, print what is wrong and where the site is; return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/docs", description="Build the documentation.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build")
    parser.add_argument("--publish", type=Path, metavar="PLACE", help="copy it beside others")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    found = build(folder)
    for fault in found:
        print(f"fault: {fault}")
    site = folder / "site"
    if found:
        return 1
    print(f"{len(list(site.rglob('*.html')))} pages: open {site / 'index.html'}")
    print(f"to read without a network: {zipped(site, limelight.__version__)}")
    if given.publish:
        publish(site, given.publish, limelight.__version__)
        print(f"beside other versions: {given.publish / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
