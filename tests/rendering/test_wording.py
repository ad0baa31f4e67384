import pytest

import limelight
from limelight.rendering.wording import (
    ONE_SIDED,
    SIGNS,
    base_sentence,
    class_outcomes,
    format_percent,
    headline,
    typeset_sentence,
)

from render_samples import explanation


@pytest.mark.parametrize(
    ("probability", "message"),
    [
        (1.0, "100.0%"),
        (0.9991, ">99.9%"),
        (0.999, "99.9%"),
        (0.5, "50.0%"),
        (0.001, "0.1%"),
        (0.0009, "<0.1%"),
        (0.0, "0.0%"),
    ],
)
def test_a_percentage_never_rounds_to_certainty(probability, message):
    assert format_percent(probability) == message


@pytest.mark.parametrize(("logit", "chosen"), [(1e-9, "positive"), (0.0, "negative")])
def test_one_logit_chooses_the_second_class_only_above_zero(logit, chosen):
    message = class_outcomes(explanation(prediction={"positive": logit}))
    assert [outcome.name for outcome in message if outcome.chosen] == [chosen]


SAYS_NO = "The model predicts negative (95.0%). Scores are for "
SAYS_A = "The model predicts a ({}). Scores are for "
BY_SIGN = ": green words push towards it, orange words "
TWO = {"classes": ("negative", "positive"), "prediction": {"positive": -2.944}}
TWO_LOGITS = TWO | {"prediction": {"negative": 2.944, "positive": 0.0}}
MIRRORED = TWO | {"prediction": {"negative": 2.944, "positive": -2.944}, "link": "sigmoid"}
TOPICS = {"classes": ("a", "b", "c"), "prediction": {"a": 2.0, "b": 1.0, "c": -3.0}}
LOW = TOPICS | {"prediction": {"a": -1.0, "b": -1.5, "c": -3.0}}
RIVALS = TOPICS | {"prediction": {"a": -0.405465, "b": -0.619039, "c": -1.098612}}
STARS = {"classes": ("stars",), "prediction": {"stars": 3.5}, "target": "stars"}
SCORES = {"link": "none", "scale": "score"}
ONLY_FOR = {"method": "generic-attention", "signed": False}
PROBABLE = {"scale": "probability"}


