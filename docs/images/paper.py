"""Draw the still pictures of docs/research/paper.md again; needs chromium and the extra ``dev``.

PYTHONPATH=docs/site python docs/images/paper.py
"""

import tempfile
from pathlib import Path

from live_pages import FIGURES, paper_page
from playwright.sync_api import sync_playwright

import limelight

HERE = Path(__file__).parent


def main() -> None:
    """Open every figure with its own text, and keep a picture of it."""
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.html"
        file.write_text(paper_page(limelight.load()), encoding="utf-8")
        chromium = driver.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        window = chromium.new_page(viewport={"width": 820, "height": 600})
        for number in FIGURES:
            window.goto("about:blank")
            window.goto(f"{file.as_uri()}#figure={number}")
            window.wait_for_selector(f"#figure-{number} table")
            window.locator("main").screenshot(path=HERE / f"paper-figure-{number}.png")
        chromium.close()


if __name__ == "__main__":
    main()
