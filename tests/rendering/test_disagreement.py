import re

import pytest

from limelight.rendering.wording import disagreement_table, least_similar_pairs, reference_index

from render_samples import LABELS, comparison


def test_lime_is_the_reference_where_it_is_there():
    assert reference_index(comparison()) == list(LABELS).index("lime")


def test_else_the_first_method_with_signs_is():
    assert reference_index(comparison(methods=("alpha-avg", "gxi", "g-avg"))) == 1
    assert reference_index(comparison(methods=("alpha-avg", "g-l1"))) == 0


def test_rows_are_those_of_the_agreement():
    c = comparison(methods=("alpha-avg", "gxi", "lime"))
    table = disagreement_table(c, "Against")
    assert table.title == "Against lime"
    (first, _, unsigned, _), (_, *second) = table.rows
    assert (first, unsigned.value) == ("α-avg", None)
    ranks, signs, shared = (cell.value for cell in second)
    assert ranks == c.agreement.rank_correlation[1][2]
    assert signs == c.agreement.sign_conflicts[1][2]
    assert shared == f"{c.agreement.top3_overlap[1][2]} of 3"


def test_the_pairs_furthest_apart_come_first():
    c = comparison()
    messages = [sentence for _, sentence in least_similar_pairs(c, count=5)]
    ranks = [
        float(re.search(r"rank correlation ([+-][0-9.]+)", element)[1]) for element in messages
    ]
    assert ranks == sorted(ranks)
    lowest = min(value for row in c.agreement.rank_correlation for value in row)
    assert ranks[0] == pytest.approx(lowest, abs=0.005)


def test_a_single_word_has_no_rank_correlation_and_no_furthest_pair():
    assert least_similar_pairs(comparison("film")) == []
    assert disagreement_table(comparison("film"), "").rows[0][3].value.endswith(" of 1")
