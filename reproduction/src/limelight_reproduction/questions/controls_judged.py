"""Rules that turn the numbers of the controls into verdicts."""

__all__ = ["accuracy_loss", "farthest_adversaries", "judge_adversaries", "judge_need"]

import math
from collections.abc import Sequence

import numpy as np

from limelight_reproduction.experiment import Numbers
from limelight_reproduction.intervals import Interval, training_interval

WORTH = 0.02  # accuracy: a smaller loss is hardly a need
SAME = 0.01  # accuracy that a model may lose and still predict the same
FAR = math.log(2) / 2  # divergence: half of the maximum


def accuracy_loss(numbers: Numbers, kind: str) -> Interval:
    """Return the accuracy that a kind of control loses, with its interval."""
    control = numbers["kinds"][kind]
    return training_interval(control["lost"], control["text_error"])


def judge_need(interval: Interval) -> str:
    """Judge whether a frozen component is needed, from the interval of the accuracy lost."""
    _, low, high = interval
    if low >= WORTH:
        return "it is"
    if high < 0:
        return "no, the model does better without"
    if high < WORTH:
        return "hardly" if low > 0 else "no loss shown"
    return "undecided"


def farthest_adversaries(
    adversaries: Sequence[Numbers], other_seeds: Numbers, *, distance: str = "jsd"
) -> list[Numbers | None]:
    """Return for every first model the adversary that attends farthest and predicts the same.

    The distance is "jsd", the divergence over the window, or "words", over the words only.

    An adversary predicts the same if its TVD is at most that of the same model trained with another
    seed (the comparison of Wiegreffe and Pinter) and its accuracy is at most ``SAME`` lower.
    """
    farthest: list[Numbers | None] = []
    largest_distance = np.mean(other_seeds["tvd"])
    for index, accuracy in enumerate(other_seeds["accuracy"]):
        candidates = [
            {name: adversary[name][index] for name in ("accuracy", "tvd", distance)}
            | {"divergence": adversary["divergence"], "weight": adversary["weight"]}
            for adversary in adversaries
            if adversary["tvd"][index] <= largest_distance
            and adversary["accuracy"][index] >= accuracy - SAME
        ]
        farthest.append(max(candidates, key=lambda adversary: adversary[distance], default=None))
    return farthest


def judge_adversaries(
    adversaries: Sequence[Numbers], other_seeds: Numbers, *, distance: str = "jsd"
) -> str:
    """Judge whether attention can be trained away at the same predictions.

    It can if every first model has an adversary at distance ``FAR``. It cannot if no adversary
    moves attention by more than twice the distance of another seed. The result is undecided if the
    network with λ = 0 does not imitate as well as another seed, because training was too short.
    """
    (imitator,) = (adversary for adversary in adversaries if adversary["weight"] == 0)
    if max(imitator["tvd"]) > np.mean(other_seeds["tvd"]):
        return "undecided: no network imitates well enough"
    distances = [
        0.0 if adversary is None else adversary[distance]
        for adversary in farthest_adversaries(adversaries, other_seeds, distance=distance)
    ]
    if min(distances) >= FAR:
        return "it can"
    if max(distances) <= 2 * np.mean(other_seeds[distance]):
        return "not here"
    return "in part"
