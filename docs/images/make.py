"""Draw the pictures of the documentation again; needs chromium and the extra ``dev``.

python docs/images/make.py
"""

import re
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console

import limelight

HERE = Path(__file__).parent
TEXT = "The plot is predictable, but the acting is superb."


def terminal(comparison: limelight.Comparison) -> None:
    """Write what ``limelight compare`` shows on a colour terminal."""
    with tempfile.TemporaryFile("w") as nowhere:
        console = Console(record=True, width=78, file=nowhere, force_terminal=True)
        console.print(comparison)
    svg = console.export_svg(title=f'limelight compare "{TEXT}"')
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # nothing from the network
    svg = svg.replace("Fira Code", "ui-monospace, Menlo, Consolas")
    (HERE / "compare.svg").write_text(svg, encoding="utf-8")


def page(comparison: limelight.Comparison) -> None:
    """Write the top of the page that ``limelight compare --output page.html`` makes."""
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        comparison.save_html(Path(folder) / "page.html")
        chromium = driver.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        window = chromium.new_page(viewport={"width": 900, "height": 1010})
        window.goto((Path(folder) / "page.html").as_uri())
        window.screenshot(path=HERE / "page.png")
        chromium.close()


if __name__ == "__main__":
    compared = limelight.compare(limelight.load(), TEXT, attention=True)
    terminal(compared)
    page(compared)
