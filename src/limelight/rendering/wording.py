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
from limelight.results import (
    Anchor,
    Comparison,
    Counterfactual,
    Explanation,
    Pairs,
    SpanExplanations,
)
from limelight.results.comparison import TOP
from limelight.results.differences import encode_ranges
from limelight.results.explanation import TextFeatures
from limelight.results.table import Cell, Column, Table
from limelight.text import AnswerQuery, pluralize, truncate_line

MAX_PROMPT = 200  # characters of a question or of a prompt in a sentence

if TYPE_CHECKING:  # these modules define dozens of classes, which slow the import
    from limelight.results.judgment import Interval, JudgedMethod, Judgment
    from limelight.results.method_table import ImplementationRow

LEARNED = "learned"  # by a network, whose errors were measured on held-out texts
ONE_SIDED = ("generic-attention",)  # scores without a sign that show only evidence for the class
ROUNDED_SUM = 2e-3  # largest distance from 1 of a sum of probabilities, which models round to 1e-3
SMALLEST_DECIMAL = 1e-4  # below it, powers of ten read better than rows of zeros


def format_number(value: float, *, peak: float, signed: bool = True, digits: int = 3) -> str:
    """Format ``value`` with the number of decimals that shows ``peak`` with ``digits`` digits.

    Parameters
    ----------
    value
        The number to format.
    peak
        The number that gets ``digits`` significant digits, such as the largest score.
    signed
        Whether to write a plus sign.
    digits
        The number of significant digits of ``peak``.

    Returns
    -------
    The number as text.
    """
    sign, value = "+" if signed else "", value + 0.0  # the sum turns -0.0 into +0.0
    if peak and (peak < SMALLEST_DECIMAL or peak >= 10.0**6):
        return f"{value:{sign}.{digits - 1}e}"
    decimals = digits - 1 - math.floor(math.log10(peak)) if peak else digits - 1
    return f"{value:{sign}.{max(decimals, 0)}f}"


def format_score(e: Explanation, j: int, *, digits: int = 3) -> str:
    """Format the score of one feature with the number of decimals of the largest score."""
    return format_number(float(e.scores[j]), peak=largest_score(e), signed=e.signed, digits=digits)


def format_stderr(e: Explanation, j: int) -> str:
    """Format the standard error of one feature, or return "" if there is none."""
    if e.stderr is None:
        return ""
    return format_number(float(e.stderr[j]), peak=largest_score(e), signed=False)


def quoted_target(e: Explanation) -> str:
    """Return the target in quotes: “positive”, or “positive” against “negative”."""
    if isinstance(e.query, AnswerQuery):
        return "the answer"
    return quote(e.target) if e.against is None else f"{quote(e.target)} against {quote(e.against)}"


def query_phrase(e: Explanation) -> str:
    """Describe the query, as in " at “Jordan”", or return "" without a query."""
    return "" if e.query is None else f" {e.query.describe(e.text)}"


def input_noun(e: Explanation) -> str:
    """Return the noun for the input, "text" or "image"."""
    return "text" if e.image is None else "image"


def span_labels(
    explanations: SpanExplanations, sentence: str = "sentence {} of the answer"
) -> list[str]:
    """Return a label for each span: "ORG “Jordan”", or ``sentence`` with its number, from 1."""
    if explanations.answer is not None:
        return [sentence.format(number) for number in range(1, len(explanations) + 1)]
    return [f"{e.target}{query_phrase(e).removeprefix(' at')}" for e in explanations]


def labeled_parts(explanations: SpanExplanations) -> Iterator[tuple[str, int | None, str]]:
    """Yield the parts of a text or answer, each with the number and the label of its span.

    The number is None and the label empty between spans. A span that overlaps the previous span
    is left out.
    """
    position, answer = 0, explanations.answer
    text = explanations.text if answer is None else answer.text
    for number, e in enumerate(explanations):
        if e.query is not None and e.query.start >= position:
            yield text[position : e.query.start], None, ""
            label = (
                e.target if answer is None else f"{answer.output_name} {e.prediction[e.target]:.3f}"
            )
            yield text[e.query.start : e.query.end], number, label
            position = e.query.end
    yield text[position:], None, ""


