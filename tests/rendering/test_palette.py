import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.rendering.palette import (
    LEVELS,
    TERMINAL_INK,
    color_level,
    color_ramp,
    palette_css,
    relative_scores,
    select_hue,
    terminal_color,
)

from render_samples import explanation

HUES = ("for", "against", "neutral")
INK = {"light": (28, 33, 38), "dark": (233, 236, 239)}  # --ink of words.css
sizes = st.floats(-1, 1)


def contrast(one, other):
    """The contrast ratio of two colors as WCAG 2 defines it, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(color):
    part = np.array(color) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))


@given(sizes, sizes)
def test_a_larger_score_has_no_paler_color(one, other):
    low, high = sorted((one, other), key=abs)
    assert 0 <= color_level(low) <= color_level(high) <= LEVELS


def test_the_ends_of_the_scale():
    assert [color_level(size) for size in (0.0, 0.04, 0.06, 1.0, -1.0)] == [0, 0, 1, LEVELS, LEVELS]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("hue", HUES)
def test_ramps_move_away_from_the_paper_and_words_stay_readable(hue, theme):
    colors = color_ramp(hue, theme)
    distances = [contrast(color, colors[0]) for color in colors]
    assert distances == sorted(distances)
    assert len(set(colors)) == LEVELS + 1
    assert min(contrast(color, INK[theme]) for color in colors) >= 4.5


@given(st.sampled_from(HUES), st.floats(0, 1))
def test_white_letters_are_readable_on_every_terminal_color(hue, strength):
    assert contrast(terminal_color(hue, strength), (255, 255, 255)) >= 4.5


@pytest.mark.parametrize("hue", HUES)
def test_colored_letters_are_readable_on_black_and_on_white(hue):
    ink = TERMINAL_INK[hue]
    assert min(contrast(ink, (0, 0, 0)), contrast(ink, (255, 255, 255))) >= 4


def test_signs_become_sides_and_methods_without_sign_have_one():
    signed, signless = explanation(method="lime"), explanation(method="g-l1")
    assert {select_hue(signed, size) for size in (-1.0, 1.0)} == {"for", "against"}
    assert {select_hue(signless, size) for size in (-1.0, 1.0)} == {"neutral"}


def test_strengths_are_scores_over_the_largest():
    e = explanation(method="lime")
    np.testing.assert_allclose(relative_scores(e), e.scores / np.abs(e.scores).max())
    below = explanation("good bad", "g-l1", scores=np.array([0.2, -0.4]))
    assert relative_scores(below).tolist() == [0.5, 1.0]  # a method without signs


def test_scores_of_zero_have_no_color():
    e = explanation("one two", scores=np.zeros(2))
    assert relative_scores(e).tolist() == [0, 0]


def test_the_pair_of_signs_stays_apart_for_color_blind_readers():
    """Viénot's deuteranope sees sums of red and green: blue must tell the two apart."""
    to_deuteranope = np.array([[0.292, 0.708, 0.0], [0.292, 0.708, 0.0], [-0.022, 0.022, 1.0]])
    seen = [to_deuteranope @ np.array(color_ramp(hue)[-1]) for hue in ("for", "against")]
    assert np.linalg.norm(seen[0] - seen[1]) > 60


def test_the_style_sheet_names_every_color_in_both_themes():
    css = palette_css()
    assert all(css.count(f"--{hue[0]}{LEVELS}:") == 3 for hue in HUES)
