"""Sentence pairs: attention, gradients and LIME on natural language inference."""

__all__ = ["EXPERIMENT"]

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from limelight_reproduction.drawing import BLUE, GREY, ORANGE, VERMILLION, canvas, style_axes
from limelight_reproduction.experiment import Experiment, Findings, Numbers, Part, Table, Verdict
from limelight_reproduction.questions.complete_games import VARIATION
from limelight_reproduction.questions.one_sentence import measure_hidden, measure_one_layer
from limelight_reproduction.questions.pair_rows import METHODS, measure_rows, short_pairs
from limelight_reproduction.questions.pair_rules import (
    BETTER,
    BETWEEN,
    FAITHFUL,
    FOUND,
    GIVEN_AWAY,
    TELLS,
    Interval,
    choose_zone,
    count_in_zone,
    judge_differences,
)
from limelight_reproduction.questions.pair_sentences import (
    MEANING,
    describe_results,
    format_mean,
    format_share,
)
from limelight_reproduction.questions.pair_statistics import COMPARED, summarize_pairs
from limelight_reproduction.setting import CLASSES, Setting

_COLOURS = (BLUE, ORANGE, GREY, VERMILLION)
_THREE = ("alpha-avg lime", "g-l1 lime", "alpha-avg g-l1")


def measure_words(setting: Setting, *, replacement: str) -> Numbers:
    """Measure the explanations of short pairs, and compare them with the games over all masks."""
    pairs, test_share = short_pairs(setting)
    rows = list(measure_rows(setting, pairs, replacement=replacement))
    return summarize_pairs(rows, share=test_share, seed=setting.seed)


def _figures(numbers: Mapping[str, Numbers]) -> Iterator[tuple[str, str, Any]]:
    words = numbers["words"]
    figure, (order_axes, variance_axes, negation_axes) = canvas(11.0, 3.4, columns=3)
    _draw_intervals(order_axes, words["faithful"])
    order_axes.axvline(0, color=GREY, linewidth=1)
    order_axes.set_yticks(range(len(METHODS)), list(METHODS.values()))
    style_axes(order_axes, title="order of the words", x="from a random order (0) to the best (1)")
    _draw_variance(variance_axes, words["variation"])
    style_axes(variance_axes, title="what the answer varies by", x="share of the variance")
    if words["negation"]["first"]:
        _draw_intervals(negation_axes, words["negation"]["first"])
        chance = words["negation"]["chance"][0]
        negation_axes.axvline(chance, color=GREY, linewidth=1, linestyle=":")
    negation_axes.set_xlim(-0.03, 1.03)
    negation_axes.set_yticks(range(len(METHODS)), [""] * len(METHODS))
    style_axes(negation_axes, title="contradictions with a negation", x="how often it comes first")
    yield (
        "pairs",
        "Left: how good the order of each method is, with 95 % intervals. Middle: whose doing the "
        "model's answer is when words are removed at random. Right: how often the negation is the "
        "first word of an explanation.",
        figure,
    )


def _draw_intervals(axes: Any, intervals: Mapping[str, Interval]) -> None:
    """Draw the mean of every method with its interval, the first method on top."""
    middle, low, high = np.transpose([intervals[name] for name in METHODS])
    heights = np.arange(len(METHODS))
    axes.hlines(heights, low, high, color=BLUE, linewidth=3, alpha=0.35)
    axes.plot(middle, heights, "o", color=BLUE, markersize=4)
    axes.invert_yaxis()


def _draw_variance(axes: Any, variation: Mapping[str, Mapping[str, Interval | None]]) -> None:
    """Draw a stacked bar of variance shares for every class with a known variance."""
    rows = {label: shares for label, shares in variation.items() if shares["across"] is not None}
    start = np.zeros(len(rows))
    for (part, label), color in zip(VARIATION.items(), _COLOURS, strict=True):
        size = np.array([(shares[part] or [0.0])[0] for shares in rows.values()])
        axes.barh(range(len(rows)), size, left=start, color=color, height=0.6, label=label)
        start = start + size
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_xlim(0, 1)
    axes.set_ylim(len(rows) + 1.6, -0.6)  # the first on top, and room for the legend below
    axes.legend(fontsize=7, frameon=False, loc="lower left", ncols=1)


def _findings(numbers: Mapping[str, Numbers]) -> Findings:
    words = numbers["words"]
    faithful, variation = words["faithful"], words["variation"]["all"]
    first_word = words["flips"]["all"]["first"]
    return Findings(
        headline=(
            "On pairs of sentences α-avg goes "
            f"{format_share(faithful['alpha-avg'])} of the way from a random order of the words to "
            f"the best one, LIME {format_share(faithful['lime'])}, Shapley values "
            f"{format_share(faithful['shapley'])}; {format_share(variation['across'])} of what the "
            "model's answer varies by is what words of both sentences do together, which no score "
            "of single words can show."
        ),
        verdicts=_verdicts(numbers),
        measured=describe_results(numbers, *_compare_deletion(numbers)),
        meaning=MEANING,
        table=Table(
            columns=(
                "method", "way to the best order", *CLASSES["sick"],
                "rank correlation with Shapley values", "decision changed by its first word",
                "negation comes first", "mass in the second sentence",
            ),
            rows=[[label, *_table_cells(words, name)] for name, label in METHODS.items()]
            + [
                ["random order", *[0.0] * 4, None, first_word["random"][0],
                 (words["negation"]["chance"] or [None])[0], words["second_words"][0]],
                ["best there is", *[1.0] * 4, None, first_word["best"][0], None, None],
            ],
            digits=2,
        ),
    )  # fmt: skip


