"""Erasure: the share of words to remove, in an explanation's order, until the decision changes."""

__all__ = ["EXPERIMENT", "judge_attention_order", "judge_sign"]

from collections.abc import Iterator, Mapping
from typing import Any

from limelight_reproduction.drawing import canvas, draw_quartile_lines, style_axes
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Table,
    Verdict,
    parts_for_both_models,
)
from limelight_reproduction.one_layer.subjects import MODELS, order_paper_first
from limelight_reproduction.questions.erasure_measured import ERASURES, LEAST, ORDERS, measure


def judge_attention_order(numbers: Numbers) -> str:
    """Judge whether attention is a good order for erasing words, from one way of erasing.

    "fewer" is by how much the share of removed words is smaller in another order, a mean over
    reviews with its interval. Random orders must need more words, and the best orders not fewer.
    """
    if "fewer" not in numbers:
        return "undecided: too few decisions change"
    chance, best = numbers["fewer"]["random"], numbers["fewer"]["gxi"]
    is_better, is_behind = chance[2] < 0, best[1] > 0
    if is_better and is_behind:
        return "in part: better than chance, behind orders with a sign"
    if is_behind:
        return "no"
    return "yes" if is_better and best[2] < 0 else "undecided"


def judge_sign(numbers: Numbers) -> str:
    """Judge whether attention only lacks a sign: |G×I| and |LIME| then gain little.

    Little is less than a third of the gain of the same order with its sign.
    """
    gains = [(numbers["fewer"][name], numbers["fewer"][f"abs-{name}"]) for name in ("gxi", "lime")]
    if all(without[2] < with_sign[0] / 3 for with_sign, without in gains):
        return "it is"
    if all(without[1] > with_sign[0] / 3 for with_sign, without in gains):
        return "not the sign alone"
    return "undecided"


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    figure, grid = canvas(8.4, 3.6, columns=2)
    for axes, (name, label) in zip(grid, MODELS.items(), strict=True):
        shares = numbers[name]["unk"].get("shares", {})
        if shares:
            draw_quartile_lines(axes, [shares[order] for order in ORDERS], list(ORDERS.values()))
        axes.set_xlim(0, 1)
        style_axes(axes, title=label, x="share of the words removed")
    yield (
        "erasure",
        "How many words must be replaced by UNK before the decision changes, in reviews where it "
        "changes in every order: median and quartiles.",
        figure,
    )


def _format_median_share(numbers: Numbers, name: str) -> str:
    """Format the median share of the words that an order must remove."""
    return f"{numbers['shares'][name][1]:.1%}" if "shares" in numbers else "not known"


def _format_interval(interval: list[float]) -> str:
    return f"{interval[0]:.0%} ({interval[1]:.0%} to {interval[2]:.0%})"


