"""A dozen kinds of networks, every method: right against its oracle, or refused in a sentence.

All that transformers can build are visited by ``PYTHONPATH=scripts python -m zoo``.
"""

import pytest
import transformers
from zoo import animals, matrix
from zoo.visit import visit

from limelight.explainers import METHODS
from limelight.models.hugging_face import network_check

ATTENTION = {"alpha-avg", "alpha-max", "alpha-grad", "rollout", "flow"}
GRADIENTS = {"g-avg", "g-l1", "g-l2", "gxi", "ig"}
# What each kind does not show; "pad" is the replacement.
REFUSED = {
    "bert": set(),
    "roberta": set(),
    "distilbert": set(),
    "deberta-v2": set(),
    "modernbert": set(),
    "gpt2": set(),
    "llama": set(),
    "gpt_oss": set(),
    "convbert": {"rollout", "flow"},
    "jamba": {"rollout", "flow"},
    "squeezebert": ATTENTION,
    "funnel": ATTENTION,
    "fnet": ATTENTION | {"loo pad"},
    "xlnet": ATTENTION | GRADIENTS,
    "t5": ATTENTION | GRADIENTS | {"loo pad"},
}
DEEP = {name for name, row in METHODS.items() if row.ways[-1].needs != "collapses"}
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def words(found):
    return {name: verdict["word"] for name, verdict in found["verdicts"].items()}


@pytest.mark.slow
@pytest.mark.parametrize("family", REFUSED)
def test_every_method_is_right_or_refused(family):
    found = visit(family)
    for name, verdict in found["verdicts"].items():
        assert verdict["word"] in ("right", "refused"), (name, verdict)
    asked = {name for name in found["verdicts"] if name in DEEP or name not in METHODS}
    assert {name for name in asked if words(found)[name] == "refused"} == REFUSED[family]


def test_padding_that_is_felt_would_be_seen(monkeypatch):
    monkeypatch.setattr(network_check, "_feels_padding", lambda *_: False)
    assert words(visit("xlnet"))["outputs"] == "wrong"


def test_layers_that_rollout_does_not_see_would_be_seen(monkeypatch):
    monkeypatch.setattr(network_check, "why_not_attention_alone", lambda *_: None)
    found = words(visit("jamba"))
    assert found["rollout"] == found["flow"] == "wrong"


def test_rows_that_do_not_add_up_would_be_seen(monkeypatch):
    monkeypatch.setattr("limelight.models.hugging_face.attention_rows._check_rows", lambda *_: None)
    assert words(visit("squeezebert"))["alpha-avg"] == "wrong"


def test_the_page_shows_what_was_found():
    """Where this fails, ``PYTHONPATH=scripts python -m zoo.matrix`` mends it."""
    page = matrix.PAGE.read_text("utf-8")
    assert matrix.page_with_matrix(page, matrix.stored()) == page


def test_nothing_that_was_visited_is_wrong_or_broken():
    for family, found in matrix.stored()["families"].items():
        said = {text.partition(":")[0] for text in found.get("rest", {})}
        assert said <= {"refused"}, family


def test_every_family_of_this_transformers_was_visited():
    stored = matrix.stored()
    if stored["transformers"] != transformers.__version__:
        pytest.skip(f"visited with transformers {stored['transformers']}")
    assert set(stored["families"]) == set(animals.FAMILIES)
    assert sum("right" in found for found in stored["families"].values()) >= 98


def test_every_method_stands_in_a_column():
    shown = {name for names in matrix.GROUPS.values() for name in names}
    assert shown == DEEP


def test_a_wrong_verdict_would_be_shown():
    found = {"verdicts": {"lime": {"word": "wrong", "said": "1 2"}}, "notices": []}
    stored = {"transformers": "0", "families": {"x": matrix.slim(found)}}
    assert "1. Wrong: 1 2." in matrix.matrix(stored)
