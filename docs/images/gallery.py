"""Draw the pictures of docs/gallery.md again; needs chromium and the extras dev, plots and data.

python docs/images/gallery.py
"""

import re
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from rich.console import Console

import limelight
from limelight.rendering.figures import (
    attention_figure,
    bar_chart,
    colored_sentence,
    interaction_heatmap,
    save_figure,
)

HERE = Path(__file__).resolve().parent
TEXT = "The plot is predictable, but the acting is superb."
TEXTS = (
    "Superb acting and lovely music, but a predictable plot.",
    "A dull script wastes fine actors.",
    "I loved every minute of this charming little film.",
    "Awful. The dialogue is wooden and the ending makes no sense.",
    "Not as bad as they say: the second half is moving.",
    "Two hours of noise, and not one funny line.",
)
METHODS = ("shapley", "lime", "gxi", "alpha-avg", "g-avg")


def terminal(name: str, title: str, *values: Any) -> None:
    """Write what a color terminal shows, as SVG without fonts from the network."""
    with tempfile.TemporaryFile("w") as nowhere:
        console = Console(record=True, width=78, file=nowhere, force_terminal=True)
        for value in values:
            console.print(value)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title=title), flags=re.DOTALL)
    svg = svg.replace("Fira Code", "ui-monospace, Menlo, Consolas")
    (HERE / f"gallery-{name}.svg").write_text(svg, encoding="utf-8")


def figures(model: limelight.AttentionClassifier) -> None:
    """Write the figures for papers."""
    compared = limelight.compare(model, TEXT, attention=True)
    tokens = ["[cls]", *model.read(TEXT).tokens.strings]
    drawn = {
        "sentence": colored_sentence(compared),
        "bars": bar_chart(compared["shapley"]),
        "attention": attention_figure(compared.attention, tokens),
        "interactions": interaction_heatmap(limelight.explain(model, TEXT, "interactions")),
    }
    for name, figure in drawn.items():
        save_figure(figure, HERE / f"gallery-{name}.png", dpi=90)


def pages(values: dict[str, tuple[str, int]]) -> None:
    """Write the tops of HTML pages, and a fragment, as a browser shows them."""
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        for name, (content, height) in values.items():
            window = chromium.new_page(viewport={"width": 900, "height": height})
            window.set_content(content)
            window.wait_for_timeout(300)
            window.screenshot(path=HERE / f"gallery-{name}.png")
        chromium.close()


def main() -> None:
    """Draw everything."""
    model = limelight.load()
    explained = limelight.explain(model, TEXT, "shapley")
    judged = limelight.judge(model, list(TEXTS), list(METHODS))
    data = {"text": list(TEXTS) * 6, "label": ["positive", "negative"] * 18}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):  # the page names the run
        summary = limelight.explain_data(model, data, "lime", output="run").summary()
        figures(model)
        terminal("explain", "limelight explain --method shapley", explained)
        terminal("judgment", "limelight judge --data reviews.csv", judged)
        terminal("summary", "limelight summarize run", summary)
        mail = f"<p>Dear reader, this is why the review was marked:</p>{explained._repr_html_()}"
        pages(
            {
                "explanation-page": (explained.to_html(), 800),
                "judgment-page": (judged.as_html(), 800),
                "summary-page": (summary.as_html(), 800),
                "fragment": (mail, 560),
            }
        )


if __name__ == "__main__":
    main()
