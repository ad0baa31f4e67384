"""Statistics over texts: shares, means, paired differences, intervals, and a verdict.

A text is the unit that is resampled.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np

from limelight.judging.candidates import Candidate
from limelight.judging.removals import CHANCE_PRECISION
from limelight.results.judgment import (
    Interval,
    JudgedMethod,
    JudgedPair,
    JudgedText,
    Judgment,
    Measure,
    MethodColumn,
    TextColumn,
    format_interval_end,
)
from limelight.shapes import Float, Int
from limelight.text import pluralize

DRAWS = 2000
# Draws per column, at least. The smallest p-value is 2/draws, and Holm multiplies it by the number
# of compared columns. For 105 pairs of methods, 2,000 draws could never show a difference.
_DRAWS_PER_COLUMN = 100
_CELLS = 4_000_000  # weights of texts that are in memory at a time
_TIE = 1e-9  # of the room: values that differ by less are a tie
_LEVEL = 0.95
INTERVAL_TEXTS = 10  # for an interval or a p-value: with fewer texts, its level would not hold
RANKING_TEXTS = 6  # to name a best method: five texts agree by chance once in sixteen
_DIFFERING_TEXTS = 6  # for an interval of a difference, for the same reason
_MIN_SPREAD = 0.2  # of the standard error, in a draw
_NO_TEXT = "all orders are equally good on these texts."

# A row for every text: a number of each method, NaN if it takes no part; or one number of the text.
PerMethod = Float[np.ndarray, "n c"]
PerText = Float[np.ndarray, " n"]
# A value and its interval. There is no interval for few texts.
Estimate = tuple[float | None, Interval | None]
UNBOUNDED: Interval = (-math.inf, math.inf)
SHARE_RANGE: Interval = (-math.inf, 1.0)  # no order exceeds the ceiling
CORRELATION_RANGE: Interval = (-1.0, 1.0)
PART_RANGE: Interval = (0.0, 1.0)


class Bootstrap(NamedTuple):
    """Σ gain/Σ room of every column, with its bootstrap over texts.

    A share δ has the residuals e = gain − δ room and the standard error s = √(Σ e²)/Σ room.
    Resampled texts have δ* and s*, and ``deviations`` are (δ* − δ)/s*. ``texts`` is the number of
    texts that take part. ``differing`` is the number of those whose gain is not 0. ``limits`` is
    the range of possible shares.
    """

    share: Float[np.ndarray, " c"]
    stderr: Float[np.ndarray, " c"]
    deviations: Float[np.ndarray, "draws c"]
    texts: Int[np.ndarray, " c"]
    differing: Int[np.ndarray, " c"]
    limits: Interval

    def interval(self, column: int) -> Interval:
        """Return the 95 % interval of a column, clipped to the range of possible values."""
        deviations = np.sort(self.deviations[:, column])
        outside = self._draws_outside()
        lowest, highest = deviations[outside], deviations[-1 - outside]
        share, stderr = self.share[column], self.stderr[column]
        # The ends change places: if draws lie far above the share, the truth may lie far below it.
        low, high = np.clip((share - highest * stderr, share - lowest * stderr), *self.limits)
        return float(low), float(high)

    def p_value(self, column: int) -> float:
        """Return the p-value of the hypothesis that a column is 0, never less than 2/(draws + 1).

        It is twice the smaller part of the deviations on either side of share/standard error. It is
        below 0.05 exactly if 0 lies outside the interval.
        """
        share, stderr = self.share[column], self.stderr[column]
        if not stderr:
            return 1.0 if share == 0 else 2 / (len(self.deviations) + 1)
        deviations = self.deviations[:, column]
        # The product, not the quotient: it must compare as the ends of the interval do.
        above = np.count_nonzero(share - deviations * stderr <= 0)
        below = np.count_nonzero(share - deviations * stderr >= 0)
        return min(1.0, float(2 * (min(above, below) + 1) / (len(deviations) + 1)))

    def estimate(self, column: int) -> Estimate:
        """Return the value of a column and its interval, which needs at least ten texts."""
        if not np.isfinite(self.share[column]):
            return None, None
        has_interval = self.texts[column] >= INTERVAL_TEXTS
        return float(self.share[column]), self.interval(column) if has_interval else None

    def tested_columns(self) -> Int[np.ndarray, " tested"]:
        """Return the columns of differences that have an interval and a p-value."""
        is_tested = (self.texts >= INTERVAL_TEXTS) & (self.differing >= _DIFFERING_TEXTS)
        return np.flatnonzero(is_tested)

    def simultaneous_intervals(self) -> "list[SimultaneousInterval | None]":
        """Return 95 % intervals that hold for all columns at once, None for columns without one.

        Let q be the 95 % point of the largest |deviation| of all columns. Then δ ± q s holds for
        all columns, however they depend on each other. So it also holds for a column that is
        selected because it is the largest. 0 lies outside exactly if p is below 0.05. p is the part
        of the draws whose largest |deviation| is at least |δ|/s.
        """
        # Columns with too few texts must not widen the other intervals by wild deviations.
        tested = self.tested_columns()
        draws = len(self.deviations)
        largest = np.sort(np.abs(self.deviations[:, tested]).max(axis=1, initial=0.0))[::-1]
        outside = math.ceil((1 - _LEVEL) * (draws + 1)) - 2  # draws above: p is still below 5 %
        intervals: list[SimultaneousInterval | None] = [None] * len(self.share)
        for c in tested.tolist():
            share, stderr = self.share[c], self.stderr[c]
            size = abs(share) / stderr if stderr else math.inf
            p = float((1 + np.count_nonzero(largest >= size)) / (draws + 1))
            half = largest[outside] * stderr
            intervals[c] = SimultaneousInterval((float(share - half), float(share + half)), p)
        return intervals

    def _draws_outside(self) -> int:
        """Return how many draws may lie outside on one side if p is below 5 %."""
        return math.ceil((1 - _LEVEL) / 2 * (len(self.deviations) + 1)) - 2


def bootstrap_shares(
    gain: PerMethod, room: PerText | PerMethod, *, seed: int, limits: Interval = SHARE_RANGE
) -> Bootstrap:
    """Return shares with their studentized bootstrap over texts.

    Parameters
    ----------
    gain
        A row per text and a column per share, NaN if a text takes no part.
    room
        The largest possible gain on each text, for all columns or for each.
    seed
        The same seed draws the same texts, so that differences of columns are paired.
    limits
        The range of possible shares.

    Returns
    -------
    Shares, standard errors and the deviations of the draws.
    """
    # Percentiles of δ* hold 0.89 of shares at 12 texts, BCa 0.90, and deviations divided by s* 0.95
    # (reproduction/studies/interval_candidates.py): texts that miss a tail also miss its spread.
    draws = max(DRAWS, _DRAWS_PER_COLUMN * gain.shape[1])
    takes_part = np.isfinite(gain)
    # The room of a text counts only for methods that have scores there. So a share is a part of
    # what could have been reached. Numerator and denominator contain the same resampled texts.
    r = takes_part * (room if room.ndim == 2 else room[:, None])
    # Rounding becomes a tie. It would give a column a spread of 1e-17, and its share would seem to
    # be many standard errors large.
    g = np.where(takes_part & (np.abs(gain) > _TIE * r), gain, 0.0)
    total = r.sum(axis=0)
    share = _divide(g.sum(axis=0), total, np.nan)
    e = np.nan_to_num(g - share * r)
    e[np.abs(e) <= _TIE * r] = 0.0
    stderr = _divide(np.sqrt((e**2).sum(axis=0)), total, 0.0)
    table = np.concatenate([r, e, e**2, e * r, r**2], axis=1)
    deviations = [np.zeros((0, gain.shape[1]))]
    # There is nothing to draw from for |change| if all methods have signs, or without any marks.
    for weights in _draw_weights(len(room), draws, seed) if takes_part.any() else ():
        total, shift, ee, er, rr = np.split(weights @ table, 5, axis=1)
        # A draw may contain no text that a method explains. Then its deviation is 0.
        change = _divide(shift, total, 0.0)  # δ* − δ
        error = np.sqrt(np.maximum(ee - 2 * change * er + change**2 * rr, 0.0))
        # Draws that miss the few texts which differ have next to no spread.
        error = np.maximum(error, _MIN_SPREAD * stderr * total)
        deviations.append(_divide(change * total, error, 0.0))
    return Bootstrap(
        share=share,
        stderr=stderr,
        deviations=np.concatenate(deviations),
        texts=takes_part.sum(axis=0),
        differing=np.count_nonzero(g, axis=0),
        limits=limits,
    )


def _draw_weights(n: int, draws: int, seed: int) -> Iterator[Int[np.ndarray, "block n"]]:
    """Yield how often each text is in each resampled set, for a block of sets at a time."""
    # Sums need only how often each text is drawn. That is one product for all columns, and drawing
    # rows would copy the table 2,000 times. In blocks, because 2,000 × a million weights are 16 GB.
    rng, block = np.random.default_rng(seed), max(1, _CELLS // max(n, 1))
    for start in range(0, draws, block):
        yield rng.multinomial(n, np.full(n, 1 / n), size=min(block, draws - start))


def bootstrap_means(table: PerMethod, *, seed: int, limits: Interval = UNBOUNDED) -> Bootstrap:
    """Return the mean of each column with its bootstrap: every text counts the same."""
    return bootstrap_shares(table, np.ones(len(table)), seed=seed, limits=limits)


def named_estimates(measures: Mapping[str, Bootstrap], column: int) -> dict[str, Any]:
    """Return the value of a column for every measure, and its interval as ``<name>_interval``."""
    estimates: dict[str, Any] = {}
    for name, bootstrap in measures.items():
        estimates[name], estimates[f"{name}_interval"] = bootstrap.estimate(column)
    return estimates


def _divide(a: Any, b: Float[np.ndarray, "*n"], default: Any) -> Float[np.ndarray, "*n"]:
    """Return a/b, and ``default`` where b is 0."""
    return np.divide(a, b, out=np.broadcast_to(default, b.shape).astype(float), where=b > 0)


def holm_p_values(p: list[float]) -> list[float]:
    """Return p-values corrected for their number: the k-th smallest times m − k, never falling."""
    # Holm instead of Bonferroni: it is never worse, however the tests depend on each other.
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(
        np.minimum(1.0, np.asarray(p)[order] * np.arange(len(p), 0, -1))
    )
    return list(map(float, corrected))


class SimultaneousInterval(NamedTuple):
    """An interval that holds together with those of all other columns, and the p-value of a test.

    The test asks whether the column is 0.
    """

    interval: Interval
    p: float


def method_table(rows: Iterable[Mapping[str, float]], names: Sequence[str]) -> PerMethod:
    """Return a table with a row per text and a column per method, NaN for missing numbers."""
    cells = [[row.get(name) for name in names] for row in rows]
    return np.array(cells, dtype=float).reshape(-1, len(names))


def compare_pairs(
    names: Sequence[str], values: PerMethod, room: PerText, *, seed: int
) -> tuple[JudgedPair, ...]:
    """Compare all pairs of methods that share two texts or more.

    Parameters
    ----------
    names
        Names of the methods.
    values
        A number of each method on each text, NaN if the method has none.
    room
        The largest possible gain on each text, which weighs the text.
    seed
        Seed for the bootstrap over texts.

    Returns
    -------
    One row per pair, with the better method first.
    """
    # One difference has no spread, and two methods that share no text have no difference.
    pairs = [
        (i, j)
        for i, j in combinations(range(len(names)), 2)
        if np.count_nonzero(np.isfinite(values[:, i] - values[:, j])) > 1
    ]
    if not pairs:
        return ()
    gaps = np.stack([values[:, i] - values[:, j] for i, j in pairs], axis=1)
    # The better method comes first. So a reader compares leads, not signs of leads.
    swapped = np.nansum(gaps, axis=0) < 0
    gaps = np.where(swapped, -gaps, gaps)
    pairs = [(j, i) if swap else (i, j) for (i, j), swap in zip(pairs, swapped, strict=True)]
    result = bootstrap_shares(gaps, room, seed=seed, limits=UNBOUNDED)
    tested = result.tested_columns().tolist()
    p = {c: result.p_value(c) for c in tested}
    corrected = dict(zip(tested, holm_p_values(list(p.values())), strict=True))
    simultaneous = result.simultaneous_intervals()
    return tuple(
        JudgedPair(
            methods=(names[i], names[j]),
            difference=float(result.share[c]),
            interval=result.interval(c) if c in p else None,
            p=p.get(c),
            p_holm=corrected.get(c),
            won=_pair_win_rate(gaps[:, c], room),
            simultaneous=joint and joint.interval,
            p_simultaneous=joint and joint.p,
        )
        for c, ((i, j), joint) in enumerate(zip(pairs, simultaneous, strict=True))
    )


def _pair_win_rate(gap: PerText, room: PerText) -> float:
    """Return the part of the texts on which the gap is positive; a tie counts one half."""
    is_finite = np.isfinite(gap)
    # Relative to the room: areas of 1e-6 may be the whole room of a text, or 1e3 only noise.
    gap, slack = gap[is_finite], _TIE * room[is_finite]
    return float(np.mean((gap > slack) + 0.5 * (np.abs(gap) <= slack)))


def _gains_and_room(
    measures: Sequence[Measure | None], names: Sequence[str]
) -> tuple[PerMethod, PerText]:
    """Return the areas of the methods above chance, and the room between chance and ceiling."""
    no_measure = Measure(chance=math.nan, ceiling=math.nan, areas={})
    measured = [no_measure if m is None else m for m in measures]
    chance, ceiling = np.array([(m.chance, m.ceiling) for m in measured]).reshape(-1, 2).T
    # A sampled chance may lie above the best order found. Then the room is 0, not negative.
    room = np.nan_to_num(np.maximum(ceiling - chance, 0.0))
    return method_table((m.areas for m in measured), names) - chance[:, None], room


def _win_rate(gain: PerMethod, room: PerText, i: int) -> float | None:
    """Return the part of the texts on which no method gains more than method ``i``."""
    is_finite = np.isfinite(gain[:, i])
    if not is_finite.any():
        return None
    best = np.nanmax(gain[is_finite], axis=1) - _TIE * room[is_finite]
    return float(np.mean(gain[is_finite, i] >= best))


def summarize_methods(
    candidates: Sequence[Candidate], texts: Sequence[JudgedText], *, seed: int
) -> tuple[tuple[JudgedMethod, ...], tuple[JudgedPair, ...], Estimate]:
    """Return one row per method, one row per pair of methods, and the share of the greedy order.

    ``texts`` are those that have room. The share of the greedy order is over the texts on which the
    search came to its end.
    """
    names = [candidate.name for candidate in candidates]
    measures = {"share": "deletion", "insertion": "insertion", "change": "change"}
    tables = {
        name: _gains_and_room([getattr(text, measure) for text in texts], names)
        for name, measure in measures.items()
    }
    shares = {name: bootstrap_shares(*table, seed=seed) for name, table in tables.items()}
    columns, (gain, room) = _method_columns(texts, names, seed=seed), tables["share"]
    methods = []
    for i, candidate in enumerate(candidates):
        name = candidate.name
        count = int(np.isfinite(gain[:, i]).sum())
        numbers = named_estimates(shares, i)
        numbers["interval"] = numbers.pop("share_interval")
        if candidate.signed:  # it claims a direction, and |change| does not need one
            numbers |= {"change": None, "change_interval": None}
        share = numbers["share"]
        reasons = (candidate.reason, *(text.reasons.get(name) for text in texts), _NO_TEXT)
        methods.append(
            JudgedMethod(
                method=name,
                label=candidate.label,
                signed=candidate.signed,
                **numbers,
                won=_win_rate(gain, room, i),
                texts=count,
                tied=sum(text.ties[name] > 0 for text in texts),
                sampling=None if share is None else _chance_error(texts, name, share),
                reason=next(filter(None, reasons)) if share is None else None,
                columns=columns[i],
            )
        )
    # By the same texts and the same draws as the methods, so that the shares can be compared.
    greedy_areas, chance = (
        np.array([[getattr(text, name)] for text in texts], dtype=float).reshape(-1, 1)
        for name in ("greedy", "chance")
    )
    greedy = bootstrap_shares(greedy_areas - chance, room, seed=seed)
    pairs = compare_pairs(names, gain, room, seed=seed)
    return tuple(methods), pairs, greedy.estimate(0)


def _method_columns(
    texts: Sequence[JudgedText], names: Sequence[str], *, seed: int
) -> list[tuple[MethodColumn, ...]]:
    """Return, for each method, the mean of every column over the texts."""
    method_columns: list[list[MethodColumn]] = [[] for _ in names]
    no_column = TextColumn(values={})
    for name in dict.fromkeys(chain.from_iterable(text.columns for text in texts)):
        text_columns = [text.columns.get(name, no_column) for text in texts]
        values = method_table((column.values for column in text_columns), names)
        errors = method_table((column.errors for column in text_columns), names)
        limits = UNBOUNDED if name.startswith("top_") else CORRELATION_RANGE
        means = bootstrap_means(values, seed=seed, limits=limits)
        for i, columns in enumerate(method_columns):
            n = int(means.texts[i])
            value, interval = means.estimate(i)
            if value is None:
                continue
            finite_errors = errors[np.isfinite(errors[:, i]), i]
            # Texts are sampled independently, so the errors of their mean add in squares.
            has_errors = len(finite_errors) > 0
            error = float(np.sqrt(finite_errors @ finite_errors)) / n if has_errors else None
            columns.append(
                MethodColumn(name=name, value=value, interval=interval, texts=n, sampling=error)
            )
    return [tuple(columns) for columns in method_columns]


def _chance_error(texts: Sequence[JudgedText], method: str, share: float) -> float | None:
    """Return the standard error of a share that comes from sampled chance; None if it is exact.

    Chance is in the numerator and in the denominator, so a share s moves by
    (s − 1)/Σ(ceiling − chance) with each chance. An order that reaches the best order found does so
    for every value of chance.
    """
    measures = [m for text in texts if (m := text.deletion) is not None and method in m.areas]
    errors = [m.stderr for m in measures if m.stderr is not None]
    if not errors:
        return None
    slope = abs(1 - share) / sum(m.ceiling - m.chance for m in measures)
    return float(slope * np.sqrt(np.sum(np.square(errors))))


RECOMMENDED_TEXTS = 30  # fewer texts show little


def _names_clause(names: Sequence[str], property_: str) -> str:
    """Return "a, b and c are <property>", with "is" for one name and "" for no name."""
    if not names:
        return ""
    *first_names, last = names
    if not first_names:
        return f"{last} is {property_}"
    return f"{', '.join(first_names)} and {last} are {property_}"


def verdict(
    methods: Iterable[tuple[str, float | None, Interval | None]],
    pairs: Sequence[JudgedPair],
    *,
    texts: int,
    adjective: str = "faithful",
    measure: str = "share",
    note: str = "",
) -> str:
    """Say which method is the most faithful, which comes next, and which are like chance.

    Parameters
    ----------
    methods
        For every method its name, its value, and the interval of its value above chance.
    pairs
        The comparisons of all pairs of methods.
    texts
        Number of texts.
    adjective
        The property that is judged: "faithful" or "plausible".
    measure
        Name of the measure that the values belong to.
    note
        A clause about the measure.

    Returns
    -------
    One sentence.
    """
    judged = [(name, value, interval) for name, value, interval in methods if value is not None]
    judged.sort(key=lambda method: -method[1])
    if not judged:
        return "No method can be judged on these texts."
    if len(judged) > 1 and texts < RANKING_TEXTS:
        too_few = f"Too few texts ({texts}) to rank the methods"
        return _join_sentences(too_few, note)
    # Without an interval, as for few texts, no method can be compared with chance.
    intervals = [(name, interval) for name, _, interval in judged if interval is not None]
    worse = [name for name, (_, high) in intervals if high < 0]
    like_chance = [name for name, (low, high) in intervals if low <= 0 <= high]
    ranked = [(name, f"{value:z.3f}".replace("-", "−")) for name, value, _ in judged]
    tested = pairs if texts >= INTERVAL_TEXTS else ()
    clause = _leader_clause(ranked, tested, adjective, measure)
    if len(worse) + len(like_chance) == len(judged):  # then no method is the most faithful
        name, value = ranked[0]
        clause = (
            "no method is significantly better than a random order "
            f"(largest {measure}: {name}, {value})"
        )
        like_chance = []
    scope = "On this text" if texts == 1 else f"On these {texts} texts"
    return _join_sentences(
        f"{scope}, {clause}",
        note,
        _names_clause(worse, "worse than a random order"),
        _names_clause(like_chance, "not significantly better than a random order"),
    )


def _join_sentences(*sentences: str) -> str:
    """Join sentences without periods, leaving out empty ones."""
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def _leader_clause(
    ranked: Sequence[tuple[str, str]], pairs: Sequence[JudgedPair], adjective: str, measure: str
) -> str:
    """Say which method has the largest value, and whether the second one differs from it."""
    first, x = ranked[0]
    if len(ranked) == 1:
        return f"{first} has the {measure} {x}"
    second, y = ranked[1]
    pair = next((p for p in pairs if set(p.methods) == {first, second}), None)
    largest = f"{first} has the largest {measure} ({x}), followed by {second} ({y})"
    if pair is None:
        return largest
    # Values are over the texts of each method. A pair is over the texts of both, where the order
    # may be the other one.
    is_reversed = pair.methods[0] == second
    gap = format_interval_end(pair.difference if is_reversed else -pair.difference)
    if pair.simultaneous is not None:
        low, high = pair.simultaneous
        ends = (low, high) if is_reversed else (-high, -low)
        gap = f"{gap}, 95% interval {' to '.join(map(format_interval_end, ends))}"
    if pair.differs and is_reversed:
        return f"{largest}. On the texts that both score, {second} is better ({gap})"
    if pair.differs:
        return (
            f"{first} is the most {adjective} ({measure} {x}), followed by {second} ({y}, "
            f"difference {gap})"
        )
    return (
        f"{first} and {second} are the most {adjective} and do not differ significantly "
        f"({measure} {x} and {y}, difference {gap})"
    )


def judging_warnings(
    methods: Sequence[JudgedMethod],
    texts: Sequence[JudgedText],
    *,
    noun: str = "word",
    foreign: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the warnings of a judgment.

    Parameters
    ----------
    methods
        The rows of the methods.
    texts
        All judged texts, also those without room.
    noun
        Name of a feature.
    foreign
        Names of stored explanations that belong to another model.

    Yields
    ------
    Each warning as a sentence.
    """
    room, words = [text for text in texts if text.has_room], pluralize(noun)
    lost = sum(text.reason is not None for text in texts)
    yield from small_sample_warnings(len(room), len(texts), lost)
    if no_room := sum(text.reason is None and not text.has_room for text in texts):
        yield (
            f"{no_room} of {len(texts)} texts do not count, because all orders of their {words} "
            "are equally good."
        )
    for m in methods:
        if m.texts and m.texts != len(room):
            reason = next(text.reasons[m.method] for text in room if m.method in text.reasons)
            yield (
                f"{m.method} has scores for only {m.texts} of {len(room)} texts, and its "
                f"comparisons use only these texts. A reason: {reason}"
            )
        if m.reason:
            yield f"{m.method} is not judged: {m.reason}"
    if foreign:
        yield (
            f"These stored explanations belong to another model: {', '.join(foreign)}. Explain the "
            "texts again with the judged model."
        )
    if unsigned := [m.method for m in methods if not m.signed and m.share is not None]:
        yield (
            f"Without signs, ranked by the size of the scores: {', '.join(unsigned)}. For these "
            "methods, use the column |change|, which ignores the direction of a change."
        )
    yield from _search_warnings(room)
    if warned := sum(bool(text.warnings) for text in texts):
        yield f"{warned} of {len(texts)} texts have warnings. See the warnings of each text."


