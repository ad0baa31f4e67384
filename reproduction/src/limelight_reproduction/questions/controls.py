"""What attention is for: trained freely, held uniform, with W_ℓ held, and against itself."""

__all__ = ["EXPERIMENT"]

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from limelight_reproduction.drawing import BLUE, GREEN, ORANGE, VERMILLION, canvas, plain
from limelight_reproduction.experiment import Experiment, Findings, Numbers, Part, Table, Verdict
from limelight_reproduction.intervals import Interval, over_trainings
from limelight_reproduction.setting import Setting

CONTROLS = {
    "free": "everything trained",
    "others": "the same with another seed",
    "uniform": "attention held uniform",
    "fixed": "W_ℓ held at its random start",
}
WORTH = 0.02  # of accuracy: less is hardly a need
SAME = 0.01  # of accuracy that a model may lose and still predict the same
FAR = math.log(2) / 2  # of divergence: half of what is possible


def needed(lost: Interval) -> str:
    """Say whether what was held is needed, from the interval of the accuracy lost without it."""
    _, low, high = lost
    if low >= WORTH:
        return "it is"
    if high < 0:
        return "no, the model does better without"
    if high < WORTH:
        return "hardly" if low > 0 else "no loss shown"
    return "undecided"


def reached(adversaries: Sequence[Numbers], others: Numbers) -> list[Numbers | None]:
    """Return for every first model the adversary that attends farthest and predicts the same.

    The same: no farther in TVD than the same model trained with another seed, which is what
    Wiegreffe and Pinter compare with, and no more than ``SAME`` below it in accuracy.
    """
    found: list[Numbers | None] = []
    line = np.mean(others["tvd"])
    for i, accuracy in enumerate(others["accuracy"]):
        kept = [
            {name: one[name][i] for name in ("accuracy", "tvd", "jsd")}
            | {"divergence": one["divergence"], "weight": one["weight"]}
            for one in adversaries
            if one["tvd"][i] <= line and one["accuracy"][i] >= accuracy - SAME
        ]
        found.append(max(kept, key=lambda one: one["jsd"], default=None))
    return found


def trainable_away(adversaries: Sequence[Numbers], others: Numbers) -> str:
    """Say whether attention can be trained away at the same predictions.

    It can where every first model has an adversary that does (``FAR``); not here where none moves
    attention by more than twice what another seed does; in part between. Where the network without
    a reason to attend elsewhere (λ = 0) does not imitate as well as another seed, training was too
    short to tell.
    """
    (plain_one,) = (one for one in adversaries if one["weight"] == 0)
    if max(plain_one["tvd"]) > np.mean(others["tvd"]):
        return "undecided: no network imitates well enough"
    far = [0.0 if one is None else one["jsd"] for one in reached(adversaries, others)]
    if min(far) >= FAR:
        return "it can"
    if max(far) <= 2 * np.mean(others["jsd"]):
        return "not here"
    return "in part"


def _held(setting: Setting) -> Numbers:
    from limelight_reproduction.questions.controls_measured import held  # needs torch

    return held(setting)


def _held_as_printed(setting: Setting) -> Numbers:
    from limelight_reproduction.questions.controls_measured import held  # needs torch

    return held(setting, as_printed=True)


def _away(setting: Setting) -> Numbers:
    from limelight_reproduction.questions.controls_measured import away  # needs torch

    return away(setting)


EXPERIMENT = Experiment(
    name="controls",
    title="Attention held, and attention trained away: Wiegreffe and Pinter's controls",
    paper=(
        "Section 1.1 names the objection of Wiegreffe and Pinter (2019): attention must be needed "
        "for the task, and what replaces it must be trained, not chosen."
    ),
    parts=(
        Part(name="held", measure=_held),
        Part(name="held-paper", measure=_held_as_printed, needs="gpu"),
        Part(name="adversary", measure=_away, needs="gpu"),
    ),
    findings=lambda n: None,  # TODO
)
