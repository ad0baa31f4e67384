"""The figures of the paper as one page of the site: the shipped model, computed while you type."""

import json
from pathlib import Path

from limelight.live.live_page import live_data
from limelight.models.attention import AttentionClassifier
from limelight.rendering.markup import render_page, render_template

FIGURES = {
    "2": "The architecture, with the numbers of this text",
    "3": "Where the heads look",
    "5": "Attention, gradient and LIME",
}
TEXT = "Attention based explanations are popular but questionable"
_HERE = Path(__file__).parent


def paper_page(model: AttentionClassifier) -> str:
    """Return the page; its address says which figure is shown, and of which text."""
    return render_page(
        "Figures of the paper",
        render_template(_HERE / "paper_figures.html", figures=FIGURES.items()),
        sheets=("words.css", "page.css", "elements.css", _HERE / "paper_figures.css"),
        script=_HERE / "paper_figures.js",
        data=json.dumps(live_data(model, "float32", TEXT), separators=(",", ":"), allow_nan=False),
    )
