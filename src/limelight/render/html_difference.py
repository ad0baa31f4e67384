"""Two runs side by side, as one self-contained page."""

__all__ = ["difference_page"]

from limelight.render.html_summary_words import difference_table
from limelight.render.html_tables import plain_table
from limelight.render.markup import element, raw
from limelight.render.page_shell import section, whole_page
from limelight.render.wording import percent
from limelight.results.summary import RunDifference


def difference_page(d: RunDifference) -> str:
    """Return the words and the texts that changed most."""
    turned = d.predictions
    said = (
        f"{d.texts:,} explanations of the same texts: {d.methods[0]} in “{d.first}”, then "
        f"{d.methods[1]} in “{d.second}”. {turned.count:,} predictions changed, "
        f"{percent(turned.share)} [{turned.low:.1%}, {turned.high:.1%}]. {d.apart[0]:,} texts are "
        f"only in the first run, {d.apart[1]:,} only in the second."
    )
    unit = "Scores are shares of a text's total size, since two methods have no common unit."
    heads = ("word", "for", "first (texts)", "second (texts)", "difference", "p (Holm)")
    words = (
        difference_table(heads, d.words, label="Words that changed most")
        if d.words
        else element("p", f"No word's score changed for certain, of {d.compared:,} compared.")
    )
    texts = [(t.id, t.target, f"{t.change:.3f}", t.predicted, t.other_predicted) for t in d.changed]
    sections = [
        section(
            "The runs", element("p", said), element("p", unit, class_="note") if d.shares else raw()
        ),
        section("Words that changed most", words),
        section(
            "Texts that changed most",
            plain_table(
                ("text", "for", "change (0 to 1)", "first says", "second says"),
                texts,
                label="Texts that changed most",
            ),
        ),
    ]
    return whole_page(
        "What changed between two runs?",
        sections,
        sheets=("words.css", "page.css", "summary.css"),
        script="summary.js",
        data='{"views":[]}',
    )
