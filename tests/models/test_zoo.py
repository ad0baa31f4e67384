"""A dozen kinds of networks, every method: right against its oracle, or refused in a sentence.

All that transformers can build are visited by ``PYTHONPATH=scripts python -m zoo``.
"""

import pytest
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
