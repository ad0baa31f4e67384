"""When attention can be trusted: signs that are known before a word is removed."""

__all__ = ["EXPERIMENT", "first_word_share"]

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from limelight_reproduction.drawing import BLUE, GREY, canvas, style_axes
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Table,
    Verdict,
    parts_for_both_models,
)
from limelight_reproduction.one_layer.subjects import MODELS, order_paper_first
from limelight_reproduction.questions.reliability_measured import (
    ENOUGH,
    JUDGED,
    SIGNS,
    TRUSTED_LEAD,
    measure,
)
from limelight_reproduction.spread import wilson_interval

_METHODS = dict(zip(JUDGED, ("α-avg", "α-max", "G-l1", "G×I", "Shapley values"), strict=True))


def first_word_share(numbers: Numbers, question: str, group: str) -> str:
    """Format the share of reviews whose first word has a property, as "48% [46%, 50%]".

    ``question`` is "leads" (the first word is among the three strongest) or "sure" (it supports the
    decision). ``group`` is "all", "good" or "bad".
    """
    hits, total = numbers["first"][question][group]
    if not total:
        return "in no review"
    low, high = wilson_interval(int(hits), total)
    return f"{hits / total:.0%} [{low:.0%}, {high:.0%}]"


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    figure, grid = canvas(8.6, 3.0, columns=2)
    heights = np.arange(len(SIGNS))
    for axes, (part, label) in zip(grid, MODELS.items(), strict=True):
        signs = [numbers[part]["signs"][name] for name in SIGNS]
        low, high = np.transpose([sign["interval"] for sign in signs])
        axes.axvline(0, color=GREY, linewidth=0.8)
        axes.hlines(heights, low, high, color=BLUE, linewidth=2, alpha=0.5)
        axes.plot([sign["rank"] for sign in signs], heights, "o", color=BLUE)
        axes.set_yticks(heights, [name for _, name in SIGNS.values()], fontsize=8)
        axes.invert_yaxis()
        axes.set_xlim(-1, 1)
        style_axes(axes, title=label, x="rank correlation with ρ, 99 % interval")
    grid[1].set_yticklabels([])
    yield (
        "reliability",
        "What goes with ρ, the rank correlation of attention with Shapley values, over reviews.",
        figure,
    )


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    reliable_signs = [
        name for name in SIGNS if all(model["signs"][name]["tells"] for model in numbers.values())
    ]
    ranges = {part: model["rho"] for part, model in order_paper_first(numbers)}
    paper, shipped = numbers["paper"], numbers["shipped"]
    verdict = (
        f"by {' and '.join(SIGNS[name][1] for name in reliable_signs)}"
        if reliable_signs
        else f"by none of {len(SIGNS)} signs: it is the model that matters"
    )
    return Findings(
        headline=(
            f"In the median review attention ranks words as |Shapley values| do to "
            f"{ranges['shipped'][1]:.2f} (shipped model) and {ranges['paper'][1]:.2f} (paper's "
            f"recipe), and in which reviews it does better can be told beforehand {verdict}."
        ),
        verdicts=[
            Verdict(
                claim="One can tell from a review when its attention can be relied on (left open)",
                holds="holds" if reliable_signs else "no",
                number=_describe_best_sign(numbers),
            ),
            Verdict(
                claim="Is the most attended word one of the three strongest? (our question)",
                holds="in about half of the reviews; mostly where it stands out",
                number=f"{first_word_share(shipped, 'leads', 'all')} and "
                f"{first_word_share(paper, 'leads', 'all')}; with {TRUSTED_LEAD:.0f} times the "
                f"attention of the next {first_word_share(shipped, 'leads', 'good')} and "
                f"{first_word_share(paper, 'leads', 'good')}",
            ),
        ],
        measured=[
            _describe_rule(),
            *(
                sentence
                for part, model in order_paper_first(numbers)
                for sentence in _describe_model(part, model)
            ),
        ],
        meaning=_meaning(numbers),
        table=Table(
            columns=("model", "sign", "should", "rank correlation with ρ", "99 % from", "to",
                     "median ρ, good half", "other half"),
            rows=[
                [
                    f"the {MODELS[part]}", label, "rise" if direction > 0 else "fall",
                    *_cells(model["signs"][name]),
                ]
                for part, model in order_paper_first(numbers)
                for name, (direction, label) in SIGNS.items()
            ],
        ),
    )  # fmt: skip


