"""Write docs/reproduction.md, its figures and the README's summary from the stored results.

python docs/reproduction.py
"""

import re
from pathlib import Path

from limelight_reproduction.markdown import documentation_page, summary
from limelight_reproduction.report import Row, rows_of
from limelight_reproduction.results import stored

HERE = Path(__file__).parent
PAGE, README, IMAGES = HERE / "reproduction.md", HERE.parent / "README.md", "images/reproduction"
IN_README = ("accuracy", "comments")
MARKS = re.compile(r"(<!-- from results\.json -->\n).*?(<!-- end -->)", re.DOTALL)


def page(rows: list[Row]) -> str:
    """Return the text of the page."""
    return documentation_page(rows, IMAGES)


def readme(rows: list[Row]) -> str:
    """Return the README with the summary between its marks."""
    lines = summary(rows, IN_README)
    return MARKS.sub(lambda found: f"{found[1]}{lines}\n{found[2]}", README.read_text("utf-8"))


def main() -> None:
    """Write everything."""
    (HERE / IMAGES).mkdir(parents=True, exist_ok=True)
    rows = list(rows_of(stored(), HERE / IMAGES, suffixes=(".png",), dpi=110))
    PAGE.write_text(page(rows), "utf-8")
    README.write_text(readme(rows), "utf-8")


if __name__ == "__main__":
    main()
