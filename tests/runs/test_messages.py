"""Wrong calls of runs, each with its error and what the message says."""

# ruff: noqa: F401 (names for eval)
import sys

import pytest

pytest.importorskip("pyarrow", reason="runs are stored with pyarrow (extra data)")

import limelight
from limelight.errors import InputError
from limelight.runs import RayActors, Run
from messages import wrong_calls
from shape_checks import no_type_checks

from tiny_models import random_texts, tiny_model

SCORES = limelight.wrap(lambda texts: [[len(t)] for t in texts], classes=["n"], scale="score")
CHATS = {"messages": ["a film"], "sources": ["a film"]}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    return limelight.explain_data(tiny_model(), random_texts(5, seed=2), "gxi", output=folder)


def explain_data(folder, data, model=None, **options):
    output = folder / "new"
    return limelight.explain_data(model or limelight.load(), data, "loo", output=output, **options)


def make_ray_actors():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ray", None)
        RayActors()


INPUT_ERRORS = {
    **{
        f"run.summary(top={top})": rf"top must be a positive whole number, not {top}\."
        for top in (0, -1, True)
    },
    "Run(folder).summary()": "there is no run at",
    "run.sql('SELEC 1')": r'^the query failed: syntax error at or near "SELEC"\.$',
    "run.sql('SELECT nothing FROM words')": r'the query failed: .*"nothing" not found',
    "make_ray_actors()": r"the engine 'ray' needs Ray\. .*run: pip install .*cluster",
    "explain_data(folder, CHATS, messages_column='messages')": (
        "messages_column needs a language model"
    ),
    "explain_data(folder, CHATS, documents_column='sources')": (
        "documents_column needs a language model"
    ),
    "explain_data(folder, ['a', 'b'], SCORES, counterfactual=True)": "predicts a score",
}


@wrong_calls({InputError: INPUT_ERRORS})
def test_a_wrong_call_says_what_is_wrong(call, error, message, run, tmp_path):
    with no_type_checks(), pytest.raises(error, match=message):
        eval(call, globals() | {"run": run, "folder": tmp_path})
