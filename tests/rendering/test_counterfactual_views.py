"""Counterfactuals on a terminal, as a page and as a fragment."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

import limelight
from limelight import Counterfactual
from limelight.rendering.counterfactual import change_sentence, minimum_sentence
from limelight.results import Counterfactuals
from limelight.sampling.removal_search import RemovalStability
from limelight.text import AnswerQuery

from browsing import watched_page
from render_samples import HOSTILE

WORDS = ("The", "plot", "is", "bad")


def result(**fields):
    """Return a counterfactual made by hand, of four words."""
    spans = (((0, 3),), ((4, 8),), ((9, 11),), ((12, 15),))
    values = {
        "text": "The plot is bad.", "features": WORDS, "spans": spans, "removed": (1, 3),
        "lower_bound": 2, "classes": ("negative", "positive"), "prediction": {"positive": -1.0},
        "prediction_after": {"positive": 0.5}, "replacement": "unk",
        "settings": {"features": "words"}, "version": "1", "model": "m",
    }  # fmt: skip
    return Counterfactual(**values | fields)


def print_to_text(value, width=80, *, color=False):
    system = {"force_terminal": True, "color_system": "truecolor"} if color else {"no_color": True}
    Console(file=(file := io.StringIO()), width=width, **system).print(value)
    return file.getvalue()


NOTHING = {"removed": (), "prediction_after": None}
ANSWER = {
    "kind": "answer", "classes": ("answer",), "link": "none", "threshold": -3.0,
    "query": AnswerQuery("Fine."), "prediction": {"answer": -2.0},
    "prediction_after": {"answer": -5.0},
}  # fmt: skip
SCORE = {
    "kind": "score", "classes": ("n",), "link": "none", "threshold": 2.0,
    "prediction": {"n": 1.0}, "prediction_after": {"n": 2.5},
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "change", "minimum"),
    [
        (
            {},
            "Removing 2 words changes the prediction from negative to positive.",
            "No single word does (proven).",
        ),
        (
            {"removed": (3,), "lower_bound": 1},
            "Removing 1 word changes the prediction from negative to positive.",
            "",
        ),
        (
            {"removed": (0, 1, 3), "lower_bound": 3, "bound_kind": "checked"},
            "Removing 3 words changes the prediction from negative to positive.",
            "No smaller set of words does (checked on this text, not proven).",
        ),
        (
            {"removed": (0, 1, 3), "lower_bound": 2, "bound_kind": "evaluated"},
            "Removing 3 words changes the prediction from negative to positive.",
            "The smallest set has 2 to 3 words: no removal of 1 word changes it (all were "
            "evaluated).",
        ),
        (
            {"lower_bound": 1},
            "Removing 2 words changes the prediction from negative to positive.",
            "A smaller set may exist.",
        ),
        (
            NOTHING | {"lower_bound": 5},
            "No removal of words changes the prediction negative (proven).",
            "",
        ),
        (
            NOTHING | {"lower_bound": 3, "desired_class": "positive", "bound_kind": "evaluated"},
            "The search found no removal of words that changes the prediction negative to "
            "positive.",
            "No removal of 2 words changes it (all were evaluated).",
        ),
        (
            NOTHING | {"lower_bound": 1},
            "The search found no removal of words that changes the prediction negative.",
            "",
        ),
        (
            {"removed": (), "lower_bound": 0, "desired_class": "negative",
             "prediction_after": {"positive": -1.0}},
            "The model predicts negative already, so nothing has to be removed.",
            "",
        ),
        (
            ANSWER,
            "Removing 2 words lowers the log-probability of the answer from -2 to -5, past the "
            "threshold of -3.",
            "No single word does (proven).",
        ),
        (
            SCORE,
            "Removing 2 words raises the score from 1 to 2.5, past the threshold of 2.",
            "No single word does (proven).",
        ),
    ],
)  # fmt: skip
def test_the_sentences_say_what_is_known(fields, change, minimum):
    c = result(**fields)
    assert change_sentence(c) == change
    assert minimum_sentence(c) == minimum
    assert change in " ".join(print_to_text(c).split())


@pytest.mark.parametrize("width", [30, 44, 120])
def test_the_terminal_keeps_to_its_width(width):
    stability = (RemovalStability(1, 4, 4, 1.0, 1.0), RemovalStability(2, 60, 50, 0.71, 0.91))
    c = result(stability=stability, warnings=("A long warning about the text " * 3,))
    lines = print_to_text(c, width).splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "[-plot-] is [-bad-]" in text
    assert "all sets" in text
    assert "71.0% to" in text


def test_removed_words_are_struck_out_where_there_are_colors():
    assert "\x1b[9;" in print_to_text(result(), color=True)
    assert "[-" not in print_to_text(result(), color=True)


def test_a_page_strikes_the_removed_words_and_shows_both_predictions(browser, tmp_path):
    file = tmp_path / "page.html"
    result(stability=(RemovalStability(2, 60, 50, 0.71, 0.91),)).save_html(file)
    with watched_page(browser, file, width=900) as page:
        assert page.locator("del").all_inner_texts() == ["plot", "bad"]
        line = "node => getComputedStyle(node).textDecorationLine"
        assert page.eval_on_selector("del", line) == "line-through"
        assert page.inner_text(".reading") == "The plot is bad."
        table = page.inner_text("table >> nth=0")
        assert "73.1%" in table
        assert "62.2%" in table
        assert page.locator("table").count() == 2


def test_nothing_of_the_user_is_markup(browser, tmp_path):
    c = result(
        text=HOSTILE, features=(HOSTILE,), spans=(((0, len(HOSTILE)),),), removed=(0,),
        lower_bound=1, classes=(HOSTILE, "positive"),
    )  # fmt: skip
    file = tmp_path / "page.html"
    c.save_html(file)
    with watched_page(browser, file, width=900) as page:
        assert "<script>alert(1)" in page.inner_text("del")
    for html in (c.to_html(), c.to_html(fragment=True)):
        assert "<script>alert" not in html
    assert "\x1b[31m" not in print_to_text(c)


def test_a_fragment_has_inline_colors_and_no_script():
    html = result().to_html(fragment=True)
    assert '<del class="w s e a5" data-f="1" style="background:' in html
    assert "<script" not in html
    assert html == result()._repr_html_()


def test_a_list_shows_each_text():
    values = Counterfactuals([result()] * 25)
    assert print_to_text(values).count("Removing 2 words") == 25
    assert "and 5 more" in values._repr_html_()


def test_sentences_stand_on_their_own_lines():
    text = "A bad plot. A good film."
    c = result(
        text=text, features=("A bad plot.", "A good film."), spans=(((0, 11),), ((12, 24),)),
        removed=(0,), lower_bound=1, settings={"features": "sentences"},
    )  # fmt: skip
    assert "Removing 1 sentence changes" in print_to_text(c)
    assert "  [-A bad plot.-]\n  A good film." in "\n".join(
        line.rstrip() for line in print_to_text(c).splitlines()
    )


def test_an_image_covers_the_removed_patches():
    pytest.importorskip("PIL")
    import numpy as np

    def brightness(images):
        means = [float(np.mean(image[:4])) / 255 for image in images]
        return [[mean, 1 - mean] for mean in means]

    model = limelight.wrap(brightness, classes=["dark", "light"], images=True)
    pixels = np.zeros((14, 14, 3), np.uint8)
    pixels[:4] = 200
    c = limelight.counterfactual(model, pixels, budget="200 calls")
    assert c.size
    html = c.to_html()
    assert html.count('class="removed"') == c.size
    assert "Covered: row 1" in html
    assert "Removed patches: row 1" in print_to_text(c)
    without = replace(c, removed=(), prediction_after=None)
    assert 'class="removed"' not in without.to_html()
