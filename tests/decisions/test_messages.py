"""Wrong calls of counterfactual, each with its error and what the message says."""

# ruff: noqa: F401 (names for eval)
import json
from dataclasses import replace

import pytest

import limelight
from limelight import Counterfactual, DomainError, InputError
from messages import wrong_calls
from shape_checks import no_type_checks

SHIPPED = limelight.load()
C = limelight.counterfactual(SHIPPED, "superb , a charming film with a good plot")
NUMBER = limelight.wrap(lambda texts: [[len(text)] for text in texts], classes=["n"], scale="score")
ROUND = {"size": 1, "draws": 5, "unchanged": 6, "low": 0, "high": 1}


def read(**changes):
    """Read the file of a counterfactual with other values."""
    return Counterfactual.from_json(json.dumps(json.loads(C.to_json()) | changes))


def search(model=SHIPPED, **options):
    return limelight.counterfactual(model, "a good film", **options)


NO_THRESHOLD = "threshold must be given for scores and answers"
NO_SEED = "seed must be a whole number of at least 0"
INPUT_ERRORS = {
    "read(size=1)": "size of a counterfactual must be",
    "read(is_robust=True)": "is_robust of a counterfactual must be",
    "read(lower_bound=99)": "lower_bound must be from 0 to",
    "read(lower_bound=3)": "lower_bound must be at most the number of removed features",
    "read(prediction_after=None)": "needs prediction_after",
    "read(prediction_after={'positive': 9.0})": "must differ from prediction",
    "read(prediction_after={'negative': 9.0})": "finite output for each output of prediction",
    "read(prediction={'positive': 1.0, 'negative': 1.0, 'x': 0.0})": "2 classes, not 3",
    "read(kind='answer')": NO_THRESHOLD,
    "read(threshold=1.0)": NO_THRESHOLD,
    "read(desired_class='happy')": "unknown desired_class",
    "read(bound_kind='guessed')": "not a limelight counterfactual",
    "read(stability=[ROUND])": "stability",
    "read(stability=[ROUND | {'draws': 0, 'unchanged': 0}])": "stability",
    "read(schema='limelight.counterfactual/2')": "Its schema is",
    "read(note=1)": "unknown field",
    "replace(C, removed=(*C.removed, *C.removed))": "increasing",
    "search(NUMBER)": "predicts a score, so no class can change",
    "search(NUMBER, threshold=float('nan'))": "threshold must be a finite number",
    "search(NUMBER, threshold='8')": "threshold must be a finite number, not '8'",
    "search(NUMBER, threshold=True)": "threshold must be a finite number",
    "search(NUMBER, threshold=3.0, seed='a')": NO_SEED,
    "search(NUMBER, threshold=3.0, seed=1.5)": NO_SEED,
    "search(NUMBER, threshold=3.0, seed=-1)": NO_SEED,
    "search(NUMBER, threshold=3.0, desired_class='n')": "desired_class is for models that",
    "search(threshold=1.0)": "threshold is for scores and answers",
    "search(desired_class='happy')": "unknown desired_class: 'happy'",
    "search(desired_class=7)": "number of a class must be between 0 and 1",
    "search(budget='much')": "budget must be a time",
    "search(replacement='rainbow')": "unknown replacement",
    "search(answer='yes')": "answer needs",
}
DOMAIN_ERRORS = {
    f"search(NUMBER, threshold=3.0, budget='{calls} calls')": "needs at least 4 model calls"
    for calls in (0, 1, 3)
}


@wrong_calls({InputError: INPUT_ERRORS, DomainError: DOMAIN_ERRORS})
def test_a_wrong_call_says_what_is_wrong(call, error, message):
    with no_type_checks(), pytest.raises(error, match=message):
        eval(call)