def small_sample_warnings(used: int, texts: int, lost: int) -> Iterator[str]:
    """Yield warnings if few texts are used, and if some texts could not be judged."""
    if 0 < used < INTERVAL_TEXTS:
        yield (
            f"Intervals and p-values need at least {INTERVAL_TEXTS} texts, not {used}. Judge "
            f"{RECOMMENDED_TEXTS} or more."
        )
    elif 0 < used < RECOMMENDED_TEXTS:
        yield (f"Only {used} texts: judge {RECOMMENDED_TEXTS} or more for a reliable comparison.")
    if lost:
        yield f"{lost} of {texts} texts could not be judged. See the reason of each text."


def _search_warnings(room: Sequence[JudgedText]) -> Iterator[str]:
    """Yield warnings about ceilings and chance that come from sampled orders."""
    searched = [text for text in room if text.ceiling_kind == "best found"]
    if searched:
        finished = sum(text.greedy is not None for text in searched)
        counts = Counter(text.best for text in searched).most_common()
        winners = [f"{name} ({count})" for name, count in counts]
        yield (
            "The ceiling is not proven. Shares are relative to the best order found: "
            f"{', '.join(winners)}. Greedy search finished on {finished} of {len(searched)} texts."
        )
    measures = [text.deletion for text in room if text.deletion is not None]
    errors = [(m.stderr or 0.0) / (m.ceiling - m.chance) for m in measures]
    # Sampling stops as soon as the rule holds, so it may hold only up to rounding.
    if imprecise := [error for error in errors if error > CHANCE_PRECISION * (1 + 1e-9)]:
        yield (
            f"Chance is imprecise on {len(imprecise)} of {len(room)} texts: its standard error is "
            f"up to {max(imprecise):.1%} of the distance to the best order, not "
            f"{CHANCE_PRECISION:.0%}. If you set budget (--budget), raise it."
        )


def second_replacement_warning(first: Judgment, second: Judgment) -> str:
    """Say whether the order of the methods changes with the second replacement."""
    orders = [[m.method for m in j.rank_methods() if m.share is not None] for j in (first, second)]
    words, replacement = pluralize(first.feature_noun), second.settings["replacement"]
    start = f"If {replacement!r} replaces removed {words}"
    if orders[0] == orders[1]:
        return f"{start}, the order of the methods is the same."
    # Methods that do not differ significantly change places by chance.
    certain, second_certain = (
        {pair.methods for pair in j.pairs if pair.differs} for j in (first, second)
    )
    reversed_pairs = sorted(f"{a} and {b}" for a, b in certain if (b, a) in second_certain)
    return (
        f"{start}, the order of the methods is {', '.join(orders[1])}. Significant differences "
        f"that change their sign: {', '.join(reversed_pairs) or 'none'}."
    )
