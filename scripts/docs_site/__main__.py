"""Build the site from ``docs/`` and look through it; ``scripts/docs`` runs this.

PYTHONPATH=scripts python -m docs_site [FOLDER]     into build/site, or the folder that is named
"""

import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import limelight
from docs_site.built_pages import faults
from docs_site.navigation import ROOT, sections
from docs_site.settings import settings
from docs_site.staging import stage
from limelight.live import live_page

LIVE = "live-page.html"
_FRAME = f"""\
<iframe class="live" src="{LIVE}" title="The shipped model: type a sentence"></iframe>

The model itself is on this page: nothing that you type leaves it.
[Open it alone]({LIVE}){{target=_blank}}, or save it: it is one file and works without a network.
"""


def build(site: Path, work: Path) -> list[str]:
    """Build the site in a folder and return what is wrong with it, one sentence each."""
    chapters = sections()
    pages = work / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    stage(pages, chain.from_iterable(chapter.pages for chapter in chapters))
    shutil.copyfile(Path(__file__).with_name("site.css"), pages / "site.css")
    (pages / LIVE).write_text(live_page(limelight.load()), "utf-8")
    front = (pages / "index.md").read_text("utf-8")
    (pages / "index.md").write_text(front.replace("<!-- live -->\n", _FRAME), "utf-8")
    plan = work / "mkdocs.yml"
    plan.write_text(settings(chapters, pages, site), "utf-8")
    zensical = Path(sys.executable).with_name("zensical")
    shutil.rmtree(site, ignore_errors=True)
    done = subprocess.run([zensical, "build", "--clean", "--strict", "--config-file", plan])
    if done.returncode:
        return ["zensical could not build the site."]
    return list(faults(site))


def main() -> int:
    """Build, print what is wrong and where the site is; return the exit status."""
    work = ROOT / "build" / "docs"
    work.mkdir(parents=True, exist_ok=True)
    site = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build" / "site"
    found = build(site, work)
    for fault in found:
        print(f"fault: {fault}")
    print(f"{len(list(site.rglob('*.html')))} pages in {site}: open {site / 'index.html'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