def protected_sentence(explanations: SpanExplanations) -> str:
    """Say which words have scores, or which outputs the scores of an answer explain."""
    if explanations.answer is not None:
        output_name = explanations.answer.output_name
        return f"Scores are of the {output_name} of each sentence, given those before it."
    is_protected = explanations[0].settings.get("protect_span", True)
    return "The words of all spans are protected: scores are of the others." if is_protected else ""


def quote(name: str) -> str:
    """Return the name of a class in quotes."""
    return f"“{name}”"


def scale_note(e: Explanation, *, zero_to: str = "0 to ") -> str:
    """Format the largest score, which has the full color."""
    if not (peak := largest_score(e)):
        return "all 0"
    return f"{'up to ' if e.signed else zero_to}{format_number(peak, peak=peak, signed=False)}"


def hue_meanings(explanations: Sequence[Explanation]) -> dict[Hue, str]:
    """Return the meaning of each color in these explanations."""
    target, other = explanations[0].target, explanations[0].against
    if len({e.target for e in explanations}) > 1:  # of several spans, each has its own
        target = "the tag of the span"
    meanings: dict[Hue, str] = {}
    if isinstance(answer := explanations[0].query, AnswerQuery):  # a number, which is no class
        meanings = {"for": f"raises the {answer.output_name}", "against": "lowers it"}
    elif any(e.signed for e in explanations):
        meanings["for"] = f"for {target}"
        meanings["against"] = f"against {target}" if other is None else f"for {other}"
    if not all(e.signed for e in explanations):
        meanings["neutral"] = "size only, no sign"
    return meanings


def format_percent(probability: float) -> str:
    """Return a percentage that never rounds to certainty."""
    if 0.999 < probability < 1:
        return ">99.9%"
    return "<0.1%" if 0 < probability < 0.001 else f"{probability:.1%}"


def confidence_phrase(confidence: float, *, margin: bool) -> str:
    """Say how confident a model was, by its probability or by its margin."""
    return f"by a margin of {confidence:.3g}" if margin else f"at {format_percent(confidence)}"


def format_share(count: int, total: int, low: float, high: float) -> str:
    """Format a share of texts and its interval: "88.0% [86.1%, 89.7%]". A total of 0 gives 0.0%.

    Parameters
    ----------
    count, total
        The share is ``count / total``.
    low, high
        The ends of its interval.

    Returns
    -------
    The share as text, in percent.
    """
    return f"{format_percent(count / total if total else 0.0)} [{low:.1%}, {high:.1%}]"


def share_interval(m: "JudgedMethod") -> "Interval":
    """Return the interval of a share, or the share as both ends if it has no interval."""
    return m.interval or (m.share or 0.0, m.share or 0.0)


def lowest_share(j: "Judgment") -> float:
    """Return the lowest end of the intervals of all shares, but at most 0, which is chance."""
    return min([0.0, *(share_interval(m)[0] for m in j.methods if m.share is not None)])


def typographic_minus(number: str) -> str:
    """Replace hyphens in a number by minus signs, for pages. Terminals keep the hyphen."""
    return number.replace("-", "−")


def typeset_sentence(sentence: str) -> str:
    """Replace hyphens before numbers by minus signs. Hyphens in names stay."""
    return re.sub(r"(?<=[ (\[])-(?=[0-9])", "−", sentence)


class ClassOutcome(NamedTuple):
    """Output and probability of one class. ``chosen`` marks the most probable class.

    If each label is decided separately, ``chosen`` marks all labels above 50 %, possibly none.
    For two classes ``logit`` is the log-odds. Without a probability it is only a score.
    """

    name: str
    logit: float | None
    probability: float | None
    chosen: bool