@pytest.mark.parametrize(
    ("fields", "first", "then"),
    [
        # One output stands for two classes: what lowers one raises the other.
        (TWO, SAYS_NO, f"“positive”, the second class (logit -2.944){BY_SIGN}towards “negative”."),
        (
            TWO | {"target": "negative"},
            SAYS_NO,
            f"“negative”, the predicted class (logit +2.944){BY_SIGN}towards “positive”.",
        ),
        (
            TWO | PROBABLE,
            SAYS_NO,
            f"“positive”, the second class (probability 5.0%){BY_SIGN}towards “negative”.",
        ),
        (
            TWO | {"signed": False},
            SAYS_NO,
            "“positive”, the second class (logit -2.944), without a sign: blue words "
            "matter, for or against it.",
        ),
        (
            TWO | ONLY_FOR,
            SAYS_NO,
            "“positive”, the second class (logit -2.944), without a sign: blue words "
            "push towards it; what "
            "pushes away from it is not seen.",
        ),
        (
            STARS | SCORES | ONLY_FOR,
            "The model predicts stars +3.500. Scores are for ",
            "“stars”, without a sign: blue words raise it; what lowers it is not seen.",
        ),
        # Two scores are two numbers; probabilities of two classes mirror each other, like log-odds.
        (
            TWO_LOGITS,
            SAYS_NO,
            f"“positive”, the second class (logit -2.944){BY_SIGN}towards “negative”.",
        ),
        (
            TWO_LOGITS | {"scale": "score"},
            SAYS_NO,
            f"“positive”, the second class (score +0.000){BY_SIGN}away from it.",
        ),
        (
            TWO_LOGITS | {"against": "negative"},
            SAYS_NO,
            "“positive” against “negative” (logit -2.944): green words push towards “positive”, "
            "orange words towards “negative”.",
        ),
        (
            TWO_LOGITS | PROBABLE,
            SAYS_NO,
            f"“positive”, the second class (probability 5.0%){BY_SIGN}towards “negative”.",
        ),
        (
            MIRRORED,
            SAYS_NO,
            f"“positive”, the second class (logit -2.944){BY_SIGN}towards “negative”.",
        ),
        (
            TOPICS | {"target": "b"},
            SAYS_A.format("72.7%"),
            f"“b” (logit +1.000){BY_SIGN}away from it.",
        ),
        (
            TOPICS | {"target": "a", "against": "b"},
            SAYS_A.format("72.7%"),
            "“a” against “b” (difference of logits +1.000): green words push towards “a”, orange "
            "words towards “b”.",
        ),
        # Labels that are each a yes or no of their own, scores of classes, and a number alone.
        (
            TOPICS | {"target": "c", "link": "sigmoid"},
            "The model predicts a (88.1%) and b (73.1%). Scores are for ",
            f"“c” (logit -3.000){BY_SIGN}away from it.",
        ),
        (
            LOW | {"target": "a", "link": "sigmoid"},
            "The model predicts none of its labels (highest: a 26.9%). Scores are for ",
            f"“a” (logit -1.000){BY_SIGN}away from it.",
        ),
        # Log-odds of classes of which one is right: 40 %, 35 % and 25 %.
        (
            RIVALS | {"target": "a", "link": "sigmoid"},
            SAYS_A.format("40.0%"),
            f"“a”, the predicted class (logit -0.405){BY_SIGN}away from it.",
        ),
        (
            TOPICS | {"target": "c"} | SCORES,
            SAYS_A.format("score +2.000"),
            f"“c” (score -3.000){BY_SIGN}away from it.",
        ),
        (
            STARS | SCORES,
            "The model predicts stars +3.500. Scores are for ",
            "“stars”: green words raise it, orange words lower it.",
        ),
    ],
)
def test_a_view_opens_with_what_is_said_for_whom_scores_speak_and_what_colors_mean(
    fields, first, then
):
    assert "".join(headline([explanation(**fields)])) == first + then


def test_methods_with_and_without_signs_are_both_explained_and_terminals_have_no_colors():
    pair = [explanation(**TWO), explanation(**TWO, signed=False)]
    assert "".join(headline(pair, SIGNS)) == (
        f"{SAYS_NO}“positive”, the second class (logit -2.944): [+] words push towards it, [-] "
        "words towards “negative”. "
        "Where a method gives no sign, words with a number matter, for or against it."
    )
    assert "".join(headline([*pair, explanation(**TWO, **ONLY_FOR)], SIGNS)).endswith(
        "words with a number matter, for or against it; with generic attention they push towards "
        "it, and what pushes away from it is not seen."
    )
    assert "".join(headline([pair[0], explanation(**TWO, **ONLY_FOR)], SIGNS)).endswith(
        "no sign, words with a number push towards it; what pushes away from it is not seen."
    )


def test_every_method_without_evidence_against_a_class_is_known_by_name():
    unsigned = [row for row in limelight.methods() if not row.signed]
    results = [row.id for row in unsigned if row.blind.startswith("evidence against the class")]
    assert tuple(results) == ONE_SIDED


def test_labels_of_their_own_are_all_chosen_or_none():
    for fields, chosen in ((TOPICS, ["a", "b"]), (LOW, [])):
        result = class_outcomes(explanation(**fields, target="a", link="sigmoid"))
        assert [value.name for value in result if value.chosen] == chosen


def test_the_output_without_words_is_described_for_a_class():
    message = base_sentence(explanation(**TOPICS, target="a", against="b", base_value=-0.25))
    assert message == "Baseline (all words removed): logit of “a” minus “b” -0.250."
    assert base_sentence(explanation(base_value=None)) == ""


def test_hyphens_of_names_stay_where_minus_signs_are_printed():
    assert (
        typeset_sentence("for “non-toxic -2” (logit -2.944): -3")
        == "for “non-toxic −2” (logit −2.944): −3"
    )
