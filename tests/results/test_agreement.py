"""Rank agreement is of scores, not of rounding errors."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from limelight.rendering.wording import unranked_sentence
from limelight.results import Comparison
from limelight.results.comparison import measure_agreement, scores_above_rounding

from render_samples import explanation

WORDS = "one two three four five"
LARGE = np.array([5.0, 4.0, 3.0, 2.0, 1.0])


def score_words(scores, **fields):
    return explanation(WORDS, scores=np.array(scores, dtype=float), bound=None, **fields)


def test_scores_at_the_rounding_of_the_output_are_ties():
    """The output is 1.234, and single precision knows it to 1.5e-7."""
    noisy = score_words([5.0, 4.0, 3e-8, 1e-7, -2e-8])
    assert scores_above_rounding(noisy).tolist() == [5.0, 4.0, 0.0, 0.0, 0.0]
    clean = score_words([5.0, 4.0, 0.0, 0.0, 0.0])
    result, wanted = (measure_agreement([score_words(LARGE), e]) for e in (noisy, clean))
    assert result.rank_correlation == wanted.rank_correlation
    assert (
        result.rank_correlation[0][1]
        != measure_agreement([score_words(LARGE)] * 2).rank_correlation[0][1]
    )
    assert result.sign_conflicts[0][1] == 0
    assert result.top3_overlap[0][1] == 2  # the third place is nobody's


def test_scores_just_above_the_rounding_count():
    assert scores_above_rounding(score_words([2e-7] * 5)).all()
    assert not scores_above_rounding(score_words([2e-7] * 5, base_value=-2.5)).any()
    assert not scores_above_rounding(score_words([1e-7] * 5, scale="probability")).any()
    assert scores_above_rounding(score_words([1.3e-7] * 5, scale="probability")).all()


def test_a_method_knows_its_own_rounding():
    assert not scores_above_rounding(score_words([1e-5] * 5, diagnostics={"rounding": 2e-5})).any()


def test_a_method_of_noise_takes_no_part_and_is_named():
    noise = replace(score_words(LARGE * 1e-9), method="g-avg", label="G-avg")
    other = replace(score_words(LARGE), method="loo", label="LOO")
    result = measure_agreement([noise, other])
    assert result.noise_methods == ("g-avg",)
    assert result.rank_correlation == ((None, None), (None, pytest.approx(1.0)))
    assert result.top3_overlap == ((None, None), (None, 3))
    assert result.sign_conflicts == ((None, None), (None, 0))
    comparison = Comparison(explanations=(noise, other))
    sentence = unranked_sentence(comparison)
    assert sentence == ("Not ranked: G-avg. All scores are at most 5e-09, which is rounding.")
    console = Console(file=io.StringIO(), width=200)
    console.print(comparison)
    assert sentence in " ".join(console.file.getvalue().split())
    assert sentence in comparison.as_html()
    assert unranked_sentence(Comparison(explanations=(other,))) is None


def test_scores_that_are_all_zero_are_an_answer_not_noise():
    assert measure_agreement([score_words(LARGE * 0), score_words(LARGE)]).noise_methods == ()