def class_outcomes(e: Explanation | Counterfactual) -> list[ClassOutcome]:
    """Return the outcomes of all classes. A single output gives the outcomes of two classes.

    A model with the link "none" has no probabilities, and may have only one outcome.
    """
    names, outputs = list(e.prediction), np.array(list(e.prediction.values()), dtype=np.float64)
    if not names:
        return []
    linked = e.link != "none"
    if len(names) == 1 and (linked or len(e.classes) != 1):
        output = float(outputs[0])
        up, down = (0.5 * (1 + math.tanh(x / 2)) if linked else None for x in (output, -output))
        other_names = [other_name for other_name in e.classes if other_name != names[0]]
        other_name = other_names[0] if len(other_names) == 1 else f"not {names[0]}"
        return [
            ClassOutcome(names[0], output, up, output > 0),
            ClassOutcome(other_name, None, down, output <= 0),
        ]
    chances: list[float | None] = [None] * len(names)
    if linked:
        chances = class_probabilities(outputs[None], e.link)[0].tolist()
    chosen = outputs > 0 if _has_labels(e) else np.arange(len(names)) == outputs.argmax()
    logits = class_weights(len(names), len(names), e.link) @ outputs
    rows = zip(names, logits.tolist(), chances, chosen.tolist(), strict=True)
    return [ClassOutcome(*row) for row in rows]


def reader_outcomes(e: Explanation) -> list[ClassOutcome]:
    """Return the outcomes of all classes. The outcome of an answer is named after its output."""
    name = e.query.output_name if isinstance(e.query, AnswerQuery) else None
    return [outcome._replace(name=name or outcome.name) for outcome in class_outcomes(e)]


def _has_labels(e: Explanation | Counterfactual) -> bool:
    """Return whether each class is decided separately, so that none or more may be chosen.

    Exclusive classes may have log-odds too, but their probabilities add up to 1.
    """
    if e.link != "sigmoid" or len(e.prediction) < 2:
        return False
    outputs = np.array([list(e.prediction.values())], dtype=np.float64)
    return abs(float(class_probabilities(outputs, e.link).sum()) - 1) > ROUNDED_SUM


def prediction_phrase(e: Explanation) -> tuple[str, str]:
    """Return the predicted class and the rest of the sentence: ("positive", " (77.4%).")."""
    outcomes = class_outcomes(e)
    if not outcomes:
        return "nothing", "."
    if _has_labels(e):
        return _labels_phrase(outcomes)
    chosen = next(outcome for outcome in outcomes if outcome.chosen)
    if len(outcomes) == 1:
        return chosen.name, f" {chosen.logit:+.3f}."
    if chosen.probability is not None:
        return chosen.name, f" ({format_percent(chosen.probability)})."
    return chosen.name, "." if chosen.logit is None else f" (score {chosen.logit:+.3f})."


def _labels_phrase(outcomes: Sequence[ClassOutcome]) -> tuple[str, str]:
    """List the labels above 50 %, most probable first, or name the highest label."""
    sorted_outcomes = sorted(outcomes, key=lambda outcome: -(outcome.probability or 0.0))
    shares = [format_percent(outcome.probability or 0.0) for outcome in sorted_outcomes]
    labels = [
        f"{outcome.name} ({p})"
        for outcome, p in zip(sorted_outcomes, shares, strict=True)
        if outcome.chosen
    ]
    if not labels:
        return "none of its labels", f" (highest: {sorted_outcomes[0].name} {shares[0]})."
    return " and ".join(filter(None, [", ".join(labels[:-1]), labels[-1]])), "."


Marks = Mapping[Hue, str]
COLORS: Marks = {"for": "green {}", "against": "orange {}", "neutral": "blue {}"}
SIGNS: Marks = {"for": "[+] {}", "against": "[-] {}", "neutral": "{} with a number"}


def headline(explanations: Sequence[Explanation], marks: Marks = COLORS) -> tuple[str, str, str]:
    """Return the sentence above a view: the words before the predicted class, the class, the rest.

    "The model predicts **negative** (95.8%). Scores are for “positive”, the second class (logit
    −3.13): green words push towards it, orange words towards “negative”." ``marks`` describe how
    the view marks words for the target, words against it, and words without a sign.
    """
    e = explanations[0]
    marks = {side: mark.format(pluralize(e.feature_noun)) for side, mark in marks.items()}
    if isinstance(e.query, AnswerQuery):
        before, name, after = _answer_headline(explanations, e.query)
    else:
        before = (
            f"At{query_phrase(e).removeprefix(' at')} the model predicts "
            if e.query
            else "The model predicts "
        )
        name, confidence = prediction_phrase(e)
        after = (
            f"{confidence} Scores are for {quoted_target(e)}{_class_role(e)}{_describe_value(e)}"
        )
    return before, name, f"{after}{_explain_marks(explanations, marks)}"


