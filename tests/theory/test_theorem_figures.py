"""The figures of the theorems' pages are what the library computes today."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from catalogue import THEOREMS

pytest.importorskip("matplotlib", reason="figures are an extra")

import figures
from drawn.picture import below, number, svg

PAGES = Path(__file__).resolve().parents[2] / "docs" / "theorems"


def labels(picture):
    """The words that are drawn in an SVG, without the numbers at its axes."""
    texts = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    words = ("".join(text.itertext()).strip() for text in texts)
    return sorted(w for w in words if re.search(r"[^\W\d]", w) and not re.match(r"\de", w))


def test_every_theorem_has_its_figure_and_every_figure_a_theorem():
    drawn = {path.stem for path in (PAGES / "images").glob("*.svg")}
    assert drawn == set(figures.FIGURES) == {theorem.id for theorem in THEOREMS}


# Drawn from many fits or long integrals, for seconds.
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
def test_caption_and_labels_are_those_of_a_fresh_drawing(theorem):
    picture = figures.FIGURES[theorem]()
    page = (PAGES / f"{theorem}.md").read_text("utf-8")
    assert figures.with_section(page, figures.section(theorem, picture)) == page
    committed = (PAGES / "images" / f"{theorem}.svg").read_bytes()
    assert labels(committed) == labels(svg(picture.figure)) != []


def test_a_figure_drawn_twice_has_the_same_bytes():
    first, second = (svg(figures.FIGURES["lemma-d5"]().figure) for _ in range(2))
    assert first == second
    assert first != svg(figures.FIGURES["lemma-d4"]().figure)


def test_a_section_is_put_in_once_and_then_replaced():
    page = "# A\n\n## Regime\n\nExact.\n\n## Oracle\n\nSets.\n"
    once = figures.with_section(page, "one\n")
    assert once == "# A\n\n## Regime\n\nExact.\n\n## Figure\n\none\n\n## Oracle\n\nSets.\n"
    assert figures.with_section(once, "two\n") == once.replace("one", "two")


def test_numbers_in_captions_read_well():
    assert [number(x) for x in (0.0661, -0.3, 6.9e-7)] == ["0.066", "−0.3", "6.9e-7"]
    assert number(2.1e9, ".0e") == "2e9"
    assert [below(x) for x in (3e-4, 1e-3, 1e-16)] == ["1e-3", "1e-3", "1e-12"]