def _format_points(interval: list[float]) -> str:
    middle, low, high = (100 * x for x in interval)
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    unk, zero = (numbers["paper"][erasure] for erasure in ERASURES)
    verdicts = {judge_attention_order(numbers) for numbers in (unk, zero)}
    return Findings(
        headline=(
            f"In the order of attention {_format_median_share(unk, 'alpha-avg')} of the words must "
            "go before the decision of the paper's recipe changes, in that of G×I "
            f"{_format_median_share(unk, 'gxi')}, of |G×I| {_format_median_share(unk, 'abs-gxi')}, "
            f"in a random one {_format_median_share(unk, 'random')}."
        ),
        verdicts=[
            Verdict(
                claim="Attention is a good order in which to erase words (denied by Serrano and "
                "Smith, 2019)",
                holds=verdicts.pop()
                if len(verdicts) == 1
                else f"UNK: {judge_attention_order(unk)}; attention "
                f"zeroed: {judge_attention_order(zero)}",
                number=f"{_format_median_share(unk, 'alpha-avg')} of the words (attention zeroed "
                f"{_format_median_share(zero, 'alpha-avg')}), G×I "
                f"{_format_median_share(unk, 'gxi')} ({_format_median_share(zero, 'gxi')}), random "
                f"{_format_median_share(unk, 'random')} ({_format_median_share(zero, 'random')})",
                parts=("paper",),
            ),
            Verdict(
                claim="Is the sign what attention lacks as an order? (our question)",
                holds=_judge_sign_in_both(unk, zero),
                number=_describe_gains(unk),
                parts=("paper",),
            ),
        ],
        measured=[
            _describe_erasure(part, part_numbers, erasure)
            for part, part_numbers in order_paper_first(numbers)
            for erasure in ERASURES
        ],
        meaning=(
            "Serrano and Smith set attention weights to zero and renormalise the others; that is "
            "exact here, and stands beside UNK in a word's place. [cls] and padding are never "
            "erased. With the paper's recipe the two say the same; with the shipped model, whose "
            "UNK has a value of its own, orders without a sign depend on it (α-avg "
            f"{_format_median_share(numbers['shipped']['unk'], 'alpha-avg')} of the words with "
            f"UNK, {_format_median_share(numbers['shipped']['zero'], 'alpha-avg')} with zeros). "
            "The most attended word matters far more than a random one. But attention counts "
            "words for and against the decision alike, and erasing by it takes away both: in many "
            "reviews the decision then never changes, as it always does in orders with a sign. "
            "|G×I| and |LIME| are the control: they know how much a word does and not in which "
            "direction, and save nothing against attention, or a small part of what they save "
            "with their sign."
        ),
        table=Table(
            columns=(
                "model",
                "erased",
                "order",
                "decision changes",
                "lower quartile",
                "median",
                "upper quartile",
                "fewer points of words than α-avg",
            ),
            rows=[
                [
                    f"the {MODELS[part]}",
                    erasure_label,
                    label,
                    f"{part_numbers[erasure]['flips'][name]:.0%}",
                    *part_numbers[erasure].get("shares", {}).get(name, ["–"] * 3),
                    _format_points(part_numbers[erasure]["fewer"][name])
                    if "fewer" in part_numbers[erasure]
                    else "–",
                ]
                for part, part_numbers in order_paper_first(numbers)
                for erasure, erasure_label in ERASURES.items()
                for name, label in ORDERS.items()
            ],
        ),
    )


def _judge_sign_in_both(unk: Numbers, zero: Numbers) -> str:
    """Judge whether attention only lacks a sign, for both ways of erasing."""
    if "fewer" not in unk or "fewer" not in zero:
        return "undecided: too few decisions change"
    verdicts = {judge_sign(numbers) for numbers in (unk, zero)}
    return verdicts.pop() if len(verdicts) == 1 else "undecided"


def _describe_gains(numbers: Numbers) -> str:
    """Describe the points of words that orders save against α-avg."""
    if "fewer" not in numbers:
        return "–"
    gains = [
        f"{ORDERS[name]} {_format_points(numbers['fewer'][name])}"
        for name in ("gxi", "abs-gxi", "lime", "abs-lime")
    ]
    return "points of the words saved against α-avg: " + ", ".join(gains)


def _describe_erasure(part: str, part_numbers: Numbers, erasure: str) -> str:
    """Describe the results of one model and one way of erasing."""
    numbers = part_numbers[erasure]
    start = (
        f"The {MODELS[part]}, {part_numbers['texts']} test reviews, {ERASURES[erasure]}: the "
        f"decision changes at some point in {numbers['flips']['alpha-avg']:.0%} of the reviews in "
        f"the order of α-avg, in {numbers['flips']['gxi']:.0%} in that of G×I and "
        f"{numbers['flips']['random']:.0%} in a random one. "
    )
    if "shares" not in numbers:
        return (
            start + f"In fewer than {LEAST} it changes in every order, which is too few to go on."
        )
    return (
        start
        + f"In the {numbers['common']} in which it does in every order, the median share of the "
        "words: "
        + ", ".join(f"{label} {numbers['shares'][name][1]:.1%}" for name, label in ORDERS.items())
        + ". G×I needs fewer words than α-avg in "
        f"{_format_interval(numbers['wins'])} of them. Erasing the most attended word moves the "
        f"margin more than a random word does in {_format_interval(numbers['beats'])} of all "
        f"reviews ({numbers['first']['alpha-avg'][0]:.2f} against "
        f"{numbers['first']['random'][0]:.2f} on average; the first word of LIME "
        f"{numbers['first']['lime'][0]:.2f})."
    )


EXPERIMENT = Experiment(
    name="erasure",
    title="Erasure: Serrano and Smith's test",
    paper=(
        "Among related work: Serrano and Smith (2019) zero what is most attended and find that "
        "decisions change late; gradients order better."
    ),
    parts=parts_for_both_models(measure, version=3),
    findings=_findings,
    figures=_figures,
)
