"""What people marked in texts, and how well and how early scores find it."""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from limelight.errors import InputError
from limelight.judging.orders import Groups, tied_groups
from limelight.results.judgement import MarkedText, Values
from limelight.shapes import Bool, Float, Int
from limelight.text import Features, Span, one_line

# Characters that one person marked: spans in their order, none touching another's inside.
Rationale = tuple[Span, ...]


class Marks(NamedTuple):
    """The places of a text's words in their order, and which of them each annotator marked.

    ``word`` is the word of each place, ``times`` how many places each word has, ``inside`` which
    places a rationale touches, ``runs`` each of its spans as first and last + 1 place.
    """

    word: Int[np.ndarray, " n"]
    times: Int[np.ndarray, " d"]
    inside: Bool[np.ndarray, "a n"]
    runs: tuple[tuple[Span, ...], ...]

    def marked(self, annotator: int) -> Int[np.ndarray, " d"]:
        """Return how many places of each word an annotator marked."""
        return np.bincount(self.word[self.inside[annotator]], minlength=len(self.times))


def checked_rationales(given: Any, texts: Sequence[Any]) -> list[tuple[Rationale, ...] | str]:
    """Return what each annotator marked in each text, or a sentence that says why nothing is known.

    Something that is not a rationale at all is refused; spans that do not fit their text are such a
    sentence, so that one bad row does not cost the others.
    """
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise InputError("rationales must be a list with one entry per text.")
    if len(given) != len(texts):
        raise InputError(
            f"rationales must have one entry per text; got {len(given)} for {len(texts)} texts."
        )
    return [_of_text(one, text, i) for i, (one, text) in enumerate(zip(given, texts, strict=True))]


def _of_text(given: Any, text: Any, number: int) -> tuple[Rationale, ...] | str:
    if given is None or (isinstance(given, float) and math.isnan(given)):
        return "no rationale was given for this text."
    annotators = _annotators(given, number)
    if not isinstance(text, str):
        return "rationales are spans of one string, and this text is not one."
    for start, end in (span for one in annotators for span in one):
        if not 0 <= start <= end:
            return f"a span must start at 0 or later and before it ends; got [{start}, {end}]."
        if end > len(text):
            return (
                f"a span must end within the text, which has {len(text)} characters; "
                f"got [{start}, {end}]."
            )
    return tuple(_joined(sorted(span for span in one if span[0] < span[1])) for one in annotators)


def _annotators(given: Any, number: int) -> list[list[Span]]:
    if _is_list(given):
        entries = list(given)
        if all(map(_is_span, entries)):
            return [[_span(one) for one in entries]]
        if all(_is_list(one) and all(map(_is_span, one)) for one in entries):
            return [[_span(one) for one in several] for several in entries]
    raise InputError(
        f"the rationale of text {number} must be a list of [start, end] in characters, or one such "
        f"list per annotator; got {one_line(repr(given), 60)}."
    )


def _is_list(one: Any) -> bool:
    return hasattr(one, "__len__") and hasattr(one, "__iter__") and not isinstance(one, str | dict)


def _is_span(one: Any) -> bool:
    return _is_list(one) and len(one) == 2 and all(_is_whole(x) for x in one)


def _is_whole(x: Any) -> bool:
    number = isinstance(x, Real) and not isinstance(x, bool | np.bool_)
    return number and math.isfinite(x) and x == int(x)


def _span(one: Any) -> Span:
    return int(one[0]), int(one[1])


def _joined(spans: list[Span]) -> Rationale:
    """Return spans that overlap as one."""
    out: list[Span] = []
    for start, end in spans:
        if out and start < out[-1][1]:
            start, end = out[-1][0], max(end, out.pop()[1])
        out.append((start, end))
    return tuple(out)


def usual_share(texts: Sequence[Any], rationales: Sequence[tuple[Rationale, ...] | str]) -> float:
    """Return which part of a text people mark, in the mean over annotators and texts.

    Counted are stretches without white space, whatever the model reads: the number is the data's.
    """
    shares = [
        float(np.mean(_touched([m.span() for m in re.finditer(r"\S+", text)], one)))
        for text, several in zip(texts, rationales, strict=True)
        if not isinstance(several, str) and text.strip()
        for one in several
        if one
    ]
    return float(np.mean(shares)) if shares else 0.0


def marks_of(features: Features, rationales: tuple[Rationale, ...]) -> Marks:
    """Return the places of all words in the order of the text, with what was marked.

    A place is marked where a span touches at least one of its characters. What the model does not
    read, past its window, is not a place.
    """
    found = sorted((span, j) for j, spans in enumerate(features.spans) for span in spans)
    places = [span for span, _ in found]
    word = np.array([j for _, j in found])
    return Marks(
        word=word,
        times=np.bincount(word, minlength=len(features)),
        inside=np.array([_touched(places, one) for one in rationales]).reshape(-1, len(places)),
        runs=tuple(_runs(places, one) for one in rationales),
    )


