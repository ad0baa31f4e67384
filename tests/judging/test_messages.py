"""Wrong calls of judge, each with its error and what the message says."""

# ruff: noqa: F401 (names for eval)
from pathlib import Path

import pytest

import limelight
from limelight import InputError, Judgment
from messages import wrong_calls

from tiny_models import random_texts, tiny_model

MODEL = tiny_model(3, T_max=31, scale=0.4)
TEXT = next(text for text in random_texts(60, seed=5, longest=8) if len(set(text.split())) > 3)
FUNCTION = limelight.wrap(
    lambda texts: [[len(text), 0.0] for text in texts], classes=["no", "yes"], scale="logit"
)


def judge(methods=("loo",), texts=(TEXT,), model=MODEL, **options):
    return limelight.judge(model, list(texts), list(methods), **options)


def judge_file(folder, content):
    """Judge the explanations of a file."""
    (folder / "old.json").write_bytes(content)
    return judge([str(folder / "old.json")])


NO_FILE = "is not a JSON file of explanations"
NO_EXPLANATIONS = "or a mapping from texts to explanations, not int."
INPUT_ERRORS = {
    'Judgment.from_json(\'{"schema": "limelight.judgment/2"}\')': "not a limelight judgment",
    "judge(texts=[])": "judge needs at least one text.",
    "judge([])": "judge needs at least one method.",
    "judge(['lme'])": "unknown method: 'lme'. Did you mean 'lime'?",
    "judge(bandwidt=1)": "unknown setting of these methods: 'bandwidt'. Leave it out",
    "judge(['lime'], bandwidt=1)": (
        "unknown setting of these methods: 'bandwidt'. Did you mean 'bandwidth'?"
    ),
    "judge(target='nobody')": (
        "unknown class: 'nobody'. Choose from: class 0, class 1, predicted."
    ),
    "judge(replacement='blank')": "unknown replacement: 'blank'.",
    "judge(budget=-1.0)": (
        r'budget must be a time \(30, "30s", "2min"\) or a number of model calls '
        r'\("400 calls"\), of at least 0, not -1\.0\.'
    ),
    "judge(budget=float('nan'))": "of at least 0, not nan.",
    "judge(second_replacement='unk')": (
        "second_replacement must differ from replacement, which is 'unk'."
    ),
    "judge(second_replacement='blank')": "unknown replacement: 'blank'.",
    "judge(columns=['loo'])": "unknown column: 'loo'. Did you mean 'loo_tau'[?] Choose from: all,",
    "judge(['nowhere.json'])": "there are no explanations at 'nowhere.json'. Check the path.",
    "judge([Path(__file__).parent])": (
        r"is a folder, not a JSON file of explanations. Give a run as limelight.Run\(folder\)."
    ),
    "judge([{'a text': 3}])": NO_EXPLANATIONS,
    "judge([[3]])": NO_EXPLANATIONS,
    "judge([[]])": "there are no stored explanations. Give at least one.",
    "judge_file(folder, b'\\xff\\xfe\\x00')": NO_FILE,
    **{
        f'judge_file(folder, b\'{{"schema": "limelight.{kind}/1", "text": "a"}}\')': (
            f"old.json': .* Its schema is 'limelight.{kind}/1', not 'limelight.{kind}/2'"
        )
        for kind in ("explanation", "comparison")
    },
    "judge(model=FUNCTION, columns=['sanity'])": (
        "the column 'sanity' needs the weights of the model, but a function"
    ),
}


@wrong_calls({InputError: INPUT_ERRORS})
def test_a_wrong_call_says_what_is_wrong(call, error, message, tmp_path):
    with pytest.raises(error, match=message):
        eval(call, globals() | {"folder": tmp_path})
