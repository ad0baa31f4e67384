"""The pages that compute while you type, and the frames that show them on other pages."""

import json
import re
from html import escape
from pathlib import Path
from urllib.parse import urlencode

from limelight.live import live_page
from limelight.live.live_page import live_data
from limelight.models.attention import AttentionClassifier
from limelight.rendering.markup import render_page, render_template

FIGURES = {
    "2": "The architecture, with the numbers of this text",
    "3": "Where the heads look",
    "5": "Attention, gradient and LIME",
}
TEXT = "Attention based explanations are popular but questionable"
LIVE = "live-page.html"
PAPER = "paper-figures.html"
_HERE = Path(__file__).parent
_BACK = ' <a href="index.html" target="_top">limelight: all pages</a>'
_MARK = re.compile(r"^<!-- live(?:: ([\w-]+) \| (.*))? -->$", re.M)
_FIGURE = re.compile(r"^<!-- live figure (\d) -->\n(!\[.*\]\(.*\))$", re.M)


def paper_page(model: AttentionClassifier) -> str:
    """Return the figures of the paper as a page. Its address selects a figure and a text."""
    return render_page(
        "Figures of the paper",
        render_template(_HERE / "paper_figures.html", figures=FIGURES.items()),
        sheets=("words.css", "page.css", "elements.css", _HERE / "paper_figures.css"),
        script=_HERE / "paper_figures.js",
        data=json.dumps(live_data(model, "float32", TEXT), separators=(",", ":"), allow_nan=False),
    )


def write_live_pages(folder: Path, model: AttentionClassifier) -> None:
    """Write the live page and the figures of the paper, each with a link to the index."""
    pages = {LIVE: live_page(model, title="Type a sentence"), PAPER: paper_page(model)}
    for name, text in pages.items():
        (folder / name).write_text(text.replace("</footer>", f"{_BACK}</footer>"), "utf-8")


def add_frames(text: str, up: str) -> str:
    """Return a page with a frame in place of each mark ``<!-- live: METHOD | TEXT -->``.

    ``<!-- live figure N -->`` above an image is a figure of the paper. The image stays for print,
    and for browsers without scripts.

    Parameters
    ----------
    text
        A page in Markdown.
    up
        The way from the page to the folder of the site, such as ``../``.
    """

    def frame(match: re.Match[str]) -> str:
        state = {"method": match[1], "text": match[2]} if match[1] else {}
        address = escape(f"{up}{LIVE}{'#' if state else ''}{urlencode(state)}")
        lead = "" if state else "Type a sentence of your own. The model runs in your browser:\n\n"
        return (
            f'{lead}<iframe class="live" loading="lazy" src="{address}" '
            'title="Type a sentence"></iframe>\n\n'
            "The model itself is on this page: nothing that you type leaves it. "
            f'<a href="{address}" target="_blank">Open it alone</a>, or save it: '
            "it is one file and works without a network.\n"
        )

    def figure(match: re.Match[str]) -> str:
        return (
            f'<iframe class="live moving" loading="lazy" src="{up}{PAPER}#figure={match[1]}" '
            f'title="Figure {match[1]}, for a text of yours"></iframe>\n\n'
            f"{match[2]}{{ .still }}\n"
        )

    return _FIGURE.sub(figure, _MARK.sub(frame, text))