def _class_role(e: Explanation) -> str:
    """Return ", the predicted class", ", the second class" or "" for the target."""
    if e.query is not None or e.against is not None or _is_number(e) or _has_labels(e):
        return ""
    if any(outcome.chosen and outcome.name == e.target for outcome in class_outcomes(e)):
        return ", the predicted class"
    is_second = len(e.classes) == 2 and e.target == e.classes[1]
    return ", the second class" if is_second else ""


def target_hint(e: Explanation) -> str:
    """Return a sentence about the choice of the class if another class than the predicted one
    is explained, or "".
    """
    is_other = _class_role(e) == ", the second class"
    return "Use --target (target= in Python) to change this." if is_other else ""


def _answer_headline(
    explanations: Sequence[Explanation], query: AnswerQuery
) -> tuple[str, str, str]:
    """Return the headline for an answer: "The model writes **Paris.** Scores say …"."""
    e, sentence = explanations[0], query.part
    before = "The model writes " if query.is_generated else "The answer is "
    number = ", ".join(f"{value:.3f}" for value in e.prediction.values())
    output_phrase = f"its {query.output_name} ({number})"
    if any(explanation.query != query for explanation in explanations):  # more than one sentence
        sentence = query.text.strip()
        output_phrase = f"the {query.output_name} of each sentence of it, given those before"
    elif sentence != query.text.strip():
        before = (
            f"A sentence of {'what the model writes' if query.is_generated else 'the answer'} is "
        )
    end = "" if sentence[-1] in ".!?…" else "."
    return (
        before,
        f"“{sentence}”",
        f"{end} Scores say how much each {e.feature_noun} raises {output_phrase}",
    )


def _explain_marks(explanations: Sequence[Explanation], marks: Marks) -> str:
    """Explain the marks of the words, as the end of the headline."""
    e = explanations[0]
    unsigned = f"{marks['neutral']} {_explain_unsigned(explanations)}"
    if not any(explanation.signed for explanation in explanations):
        return f", without a sign: {unsigned}."
    for_meaning, against_meaning = "raise it", "lower it"
    if not _is_number(e):
        other = e.against or opposite_class(e)
        target = "it" if e.against is None else quote(e.target)
        for_meaning, against_meaning = (
            f"push towards {target}",
            f"towards {quote(other)}" if other else f"away from {target}",
        )
    sentence = f": {marks['for']} {for_meaning}, {marks['against']} {against_meaning}."
    if all(explanation.signed for explanation in explanations):
        return sentence
    return f"{sentence} Where a method gives no sign, {unsigned}."


def _explain_unsigned(explanations: Sequence[Explanation]) -> str:
    """Explain scores without a sign."""
    one_sided = {
        explanation.method in ONE_SIDED for explanation in explanations if not explanation.signed
    }
    helps, harms = "push towards it", "pushes away from it"
    if _is_number(explanations[0]):
        helps, harms = "raise it", "lowers it"
    if one_sided == {True}:
        return f"{helps}; what {harms} is not seen"
    exception = f"; with generic attention they {helps}, and what {harms} is not seen"
    return f"matter, for or against it{exception if True in one_sided else ''}"


def _is_number(e: Explanation) -> bool:
    """Return whether the model predicts a number, as a regression does, and no class."""
    return len(e.prediction) == len(e.classes) == 1 and e.link == "none"


def opposite_class(e: Explanation) -> str | None:
    """Return the class that gains whenever the target loses, or None if there is none.

    This holds for two classes with opposite outputs: log-odds, or probabilities that add up to 1.
    It does not hold for two separate scores.
    """
    outcomes = class_outcomes(e)
    other_names = [outcome.name for outcome in outcomes if outcome.name != e.target]
    if len(outcomes) != 2 or len(other_names) != 1 or e.against is not None:
        return None
    is_log_odds = e.link == "sigmoid" and abs(sum(e.prediction.values())) < 1e-6
    sums_to_one = e.link == "softmax" and e.scale == "probability"
    return other_names[0] if e.classes_are_opposite or is_log_odds or sums_to_one else None


