"""Draw the pictures of the documentation again; needs chromium and the extra ``dev``.

python docs/images/make.py
"""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from rich.console import Console

import limelight
from limelight.live import live_page

HERE = Path(__file__).parent
TEXT = "The plot is predictable, but the acting is superb."


def terminal(comparison: limelight.Comparison) -> None:
    """Write what ``limelight compare`` shows on a color terminal."""
    with tempfile.TemporaryFile("w") as nowhere:
        console = Console(record=True, width=78, file=nowhere, force_terminal=True)
        console.print(comparison)
    svg = console.export_svg(title=f'limelight compare "{TEXT}"')
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # nothing from the network
    svg = svg.replace("Fira Code", "ui-monospace, Menlo, Consolas")
    (HERE / "compare.svg").write_text(svg, encoding="utf-8")


def page(comparison: limelight.Comparison) -> None:
    """Write the top of the page that ``limelight compare --output page.html`` makes."""
    with opened(comparison.as_html(), width=900, height=1010) as window:
        window.screenshot(path=HERE / "page.png")


def live(model: limelight.Model) -> None:
    """Write the page that ``limelight export`` makes, its table shortened."""
    with opened(live_page(model), width=1000, height=900) as window:
        window.evaluate("document.querySelector('limelight-bars').count = 6")
        window.hover("limelight-words .top")
        window.screenshot(path=HERE / "live.png", full_page=True)


@contextmanager
def opened(content: str, *, width: int, height: int) -> Iterator[Page]:
    """Show a page in a browser."""
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(content, encoding="utf-8")
        chromium = driver.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        window = chromium.new_page(viewport={"width": width, "height": height})
        window.goto(file.as_uri())
        yield window
        chromium.close()


if __name__ == "__main__":
    compared = limelight.compare(limelight.load(), TEXT, attention=True)
    terminal(compared)
    page(compared)
    live(limelight.load())
