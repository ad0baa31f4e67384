"""The first table: every verdict says what its number shows, and whose claim it is."""

import copy
import io
import re
import warnings

import pytest

from limelight_reproduction.one_layer import (
    claims,
    comments,
    error,
    figure_1,
    figure_3,
    figure_4,
)
from limelight_reproduction.registry import EXPERIMENTS
from limelight_reproduction.results import load_stored_results


def numbers(name):
    return {
        part: copy.deepcopy(value.numbers) for part, value in load_stored_results()[name].items()
    }


def test_verdicts_name_parts_that_there_are():
    for experiment in EXPERIMENTS:
        parts = {part.name for part in experiment.parts}
        for verdict in experiment.findings(numbers(experiment.name)).verdicts:
            assert set(verdict.parts) <= parts, (experiment.name, verdict.claim)
            assert ("?" in verdict.claim) == verdict.claim.endswith("(our question)")


def test_the_caption_of_figure_one_is_counted_on_the_recipe_that_it_describes():
    of = numbers("figure-1")
    (verdict,) = figure_1.findings(of).verdicts
    answers = re.findall(r": (yes|no)(?:;|\.)", verdict.number)
    broken = list(figure_1.broken_claims(of["paper"]).values())
    assert answers == ["no" if methods else "yes" for methods in broken]
    assert answers.count("yes") == 2
    assert verdict.holds == "2 of 3 on the paper's recipe"
    assert verdict.number.endswith("shipped model, trained by another recipe, 0 of 3")
    assert f"by our measure, among the {figure_1.TOP} strongest" in verdict.number


def test_a_statement_of_the_caption_that_breaks_on_the_recipe_is_not_counted():
    of = numbers("figure-1")
    scores = of["paper"]["scores"]["g-avg"]
    at = of["paper"]["words"].index(figure_1.WORD)
    scores[at] = -abs(scores[at])  # only lime and G×I are to be negative
    (verdict,) = figure_1.findings(of).verdicts
    assert verdict.holds == "1 of 3 on the paper's recipe"


def test_five_comments_hold_four_under_a_condition_and_two_do_not():
    result = comments.findings(numbers("comments"))
    (verdict,) = result.verdicts
    assert verdict.holds == "5 hold, 4 under a condition, 2 do not"
    assert result.headline.startswith("Of 11 claims in words 5 hold, 4 hold under a condition")
    (row,) = [row for row in result.table.rows if str(row[1]).startswith("LIME is quite different")]
    assert row[0] == "5 (i)"
    assert row[2] == row[4] == "holds"
    assert "however they are read" not in result.meaning
    # Without the paper's exception, the leading term, the statement would fail.
    of = numbers("comments")["paper"]["spread"]
    assert min(of[f"{kind} lime ~ gxi"][1] for kind in ("pearson", "spearman")) > claims.CORRELATED


@pytest.mark.parametrize(
    ("paper", "shipped", "output"),
    [
        (0.93, 0.01, "holds on the paper's recipe, does not on the shipped model"),
        (0.01, 0.93, "holds on the shipped model, does not on the paper's recipe"),
        (0.93, 0.93, "holds on both models"),
        (0.01, 0.01, "holds on neither model"),
    ],
)
def test_figure_three_says_on_which_model_it_holds(paper, shipped, output):
    of = numbers("figure-3")
    of["paper"]["reviews"]["distance"], of["shipped"]["reviews"]["distance"] = paper, shipped
    (verdict,) = figure_3.findings(of).verdicts
    assert verdict.holds == output


def test_the_comments_that_fail_are_named():
    result = comments.findings(numbers("comments"))
    (verdict,) = result.verdicts
    failing = int(re.search(r"(\d+) do not", verdict.holds)[1])
    assert verdict.number.startswith("not: ")
    assert len(re.findall(r"\d \(i+\), ", verdict.number)) == failing > 0
    assert "“" not in verdict.number  # shortened, so not the paper's own words


def test_what_the_paper_does_not_claim_is_a_question_of_ours():
    claim, request = figure_4._findings(numbers("figure-4")).verdicts
    assert claim.claim.endswith("(Figure 4)")
    assert request.claim.endswith("(our question)")
    assert claim.parts == request.parts == ("paper",)


def test_the_figure_of_errors_is_drawn_where_they_are_tiny():
    of = numbers("error")
    of["paper"]["left"] = {name: [x / 1000 for x in y] for name, y in of["paper"]["left"].items()}
    ((_, _, figure),) = error._figures(of)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.savefig(io.BytesIO(), format="svg")
    assert all(axes.get_position().width > 0.2 for axes in figure.axes)