def _describe_value(e: Explanation) -> str:
    """Return the explained number in parentheses, or "" if it is unknown or shown already."""
    value = e.explained_value
    if value is None or _is_number(e):  # the headline already contains the predicted number
        return ""
    plural = {"probability": "probabilities"}.get(e.scale, f"{e.scale}s")
    is_single_output = e.against is None or e.classes_are_opposite
    description = e.scale if is_single_output else f"difference of {plural}"
    return f" ({description} {_format_output(e, value)})"


def _format_output(e: Explanation, value: float) -> str:
    """Format an output as a percentage, or as a number with a sign."""
    is_share = e.scale == "probability" and e.against is None
    return format_percent(value) if is_share else f"{value:+.3f}"


def base_sentence(e: Explanation) -> str:
    """State the output with every feature removed, or return "" if it is unknown."""
    if e.base_value is None:
        return ""
    if isinstance(e.query, AnswerQuery):
        noun = "answer" if e.query.part == e.query.text.strip() else "sentence"
        output = f"{e.query.output_name} of the {noun}"
    else:
        conjunction = "against" if e.classes_are_opposite else "minus"
        reference = "" if e.against is None else f" {conjunction} {quote(e.against)}"
        output = f"{e.scale} of {quote(e.target)}{reference}"
    value = _format_output(e, e.base_value)
    loss = ""
    if isinstance(e.query, AnswerQuery) and e.explained_value is not None:
        difference = e.explained_value - e.base_value
        comparison = "lower" if difference > 0 else "higher"
        loss = f", {abs(difference):.3f} {comparison} than with them"
    return f"Baseline (all {pluralize(e.feature_noun)} removed): {output} {value}{loss}."


def prompt_sentence(result: TextFeatures) -> str:
    """State the question or the prompt before an answer, and the replacement of features.

    For other results, return "". The text of a conversation is its prompt.
    """
    query = result.query
    if not isinstance(query, AnswerQuery):
        return ""
    sentences = []
    if query.question:
        sentences.append(f"The question is “{truncate_line(query.question, MAX_PROMPT)}”.")
    if query.prompt:
        before, _, after = query.prompt.partition(result.text.strip())
        sentences.append(
            f"The prompt is “{truncate_line(f'{before}{{text}}{after}', MAX_PROMPT)}”."
        )
    replacement = str(result.settings.get("replacement", "delete"))
    change = "deleted" if replacement == "delete" else f"replaced by {quote(replacement)}"
    return " ".join([*sentences, f"Removed {pluralize(result.feature_noun)} are {change}."])


def round_up(bound: float) -> str:
    """Format ``bound`` with two digits, rounded up so that the printed bound is also true."""
    rounded = Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(float(bound)))
    return f"{float(rounded):.1e}"


def precision_sentence(e: Explanation) -> str:
    """Say how far the scores can be trusted as numbers."""
    if e.stderr is not None:
        verb = "Learned" if e.method == LEARNED else "Sampled"
        return f"{verb}: ± is one standard error."
    if e.bound == math.inf:
        return "Computed without sampling, with an error that is not bounded."
    if e.bound is not None:
        return f"Exact: error at most {round_up(e.bound)} ({BOUND_KINDS[e.bound_kind]})."
    return "Computed without sampling."


_MAX_RANGES = 4  # of sizes in a sentence


