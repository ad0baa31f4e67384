"""Numbers, facts and warnings of explanations in words, the same in terminal and page."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Context
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from limelight.models.protocol import class_probabilities, class_weights
from limelight.rendering.palette import (
    FAINTEST,
    Hue,
    largest_score,
    relative_scores,
    select_hue,
    strongest_indices,
)
from limelight.results import Anchor, Comparison, Explanation, Pairs, SpanExplanations
from limelight.results.comparison import TOP
from limelight.results.table import Cell, Column, Table
from limelight.text import AnswerQuery, pluralize

if TYPE_CHECKING:  # dozens of classes, which words about a text do without
    from limelight.results.judgment import Interval, JudgedMethod, Judgment
    from limelight.results.method_table import ImplementationRow

LEARNED = "learned"  # by a network, whose errors are those on texts kept aside
ONE_SIDED = ("generic-attention",)  # without a sign, and of what speaks for the class alone
ROUNDED_SUM = 2e-3  # from 1, up to which probabilities add up to it: models round theirs by 1e-3
SMALLEST_DECIMAL = 1e-4  # below it, powers of ten read better than rows of zeros


def format_number(value: float, *, peak: float, signed: bool = True, digits: int = 3) -> str:
    """Return ``value`` with as many decimals as give ``peak`` that many digits."""
    sign, value = "+" if signed else "", value + 0.0  # of no score the sign is "+", -0.0 too
    if peak and (peak < SMALLEST_DECIMAL or peak >= 10.0**6):
        return f"{value:{sign}.{digits - 1}e}"
    decimals = digits - 1 - math.floor(math.log10(peak)) if peak else digits - 1
    return f"{value:{sign}.{max(decimals, 0)}f}"


def format_score(e: Explanation, j: int, *, digits: int = 3) -> str:
    """Return the score of one feature, with as many decimals as the largest needs."""
    return format_number(float(e.scores[j]), peak=largest_score(e), signed=e.signed, digits=digits)


def format_stderr(e: Explanation, j: int) -> str:
    """Return the standard error of one feature; "" where there is none."""
    if e.stderr is None:
        return ""
    return format_number(float(e.stderr[j]), peak=largest_score(e), signed=False)


def quoted_target(e: Explanation) -> str:
    """Return what the scores speak for, in quotes: “positive”, or “positive” against “negative”."""
    if isinstance(e.query, AnswerQuery):
        return "the answer"
    return quote(e.target) if e.against is None else f"{quote(e.target)} against {quote(e.against)}"


def query_phrase(e: Explanation) -> str:
    """Return the place that was asked about, " at “Jordan”"; "" where it is the whole text."""
    return "" if e.query is None else f" {e.query.describe(e.text)}"


def input_noun(e: Explanation) -> str:
    """Return what was explained: "text" or "image"."""
    return "text" if e.image is None else "image"


def span_labels(found: SpanExplanations, sentence: str = "sentence {} of the answer") -> list[str]:
    """Return what each is about: "ORG “Jordan”", or ``sentence`` with its number, from 1 on."""
    if found.answer is not None:
        return [sentence.format(number) for number in range(1, len(found) + 1)]
    return [f"{e.target}{query_phrase(e).removeprefix(' at')}" for e in found]


def labeled_parts(found: SpanExplanations) -> Iterator[tuple[str, int | None, str]]:
    """Yield the text, or the answer, in parts: each with its number, or None, and its name.

    A span that overlaps the one before has no part of its own.
    """
    done, answer = 0, found.answer
    whole = found.text if answer is None else answer.text
    for number, e in enumerate(found):
        if e.query is not None and e.query.start >= done:
            yield whole[done : e.query.start], None, ""
            says = (
                e.target if answer is None else f"{answer.output_name} {e.prediction[e.target]:.3f}"
            )
            yield whole[e.query.start : e.query.end], number, says
            done = e.query.end
    yield whole[done:], None, ""


def protected_sentence(found: SpanExplanations) -> str:
    """Say that the words of spans have no scores, where they have none; of an answer, what has."""
    if found.answer is not None:
        return (
            f"Scores are of the {found.answer.output_name} of each sentence, given those before it."
        )
    kept = found[0].settings.get("protect_span", True)
    return "The words of all spans are protected: scores are of the others." if kept else ""


def quote(name: str) -> str:
    """Return the name of a class in quotes."""
    return f"“{name}”"


def scale_note(e: Explanation, *, zero_to: str = "0 to ") -> str:
    """Say which score has the full color."""
    if not (peak := largest_score(e)):
        return "all 0"
    return f"{'±' if e.signed else zero_to}{format_number(peak, peak=peak, signed=False)}"


def hue_meanings(explanations: Sequence[Explanation]) -> dict[Hue, str]:
    """Return what each color in these explanations means."""
    target, other = explanations[0].target, explanations[0].against
    if len({one.target for one in explanations}) > 1:  # of several spans, each has its own
        target = "the tag of the span"
    found: dict[Hue, str] = {}
    if isinstance(answer := explanations[0].query, AnswerQuery):  # a number, which is no class
        found = {"for": f"raises the {answer.output_name}", "against": "lowers it"}
    elif any(e.signed for e in explanations):
        found["for"] = f"for {target}"
        found["against"] = f"against {target}" if other is None else f"for {other}"
    if not all(e.signed for e in explanations):
        found["neutral"] = "size only, no sign"
    return found


def format_percent(probability: float) -> str:
    """Return a percentage that never rounds to certainty."""
    if 0.999 < probability < 1:
        return ">99.9%"
    return "<0.1%" if 0 < probability < 0.001 else f"{probability:.1%}"


def confidence_phrase(confidence: float, *, margin: bool) -> str:
    """Return how sure a model was, by a probability or, where it has none, by a margin."""
    return f"by a margin of {confidence:.3g}" if margin else f"at {format_percent(confidence)}"


def format_share(count: int, total: int, low: float, high: float) -> str:
    """Return a share of texts and its interval: "88.0% [86.1%, 89.7%]"; 0 of nothing is 0."""
    return f"{format_percent(count / total if total else 0.0)} [{low:.1%}, {high:.1%}]"


def share_interval(m: "JudgedMethod") -> "Interval":
    """Return from where to where the share of a method reaches; the share alone, twice."""
    return m.interval or (m.share or 0.0, m.share or 0.0)


def lowest_share(j: "Judgment") -> float:
    """Return where the axis of shares begins: at chance, or below it where an interval reaches."""
    return min([0.0, *(share_interval(m)[0] for m in j.methods if m.share is not None)])


def typographic_minus(number: str) -> str:
    """Return the number with a true minus sign, for print; terminals keep the hyphen."""
    return number.replace("-", "−")


def typeset_sentence(sentence: str) -> str:
    """Return the sentence with true minus signs before its numbers; hyphens of names stay."""
    return re.sub(r"(?<=[ (\[])-(?=[0-9])", "−", sentence)


class Outcome(NamedTuple):
    """What the model says about one class; ``chosen`` is the most probable one.

    Of labels that are each a yes or no of their own, chosen are those above 50 %, if any.
    ``logit`` of two classes is the log-odds; without a probability it is only a score.
    """

    name: str
    logit: float | None
    probability: float | None
    chosen: bool


def class_outcomes(e: Explanation) -> list[Outcome]:
    """Return the classes with outputs and probabilities; one output stands for two classes.

    A model with the link "none" has no probabilities, and may score one thing alone.
    """
    names, outputs = list(e.prediction), np.array(list(e.prediction.values()), dtype=np.float64)
    if not names:
        return []
    linked = e.link != "none"
    if len(names) == 1 and (linked or len(e.classes) != 1):
        output = float(outputs[0])
        up, down = (0.5 * (1 + math.tanh(x / 2)) if linked else None for x in (output, -output))
        others = [other for other in e.classes if other != names[0]]
        other = others[0] if len(others) == 1 else f"not {names[0]}"
        return [Outcome(names[0], output, up, output > 0), Outcome(other, None, down, output <= 0)]
    chances: list[float | None] = [None] * len(names)
    if linked:
        chances = class_probabilities(outputs[None], e.link)[0].tolist()
    chosen = outputs > 0 if _has_labels(e) else np.arange(len(names)) == outputs.argmax()
    logits = class_weights(len(names), len(names), e.link) @ outputs
    rows = zip(names, logits.tolist(), chances, chosen.tolist(), strict=True)
    return [Outcome(*row) for row in rows]


def reader_outcomes(e: Explanation) -> list[Outcome]:
    """Return the same for readers, to whom the one number of an answer is a log-probability."""
    name = e.query.output_name if isinstance(e.query, AnswerQuery) else None
    return [one._replace(name=name or one.name) for one in class_outcomes(e)]


def _has_labels(e: Explanation) -> bool:
    """Say whether each class is a yes or no of its own, so that none or several may be chosen.

    Classes of which one is right may have log-odds too, but their probabilities add up to 1.
    """
    if e.link != "sigmoid" or len(e.prediction) < 2:
        return False
    outputs = np.array([list(e.prediction.values())], dtype=np.float64)
    return abs(float(class_probabilities(outputs, e.link).sum()) - 1) > ROUNDED_SUM


def prediction_phrase(e: Explanation) -> tuple[str, str]:
    """Return the class that the model chose, and how sure it is: ("positive", " (77.4%).")."""
    found = class_outcomes(e)
    if not found:
        return "nothing", "."
    if _has_labels(e):
        return _said_labels(found)
    chosen = next(outcome for outcome in found if outcome.chosen)
    if len(found) == 1:
        return chosen.name, f" {chosen.logit:+.3f}."
    if chosen.probability is not None:
        return chosen.name, f" ({format_percent(chosen.probability)})."
    return chosen.name, "." if chosen.logit is None else f" (score {chosen.logit:+.3f})."


def _said_labels(found: Sequence[Outcome]) -> tuple[str, str]:
    """Return every label above 50 %, the most probable first, or the highest of those below."""
    falling = sorted(found, key=lambda one: -(one.probability or 0.0))
    shares = [format_percent(one.probability or 0.0) for one in falling]
    above = [f"{one.name} ({p})" for one, p in zip(falling, shares, strict=True) if one.chosen]
    if not above:
        return "none of its labels", f" (highest: {falling[0].name} {shares[0]})."
    return " and ".join(filter(None, [", ".join(above[:-1]), above[-1]])), "."


Marks = Mapping[Hue, str]
COLORS: Marks = {"for": "green {}", "against": "orange {}", "neutral": "blue {}"}
SIGNS: Marks = {"for": "[+] {}", "against": "[-] {}", "neutral": "{} with a number"}


def headline(explanations: Sequence[Explanation], marks: Marks = COLORS) -> tuple[str, str, str]:
    """Return what stands above every view, in three parts of which the second is a class.

    "The model says **negative** (95.8%). Scores are for “positive” (logit −3.13): green words
    speak for it, orange words for “negative”." ``marks`` are what words for, against and without
    a sign look like there.
    """
    e = explanations[0]
    marks = {side: mark.format(pluralize(e.feature_noun)) for side, mark in marks.items()}
    if isinstance(e.query, AnswerQuery):
        begin, name, after = _answered(explanations, e.query)
    else:
        begin = (
            f"At{query_phrase(e).removeprefix(' at')} the model says "
            if e.query
            else "The model says "
        )
        name, sure = prediction_phrase(e)
        after = f"{sure} Scores are for {quoted_target(e)}{_explained_number(e)}"
    return begin, name, f"{after}{_marked(explanations, marks)}"


def _answered(explanations: Sequence[Explanation], asked: AnswerQuery) -> tuple[str, str, str]:
    """Return the same of an answer: "The model writes **Paris.** Scores say …"."""
    e, part = explanations[0], asked.part
    begin = "The model writes " if asked.is_generated else "The answer is "
    number = ", ".join(f"{value:.3f}" for value in e.prediction.values())
    raised = f"its {asked.output_name} ({number})"
    if any(one.query != asked for one in explanations):  # of several sentences, the whole
        part = asked.text.strip()
        raised = f"the {asked.output_name} of each sentence of it, given those before"
    elif part != asked.text.strip():
        begin = (
            f"A sentence of {'what the model writes' if asked.is_generated else 'the answer'} is "
        )
    end = "" if part[-1] in ".!?…" else "."
    return begin, f"“{part}”", f"{end} Scores say how much each {e.feature_noun} raises {raised}"


def _marked(explanations: Sequence[Explanation], marks: Marks) -> str:
    """Say what the marks mean, to end the sentence about the scores."""
    e = explanations[0]
    unsigned = f"{marks['neutral']} {_without_sign(explanations)}"
    if not any(one.signed for one in explanations):
        return f", without a sign: {unsigned}."
    up, down = "raise it", "lower it"
    if not _is_number(e):
        other = e.against or opposite_class(e)
        its = "it" if e.against is None else quote(e.target)
        up, down = f"speak for {its}", f"for {quote(other)}" if other else f"against {its}"
    sentence = f": {marks['for']} {up}, {marks['against']} {down}."
    if all(one.signed for one in explanations):
        return sentence
    return f"{sentence} Where a method gives no sign, {unsigned}."


def _without_sign(explanations: Sequence[Explanation]) -> str:
    """Say what words do that have a number without a sign."""
    one_sided = {one.method in ONE_SIDED for one in explanations if not one.signed}
    what = (
        ("raise it", "lowers it")
        if _is_number(explanations[0])
        else ("speak for it", "speaks against it")
    )
    if one_sided == {True}:
        return f"{what[0]}; what {what[1]} is not seen"
    known = f"; with generic attention they {what[0]}, and what {what[1]} is not seen"
    return f"matter, for or against it{known if True in one_sided else ''}"


def _is_number(e: Explanation) -> bool:
    """Say whether the model predicts a number, as a regression does, and no class."""
    return len(e.prediction) == len(e.classes) == 1 and e.link == "none"


def opposite_class(e: Explanation) -> str | None:
    """Return the class for which speaks whatever speaks against the target; None if there is none.

    Of two classes that is so where their numbers mirror each other: by log-odds, or by
    probabilities that add up to 1. Two scores are two numbers.
    """
    found = class_outcomes(e)
    others = [outcome.name for outcome in found if outcome.name != e.target]
    if len(found) != 2 or len(others) != 1 or e.against is not None:
        return None
    mirrored = e.link == "sigmoid" and abs(sum(e.prediction.values())) < 1e-6
    shared = e.link == "softmax" and e.scale == "probability"
    return others[0] if e.classes_are_opposite or mirrored or shared else None


def _explained_number(e: Explanation) -> str:
    value = e.explained_value
    if value is None or _is_number(e):  # which has been said
        return ""
    several = {"probability": "probabilities"}.get(e.scale, f"{e.scale}s")
    alone = e.against is None or e.classes_are_opposite
    what = e.scale if alone else f"difference of {several}"
    return f" ({what} {_scaled(e, value)})"


def _scaled(e: Explanation, value: float) -> str:
    is_share = e.scale == "probability" and e.against is None
    return format_percent(value) if is_share else f"{value:+.3f}"


def base_sentence(e: Explanation) -> str:
    """Say what is left of the explained number with every word removed; "" where nobody knows."""
    if e.base_value is None:
        return ""
    if isinstance(e.query, AnswerQuery):
        what = "answer" if e.query.part == e.query.text.strip() else "sentence"
        value = _scaled(e, e.base_value)
        return f"With every {e.feature_noun} removed, the {e.query.output_name} of the {what} is {value}."
    less = "against" if e.classes_are_opposite else "less that of"
    of = quote(e.target) + ("" if e.against is None else f" {less} {quote(e.against)}")
    return (
        f"With every {e.feature_noun} removed, the {e.scale} of {of} is {_scaled(e, e.base_value)}."
    )


def round_up(bound: float) -> str:
    """Return ``bound`` in two digits that are no less than it: what is said to hold must hold."""
    up = Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(float(bound)))
    return f"{float(up):.1e}"


def precision_sentence(e: Explanation) -> str:
    """Say how far the scores can be trusted as numbers."""
    if e.stderr is not None:
        how = "Learned" if e.method == LEARNED else "Sampled"
        return f"{how}: ± is one standard error."
    if e.bound == math.inf:
        return "No sampling; the error of the scores is not bounded."
    if e.bound is not None:
        return (
            f"No sampling; every score is within {round_up(e.bound)} of the exact value "
            f"({BOUND_KINDS[e.bound_kind]})."
        )
    return "No sampling error."


def merge_warnings(explanations: Iterable[Explanation]) -> list[str]:
    """Return every warning once; one that not all methods share names its methods."""
    several = list(explanations)
    methods: dict[str, list[str]] = {}
    for e in several:
        for warning in e.warnings:
            methods.setdefault(warning, []).append(e.label)
    return [
        warning if len(names) == len(several) else f"{', '.join(names)}: {warning}"
        for warning, names in methods.items()
    ]


def occurrences_sentence(e: Explanation) -> str:
    """Say of how much the score of a word speaks: of both texts of a pair, each word has one."""
    where = " in its own text" if e.parts else ""
    return f"A score counts all occurrences of its {e.feature_noun}{where}."


def anchor_sentence(e: Explanation, anchor: Anchor) -> str:
    """Say which words hold the prediction, and how firmly."""
    words = ", ".join(e.feature_labels[j] for j in anchor.features) or f"no {e.feature_noun} at all"
    low, high = anchor.precision_interval
    return (
        f"Anchor: {words} (precision {anchor.precision:.1%}, interval {low:.1%} to {high:.1%}, "
        f"coverage {anchor.coverage:.1%})."
    )


REFERENCES = ("lime", "shapley", "ig")


def pair_agreement(c: Comparison, i: int, j: int) -> tuple[float | None, int | None, int | None]:
    """Return rank correlation, opposite signs and shared top features of two methods.

    The first two are None where they are not defined (constant scores, scores without sign), all
    three where the scores of one method are nothing but rounding.
    """
    a = c.agreement
    return a.rank_correlation[i][j], a.sign_conflicts[i][j], a.top3_overlap[i][j]


def reference_index(c: Comparison) -> int:
    """Return the number of the method that the others are held against.

    LIME, Shapley or integrated gradients, which add up to something; else the first with signs.
    """
    methods, noise = [e.method for e in c], c.agreement.noise_methods
    with_signs = [j for j, e in enumerate(c) if e.signed and e.method not in noise]
    known = [methods.index(name) for name in REFERENCES if name in methods and name not in noise]
    return next(iter(known + with_signs), 0)


def least_similar_pairs(c: Comparison, count: int = 3) -> list[tuple[str, str]]:
    """Return the pairs of lowest rank correlation by name, and how far they are apart.

    Ties go to more opposite signs.
    """
    found = [(pair_agreement(c, i, j), i, j) for i, j in combinations(range(len(c)), 2)]
    known = [
        (ranks, -(signs or 0), shared, i, j)
        for (ranks, signs, shared), i, j in found
        if ranks is not None
    ]
    top, labels = min(TOP, len(c.explanations[0])), [e.label for e in c]
    return [
        (
            f"{labels[i]} and {labels[j]}",
            f"rank correlation {ranks:+.2f}, "
            + f"opposite signs {-signs}, " * bool(signs)
            + f"{shared} of the top {top} shared",
        )
        for ranks, signs, shared, i, j in sorted(known, key=lambda one: one[:2])[:count]
    ]


def unranked_sentence(c: Comparison) -> str | None:
    """Say which methods take no part, because their scores are nothing but rounding."""
    if not (noisy := [e for e in c if e.method in c.agreement.noise_methods]):
        return None
    return (
        f"Not ranked: {', '.join(e.label for e in noisy)}. No score there is larger than "
        f"{max(map(largest_score, noisy)):.0e}, which is rounding, and an order of rounding errors says "
        "nothing."
    )


def disagreement_table(c: Comparison, title: str) -> Table:
    """Return one row per method but the reference, whose name ends the ``title``."""
    rows, chosen, top = [], reference_index(c), min(TOP, len(c.explanations[0]))
    for i, e in enumerate(c):
        ranks, signs, shared = pair_agreement(c, i, chosen)
        shown = ranks, signs, None if shared is None else f"{shared} of {top}"
        weak = ranks is not None and ranks < 0.5, bool(signs), shared == 0
        marks = [Cell(x, "weak" * mark) for x, mark in zip(shown, weak, strict=True)]
        rows += [(e.label, *marks)] * (i != chosen)
    columns = (
        Column("method", max_letters=18),
        Column("rank correlation", "+.2f", short_heading="rank\ncorr.", missing="–"),
        Column("opposite signs", "d", short_heading="sign\nclashes", missing="–"),
        Column(
            f"top {pluralize(c.explanations[0].feature_noun)} shared",
            "s",
            short_heading="top 3\nshared",
            missing="–",
        ),
    )
    return Table(columns, rows, title=f"{title} {c.explanations[chosen].label}")


def score_table(
    several: Sequence[Explanation],
    labels: Sequence[str],
    order: Sequence[int],
    *,
    digits: int = 3,
    widest: int = 0,
) -> Table:
    """Return some features with their score in each explanation, and its standard error."""
    first = several[0]
    times = {j: f" ×{len(first.spans[j])}" if len(first.spans[j]) > 1 else "" for j in order}
    columns = [Column(first.feature_noun, is_user_text=True, max_letters=widest)]
    values: list[list[Any]] = [[first.feature_labels[j] + times[j] for j in order]]
    for e, label in zip(several, labels, strict=True):
        number = partial(format_number, peak=largest_score(e), digits=digits)
        sizes = relative_scores(e)
        columns.append(Column(label, partial(number, signed=e.signed)))
        marks = [select_hue(e, sizes[j]) if abs(sizes[j]) >= FAINTEST else "dim" for j in order]
        values.append([Cell(float(e.scores[j]), m) for j, m in zip(order, marks, strict=True)])
        if e.stderr is not None:
            columns.append(Column("±", partial(number, signed=False), "dim"))
            values.append([float(e.stderr[j]) for j in order])
    return Table(columns, list(zip(*values, strict=True)), left_out=len(first) - len(order))


def pair_table(e: Explanation, pairs: Pairs, count: int) -> Table:
    """Return the ``count`` strongest pairs of features."""
    number = partial(format_number, peak=float(np.abs(pairs.scores).max(initial=0.0)))
    columns = [Column("pair", is_user_text=True, fold=True), Column("score", number)]
    names = [" × ".join(e.feature_labels[j] for j in pair) for pair in pairs.features.tolist()]
    values = [names, pairs.scores.tolist()]
    if pairs.stderr is not None:
        unsigned = partial(number, signed=False)
        columns.append(Column("standard error", unsigned, "dim", short_heading="±"))
        values.append(pairs.stderr.tolist())
    rows = list(zip(*values, strict=True))
    return Table(columns, [rows[k] for k in strongest_indices(pairs.scores, count)])


# Why a bound holds: a proof, or words of this text that were removed and changed no others.
BOUND_KINDS = {"proven": "proven", "checked": "checked on this text, not proven"}
EXACTNESS = {
    "bound": "exact, with a proven bound",
    "checked": "exact, with a bound that is checked on each text and not proven",
    "exact": "as defined, without sampling",
    "estimated": "by quadrature, its error estimated",
    "fitted": "fitted to sampled values, with standard errors",
    "sampled": "sampled, with standard errors",
}
MODELS = {
    "hidden_states": "transformers that show their states",
    "tables": "the paper's classifier",
    "exact_game": "the paper's classifier and linear models of counted words",
    "attention": "models that show their attention",
    "attention_only": "models that mix tokens by attention alone",
    "gradients": "models with gradients",
    "lrp": "networks whose weights can be frozen",
    None: "any other model",
}


def describe_implementation(implementation: "ImplementationRow", *, has_alternatives: bool) -> str:
    """Return how exact an implementation is, and for which models it works."""
    exactness = EXACTNESS[implementation.exactness]
    return (
        f"{MODELS[implementation.needs]}: {exactness}"
        if has_alternatives or implementation.needs
        else exactness
    )
