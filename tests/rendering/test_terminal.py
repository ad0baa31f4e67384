import io
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style

from limelight.results import Anchor
from limelight.text import tokenize

from render_samples import (
    HOSTILE,
    LABELS,
    REVIEW,
    SENTENCE,
    SIGNLESS,
    comparison,
    explanation,
    with_pairs,
)

WIDTHS = (40, 72, 100, 200)
CONTROL = re.compile(r"\x1b\[[0-9;]*m")


def print_to_text(value, width=100, *, color=False, **options):
    output = io.StringIO()
    # Rich keeps sums of styles with the codes of the first terminal that printed them, which may
    # have been one of sixteen colors in another test.
    Style._add.cache_clear()
    system = {"force_terminal": True, "color_system": "truecolor"} if color else {}
    Console(file=output, width=width, highlight=False, **system, **options).print(value)
    return output.getvalue()


def lines(value, width=100, *, color=False):
    return [CONTROL.sub("", line) for line in print_to_text(value, width, color=color).splitlines()]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("color", [True, False])
@pytest.mark.parametrize(
    "text", [SENTENCE, REVIEW, HOSTILE, "x" * 500, "日本語" * 90, "שלום 😀 🏳️‍🌈"]
)
def test_no_line_is_wider_than_the_terminal(text, color, width):
    for value in (comparison(text, T_max=50), explanation(text, "lime-sampled", T_max=50)):
        output = lines(value, width, color=color)
        assert max(map(cell_len, output)) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_every_word_and_method_is_shown(width):
    output = "\n".join(lines(comparison(), width))
    assert all(output.count(word) >= 8 for word in SENTENCE.split())
    assert all(name in output for name in ("α-avg", "G×I", "lime (sampled)"))


def test_in_a_pipe_signs_and_numbers_take_the_place_of_color():
    e = explanation("good bad so so", scores=np.array([0.812, -0.4, 0.01]))
    assert "*good[+0.81]* bad[-0.40] so so" in print_to_text(e)
    assert "\x1b" not in print_to_text(e)


def test_numbers_of_the_text_and_scores_are_distinguished():
    e = explanation("7.75 of 10.", scores=np.array([1.5, -0.1, 0.2, 0.0, 0.3]))
    assert "*7[+1.5]*.[-0.1]75[+0.2] of 10[+0.3].[-0.1]" in print_to_text(e)


def test_methods_without_sign_get_numbers_without_sign():
    e = explanation("good bad", "g-l1", scores=np.array([0.812, 0.4]))
    assert "*good[0.81]* bad[0.40]" in print_to_text(e)


def test_no_color_is_obeyed(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    e = explanation("good bad", scores=np.array([0.812, -0.4]))
    output = print_to_text(e, color=True)
    assert "*good[+0.81]* bad[-0.40]" in CONTROL.sub("", output)
    assert "48;2;" not in output
    assert "38;2;" not in output


def test_signs_have_different_backgrounds_and_the_strongest_word_is_underlined():
    e = explanation("good bad so", scores=np.array([0.8, -0.7, 0.0]))
    output = print_to_text(e, color=True)
    good = re.search(r"\x1b\[([0-9;]*)mgood\x1b", output).group(1)
    bad = re.search(r"\x1b\[([0-9;]*)mbad\x1b", output).group(1)
    assert "48;2;0;125;92" in good
    assert good.startswith("1;4;")
    assert "48;2;" in bad
    assert good.split("48;")[1] != bad.split("48;")[1]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_scale_of_each_method_is_stated(width):
    c = comparison()
    output = [line.rstrip() for line in lines(c, width)]
    for e in c:
        sign = "0…" if e.method in SIGNLESS else "up to "
        row = next(line for line in output if line.startswith(f"{LABELS[e.method]} "))
        assert row.endswith(f" {sign}{np.abs(e.scores).max():#.3g}")


def test_disagreement_with_the_reference_and_the_worst_pairs_are_listed():
    output = print_to_text(comparison())
    assert "Agreement with lime" in output
    assert "Largest disagreements" in output
    ranks = comparison().agreement.rank_correlation
    lowest = min(value for row in ranks for value in row if value is not None)
    assert f"rank correlation {lowest:+.2f}" in output


def test_one_method_alone_disagrees_with_nobody():
    assert "disagree" not in print_to_text(comparison(methods=("lime",)))


def test_markup_and_escape_sequences_of_the_text_stay_text():
    for color in (True, False):
        output = print_to_text(
            explanation(HOSTILE, scores=np.zeros(len(set(tokenize(HOSTILE).strings)))),
            200,
            color=color,
        )
        plain = CONTROL.sub("", output)
        assert "[bold]x[/bold]" in plain
        assert "␛[31mred␛[0m" in plain
        assert "\x1b[31m" not in output


def test_text_past_the_window_is_marked():
    output = " ".join(print_to_text(explanation(REVIEW, T_max=5)).split())
    assert "⟦not read⟧ much, but" in output
    assert f"… ({len(REVIEW) - len('I did not expect'):,} characters)" in output


def test_standard_errors_bounds_and_warnings_are_shown():
    arguments = {"scores": np.array([0.8, -0.4]), "stderr": np.array([0.2, 0.1])}
    sampled = print_to_text(explanation("good bad", **arguments))
    assert "Sampled: ± is one standard error." in sampled
    learned = replace(explanation("good bad", **arguments), method="learned")
    assert "Learned: ± is one standard error." in print_to_text(learned)
    assert re.search(r"^good +\+0\.800 +0\.200 ", sampled, re.M)
    assert re.search(r"^bad +-0\.400 +0\.100 ", sampled, re.M)
    assert "error at most 3.0e-12 (proven bound)" in print_to_text(explanation(method="lime"))
    assert "Computed without sampling." in print_to_text(explanation(method="gxi"))
    assert "Warning: the last 40 were cut off." in print_to_text(
        explanation(warnings=("the last 40 were cut off.",))
    )
    assert "Baseline (all words removed): logit of “positive” +0.100." in print_to_text(
        explanation()
    )


def test_a_warning_of_one_method_names_it():
    output = print_to_text(
        type(c := comparison())(
            explanations=(*c.explanations[:2], explanation(warnings=("poor fit.",)))
        )
    )
    assert "Warning: lime: poor fit." in output


def test_pairs_and_anchors_are_shown():
    assert re.search(r"^explanations × but +-0\.500", print_to_text(with_pairs()), re.M)
    anchor = Anchor(features=(0, 4), precision=0.96, precision_interval=(0.94, 0.98), coverage=0.2)
    assert "Anchor: attention, popular (precision 96.0%" in print_to_text(
        explanation(anchor=anchor)
    )


def test_several_classes_show_the_most_probable_one():
    e = explanation(prediction={"sports": 0.0, "world": 2.0}, target="sports")
    assert (
        "The model predicts world (88.1%). Scores are for “sports” (logit -2.000): "
        in print_to_text(e)
    )


def test_a_terminal_without_unicode_gets_only_what_it_can_write():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    console = Console(file=stream, width=60, highlight=False)
    console.print(comparison("naïve 😀 film"))
    console.print(explanation("naïve 😀 film"))
    stream.flush()
    assert b"na?ve" in raw.getvalue()


@settings(max_examples=40, deadline=None)
@given(st.text(min_size=1, max_size=80), st.sampled_from([40, 90]))
def test_any_text_fits_and_obeys_nothing(text, width):
    assume(len(tokenize(text)))
    for line in lines(comparison(text, ("lime", "g-l1"), attention=False, T_max=9), width):
        assert cell_len(line) <= width
        assert not any(ord(c) < 32 for c in line)
