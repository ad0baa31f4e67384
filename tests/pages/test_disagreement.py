from limelight.pages.wording import against_reference, reference, strongest_disagreements

from render_samples import LABELS, comparison


def test_lime_is_the_reference_where_it_is_there():
    assert reference(comparison()) == list(LABELS).index("lime")


def test_else_the_first_method_with_signs_is():
    assert reference(comparison(methods=("alpha-avg", "gxi", "g-avg"))) == 1
    assert reference(comparison(methods=("alpha-avg", "g-l1"))) == 0


def test_rows_are_those_of_the_agreement():
    c = comparison(methods=("alpha-avg", "gxi", "lime"))
    first, second = against_reference(c)
    assert (first.first, first.second) == ("α-avg", "lime")
    assert first.sign_conflicts is None
    assert second.rank_correlation == c.agreement.rank_correlation[1][2]
    assert second.sign_conflicts == c.agreement.sign_conflicts[1][2]
    assert second.shared_top == c.agreement.top3_overlap[1][2]


def test_the_pairs_furthest_apart_come_first():
    c = comparison()
    ranks = [pair.rank_correlation for pair in strongest_disagreements(c, count=5)]
    assert ranks == sorted(ranks)
    assert ranks[0] == min(value for row in c.agreement.rank_correlation for value in row)


def test_a_single_word_has_no_rank_correlation_and_no_furthest_pair():
    assert strongest_disagreements(comparison("film")) == []
    assert against_reference(comparison("film"))[0].top == 1
