"""Numbers, facts and notices of explanations in words, the same in terminal and page."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from functools import partial
from itertools import combinations
from typing import final

import numpy as np

from limelight.results import Anchor, Comparison, Explanation, Pairs
from limelight.results.table import Cell, Column, Table
from limelight.shapes import Float

SMALLEST_DECIMAL = 1e-4  # below it, powers of ten read better than rows of zeros


def written(value: float, *, peak: float, signed: bool = True, digits: int = 3) -> str:
    """Return ``value`` with as many decimals as give ``peak`` that many digits."""
    sign = "+" if signed else ""
    if peak and (peak < SMALLEST_DECIMAL or peak >= 10.0**6):
        return f"{value:{sign}.{digits - 1}e}"
    decimals = digits - 1 - math.floor(math.log10(peak)) if peak else digits - 1
    return f"{value:{sign}.{max(decimals, 0)}f}"


def aims(e: Explanation) -> str:
    """Return what the scores speak for, in quotes: “positive”, or “positive” against “negative”."""
    other = "" if e.against is None else f" against “{e.against}”"
    return f"“{e.target}”{other}"


def percent(probability: float) -> str:
    """Return a percentage that never rounds to certainty."""
    if 0.999 < probability < 1:
        return ">99.9%"
    return "<0.1%" if 0 < probability < 0.001 else f"{probability:.1%}"


def sureness(confidence: float, *, margin: bool) -> str:
    """Return how sure a model was, by a probability or, where it has none, by a margin."""
    return f"by a margin of {confidence:.3g}" if margin else f"at {percent(confidence)}"


def minus(number: str) -> str:
    """Return the number with a true minus sign, for print; terminals keep the hyphen."""
    return number.replace("-", "−")


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """What the model says about one class; the most probable one is ``chosen``.

    ``logit`` is what the model answered, and without a probability only a score.
    """

    name: str
    logit: float | None
    probability: float | None
    chosen: bool


def outcomes(e: Explanation) -> list[Outcome]:
    """Return the classes with logits and probabilities; one logit stands for two classes."""
    names, logits = list(e.prediction), np.array(list(e.prediction.values()), dtype=np.float64)
    if not names:
        return []
    if e.link == "none":
        return _scored(e, names, logits)
    if len(names) > 1:
        if e.link == "sigmoid":  # each class by its own log-odds
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
    return [
        Outcome(names[0], logit, up, logit > 0),
        Outcome(_other(e, names[0]), None, 1 - up, logit <= 0),
    ]


def _scored(e: Explanation, names: list[str], scores: Float[np.ndarray, " C"]) -> list[Outcome]:
    """Return the classes of a model without probabilities, or the one thing that it scores."""
    if len(names) == 1 and len(e.classes) != 1:
        score = float(scores[0])
        return [
            Outcome(names[0], score, None, score > 0),
            Outcome(_other(e, names[0]), None, None, score <= 0),
        ]
    best = int(scores.argmax())
    return [
        Outcome(name, float(score), None, j == best)
        for j, (name, score) in enumerate(zip(names, scores, strict=True))
    ]


def _other(e: Explanation, name: str) -> str:
    others = [other for other in e.classes if other != name]
    return others[0] if len(others) == 1 else f"not {name}"


def said(e: Explanation) -> tuple[str, str]:
    """Return the class that the model chose, and how sure it is: ("positive", " (77.4%).")."""
    found = outcomes(e)
    chosen = next((outcome for outcome in found if outcome.chosen), None)
    if chosen is None:
        return "nothing", "."
    if len(found) == 1:
        return chosen.name, f" {chosen.logit:+.3f}."
    sure = answer(chosen)
    return chosen.name, f" ({sure})." if sure else "."


def answer(outcome: Outcome) -> str:
    """Return how sure the model is, as "77.4%, logit +1.234", or the score it gave."""
    if outcome.probability is None:
        return "" if outcome.logit is None else f"score {outcome.logit:+.3f}"
    logit = "" if outcome.logit is None else f", logit {outcome.logit:+.3f}"
    return percent(outcome.probability) + logit


def rounded_up(bound: float) -> str:
    """Return ``bound`` in two digits that are no less than it: what is said to hold must hold."""
    up = Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(float(bound)))
    return f"{float(up):.1e}"


def precision_sentence(e: Explanation) -> str:
    """Say how far the scores can be trusted as numbers."""
    if e.stderr is not None:
        return "Sampled: ± is one standard error."
    if e.bound == math.inf:
        return "No sampling; the error of the scores is not bounded."
    if e.bound is not None:
        return (
            f"No sampling; every score is within {rounded_up(e.bound)} of the exact value (proven)."
        )
    return "No sampling error."


def notices(explanations: Iterable[Explanation]) -> list[str]:
    """Return every notice once; one that not all methods share names its methods."""
    several = list(explanations)
    methods: dict[str, list[str]] = {}
    for e in several:
        for notice in e.notices:
            methods.setdefault(notice, []).append(e.label)
    return [
        notice if len(names) == len(several) else f"{', '.join(names)}: {notice}"
        for notice, names in methods.items()
    ]


def all_occurrences(e: Explanation) -> str:
    """Say of how much the score of a word speaks: of both texts of a pair, each word has one."""
    where = " in its own text" if e.parts else ""
    return f"A score counts all occurrences of its word{where}."


def anchor_sentence(e: Explanation, anchor: Anchor) -> str:
    """Say which words hold the prediction, and how firmly."""
    words = ", ".join(e.names[j] for j in anchor.features) or "no word at all"
    low, high = anchor.precision_interval
    return (
        f"Anchor: {words} (precision {anchor.precision:.1%}, interval {low:.1%} to {high:.1%}, "
        f"coverage {anchor.coverage:.1%})."
    )


REFERENCES = ("lime", "shapley", "ig")
TOP = 3


@final
@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two methods: rank correlation, features of opposite sign, features in both top threes.

    The first two are None where they are not defined (constant scores, scores without sign), all
    three where the scores of one method are nothing but rounding.
    """

    first: str
    second: str
    rank_correlation: float | None
    sign_conflicts: int | None
    shared_top: int | None
    top: int

    @property
    def sentence(self) -> str:
        """The same in words."""
        parts = []
        if self.rank_correlation is not None:
            parts.append(f"rank correlation {self.rank_correlation:+.2f}")
        if self.sign_conflicts:
            words = "word" if self.sign_conflicts == 1 else "words"
            parts.append(f"{self.sign_conflicts} {words} of opposite sign")
        if self.shared_top is not None:
            parts.append(f"{self.shared_top} of the top {self.top} shared")
        return ", ".join(parts)


