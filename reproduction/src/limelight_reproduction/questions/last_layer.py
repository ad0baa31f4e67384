"""The classifier without its last layer: d_out = 1 and W_ℓ = 1.

The rule for the verdict was written before the measurement. ``GAIN`` is the smallest change of a
share, or of a rank correlation, that counts. The interval over the seven trainings decides.
"""

__all__ = ["EXPERIMENT", "GAIN", "judge_gain"]

from collections.abc import Mapping

import numpy as np

from limelight_reproduction.experiment import Experiment, Findings, Numbers, Part, Table, Verdict
from limelight_reproduction.intervals import Interval, format_interval, training_interval
from limelight_reproduction.setting import Setting

GAIN = 0.02
KINDS = {"free": "with W_ℓ", "removed": "without"}


def judge_gain(gain: Interval) -> str:
    """Judge a gain of attention from its interval."""
    _, low, high = gain
    if low >= GAIN:
        return "yes"
    if high <= -GAIN:
        return "no, a worse one"
    if low > -GAIN and high < GAIN:
        return "no, as good a one"
    return "undecided"


def compute_gain(numbers: Numbers, name: str) -> Interval:
    """Return the gain of a number without the last layer, with its interval over trainings."""
    free, removed = (np.array(numbers["kinds"][kind][name]) for kind in KINDS)
    return training_interval((removed - free).tolist(), numbers["text_errors"][name])


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    part = numbers["seeds"]
    share, rank = compute_gain(part, "alpha-avg"), compute_gain(part, "alpha_lime")
    accuracy = compute_gain(part, "accuracy")
    return Findings(
        headline=(
            "Without the last layer, the share of α-avg changes by "
            f"{format_interval(share)}, and its rank correlation with |LIME| by "
            f"{format_interval(rank)}."
        ),
        verdicts=[
            Verdict(
                claim="Is attention a better explanation without the last layer? (our question)",
                holds=judge_gain(share),
                number=f"share of α-avg {format_interval(share)}, rank correlation with |LIME| "
                f"{format_interval(rank)}",
            )
        ],
        measured=[
            f"A shortened recipe with {part['training']:,} reviews, {part['words']:,} words, "
            f"{part['epochs']} epochs and {part['seeds']} seeds for each model. Accuracy on "
            f"{part['test']:,} test reviews changes by {format_interval(accuracy, 3)}. Scores are "
            f"judged on {part['texts']} reviews. The gain counts from {GAIN} on."
        ],
        meaning=(
            "A share is 0 for a random order of the words and 1 for the best. Attention has no "
            "sign, with or without the layer."
        ),
        table=Table(
            columns=("model", "accuracy", "share of α-avg", "share of LIME", "α-avg and |LIME|"),
            rows=[
                [label, *(float(np.mean(part["kinds"][kind][name])) for name in
                 ("accuracy", "alpha-avg", "lime", "alpha_lime"))]
                for kind, label in KINDS.items()
            ],
        ),
    )  # fmt: skip


def _measure(setting: Setting) -> Numbers:
    from limelight_reproduction.questions.last_layer_measured import measure  # it needs torch

    return measure(setting)


EXPERIMENT = Experiment(
    name="last-layer",
    title="Without the last layer",
    paper="The authors' talk proposes to remove the last layer, so that attention says more.",
    parts=(Part(name="seeds", measure=_measure, reads=("imdb train", "imdb test"), stages=2),),
    findings=_findings,
)
