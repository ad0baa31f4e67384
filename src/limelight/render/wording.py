"""Numbers and facts of an explanation in words, the same in terminal and page."""

__all__ = [
    "Outcome",
    "anchor_sentence",
    "label",
    "minus",
    "notices",
    "outcomes",
    "percent",
    "precision_sentence",
    "written",
]

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np

from limelight.explanation import Anchor, Explanation

SMALLEST_DECIMAL = 1e-4  # below it, powers of ten read better than rows of zeros


def label(e: Explanation) -> str:
    """Return the method's name as the paper prints it, or its identifier."""
    return str(e.settings.get("label", e.method))


def written(value: float, *, peak: float, signed: bool = True, digits: int = 3) -> str:
    """Return ``value`` with as many decimals as give ``peak`` that many digits."""
    sign = "+" if signed else ""
    if peak and (peak < SMALLEST_DECIMAL or peak >= 10.0**6):
        return f"{value:{sign}.{digits - 1}e}"
    decimals = digits - 1 - math.floor(math.log10(peak)) if peak else digits - 1
    return f"{value:{sign}.{max(decimals, 0)}f}"


def percent(probability: float) -> str:
    """Return a percentage that never rounds to certainty."""
    if 0.999 < probability < 1:
        return ">99.9%"
    return "<0.1%" if 0 < probability < 0.001 else f"{probability:.1%}"


def minus(number: str) -> str:
    """Return the number with a true minus sign, for print; terminals keep the hyphen."""
    return number.replace("-", "−")


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """What the model says about one class; the most probable one is ``chosen``."""

    name: str
    logit: float | None
    probability: float
    chosen: bool


def outcomes(e: Explanation) -> list[Outcome]:
    """Return the classes with logits and probabilities; one logit stands for two classes."""
    names, logits = list(e.prediction), np.array(list(e.prediction.values()), dtype=np.float64)
    if not names:
        return []
    if len(names) > 1:
        if e.settings.get("link") == "sigmoid":  # each class by its own log-odds
            chance = 0.5 * (1 + np.tanh(logits / 2))
        else:
            chance = np.exp(logits - logits.max())
            chance /= chance.sum()
        best = int(chance.argmax())
        return [
            Outcome(name, float(logit), float(p), j == best)
            for j, (name, logit, p) in enumerate(zip(names, logits, chance, strict=True))
        ]
    logit = float(logits[0])
    up = 0.5 * (1 + math.tanh(logit / 2))
    others = [str(name) for name in e.settings.get("classes", ()) if str(name) != names[0]]
    other = others[0] if len(others) == 1 else f"not {names[0]}"
    return [
        Outcome(names[0], logit, up, logit > 0),
        Outcome(other, None, 1 - up, logit <= 0),
    ]


def precision_sentence(e: Explanation) -> str:
    """Say how far the scores can be trusted as numbers."""
    if e.stderr is not None:
        return "Sampled: ± is one standard error."
    if e.bound is not None:
        return f"No sampling; every score is within {e.bound:.1e} of the exact value (proven)."
    return "No sampling error."


def notices(explanations: Iterable[Explanation]) -> list[str]:
    """Return every notice once; one that not all methods share names its methods."""
    several = list(explanations)
    methods: dict[str, list[str]] = {}
    for e in several:
        for notice in e.notices:
            methods.setdefault(notice, []).append(label(e))
    return [
        notice if len(names) == len(several) else f"{', '.join(names)}: {notice}"
        for notice, names in methods.items()
    ]


def anchor_sentence(e: Explanation, anchor: Anchor) -> str:
    """Say which words hold the prediction, and how firmly."""
    words = ", ".join(e.features[j] for j in anchor.features) or "no word at all"
    low, high = anchor.precision_interval
    return (
        f"Anchor: {words} (precision {anchor.precision:.1%}, interval {low:.1%} to {high:.1%}, "
        f"coverage {anchor.coverage:.1%})."
    )
