"""A pair of texts in files and in every renderer: two labeled sides of one text."""

import io
import json
import re
from dataclasses import asdict, replace

import numpy as np
import pytest
from rich.console import Console

from limelight.errors import InputError
from limelight.rendering.text_parts import split_text
from limelight.results import Comparison, Explanation
from limelight.results.explanation import explanations_csv
from limelight.text import Part

SIDES = ("A dog <b>", "a dog; no cat")
TEXT = "\n".join(SIDES)
PARTS = (Part("first", "first", (0, 9), (0, 9)), Part("second", "second", (10, 23), (10, 23)))


def make_explanation(method="loo", **fields):
    arguments = {
        "text": TEXT,
        "parts": PARTS,
        "features": ("a", "dog", "a", "dog", "no", "cat"),
        "spans": tuple(
            ((a, b),) for a, b in [(0, 1), (2, 5), (10, 11), (12, 15), (17, 19), (20, 23)]
        ),
        "scores": np.array([0.1, -0.4, 0.05, 0.3, 0.9, -0.2]),
        "method": method,
        "target": "contradiction",
        "prediction": {"contradiction": 1.5},
    }
    return Explanation(**(arguments | fields))


def render_text(renderable, **options):
    console = Console(file=io.StringIO(), width=80, **options)
    console.print(renderable)
    return console.file.getvalue()


def test_json_keeps_the_parts_and_does_without_them():
    e = make_explanation()
    assert json.loads(e.to_json())["parts"] == [
        asdict(part) | {"span": list(part.span), "content": list(part.content)} for part in PARTS
    ]
    assert Explanation.from_json(e.to_json()) == e
    single = replace(e, parts=())
    assert "parts" not in json.loads(single.to_json())
    assert Explanation.from_json(single.to_json()) == single
    assert single != e
    compared = Comparison(explanations=(e, make_explanation("gxi")))
    assert Comparison.from_json(compared.to_json()) == compared
    with pytest.raises(InputError, match="explanations of the same parts"):
        Comparison(explanations=(e, replace(make_explanation("gxi"), parts=())))


def test_the_pieces_name_each_side_once_and_are_the_text_again():
    cut = split_text(make_explanation())
    assert "".join(piece.text for piece in cut) == TEXT
    assert [piece.label for piece in cut if piece.label] == ["first", "second"]
    at = [i for i, piece in enumerate(cut) if piece.label]
    assert "".join(piece.text for piece in cut[at[0] : at[1]]) == SIDES[0] + "\n"
    unscored = replace(
        make_explanation(),
        features=("a", "dog"),
        spans=(((0, 1),), ((2, 5),)),
        scores=np.array([1.0, 2.0]),
    )
    assert [piece.label for piece in split_text(unscored) if piece.label] == ["first", "second"]
    assert not any(piece.label for piece in split_text(replace(make_explanation(), parts=())))


def test_the_terminal_shows_two_labeled_lines_and_the_side_of_every_word():
    message = render_text(make_explanation())
    assert "   first: A[+0.10] dog[-0.40] <b>" in message
    assert "  second: a[+0.05] dog[+0.30]; *no[+0.90]* cat[-0.20]" in message
    assert "dog (first)" in message
    assert "dog (second)" in message
    assert "first:" not in render_text(replace(make_explanation(), parts=()))
    compared = render_text(Comparison(explanations=(make_explanation(), make_explanation("gxi"))))
    assert compared.count("second: a[") == 2


@pytest.mark.parametrize("of", [Explanation.as_html, Explanation._repr_html_])
def test_pages_and_cards_label_the_sides_and_escape_the_text(of):
    page = of(make_explanation())
    labels = re.findall(r'<span class="side">(\w+)</span>', page)
    assert labels[:2] == ["first", "second"]
    assert "<b>" not in page.replace("<b>LOO</b>", "").split('class="words')[1].split("</p>")[0]
    assert "dog (second)" in page
    assert 'class="side"' not in of(replace(make_explanation(), parts=())).split("</style>")[-1]


def test_the_pieces_of_a_page_and_its_numbers_name_the_side():
    page = Comparison(explanations=(make_explanation(), make_explanation("gxi"))).as_html()
    assert page.count('<span class="side">second</span>') == 2  # where no script runs
    assert '"parts":[{"id":"first","role":"first","span":[0,9],"content":[0,9]}' in page


def test_csv_says_on_which_side_a_word_stands():
    header, *rows = "".join(explanations_csv([(0, make_explanation())])).splitlines()
    assert header.endswith(",spans,part")
    assert [row.rsplit(",", 1)[1] for row in rows] == ["first"] * 2 + ["second"] * 4
    single = "".join(explanations_csv([(0, replace(make_explanation(), parts=()))])).splitlines()
    assert all(row.endswith(",") for row in single[1:])


def test_a_figure_sets_the_second_side_on_a_line_of_its_own():
    pytest.importorskip("matplotlib")
    from limelight.rendering.figures import bar_chart, colored_sentence

    figure = colored_sentence(Comparison(explanations=(make_explanation(),)))
    places = {text.get_text().strip(): text.get_position() for text in figure.axes[0].texts}
    assert places["second:"][1] > places["first:"][1]
    assert places["second:"][0] == places["first:"][0]
    assert places["cat"][1] == places["second:"][1]
    names = [label.get_text() for label in bar_chart(make_explanation()).axes[0].get_yticklabels()]
    assert "dog (first)" in names
    assert "dog (second)" in names