def _touched(places: list[Span], rationale: Rationale) -> Bool[np.ndarray, " n"]:
    inside = np.zeros(len(places), bool)
    for first, last in _runs(places, rationale):
        inside[first:last] = True
    return inside


def _runs(places: list[Span], rationale: Rationale) -> tuple[Span, ...]:
    starts, ends = np.array(places).reshape(-1, 2).T
    firsts = np.searchsorted(ends, [start for start, _ in rationale], side="right")
    lasts = np.searchsorted(starts, [end for _, end in rationale], side="left")
    return tuple((int(a), int(b)) for a, b in zip(firsts, lasts, strict=True) if a < b)


_NODES = 32  # of the integral held at a time


class Precision(NamedTuple):
    """The expected average precision, and the expected number of marked places before each cut."""

    average: float
    found: Float[np.ndarray, " cuts"]


def expected_precision(
    groups: Groups,
    count: Int[np.ndarray, " d"],
    marked: Int[np.ndarray, " d"],
    cuts: Int[np.ndarray, " cuts"],
) -> Precision:
    """Return what an order finds, ``groups`` of words strongest first, words of a group tied.

    With all words in one group this is chance: the expectation over all d! orders. ``count`` and
    ``marked`` are c and r, with 0 ≤ r ≤ c, c ≥ 1 and at least one place marked.
    """
    places = np.array([count[group].sum() for group in groups])
    hits = np.array([marked[group].sum() for group in groups])
    N, R = np.cumsum(places) - places, np.cumsum(hits) - hits
    alone = np.array([len(group) == 1 for group in groups])
    own = np.array([group[0] for group in groups])[alone]
    average, found = _of_words(count[own], marked[own], N[alone], R[alone], cuts)
    total, found = average.sum(), found.sum(axis=0)
    for i in np.flatnonzero(~alone & (hits > 0)):
        more = _of_tied(count[groups[i]], marked[groups[i]], int(N[i]), int(R[i]), cuts)
        total, found = total + more[0], found + more[1]
    return Precision(float(total / marked.sum()), found)


def _of_words(
    c: Int[np.ndarray, " w"],
    r: Int[np.ndarray, " w"],
    N: Int[np.ndarray, " w"],
    R: Int[np.ndarray, " w"],
    cuts: Int[np.ndarray, " cuts"],
) -> tuple[Float[np.ndarray, " w"], Float[np.ndarray, "w cuts"]]:
    r"""Return :math:`\sum M_i/i` over each word's places, and what it adds to :math:`M_k`.

    N places, R of them marked, come before the word. Its p-th place is marked with probability r/c,
    and then (p − 1)(r − 1)/(c − 1) of those before it within the word are, in the mean: with
    :math:`H = \sum_{p=1}^{c} 1/(N + p)` the first sum is

    .. math:: \frac{r}{c} \Bigl( (R + 1) H + \frac{r - 1}{c - 1} (c - (N + 1) H) \Bigr).
    """
    slope, level = _coefficients(c, r, N)
    inside = np.clip(cuts - N[:, None], 0, c[:, None])
    return slope * R + level, (r / c)[:, None] * inside


def _coefficients(
    c: Int[np.ndarray, "*w"], r: Int[np.ndarray, "*w"], N: Int[np.ndarray, "*w"]
) -> tuple[Float[np.ndarray, "*w"], Float[np.ndarray, "*w"]]:
    """Return the sum of :func:`_of_words` as slope and level of a line in R."""
    harmonic = _harmonic(int(np.max(N + c, initial=0)))
    H = harmonic[N + c] - harmonic[N]
    within = np.where(c > 1, (r - 1) / np.maximum(c - 1, 1), 0.0) * (c - (N + 1) * H)
    return r / c * H, r / c * (H + within)


def _of_tied(
    c: Int[np.ndarray, " w"],
    r: Int[np.ndarray, " w"],
    N: int,
    R: int,
    cuts: Int[np.ndarray, " cuts"],
) -> tuple[float, Float[np.ndarray, " cuts"]]:
    """Return the sums of :func:`_of_words` over words in random order, after N places, R marked."""
    total, found = 0.0, np.zeros(len(cuts))
    sizes, size_of = np.unique(c, return_inverse=True)
    probability, others, same = _before(c, r, sizes, size_of)
    after = N + np.arange(len(probability[0]))
    hits = np.bincount(size_of, weights=r)
    # Words of the same size and marks come after the same: each such kind is added once.
    for (g, marks), times in _kinds(size_of, r):
        if not marks:
            continue
        P = probability[g]
        before = R * P + others[g] + (hits[g] - marks) * same[g]
        size = np.full(len(after), sizes[g])
        slope, level = _coefficients(size, np.full(len(after), marks), after)
        total += times * float(slope @ before + level @ P)
        inside = np.clip(cuts[:, None] - after, 0, sizes[g]) @ P
        found += times * marks / sizes[g] * inside
    return total, found


