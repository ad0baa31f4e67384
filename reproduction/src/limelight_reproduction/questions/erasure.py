"""Erasure: how many words must go, in the order of an explanation, before the decision changes."""

__all__ = ["EXPERIMENT", "because_of_sign", "good_order"]

from collections.abc import Iterator, Mapping
from typing import Any

from limelight_reproduction.drawing import canvas, plain, quartile_lines
from limelight_reproduction.experiment import (
    Experiment,
    Findings,
    Numbers,
    Table,
    Verdict,
    on_both_models,
)
from limelight_reproduction.one_layer.subjects import MODELS, paper_first
from limelight_reproduction.questions.erasure_measured import ERASURES, LEAST, ORDERS, measure


def good_order(of: Numbers) -> str:
    """Say whether attention is a good order to erase words in, from one way of erasing them.

    "fewer" holds how much smaller the share of the words is that another order needs, a mean over
    reviews with its interval: chance must need more, and the best orders not less.
    """
    if "fewer" not in of:
        return "undecided: too few decisions change"
    chance, best = of["fewer"]["random"], of["fewer"]["gxi"]
    better, behind = chance[2] < 0, best[1] > 0
    if better and behind:
        return "in part: better than chance, behind orders with a sign"
    if behind:
        return "no"
    return "yes" if better and best[2] < 0 else "undecided"


def because_of_sign(of: Numbers) -> str:
    """Say whether the sign is what attention lacks: |G×I| and |LIME| then gain little without it.

    Little is less than a third of what the same order gains with its sign.
    """
    gains = [(of["fewer"][name], of["fewer"][f"abs-{name}"]) for name in ("gxi", "lime")]
    if all(without[2] < with_sign[0] / 3 for with_sign, without in gains):
        return "it is"
    if all(without[1] > with_sign[0] / 3 for with_sign, without in gains):
        return "not the sign alone"
    return "undecided"


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    figure, grid = canvas(8.4, 3.6, columns=2)
    for axes, (name, said) in zip(grid, MODELS.items(), strict=True):
        shares = numbers[name]["unk"].get("shares", {})
        if shares:
            quartile_lines(axes, [shares[order] for order in ORDERS], list(ORDERS.values()))
        axes.set_xlim(0, 1)
        plain(axes, title=said, x="share of the words removed")
    yield (
        "erasure",
        "How many words must be replaced by UNK before the decision changes, in reviews where it "
        "changes in every order: median and quartiles.",
        figure,
    )


def _percent(of: Numbers, name: str) -> str:
    return f"{of['shares'][name][1]:.1%}" if "shares" in of else "not known"


def _interval(interval: list[float]) -> str:
    return f"{interval[0]:.0%} ({interval[1]:.0%} to {interval[2]:.0%})"


