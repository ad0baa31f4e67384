"""The figure of the controls: the accuracy that they lose, and how far attention moves."""

__all__ = ["CONTROLS", "figures"]

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from limelight_reproduction.drawing import BLUE, GREEN, ORANGE, VERMILLION, canvas, style_axes
from limelight_reproduction.experiment import Numbers
from limelight_reproduction.questions.controls_judged import accuracy_loss

CONTROLS = {
    "free": "everything trained",
    "others": "the same with another seed",
    "uniform": "attention held uniform",
    "fixed": "W_ℓ held at its random start",
}
DIVERGENCES = {"jsd": "JSD", "kl": "KL, as Wiegreffe and Pinter's"}


def figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    """Yield losses with their intervals, and Wiegreffe and Pinter's plot of TVD against JSD."""
    figure, (loss_axes, distance_axes) = canvas(9.0, 3.2, columns=2)
    rows = [(label, accuracy_loss(part, kind)) for label, part, kind in _losses(numbers)]
    for y, (_label, (middle, low, high)) in enumerate(rows):
        loss_axes.hlines(y, 100 * low, 100 * high, color=BLUE, linewidth=2, alpha=0.5)
        loss_axes.plot([100 * middle], [y], "o", color=BLUE)
    loss_axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    loss_axes.axvline(0, color=ORANGE, linewidth=0.7)
    loss_axes.invert_yaxis()
    style_axes(loss_axes, x="points of accuracy lost, 95 % interval")
    adversary_numbers, kinds = numbers["adversary"], numbers["held"]["kinds"]
    for divergence, color in (("jsd", VERMILLION), ("kl", GREEN)):
        adversaries = [
            adversary
            for adversary in adversary_numbers["adversaries"]
            if adversary["divergence"] == divergence
        ]
        distance_axes.plot(
            [np.mean(adversary["jsd"]) for adversary in adversaries],
            [np.mean(adversary["tvd"]) for adversary in adversaries],
            "o-",
            color=color,
            markersize=4,
            label=f"adversaries, {DIVERGENCES[divergence].split(',')[0]} in the loss",
        )
    distance_axes.plot(
        adversary_numbers["others"]["jsd"],
        adversary_numbers["others"]["tvd"],
        "^",
        color=BLUE,
        label="another seed",
    )
    distance_axes.plot(
        kinds["uniform"]["jsd"], kinds["uniform"]["tvd"], "s", color=ORANGE, label="uniform"
    )
    distance_axes.set_xlim(0, math.log(2) * 1.02)
    distance_axes.set_ylim(0, None)
    distance_axes.legend(fontsize=7, frameon=False)
    style_axes(distance_axes, x="JSD from the first attention", y="TVD from the first predictions")
    yield (
        "controls",
        "What it costs to hold something; and how far attention can be trained away, at which "
        "price in predictions, beside the same model with another seed and with uniform attention.",
        figure,
    )


def _losses(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, Numbers, str]]:
    """Yield the label, the numbers and the kind of every control that is compared."""
    for part, suffix in (("held", ""), ("held-paper", ", paper's recipe")):
        for kind in ("uniform", "fixed"):
            yield CONTROLS[kind] + suffix, numbers[part], kind
