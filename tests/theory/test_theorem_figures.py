"""The figures of the theorem pages are those that the library computes."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from catalogue import THEOREMS

pytest.importorskip("matplotlib", reason="figures are an extra")

import figures
from drawn.picture import Picture, below, number, svg

PAGES = Path(__file__).resolve().parents[2] / "docs" / "theorems"


def labels(picture):
    """List the words in an SVG, without the numbers at its axes."""
    texts = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    words = ("".join(text.itertext()).strip() for text in texts)
    return sorted(w for w in words if re.search(r"[^\W\d]", w) and not re.match(r"\de", w))


def test_every_theorem_has_its_figure_and_every_figure_a_theorem():
    samples = {path.stem for path in (PAGES / "images").glob("*.svg")}
    assert samples == set(figures.FIGURES) == {theorem.id for theorem in THEOREMS}


# These figures need many fits or long integrals, and several seconds.
SLOW = {"certificate", "faithfulness-ceiling", "lime", "lime-first-order", "mean-field"}
SLOW |= {"reciprocal-sum", "second-order", "table-rounding"}


# Not the bytes: the last digits of coordinates depend on the machine and on matplotlib's version.
@pytest.mark.parametrize(
    "theorem",
    [
        pytest.param(theorem, marks=pytest.mark.slow if theorem in SLOW else [])
        for theorem in sorted(figures.FIGURES)
    ],
)
def test_image_labels_and_numbers_of_the_caption_are_those_of_a_fresh_drawing(theorem):
    """If this fails, run ``python docs/theorems/figures.py`` with the id of the theorem."""
    picture = figures.FIGURES[theorem]()
    page = (PAGES / f"{theorem}.md").read_text("utf-8")
    assert figures.replace_image(page, theorem, picture) == page
    assert figures.missing_numbers(page, picture) == []
    committed = (PAGES / "images" / f"{theorem}.svg").read_bytes()
    assert labels(committed) == labels(svg(picture.figure)) != []


def test_a_figure_drawn_twice_has_the_same_bytes():
    first, second = (svg(figures.FIGURES["lemma-d5"]().figure) for _ in range(2))
    assert first == second
    assert first != svg(figures.FIGURES["lemma-d4"]().figure)


PAGE = """# A

## Figure

![Old.](images/a.svg)

The error is 0.5 of 12.

A second paragraph.

## Where it fails

Never.
"""


def test_a_new_image_leaves_the_caption_and_the_rest_of_the_page():
    picture = Picture(figure=None, alt=r"New \1.")
    changed = figures.replace_image(PAGE, "a", picture)
    assert changed == PAGE.replace("Old.", r"New \1.")
    assert figures.replace_image(changed, "a", picture) == changed
    with pytest.raises(ValueError, match="no image"):
        figures.replace_image("# A\n\n## Figure\n\nNone.\n", "a", picture)


def test_numbers_that_a_caption_lacks_are_listed():
    picture = Picture(figure=None, alt="", numbers=("0.5", "12", "1", "5", "Never"))
    assert figures.missing_numbers(PAGE, picture) == ["1", "5", "Never"]


def test_numbers_in_captions_read_well():
    assert [number(x) for x in (0.0661, -0.3, 6.9e-7)] == ["0.066", "−0.3", "6.9e-7"]
    assert number(2.1e9, ".0e") == "2e9"
    assert [below(x) for x in (3e-4, 1e-3, 1e-16)] == ["1e-3", "1e-3", "1e-12"]