def _points(interval: list[float]) -> str:
    middle, low, high = (100 * x for x in interval)
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    unk, zero = (numbers["paper"][how] for how in ERASURES)
    both = {good_order(of) for of in (unk, zero)}
    return Findings(
        headline=(
            f"In the order of attention {_percent(unk, 'alpha-avg')} of the words must go before "
            f"the decision of the paper's recipe changes, in that of G×I {_percent(unk, 'gxi')}, "
            f"of |G×I| {_percent(unk, 'abs-gxi')}, in a random one {_percent(unk, 'random')}."
        ),
        verdicts=[
            Verdict(
                claim="Attention is a good order in which to erase words (denied by Serrano and "
                "Smith, 2019)",
                holds=both.pop() if len(both) == 1 else f"UNK: {good_order(unk)}; attention "
                f"zeroed: {good_order(zero)}",
                number=f"{_percent(unk, 'alpha-avg')} of the words (attention zeroed "
                f"{_percent(zero, 'alpha-avg')}), G×I {_percent(unk, 'gxi')} "
                f"({_percent(zero, 'gxi')}), random {_percent(unk, 'random')} "
                f"({_percent(zero, 'random')})",
                parts=("paper",),
            ),
            Verdict(
                claim="Is the sign what attention lacks as an order? (our question)",
                holds=_lacks_sign(unk, zero),
                number=_gains(unk),
                parts=("paper",),
            ),
        ],
        measured=[
            _sentence(part, of, how) for part, of in paper_first(numbers) for how in ERASURES
        ],
        meaning=(
            "Serrano and Smith set attention weights to zero and renormalise the others; that is "
            "exact here, and stands beside UNK in a word's place. [cls] and padding are never "
            "erased. With the paper's recipe the two say the same; with the shipped model, whose "
            "UNK has a value of its own, orders without a sign depend on it (α-avg "
            f"{_percent(numbers['shipped']['unk'], 'alpha-avg')} of the words with UNK, "
            f"{_percent(numbers['shipped']['zero'], 'alpha-avg')} with zeros). The most attended "
            "word matters far more than a random one. But attention counts words for and against "
            "the decision alike, and erasing by it takes away both: in many reviews the decision "
            "then never changes, as it always does in orders with a sign. |G×I| and |LIME| are the "
            "control: they know how much a word does and not in which direction, and save nothing "
            "against attention, or a small part of what they save with their sign."
        ),
        table=Table(
            columns=(
                "model", "erased", "order", "decision changes", "lower quartile", "median",
                "upper quartile", "fewer points of words than α-avg",
            ),
            rows=[
                [f"the {MODELS[part]}", said, label, f"{of[how]['flips'][name]:.0%}",
                 *of[how].get("shares", {}).get(name, ["–"] * 3),
                 _points(of[how]["fewer"][name]) if "fewer" in of[how] else "–"]
                for part, of in paper_first(numbers)
                for how, said in ERASURES.items()
                for name, label in ORDERS.items()
            ],
        ),
    )  # fmt: skip


def _lacks_sign(unk: Numbers, zero: Numbers) -> str:
    if "fewer" not in unk or "fewer" not in zero:
        return "undecided: too few decisions change"
    found = {because_of_sign(of) for of in (unk, zero)}
    return found.pop() if len(found) == 1 else "undecided"


def _gains(of: Numbers) -> str:
    if "fewer" not in of:
        return "–"
    told = [
        f"{ORDERS[name]} {_points(of['fewer'][name])}"
        for name in ("gxi", "abs-gxi", "lime", "abs-lime")
    ]
    return "points of the words saved against α-avg: " + ", ".join(told)


def _sentence(part: str, numbers: Numbers, how: str) -> str:
    of = numbers[how]
    start = (
        f"The {MODELS[part]}, {numbers['texts']} test reviews, {ERASURES[how]}: the decision "
        f"changes at some point in {of['flips']['alpha-avg']:.0%} of the reviews in the order of "
        f"α-avg, in {of['flips']['gxi']:.0%} in that of G×I and {of['flips']['random']:.0%} in a "
        "random one. "
    )
    if "shares" not in of:
        return (
            start + f"In fewer than {LEAST} it changes in every order, which is too few to go on."
        )
    return (
        start
        + f"In the {of['common']} in which it does in every order, the median share of the words: "
        + ", ".join(f"{said} {of['shares'][name][1]:.1%}" for name, said in ORDERS.items())
        + f". G×I needs fewer words than α-avg in {_interval(of['wins'])} of them. Erasing the "
        f"most attended word moves the margin more than a random word does in "
        f"{_interval(of['beats'])} of all reviews ({of['first']['alpha-avg'][0]:.2f} against "
        f"{of['first']['random'][0]:.2f} on average; the first word of LIME "
        f"{of['first']['lime'][0]:.2f})."
    )


EXPERIMENT = Experiment(
    name="erasure",
    title="Erasure: Serrano and Smith's test",
    paper=(
        "Among related work: Serrano and Smith (2019) zero what is most attended and find that "
        "decisions change late; gradients order better."
    ),
    parts=on_both_models(measure, version=3),
    findings=_findings,
    figures=_figures,
)