def ranks_sentence(e: Explanation) -> str:
    """Say which sets of the strongest features are certain, or return "" if nothing is known."""
    if e.certain_tops is None or len(e) < 2:
        return ""
    is_sampled = e.stderr is not None and bool(e.stderr.any())
    end = " (95 % confidence)." if is_sampled else "."
    nouns = pluralize(e.feature_noun)
    ranges = encode_ranges(e.certain_tops)
    if not ranges:
        return f"It is not certain which {nouns} are the strongest{end}"
    if ranges == [(1, len(e) - 1)]:
        return f"The ranks of all {nouns} are certain{end}"
    if ranges == [(1, 1)]:
        return f"The strongest {e.feature_noun} is certain{end}"
    sizes = [str(first) if first == last else f"{first} to {last}" for first, last in ranges]
    # A shorter list is true as well.
    del sizes[_MAX_RANGES - 1 : -1]
    listed = " and ".join(filter(None, [", ".join(sizes[:-1]), sizes[-1]]))
    return f"The top {listed} {nouns} are certain{end}"


def merge_warnings(explanations: Iterable[Explanation]) -> list[str]:
    """Return each warning once, with the names of its methods unless all methods have it."""
    explanations = list(explanations)
    methods: dict[str, list[str]] = {}
    for e in explanations:
        for warning in e.warnings:
            methods.setdefault(warning, []).append(e.label)
    return [
        warning if len(names) == len(explanations) else f"{', '.join(names)}: {warning}"
        for warning, names in methods.items()
    ]


def occurrences_sentence(e: Explanation) -> str:
    """Say that a score counts all occurrences of its feature, within its own text in a pair."""
    limit = " in each text" if e.parts else ""
    return f"Repeated {pluralize(e.feature_noun)} share one score{limit}."


ANCHOR_GUARANTEES = {
    "sufficient": "",
    "minimal": ", and no {noun} of the anchor can be left out",
    "smallest": ", and no smaller anchor exists",
}


def anchor_sentence(e: Explanation, anchor: Anchor) -> str:
    """Name the words of an anchor, with its guarantee or its precision, and its coverage."""
    words = ", ".join(e.feature_labels[j] for j in anchor.features) or f"no {e.feature_noun} at all"
    low, high = anchor.precision_interval
    if anchor.guarantee is not None:
        return (
            f"Anchor: {words}. The prediction stays whatever else is removed"
            f"{ANCHOR_GUARANTEES[anchor.guarantee].format(noun=e.feature_noun)}. "
            f"{anchor.coverage:.1%} of all masks keep the anchor."
        )
    return (
        f"Anchor: {words} (precision {anchor.precision:.1%}, interval {low:.1%} to {high:.1%}, "
        f"coverage {anchor.coverage:.1%})."
    )


REFERENCES = ("lime", "shapley", "ig")


def pair_agreement(c: Comparison, i: int, j: int) -> tuple[float | None, int | None, int | None]:
    """Return rank correlation, number of opposite signs and shared top features of two methods.

    The first two are None if they are not defined (constant scores, scores without sign). All
    three are None if the scores of one method are only rounding errors.
    """
    agreement = c.agreement
    return (
        agreement.rank_correlation[i][j],
        agreement.sign_conflicts[i][j],
        agreement.top3_overlap[i][j],
    )


def reference_index(c: Comparison) -> int:
    """Return the index of the method that the other methods are compared with.

    This is LIME, Shapley values or integrated gradients, whose scores add up to a known total, or
    else the first method with signs.
    """
    methods, noise = [e.method for e in c], c.agreement.noise_methods
    with_signs = [j for j, e in enumerate(c) if e.signed and e.method not in noise]
    references = [
        methods.index(name) for name in REFERENCES if name in methods and name not in noise
    ]
    return next(iter(references + with_signs), 0)


def least_similar_pairs(c: Comparison, count: int = 3) -> list[tuple[str, str]]:
    """Name the ``count`` pairs of methods with the lowest rank correlation, with their agreement.

    Among ties, pairs with more opposite signs come first.
    """
    agreements = [(pair_agreement(c, i, j), i, j) for i, j in combinations(range(len(c)), 2)]
    ranked_pairs = [
        (ranks, -(signs or 0), shared, i, j)
        for (ranks, signs, shared), i, j in agreements
        if ranks is not None
    ]
    top, labels = min(TOP, len(c.explanations[0])), [e.label for e in c]
    return [
        (
            f"{labels[i]} and {labels[j]}",
            f"rank correlation {ranks:+.2f}, "
            + f"opposite signs {-signs}, " * bool(signs)
            + f"{shared} of the top {top} in common",
        )
        for ranks, signs, shared, i, j in sorted(ranked_pairs, key=lambda row: row[:2])[:count]
    ]


