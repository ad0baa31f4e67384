"""The rules by which numbers of the controls become verdicts."""

__all__ = ["lost", "needed", "reached", "trainable_away"]

import math
from collections.abc import Sequence

import numpy as np

from limelight_reproduction.experiment import Numbers
from limelight_reproduction.intervals import Interval, over_trainings

WORTH = 0.02  # of accuracy: less is hardly a need
SAME = 0.01  # of accuracy that a model may lose and still predict the same
FAR = math.log(2) / 2  # of divergence: half of what is possible


def lost(of: Numbers, kind: str) -> Interval:
    """Return the accuracy lost with this ``kind`` of control, and its interval."""
    one = of["kinds"][kind]
    return over_trainings(one["lost"], one["text_error"])


def needed(interval: Interval) -> str:
    """Say whether what was held is needed, from the interval of the accuracy lost without it."""
    _, low, high = interval
    if low >= WORTH:
        return "it is"
    if high < 0:
        return "no, the model does better without"
    if high < WORTH:
        return "hardly" if low > 0 else "no loss shown"
    return "undecided"


def reached(
    adversaries: Sequence[Numbers], others: Numbers, *, by: str = "jsd"
) -> list[Numbers | None]:
    """Return for every first model the adversary that attends farthest and predicts the same.

    Far is measured ``by`` "jsd", the divergence over the window, or "words", over the words alone.

    The same: no farther in TVD than the same model trained with another seed, which is what
    Wiegreffe and Pinter compare with, and no more than ``SAME`` below it in accuracy.
    """
    found: list[Numbers | None] = []
    line = np.mean(others["tvd"])
    for i, accuracy in enumerate(others["accuracy"]):
        kept = [
            {name: one[name][i] for name in ("accuracy", "tvd", by)}
            | {"divergence": one["divergence"], "weight": one["weight"]}
            for one in adversaries
            if one["tvd"][i] <= line and one["accuracy"][i] >= accuracy - SAME
        ]
        found.append(max(kept, key=lambda one: one[by], default=None))
    return found


def trainable_away(adversaries: Sequence[Numbers], others: Numbers, *, by: str = "jsd") -> str:
    """Say whether attention can be trained away at the same predictions.

    It can where every first model has an adversary that does (``FAR``); not here where none moves
    attention by more than twice what another seed does; in part between. Where the network without
    a reason to attend elsewhere (λ = 0) does not imitate as well as another seed, training was too
    short to tell.
    """
    (plain_one,) = (one for one in adversaries if one["weight"] == 0)
    if max(plain_one["tvd"]) > np.mean(others["tvd"]):
        return "undecided: no network imitates well enough"
    far = [0.0 if one is None else one[by] for one in reached(adversaries, others, by=by)]
    if min(far) >= FAR:
        return "it can"
    if max(far) <= 2 * np.mean(others[by]):
        return "not here"
    return "in part"