def _kinds(
    size_of: Int[np.ndarray, " w"], r: Int[np.ndarray, " w"]
) -> list[tuple[tuple[int, int], int]]:
    found, times = np.unique(np.stack([size_of, r]), axis=1, return_counts=True)
    return [((int(g), int(marks)), int(n)) for g, marks, n in zip(*found, times, strict=True)]


def _before(
    c: Int[np.ndarray, " w"],
    r: Int[np.ndarray, " w"],
    sizes: Int[np.ndarray, " g"],
    size_of: Int[np.ndarray, " w"],
) -> tuple[Float[np.ndarray, "g n"], Float[np.ndarray, "g n"], Float[np.ndarray, "g n"]]:
    r"""Return what comes before a word of each size when words come in random order.

    Give each word an independent uniform time; the words before j, whose time is u, are each there
    with probability u. So the number :math:`N_j` of places before j has the generating function

    .. math:: \sum_i P(N_j = i) x^i = \int_0^1 \prod_{k \neq j} (1 - u + u x^{c_k}) \, du,

    and with the factor of one :math:`k \neq j` replaced by :math:`u x^{c_k}`, it counts only the
    orders with k before j; times :math:`r_k`, summed over k, it is :math:`E[R_j; N_j = i]`. The
    integrand is a polynomial in u of degree at most w − 1, for which Gauss and Legendre's rule with
    w/2 nodes is exact, and of degree below n in x, so that n roots of unity give its coefficients.

    Both depend on j through :math:`c_j` alone, but for the term of k = j. Returned are, for every
    size: P; the sum of E over words of other sizes; and the term of one word of the same size
    marked once, of which j has (marks of that size − :math:`r_j`).
    """
    n, times = int(c.sum()), np.bincount(size_of)
    hits = np.bincount(size_of, weights=r)
    x = np.exp(-2j * np.pi / n * np.arange(n // 2 + 1))
    powers = [x**size for size in sizes]
    sums = np.zeros((3, len(sizes), len(x)), complex)
    u, weight = _gauss(len(c))
    for start in range(0, len(u), _NODES):
        part = slice(start, start + _NODES)
        at, w = u[part, None], weight[part]
        factor = [1 - at + at * power for power in powers]
        product = np.prod([f ** int(t) for f, t in zip(factor, times, strict=True)], axis=0)
        there = [at * power / f for power, f in zip(powers, factor, strict=True)]
        every = sum(h * t for h, t in zip(hits, there, strict=True))
        for g, f in enumerate(factor):
            rest = product / f
            sums[0, g] += w @ rest
            sums[1, g] += w @ (rest * (every - hits[g] * there[g]))
            if times[g] > 1:
                sums[2, g] += w @ (rest * there[g])
    probability, others, same = np.fft.irfft(sums, n)
    return probability, others, same


@lru_cache(maxsize=64)
def _gauss(words: int) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
    """Return nodes and weights on [0, 1], exact for polynomials of a degree below ``words``."""
    # An even number of nodes leaves out ½, where 1 − u + u x vanishes for x = −1.
    nodes, weights = np.polynomial.legendre.leggauss(2 * -(-words // 4))
    return (nodes + 1) / 2, weights / 2


@lru_cache(maxsize=8)
def _harmonic_up_to(size: int) -> Float[np.ndarray, " n"]:
    return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, size + 1))])


def _harmonic(n: int) -> Float[np.ndarray, " n"]:
    """Return 1 + 1/2 + … + 1/i for i = 0, …, at least n."""
    return _harmonic_up_to(1 << max(n, 1).bit_length())


_OVERLAP = 0.5


class Matches(NamedTuple):
    """Which part of the predicted spans matches a marked one, and which part of those is found."""

    precision: float
    recall: float


def chosen_places(
    strength: Float[np.ndarray, " d"], word: Int[np.ndarray, " n"], k: int
) -> Bool[np.ndarray, " n"]:
    """Return the ``k`` places of strongest words; of equal ones those that come first."""
    chosen = np.zeros(len(word), bool)
    chosen[np.argsort(-strength[word], kind="stable")[:k]] = True
    return chosen