def _cells(sign: Numbers) -> list[float]:
    return [sign["rank"], *sign["interval"], sign["good"], sign["bad"]]


def _describe_best_sign(numbers: Mapping[str, Numbers]) -> str:
    """Describe the sign whose smaller gain on the two models is largest."""
    gains = {
        name: [
            model["signs"][name]["good"] - model["signs"][name]["bad"] for model in numbers.values()
        ]
        for name in SIGNS
    }
    name = max(gains, key=lambda sign: min(gains[sign]))
    low, high = sorted(gains[name])
    return f"the best sign, {SIGNS[name][1]}, raises it by {low:.2f} and {high:.2f}"


def _describe_rule() -> str:
    return (
        f"Of {len(SIGNS)} signs that are known without removing a word it was written down "
        "beforehand, in the code, in which direction each should go, and that one counts if on the "
        "second half of the reviews its rank correlation with ρ has that direction at 99 % and the "
        "reviews on its good side of the first half's median have a median ρ that is higher by at "
        f"least {ENOUGH}."
    )


def _describe_model(part: str, numbers: Numbers) -> Iterator[str]:
    """Yield sentences about ρ, the first word and the judged shares of a model."""
    low, middle, high = numbers["rho"]
    tells = [label for name, (_, label) in SIGNS.items() if numbers["signs"][name]["tells"]]
    yield (
        f"The {MODELS[part]}, {numbers['texts']:,} test reviews: ρ, the rank correlation of α-avg "
        f"with the exact |Shapley values|, is {middle:.2f} in the median review, half of them "
        f"between {low:.2f} and {high:.2f}; that of ‖αv‖ {numbers['norm_rho'][1]:.2f}. "
        + (f"What counts by the rule: {', '.join(tells)}." if tells else "No sign counts.")
    )
    yield (
        f"The {MODELS[part]}: the most attended word is among the three strongest in "
        f"{first_word_share(numbers, 'leads', 'all')} of the reviews, in "
        f"{first_word_share(numbers, 'leads', 'good')} where it gets at least {TRUSTED_LEAD:.0f} "
        "times the attention of the next one (which is so in "
        f"{numbers['first']['leads']['good'][1] / numbers['texts']:.0%}) and in "
        f"{first_word_share(numbers, 'leads', 'bad')} elsewhere. It speaks for the decision in "
        f"{first_word_share(numbers, 'sure', 'all')}: in "
        f"{first_word_share(numbers, 'sure', 'good')} of the half of which the model is surer, in "
        f"{first_word_share(numbers, 'sure', 'bad')} of the other."
    )
    shares = ", ".join(
        f"{label} {numbers['shares'][name][0]:.2f} [{numbers['shares'][name][1]:.2f}, "
        f"{numbers['shares'][name][2]:.2f}]"
        for name, label in _METHODS.items()
    )
    yield (
        f"The {MODELS[part]}, `limelight.judge` on {numbers['judged']} reviews, share of the way "
        "from a random order to the proven ceiling, which none need reach: "
        f"{shares}{_greedy_share(numbers)}."
    )


def _greedy_share(numbers: Numbers) -> str:
    """Format the share of the greedy order, or return an empty text if it was not measured."""
    if "greedy" not in numbers:
        return ""
    share, low, high = numbers["greedy"]
    return f", the greedy order {share:.2f} [{low:.2f}, {high:.2f}]"


def _meaning(numbers: Mapping[str, Numbers]) -> str:
    width = max(model["rho"][2] - model["rho"][0] for model in numbers.values())
    gap = max(
        abs(sign["good"] - sign["bad"])
        for model in numbers.values()
        for sign in model["signs"].values()
    )
    return (
        "The theory names what should matter, how uneven attention is beside what it carries, and "
        f"the signs go that way where they go any; but half of the reviews lie within {width:.2f} "
        f"of ρ, and no sign divides them by more than {gap:.2f}. So whether attention ranks words "
        "rightly is a property of a trained model and hardly one of a text: measure it once, on a "
        "sample, with `limelight.judge`. In one text the most attended word can be relied on to "
        "matter where it stands out, never to speak for the decision, and the ranks below it are "
        "better taken from ‖αv‖, which costs no more."
    )


EXPERIMENT = Experiment(
    name="reliability",
    title="When attention can be trusted",
    paper=(
        "The paper argues that attention goes through further transformations which attention "
        "scores ignore (Section 7); when they may be read all the same is left open."
    ),
    parts=parts_for_both_models(measure, version=1),
    findings=_findings,
    figures=_figures,
)
