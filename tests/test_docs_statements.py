"""Statements of the docs about the program, each compared with what the program does."""

import json
import subprocess
import sys
from math import log
from pathlib import Path

import pytest

import limelight
from limelight import InputError
from limelight.explainers.registry import default_method

DOCS = Path(__file__).resolve().parents[1] / "docs"
MEMBERS = (
    "classes", "link", "fingerprint", "replacements", "capabilities", "read", "outputs", "game",
)  # fmt: skip


def page(name):
    return " ".join((DOCS / name).read_text("utf-8").split())


def behind_a_server():
    return limelight.wrap_endpoint(
        "http://localhost:1/v1", model="m", template="{text} Question? Answer:"
    )


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("migrating/context-cite.md", "Without a method, you get [Banzhaf values]"),
        ("explanation/answers.md", "## Why Banzhaf values are the default"),
        ("faq.md", "Banzhaf values for answers of language models"),
    ],
)
def test_answers_are_explained_by_the_method_that_the_docs_name(name, statement):
    assert statement in page(name)
    assert default_method(behind_a_server()) == "banzhaf"


def test_no_page_about_answers_names_another_default():
    for name in ("migrating/context-cite.md", "how-to/endpoint.md", "explanation/answers.md"):
        assert "without the name of a method, Shapley" not in page(name)


def test_every_method_that_needs_only_calls_works_behind_a_server():
    assert "Every method that needs only calls of the model works" in page("how-to/endpoint.md")
    function = limelight.wrap(lambda texts: [[0.5, 0.5] for _ in texts], classes=["a", "b"])
    allowed = [
        {row.id for row in limelight.methods(model) if row.reason_unavailable is None}
        for model in (behind_a_server(), function)
    ]
    assert allowed[0] == allowed[1]


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        (
            "faq.md",
            "With two classes, this is the log-odds of the class. With three or more, it is",
        ),
        (
            "migrating/shap.md",
            "this is the log-odds, and with three or more, the output of the network.",
        ),
    ],
)
def test_the_logit_of_two_classes_is_their_log_odds_and_of_more_the_output(name, statement):
    assert statement in page(name)
    two = limelight.wrap(
        lambda texts: [[0.2, 0.8] if "good" in text else [0.7, 0.3] for text in texts],
        classes=["no", "yes"],
    )
    e = limelight.explain(two, "a good film", "loo", target="yes")
    good = e.scores[e.features.index("good")]
    assert good == pytest.approx(log(0.8 / 0.2) - log(0.3 / 0.7))
    three = limelight.wrap(
        lambda texts: [[1.0, 2.0, 4.0 * ("good" in text)] for text in texts],
        classes=["a", "b", "c"],
        scale="logit",
    )
    e = limelight.explain(three, "a good film", "loo", target="c")
    assert e.scores[e.features.index("good")] == pytest.approx(4.0)


# In a process of its own: under pytest a type checker would answer first, and a user has none.
PROGRAM = """
import json, sys
from pathlib import Path
import limelight

EVERY = {name: None for name in sys.argv[1:]} | {
    "classes": ("a", "b"), "link": "softmax", "replacements": ("delete",), "capabilities": {}
}
VERBS = {
    "explain": lambda model: limelight.explain(model, "a b c"),
    "compare": lambda model: limelight.compare(model, "a b c"),
    "judge": lambda model: limelight.judge(model, ["a b c"]),
    "predict": lambda model: limelight.predict(model, "a b c"),
    "methods": limelight.methods,
    "game": lambda model: limelight.game(model, "a b c"),
    "evaluate": lambda model: limelight.evaluate(model, "no such file.csv"),
    "verify": lambda model: limelight.verify(model, "a b c"),
    "explain_data": lambda model: limelight.explain_data(model, ["a b c"], output="none"),
}


def said(verb, model):
    try:
        verb(model)
    except limelight.InputError as error:
        return str(error)


def family_without(missing):
    members = {name: it for name, it in EVERY.items() if name not in missing}
    return type("Mine", (), members)()


cases = [[name] for name in EVERY] + [["read", "game"], [*EVERY][:6]]
others = [object(), len, Path("x"), family_without([*EVERY][1:])]
print(json.dumps({
    "families": [
        [name, missing, said(verb, family_without(missing))]
        for name, verb in VERBS.items() for missing in cases
    ],
    "others": [said(VERBS["explain"], other) for other in others],
}))
"""


@pytest.fixture(scope="module")
def messages():
    command = [sys.executable, "-c", PROGRAM, *MEMBERS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_every_verb_names_all_members_that_a_family_lacks(messages):
    assert "raises one `InputError` that names them all" in page("how-to/model-class.md")
    assert len(messages["families"]) == 90
    for verb, missing, message in messages["families"]:
        assert message == f"Mine is not a model yet, because it lacks {', '.join(missing)}.", verb


def test_what_is_no_family_is_sent_to_wrap(messages):
    assert len(messages["others"]) == 4
    for message in messages["others"]:
        assert message.endswith("Write limelight.wrap(…).")


def test_learn_raises_an_error_where_shapley_values_are_exact():
    with pytest.raises(InputError, match="exact"):
        limelight.learn(limelight.load(), ["a good film"] * 24, pairs=1, judged=0)


def test_the_page_of_taggers_says_over_which_tokens_an_answer_is_normalized():
    """The numbers: tests/models/test_spans.py, against direct calls of the network."""
    statement = "a softmax over all tokens that the model reads: question, passage and special"
    assert statement in page("how-to/tags.md")


def test_the_coverage_of_selected_pairs_is_called_measured():
    assert "but pairs of one regression may be neither. In the benchmark" in page(
        "research/coverage.md"
    )