def runs_of(chosen: Bool[np.ndarray, " n"]) -> list[Span]:
    """Return neighbouring places as spans, first and last + 1."""
    edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def matches(predicted: Sequence[Span], marked: Sequence[Span]) -> Matches:
    """Return how many spans match: their overlap is at least half of their union.

    As in ERASER's code a predicted span is counted once, whichever marked span it matches, and the
    count is divided by the number of predicted and of marked spans.
    """
    count = sum(any(_iou(one, other) >= _OVERLAP for other in marked) for one in predicted)
    return Matches(
        precision=count / len(predicted) if predicted else 0.0,
        recall=count / len(marked) if marked else 0.0,
    )


def _iou(a: Span, b: Span) -> float:
    both = max(0, min(a[1], b[1]) - max(a[0], b[0]))
    return both / (a[1] - a[0] + b[1] - b[0] - both)


def token_f1(found: int | float, *, predicted: int, marked: int) -> float:
    """Return F1 of places: 2 found/(predicted + marked), linear in what is found.

    So its expectation over ties and over guesses follows from that of ``found``.
    """
    return 2 * found / (predicted + marked)


def f1(precision: float, recall: float) -> float:
    """Return the harmonic mean; of IOU's precision and recall ERASER takes it after averaging."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


# Average precision, R-precision, token F1, and precision and recall of spans.
_Five = Float[np.ndarray, " 5"]
_UNKNOWN = np.full(5, np.nan)


def marked_text(
    number: int, marks: Marks, ranked: Sequence[Float[np.ndarray, " d"] | None], *, share: float
) -> MarkedText:
    """Return the measures of every method, from what its words are ranked by (None: no scores).

    With several annotators a method is held against each, and the mean is taken. An annotator who
    marked nothing, or everything, is left out: against them every order is as good.
    """
    n = len(marks.word)
    sizes = marks.inside.sum(axis=1)
    against = [a for a, size in enumerate(sizes) if 0 < size < n]
    if not against:
        return MarkedText(id=number, words=n, reason=_why_not(int(sizes.max(initial=0))))
    k = max(1, round(share * n))
    rows = [_over(marks, against, k, [own] * len(against)) for own in ranked]
    guess = np.zeros(len(marks.times))
    chance = _over(marks, against, k, [guess] * len(against))
    chance[3:] = np.nan  # the spans of a guess are not known in closed form
    own = [marks.marked(a) / marks.times for a in against]
    references = (chance, _over(marks, against, k, own), _annotator_values(marks, against, k))
    values = [_values(i, rows, references) for i in range(len(_UNKNOWN))]
    return MarkedText(
        id=number,
        words=n,
        marked=float(sizes[against].mean() / n),
        annotators=len(against),
        precision=values[0],
        r_precision=values[1],
        token_f1=values[2],
        iou_precision=values[3],
        iou_recall=values[4],
    )


def _why_not(most: int) -> str:
    if not most:
        return "nobody marked a word of it that the model reads."
    return "every word of it is marked, so that every order is as good."


def _values(i: int, rows: Sequence[_Five], references: Sequence[_Five]) -> Values:
    of = [None if np.isnan(row[i]) else float(row[i]) for row in (*references, *rows)]
    return Values(chance=of[0], rationale=of[1], annotators=of[2], methods=tuple(of[3:]))


def _over(
    marks: Marks, against: list[int], k: int, ranked: Sequence[Float[np.ndarray, " d"] | None]
) -> _Five:
    """Return the mean over annotators, each with what words are ranked by against them."""
    pairs = zip(against, ranked, strict=True)
    return np.mean([_UNKNOWN if own is None else _against(marks, a, k, own) for a, own in pairs], 0)


def _against(marks: Marks, annotator: int, k: int, strength: Float[np.ndarray, " d"]) -> _Five:
    marked = marks.marked(annotator)
    m = int(marked.sum())
    groups = tied_groups(strength, signed=True)
    precision = expected_precision(groups, marks.times, marked, np.array([m, k]))
    predicted = runs_of(chosen_places(strength, marks.word, k))
    return np.array(
        [
            precision.average,
            precision.found[0] / m,
            token_f1(precision.found[1], predicted=k, marked=m),
            *matches(predicted, marks.runs[annotator]),
        ]
    )


def _annotator_values(marks: Marks, against: list[int], k: int) -> _Five:
    """Return what annotators reach against each other, NaN where there is only one.

    As an order of words a rationale ranks each by the part of its places that is marked; as a
    rationale that somebody predicted it is what it is, however long.
    """
    found = []
    for a, b in permutations(against, 2):
        ranked = _against(marks, a, k, marks.marked(b) / marks.times)
        both = int(np.count_nonzero(marks.inside[a] & marks.inside[b]))
        sizes = (int(marks.inside[b].sum()), int(marks.inside[a].sum()))
        overlap = token_f1(both, predicted=sizes[0], marked=sizes[1])
        found.append(np.array([*ranked[:2], overlap, *matches(marks.runs[b], marks.runs[a])]))
    return np.mean(found, axis=0) if found else _UNKNOWN