def unranked_sentence(c: Comparison) -> str | None:
    """Name the methods that are not ranked because their scores are only rounding errors."""
    if not (unranked := [e for e in c if e.method in c.agreement.noise_methods]):
        return None
    return (
        f"Not ranked: {', '.join(e.label for e in unranked)}. All scores are at most "
        f"{max(map(largest_score, unranked)):.0e}, which is rounding."
    )


def disagreement_table(c: Comparison, title: str) -> Table:
    """Compare each method with the reference method, whose name ends the title."""
    rows, reference, top = [], reference_index(c), min(TOP, len(c.explanations[0]))
    for i, e in enumerate(c):
        ranks, signs, shared = pair_agreement(c, i, reference)
        values = ranks, signs, None if shared is None else f"{shared} of {top}"
        weak = ranks is not None and ranks < 0.5, bool(signs), shared == 0
        marks = [Cell(x, "weak" * mark) for x, mark in zip(values, weak, strict=True)]
        rows += [(e.label, *marks)] * (i != reference)
    columns = (
        Column("method", max_letters=18),
        Column("rank correlation", "+.2f", short_heading="rank\ncorr.", missing="–"),
        Column("opposite signs", "d", short_heading="opposite\nsigns", missing="–"),
        Column(
            f"top {pluralize(c.explanations[0].feature_noun)} in common",
            "s",
            short_heading="top-3\noverlap",
            missing="–",
        ),
    )
    return Table(columns, rows, title=f"{title} {c.explanations[reference].label}")


def score_table(
    explanations: Sequence[Explanation],
    labels: Sequence[str],
    order: Sequence[int],
    *,
    digits: int = 3,
    widest: int = 0,
) -> Table:
    """Tabulate the features ``order`` with their scores and standard errors in each explanation.

    Parameters
    ----------
    explanations
        Explanations of the same features.
    labels
        Heading of each explanation.
    order
        Indices of the features that get a row.
    digits
        Significant digits of the largest score.
    widest
        Largest number of letters in the column of features, or 0 for any number.

    Returns
    -------
    The table, which also counts the features without a row.
    """
    first = explanations[0]
    counts = {j: f" ×{len(first.spans[j])}" if len(first.spans[j]) > 1 else "" for j in order}
    columns = [Column(first.feature_noun, is_user_text=True, max_letters=widest)]
    values: list[list[Any]] = [[first.feature_labels[j] + counts[j] for j in order]]
    for e, label in zip(explanations, labels, strict=True):
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
    """Tabulate the ``count`` strongest pairs of features."""
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


# The reason for a bound: a proof, or a check that removes words of this text.
BOUND_KINDS = {
    "proven": "proven bound",
    "checked": "bound checked on this text, not proven",
}
EXACTNESS = {
    "bound": "exact, with a proven bound",
    "checked": "exact, with a bound that is checked on each text and not proven",
    "exact": "as defined, without sampling",
    "estimated": "by quadrature, with an estimated error",
    "fitted": "fitted to sampled values, with standard errors",
    "sampled": "sampled, with standard errors",
}
MODELS = {
    "hidden_states": "transformers that return hidden states",
    "tables": "AttentionClassifier",
    "refilling": "AttentionClassifier, replacement 'refill'",
    "exact_game": "AttentionClassifier and linear bag-of-words models",
    "attention": "models that return attention weights",
    "attention_only": "models in which only attention mixes tokens",
    "gradients": "models with gradients",
    "lrp": "networks whose operations all have an LRP rule",
    "agreement": "chat APIs, with agreement=…",
    None: "any other model",
}


def describe_implementation(implementation: "ImplementationRow", *, has_alternatives: bool) -> str:
    """Say how exact an implementation is and for which models it works."""
    exactness = EXACTNESS[implementation.exactness]
    return (
        f"{MODELS[implementation.needs]}: {exactness}"
        if has_alternatives or implementation.needs
        else exactness
    )