def _table_cells(words: Numbers, name: str) -> list[float | None]:
    """Return the means of a method in the order of the table columns."""
    by_class = (words["faithful_by"][label][name] for label in CLASSES["sick"])
    intervals = (
        words["faithful"][name],
        *by_class,
        words["rank"][name],
        words["flips"]["all"]["first"][name],
        words["negation"]["first"].get(name),
        words["second"][name],
    )
    return [None if interval is None else interval[0] for interval in intervals]


def _verdicts(numbers: Mapping[str, Numbers]) -> list[Verdict]:
    words, trained = numbers["words"], numbers["one-layer"]
    given_away = Verdict(
        claim="One sentence gives the label away (Gururangan et al., 2018)",
        holds=choose_zone(trained["gain"]["second"], GIVEN_AWAY),
        number=f"{trained['right']['second']:.1%} right from the second sentence, "
        f"{trained['frequent']:.1%} by saying “neutral”",
    )
    return [*_word_verdicts(words), given_away]


def _word_verdicts(words: Numbers) -> list[Verdict]:
    """Return the verdicts that depend on the replacement of a removed word."""
    compared = {names: words["compared"][names] for names in _THREE}
    across = words["variation"]["all"]["across"]
    return [
        Verdict(
            claim="Attention, gradients and LIME see different things, on sentence pairs too",
            holds=judge_differences(compared),
            number="rank correlations "
            + ", ".join(f"{format_mean(compared[names])} ({COMPARED[names]})" for names in _THREE),
        ),
        Verdict(
            claim="Is attention a faithful order of the words of a pair? (our question)",
            holds=choose_zone(words["faithful"]["alpha-avg"], FAITHFUL),
            number=f"{format_share(words['faithful']['alpha-avg'])} of the way from a random order "
            "to the best",
        ),
        Verdict(
            claim="LIME explains inferences better than attention (Thorne et al., 2019)",
            holds=choose_zone(words["lime_over_attention"], BETTER),
            number=f"{format_share(words['lime_over_attention'])} of that way more",
        ),
        Verdict(
            claim="Does attention between two tokens say how far they interact? (our question)",
            holds=choose_zone(words["pays"], TELLS),
            number=f"rank correlation {format_mean(words['pays'])} with how far two words interact",
        ),
        Verdict(
            claim="Does what decides lie between the sentences, out of reach of scores of words? "
            "(our question)",
            holds=choose_zone(across, BETWEEN),
            number=f"{format_share(across)} of the variance",
        ),
        *_negation_verdicts(words["negation"]),
    ]


def _negation_verdicts(negation: Numbers) -> list[Verdict]:
    """Return the verdict about negations, or none if no pair has a negation."""
    if not negation["first"]:
        return []
    finds = count_in_zone(negation["first"], FOUND, "finds it")
    return [
        Verdict(
            claim="Does every method find the negation of a contradiction? (our question)",
            holds="holds" if finds == len(METHODS) else f"{finds} of {len(METHODS)} methods do",
            number=f"it comes first in {format_share(negation['first']['lime'])} with LIME, in "
            f"{format_share(negation['first']['alpha-avg'])} with α-avg",
        )
    ]


def _compare_deletion(numbers: Mapping[str, Numbers]) -> tuple[int, list[str]]:
    """Return the number of verdicts about words, and those that differ if words are deleted."""
    masked, deleted = (_word_verdicts(numbers[part]) for part in ("words", "deleted"))
    holds_deleted = {verdict.claim: verdict.holds for verdict in deleted}
    changed = [
        f"“{verdict.claim}” ({holds_deleted.get(verdict.claim, 'not measured')})"
        for verdict in masked
        if holds_deleted.get(verdict.claim) != verdict.holds
    ]
    return len(masked), changed


EXPERIMENT = Experiment(
    name="pairs",
    title="Sentence pairs: what the methods see of an inference",
    paper=(
        "The paper classifies single texts. Among related work it names Thorne et al. (2019), who "
        "find LIME more accurate than attention for natural language inference with an LSTM, and "
        "Section 3 reads an entry of the attention matrix as the “degree of association” of two "
        "tokens; whether two tokens that are associated so also act together is our question. "
        "Whether its findings hold where two sentences are compared is left open."
    ),
    parts=(
        Part(
            name="words",
            measure=partial(measure_words, replacement="mask"),
            needs=("gpu", "sick", "pair-model"),
            quick_needs=("sick", "pair-model"),
            reads=("sick test",),
        ),
        Part(
            name="deleted",
            measure=partial(measure_words, replacement="delete"),
            needs=("gpu", "sick", "pair-model"),
            reads=("sick test",),
        ),
        Part(
            name="hidden",
            measure=measure_hidden,
            needs=("sick", "pair-model"),
            reads=("sick test",),
        ),
        Part(
            name="one-layer",
            measure=measure_one_layer,
            needs=("sick",),
            reads=("sick train", "sick test"),
        ),
    ),
    findings=_findings,
    figures=_figures,
)
