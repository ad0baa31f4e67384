"""Four kinds of networks, every method: right against its oracle, or refused in a sentence.

ZOO=all visits four more, which other tests here hold to oracles of their own. All that transformers
can build are visited by ``PYTHONPATH=scripts python -m zoo``.
"""

import os
from dataclasses import replace

import pytest
import transformers
from zoo import animals, matrix
from zoo.visit import visit

import limelight
from limelight.models.hugging_face import selfcheck as network_check

from known import DEEP, ONLY_EXACT

RELAYED = {"rollout", "flow", "generic-attention"}
ATTENTION = RELAYED | {"alpha-avg", "alpha-max", "alpha-grad"}
GRADIENTS = {"g-avg", "g-l1", "g-l2", "gxi", "ig", "lrp"}
# What each kind does not show; "pad" is the replacement.
REFUSED = {
    "gpt_oss": {"lrp"},
    "convbert": RELAYED | {"loo pad"},
    "jamba": RELAYED | {"lrp"},
    "t5gemma": ATTENTION | GRADIENTS | {"loo pad"},
}
if os.environ.get("ZOO") == "all":
    REFUSED |= {"bert": set(), "deberta-v2": set(), "gpt2": set(), "xlnet": ATTENTION | GRADIENTS}
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

STAMPS = [{"limelight": "0.0.0", "commit": "unknown"}]


@pytest.mark.slow
@pytest.mark.parametrize("family", REFUSED)
def test_several_kinds_are_right_or_raise_an_error(family):
    result = matrix.slim(visit(family))
    assert {text.partition(":")[0] for text in result["rest"]} <= {"refused"}, result
    assert set(result["unchecked"]) <= {"lrp"}
    refused = {name for names in result["rest"].values() for name in names}
    assert refused - set(ONLY_EXACT) == REFUSED[family]


def words(family, *names):
    result = visit(family, names)
    return [result["verdicts"][name]["word"] for name in names]


def test_padding_that_is_felt_would_be_seen(monkeypatch):
    assert words("xlnet", "outputs") == ["right"]
    monkeypatch.setattr(network_check, "_depends_on_padding", lambda *_: False)
    assert words("xlnet", "outputs") == ["wrong"]


@pytest.mark.slow
def test_the_zoo_finds_layers_that_rollout_ignores(monkeypatch):
    assert words("jamba", "rollout") == ["refused"]
    monkeypatch.setattr(network_check, "reason_not_attention_only", lambda *_: None)
    assert words("jamba", "rollout") == ["wrong"]


@pytest.mark.slow
def test_the_zoo_finds_rows_that_do_not_add_up(monkeypatch):
    assert words("squeezebert", "alpha-avg") == ["refused"]
    monkeypatch.setattr(
        "limelight.models.hugging_face.layers._check_attention_rows", lambda *_: None
    )
    assert words("squeezebert", "alpha-avg") == ["wrong"]


def test_the_page_shows_what_was_found():
    """Where this fails, ``PYTHONPATH=scripts python -m zoo.matrix`` mends it."""
    page = matrix.PAGE.read_text("utf-8")
    assert matrix.page_with_matrix(page, matrix.stored()) == page


def test_the_page_counts_the_families_right():
    request = [result for result in matrix.stored()["families"].values() if "right" in result]
    answer = {name: sum(name in f["right"] + f["unchecked"] for f in request) for name in DEEP}
    page = matrix.PAGE.read_text("utf-8")
    assert f"({answer['lrp']} of the {answer['gxi']} with gradients" in page


def test_nothing_that_was_visited_is_wrong_or_broken():
    for family, result in matrix.stored()["families"].items():
        message = {text.partition(":")[0] for text in result.get("rest", {})}
        assert message <= {"refused"}, family


def test_every_family_of_this_transformers_was_visited():
    stored = matrix.stored()
    if stored["transformers"] != transformers.__version__:
        pytest.skip(f"visited with transformers {stored['transformers']}")
    assert set(stored["families"]) == set(animals.FAMILIES)
    assert sum("right" in result for result in stored["families"].values()) >= 98


def test_every_method_stands_in_a_column():
    output = {name for names in matrix.GROUPS.values() for name in names}
    assert output == set(DEEP)


def test_no_method_is_ticked_that_was_not_tried():
    results = {"right": ["lime"], "unchecked": [], "rest": {}, "warnings": [], "stamps": STAMPS}
    output = matrix.matrix({"transformers": "0", "families": {"x": results}})
    assert "✓" not in output
    request = sorted({name for names in matrix.GROUPS.values() for name in names})
    output = matrix.matrix({"transformers": "0", "families": {"x": results | {"right": request}}})
    assert output.count("✓") == len(matrix.GROUPS)


def test_a_second_visit_takes_the_place_of_the_first_for_its_methods_alone():
    newer = [{"limelight": "1.0.0", "commit": "unknown"}]
    old = {"right": ["lime", "lrp"], "unchecked": [], "rest": {"refused: no": ["loo"]}}
    new = {"right": ["loo"], "unchecked": ["lrp"], "rest": {}, "warnings": ["n"], "stamps": newer}
    result = matrix.merged(old | {"warnings": [], "stamps": STAMPS}, new, ["loo", "lrp"])
    assert result.pop("stamps") == STAMPS + newer  # its numbers are of both visits
    assert result == {"right": ["lime", "loo"], "unchecked": ["lrp"], "rest": {}, "warnings": ["n"]}


@pytest.mark.slow
def test_joint_lrp_that_is_off_would_be_seen(monkeypatch):
    assert words("bert", "lrp") == ["unchecked"]
    explain = limelight.explain

    def off(model, text, method, **settings):
        """Explain as if a text changed the scores of others in its batch."""
        explanation = explain(model, text, method, **settings)
        if not isinstance(explanation, list):
            return explanation
        return [replace(value, scores=value.scores * 1.01) for value in explanation]

    monkeypatch.setattr(limelight, "explain", off)
    assert words("bert", "lrp") == ["wrong"]


def test_a_wrong_verdict_would_be_shown():
    results = {"verdicts": {"lime": {"word": "wrong", "said": "1 2"}}, "warnings": []}
    stored = {"transformers": "0", "families": {"x": {**matrix.slim(results), "stamps": STAMPS}}}
    assert "1. Wrong: 1 2." in matrix.matrix(stored)