def reference(c: Comparison) -> int:
    """Return the number of the method that the others are held against.

    LIME, Shapley or integrated gradients, which add up to something; else the first with signs.
    """
    methods, noise = [e.method for e in c], c.agreement.noise
    with_signs = [j for j, e in enumerate(c) if e.signed and e.method not in noise]
    known = [methods.index(name) for name in REFERENCES if name in methods and name not in noise]
    return next(iter(known + with_signs), 0)


def against_reference(c: Comparison) -> list[Disagreement]:
    """Return one row per method but the reference, in the order of the comparison."""
    chosen = reference(c)
    return [_row(c, i, chosen) for i in range(len(c.explanations)) if i != chosen]


def unranked(c: Comparison) -> str | None:
    """Say which methods take no part, because their scores are nothing but rounding."""
    labels = [e.label for e in c if e.method in c.agreement.noise]
    if not labels:
        return None
    peak = max(float(abs(e.scores).max()) for e in c if e.method in c.agreement.noise)
    return (
        f"Not ranked: {', '.join(labels)}. No score there is larger than {peak:.0e}, which is "
        "rounding, and an order of rounding errors says nothing."
    )


def strongest_disagreements(c: Comparison, count: int = 3) -> list[Disagreement]:
    """Return the pairs of lowest rank correlation; ties go to the more sign conflicts."""
    rows = [_row(c, i, j) for i, j in combinations(range(len(c.explanations)), 2)]
    known = [row for row in rows if row.rank_correlation is not None]
    known.sort(key=lambda row: (row.rank_correlation, -(row.sign_conflicts or 0)))
    return known[:count]


def _row(c: Comparison, i: int, j: int) -> Disagreement:
    a, features = c.agreement, c.explanations[0].features
    return Disagreement(
        c.explanations[i].label,
        c.explanations[j].label,
        a.rank_correlation[i][j],
        a.sign_conflicts[i][j],
        a.top3_overlap[i][j],
        min(TOP, len(features)),
    )


def disagreement_table(c: Comparison, title: str) -> Table:
    """Return one row per method but the reference, whose name ends the ``title``."""
    rows = []
    for one in against_reference(c):
        ranks, signs, shared = one.rank_correlation, one.sign_conflicts, one.shared_top
        of = None if shared is None else f"{shared} of {one.top}"
        rows.append(
            (
                one.first,
                Cell(ranks, "weak" if ranks is not None and ranks < 0.5 else ""),
                Cell(signs, "weak" if signs else ""),
                Cell(of, "weak" if shared == 0 else ""),
            )
        )
    columns = (
        Column("method", widest=18),
        Column("rank correlation", "+.2f", short="rank\ncorr.", missing="–"),
        Column("opposite signs", "d", short="sign\nclashes", missing="–"),
        Column("top words shared", "s", short="top 3\nshared", missing="–"),
    )
    return Table(columns, rows, title=f"{title} {c.explanations[reference(c)].label}")


def pair_table(e: Explanation, pairs: Pairs, count: int) -> Table:
    """Return the ``count`` strongest pairs of features."""
    number = partial(written, peak=float(np.abs(pairs.scores).max(initial=0.0)))
    columns = [Column("pair", words=True, fold=True), Column("score", number)]
    names = [" × ".join(e.names[j] for j in pair) for pair in pairs.features.tolist()]
    values = [names, pairs.scores.tolist()]
    if pairs.stderr is not None:
        unsigned = partial(number, signed=False)
        columns.append(Column("standard error", unsigned, "dim", short="±"))
        values.append(pairs.stderr.tolist())
    rows = list(zip(*values, strict=True))
    return Table(columns, [rows[k] for k in strongest(pairs.scores, count)])


def strongest(scores: Float[np.ndarray, " d"], count: int) -> list[int]:
    """Return the places of the ``count`` scores of largest size, the largest first."""
    return np.argsort(-np.abs(scores), kind="stable")[:count].tolist()
