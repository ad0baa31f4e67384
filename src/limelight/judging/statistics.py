"""What follows over texts, which are the unit: shares, means, paired differences, a verdict."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np

from limelight.judging.candidates import Candidate
from limelight.judging.removals import PRECISE
from limelight.results.judgment import (
    Interval,
    JudgedMethod,
    JudgedPair,
    JudgedText,
    Judgment,
    Measure,
    MethodColumn,
    TextColumn,
    shown_end,
)
from limelight.shapes import Float, Int
from limelight.text import plural

DRAWS = 2000
# For each column at least: the smallest p-value is 2/draws, and Holm multiplies it by as many
# columns as are compared; with 105 pairs of methods, 2,000 draws could never have told two apart.
_PER_COLUMN = 100
_CELLS = 4_000_000  # weights of texts held at a time
_SAME = 1e-9  # of the room: values that differ by less are a tie
_LEVEL = 0.95
INTERVAL_TEXTS = 10  # at least, for an interval or a p-value: of fewer, none holds as often as said
RANKING_TEXTS = 6  # at least, to name a best method: five texts agree by chance once in sixteen
_DIFFERING_TEXTS = 6  # at least, for a difference to have an interval, for the same reason
_LEAST_SPREAD = 0.2  # of the standard error, in a draw
_NO_TEXT = "there is no text that could tell it from guessing."

# A row for every text: a number of each method, NaN where it takes no part; or one of the text.
PerMethod = Float[np.ndarray, "n c"]
PerText = Float[np.ndarray, " n"]
Number = tuple[float | None, Interval | None]  # None: there is none; no interval of few texts
UNBOUNDED: Interval = (-math.inf, math.inf)
SHARE_RANGE: Interval = (-math.inf, 1.0)  # no order exceeds the ceiling
CORRELATION_RANGE: Interval = (-1.0, 1.0)
PART_RANGE: Interval = (0.0, 1.0)


class Resampled(NamedTuple):
    """Σ gain/Σ room of every column with its bootstrap over texts.

    A share δ has the residuals e = gain − δ room and the standard error s = √(Σ e²)/Σ room.
    Resampled texts have δ* and s*, and ``deviations`` are (δ* − δ)/s*. ``texts`` counts the texts
    that take part, ``differing`` those of them whose gain is not 0.
    """

    share: Float[np.ndarray, " c"]
    stderr: Float[np.ndarray, " c"]
    deviations: Float[np.ndarray, "draws c"]
    texts: Int[np.ndarray, " c"]
    differing: Int[np.ndarray, " c"]
    limits: Interval

    def interval(self, column: int) -> Interval:
        """Return the 95 % interval of a column, cut off where no value can lie."""
        deviations = np.sort(self.deviations[:, column])
        beyond = self._most_beyond()
        lowest, highest = deviations[beyond], deviations[-1 - beyond]
        share, stderr = self.share[column], self.stderr[column]
        # The ends change places: where draws lie far above the share, the truth may lie far below.
        low, high = np.clip((share - highest * stderr, share - lowest * stderr), *self.limits)
        return float(low), float(high)

    def p(self, column: int) -> float:
        """Return the p-value of the hypothesis that a column is 0, never less than 2/(draws + 1).

        It is twice the smaller part of the deviations on either side of share/standard error, and
        below 0.05 exactly where 0 lies outside the interval.
        """
        share, stderr = self.share[column], self.stderr[column]
        if not stderr:
            return 1.0 if share == 0 else 2 / (len(self.deviations) + 1)
        deviations = self.deviations[:, column]
        # The product, not the quotient: it must compare as the ends of the interval do.
        above = np.count_nonzero(share - deviations * stderr <= 0)
        below = np.count_nonzero(share - deviations * stderr >= 0)
        return min(1.0, float(2 * (min(above, below) + 1) / (len(deviations) + 1)))

    def number(self, column: int) -> Number:
        """Return a column with its interval, which fewer than ten texts do not have."""
        if not np.isfinite(self.share[column]):
            return None, None
        enough = self.texts[column] >= INTERVAL_TEXTS
        return float(self.share[column]), self.interval(column) if enough else None

    def tested_columns(self) -> Int[np.ndarray, " tested"]:
        """Return the columns of differences that have an interval and a p-value."""
        enough = self.texts >= INTERVAL_TEXTS
        return np.flatnonzero(enough & (self.differing >= _DIFFERING_TEXTS))

    def simultaneous(self) -> "list[Simultaneous | None]":
        """Return 95 % intervals that hold for all columns at once, None where there are none.

        With q the 95 % point of the largest |deviation| of all columns, δ ± q s holds for all of
        them, however they depend on each other, and so for the one that is looked at because it is
        the largest. 0 lies outside exactly where p is below 0.05, the part of the draws whose
        largest is at least |δ|/s.
        """
        # Columns of too few texts must not widen the interval of the others by wild deviations.
        tested = self.tested_columns()
        draws = len(self.deviations)
        largest = np.sort(np.abs(self.deviations[:, tested]).max(axis=1, initial=0.0))[::-1]
        allowed = math.ceil((1 - _LEVEL) * (draws + 1)) - 2  # draws above: p is still below 5 %
        intervals: list[Simultaneous | None] = [None] * len(self.share)
        for c in tested.tolist():
            share, stderr = self.share[c], self.stderr[c]
            size = abs(share) / stderr if stderr else math.inf
            p = float((1 + np.count_nonzero(largest >= size)) / (draws + 1))
            half = largest[allowed] * stderr
            intervals[c] = Simultaneous((float(share - half), float(share + half)), p)
        return intervals

    def _most_beyond(self) -> int:
        """Return how many draws may lie beyond 0 on one side with p still below 5 %."""
        return math.ceil((1 - _LEVEL) / 2 * (len(self.deviations) + 1)) - 2


def resampled(
    gain: PerMethod, room: PerText | PerMethod, *, seed: int, limits: Interval = SHARE_RANGE
) -> Resampled:
    """Return shares with their studentized bootstrap over texts.

    Parameters
    ----------
    gain
        A row per text and a column per share, NaN where a text takes no part.
    room
        What could have been gained on each text, by all columns or by each.
    seed
        The same seed draws the same texts, so that differences of columns are paired.
    limits
        Between which values a share can lie.
    """
    # Percentiles of δ* hold 0.89 of shares at 12 texts, BCa 0.90, and deviations divided by s* 0.95
    # (benchmarks/interval_candidates.py): texts that miss a tail have also missed its spread.
    draws = max(DRAWS, _PER_COLUMN * gain.shape[1])
    there = np.isfinite(gain)
    # The room of a text counts only for methods that have scores there, so that a share is one of
    # what could have been reached; above and below the line stand the same resampled texts.
    r = there * (room if room.ndim == 2 else room[:, None])
    # What is rounding becomes a tie: it would give a column a spread of 1e-17, beside which its
    # share looked many standard errors large.
    g = np.where(there & (np.abs(gain) > _SAME * r), gain, 0.0)
    total = r.sum(axis=0)
    share = _quotient(g.sum(axis=0), total, np.nan)
    e = np.nan_to_num(g - share * r)
    e[np.abs(e) <= _SAME * r] = 0.0
    stderr = _quotient(np.sqrt((e**2).sum(axis=0)), total, 0.0)
    table = np.concatenate([r, e, e**2, e * r, r**2], axis=1)
    parts = [np.zeros((0, gain.shape[1]))]
    # |change| where all methods have signs, and marks that nobody made, have nothing to draw from.
    for weights in _redrawn(len(room), draws, seed) if there.any() else ():
        total, shift, ee, er, rr = np.split(weights @ table, 5, axis=1)
        # A draw may hold no text that a method explains: it deviates by nothing.
        off = _quotient(shift, total, 0.0)  # δ* − δ
        error = np.sqrt(np.maximum(ee - 2 * off * er + off**2 * rr, 0.0))
        # Draws that miss the few texts which differ have next to no spread.
        error = np.maximum(error, _LEAST_SPREAD * stderr * total)
        parts.append(_quotient(off * total, error, 0.0))
    return Resampled(
        share=share,
        stderr=stderr,
        deviations=np.concatenate(parts),
        texts=there.sum(axis=0),
        differing=np.count_nonzero(g, axis=0),
        limits=limits,
    )


def _redrawn(n: int, draws: int, seed: int) -> Iterator[Int[np.ndarray, "some n"]]:
    """Yield how often each text is in each of the resampled sets, some of the sets at a time."""
    # How often each text is drawn is all that sums need: one product for all columns, where drawing
    # rows would copy the table 2,000 times. In blocks, because 2,000 × a million weights are 16 GB.
    rng, block = np.random.default_rng(seed), max(1, _CELLS // max(n, 1))
    for start in range(0, draws, block):
        yield rng.multinomial(n, np.full(n, 1 / n), size=min(block, draws - start))


def means(table: PerMethod, *, seed: int, limits: Interval = UNBOUNDED) -> Resampled:
    """Return the mean of each column: every text counts the same, as if all rooms were 1."""
    return resampled(table, np.ones(len(table)), seed=seed, limits=limits)


def with_intervals(found: Mapping[str, Resampled], column: int) -> dict[str, Any]:
    """Return a column of every measure by its name, and by ``name_interval`` its interval."""
    own: dict[str, Any] = {}
    for name, one in found.items():
        own[name], own[f"{name}_interval"] = one.number(column)
    return own


def _quotient(a: Any, b: Float[np.ndarray, "*n"], otherwise: Any) -> Float[np.ndarray, "*n"]:
    """Return a/b, and ``otherwise`` where b is 0."""
    return np.divide(a, b, out=np.broadcast_to(otherwise, b.shape).astype(float), where=b > 0)


def holm(p: list[float]) -> list[float]:
    """Return p-values corrected for their number: the k-th smallest times m − k, never falling."""
    # Holm's and not Bonferroni's: it is never behind, whatever the tests have in common.
    order = np.argsort(p, kind="stable")
    out = np.empty(len(p))
    out[order] = np.maximum.accumulate(
        np.minimum(1.0, np.asarray(p)[order] * np.arange(len(p), 0, -1))
    )
    return list(map(float, out))


class Simultaneous(NamedTuple):
    """An interval that holds together with those of all other columns, and the p of that test."""

    interval: Interval
    p: float


def table_of(rows: Iterable[Mapping[str, float]], names: Sequence[str]) -> PerMethod:
    """Return a row per text and a column per method, NaN where there is nothing."""
    cells = [[row.get(name) for name in names] for row in rows]
    return np.array(cells, dtype=float).reshape(-1, len(names))


def pair_rows(
    names: Sequence[str], values: PerMethod, room: PerText, *, seed: int
) -> tuple[JudgedPair, ...]:
    """Return one row per pair of methods that share two texts or more, the better one first."""
    # One difference has no spread, and two methods that share no text have no difference.
    both = [
        (i, j)
        for i, j in combinations(range(len(names)), 2)
        if np.count_nonzero(np.isfinite(values[:, i] - values[:, j])) > 1
    ]
    if not both:
        return ()
    gaps = np.stack([values[:, i] - values[:, j] for i, j in both], axis=1)
    # The better one first: a reader compares leads, and not signs of leads.
    turned = np.nansum(gaps, axis=0) < 0
    gaps = np.where(turned, -gaps, gaps)
    both = [(j, i) if turn else (i, j) for (i, j), turn in zip(both, turned, strict=True)]
    result = resampled(gaps, room, seed=seed, limits=UNBOUNDED)
    tested = result.tested_columns().tolist()
    p = {c: result.p(c) for c in tested}
    corrected = dict(zip(tested, holm(list(p.values())), strict=True))
    return tuple(
        JudgedPair(
            methods=(names[i], names[j]),
            difference=float(result.share[c]),
            interval=result.interval(c) if c in p else None,
            p=p.get(c),
            p_holm=corrected.get(c),
            won=_won_of_pair(gaps[:, c], room),
            simultaneous=at_once and at_once.interval,
            p_simultaneous=at_once and at_once.p,
        )
        for c, ((i, j), at_once) in enumerate(zip(both, result.simultaneous(), strict=True))
    )


def _won_of_pair(gap: PerText, room: PerText) -> float:
    known = np.isfinite(gap)
    # Of the room: areas of 1e-6 may be all there is on a text, and those of 1e3 nothing but noise.
    gap, slack = gap[known], _SAME * room[known]
    return float(np.mean((gap > slack) + 0.5 * (np.abs(gap) <= slack)))


def _gains(measures: Sequence[Measure | None], names: Sequence[str]) -> tuple[PerMethod, PerText]:
    """Return how far the areas of the methods are above chance, and the room up to the ceiling."""
    nothing = Measure(chance=math.nan, ceiling=math.nan, areas={})
    known = [nothing if m is None else m for m in measures]
    chance, ceiling = np.array([(m.chance, m.ceiling) for m in known]).reshape(-1, 2).T
    # A sampled chance may lie above the best found, which is no room and not less than none.
    room = np.nan_to_num(np.maximum(ceiling - chance, 0.0))
    return table_of((m.areas for m in known), names) - chance[:, None], room


def _won(gain: PerMethod, room: PerText, i: int) -> float | None:
    """Return the part of the texts on which no method gains more than method ``i``."""
    known = np.isfinite(gain[:, i])
    if not known.any():
        return None
    best = np.nanmax(gain[known], axis=1) - _SAME * room[known]
    return float(np.mean(gain[known, i] >= best))


def judged_rows(
    candidates: Sequence[Candidate], texts: Sequence[JudgedText], *, seed: int
) -> tuple[tuple[JudgedMethod, ...], tuple[JudgedPair, ...], Number]:
    """Return one row per method, one per pair of them, and the share of the greedy order.

    All are over texts that have room, the last over those where the search came to its end.
    """
    names = [one.name for one in candidates]
    named = {"share": "deletion", "insertion": "insertion", "change": "change"}
    tables = {
        name: _gains([getattr(text, measure) for text in texts], names)
        for name, measure in named.items()
    }
    shares = {name: resampled(*table, seed=seed) for name, table in tables.items()}
    columns, (gain, room) = _columns(texts, names, seed=seed), tables["share"]
    methods = []
    for i, one in enumerate(candidates):
        count = int(np.isfinite(gain[:, i]).sum())
        own = with_intervals(shares, i)
        own["interval"] = own.pop("share_interval")
        if one.signed:  # which claims a direction, and |change| does not ask for one
            own |= {"change": None, "change_interval": None}
        share = own["share"]
        reasons = (one.reason, *(text.reasons.get(one.name) for text in texts), _NO_TEXT)
        methods.append(
            JudgedMethod(
                method=one.name,
                label=one.label,
                signed=one.signed,
                **own,
                won=_won(gain, room, i),
                texts=count,
                tied=sum(text.ties[one.name] > 0 for text in texts),
                sampling=None if share is None else _sampling(texts, one.name, share),
                reason=next(filter(None, reasons)) if share is None else None,
                columns=columns[i],
            )
        )
    # By the same texts and the same draws as the methods, else it could not stand beside them.
    searched, chance = (
        np.array([[getattr(text, name)] for text in texts], dtype=float).reshape(-1, 1)
        for name in ("greedy", "chance")
    )
    greedy = resampled(searched - chance, room, seed=seed)
    pairs = pair_rows(names, gain, room, seed=seed)
    return tuple(methods), pairs, greedy.number(0)


def _columns(
    texts: Sequence[JudgedText], names: Sequence[str], *, seed: int
) -> list[tuple[MethodColumn, ...]]:
    """Return, for each method, the mean of every column over the texts."""
    found: list[list[MethodColumn]] = [[] for _ in names]
    nothing = TextColumn(values={})
    for name in dict.fromkeys(chain.from_iterable(text.columns for text in texts)):
        own = [text.columns.get(name, nothing) for text in texts]
        values = table_of((one.values for one in own), names)
        errors = table_of((one.errors for one in own), names)
        limits = UNBOUNDED if name.startswith("top_") else CORRELATION_RANGE
        result = means(values, seed=seed, limits=limits)
        for i, columns in enumerate(found):
            n = int(result.texts[i])
            value, interval = result.number(i)
            if value is None:
                continue
            known = errors[np.isfinite(errors[:, i]), i]
            # Texts are sampled independently, so the errors of their mean add in squares.
            error = float(np.sqrt(known @ known)) / n if len(known) else None
            columns.append(
                MethodColumn(name=name, value=value, interval=interval, texts=n, sampling=error)
            )
    return [tuple(columns) for columns in found]


def _sampling(texts: Sequence[JudgedText], method: str, share: float) -> float | None:
    """Return what sampled chances within texts add to the error of a share; None where exact.

    Chance stands above and below the line, so a share s moves by (s − 1)/Σ(ceiling − chance) with
    each: an order that reaches the best found does so whatever chance is.
    """
    own = [m for text in texts if (m := text.deletion) is not None and method in m.areas]
    errors = [m.stderr for m in own if m.stderr is not None]
    if not errors:
        return None
    slope = abs(1 - share) / sum(m.ceiling - m.chance for m in own)
    return float(slope * np.sqrt(np.sum(np.square(errors))))


FEW = 30  # texts, below which little can be told


def _said_of(names: Sequence[str], what: str) -> str:
    """Return the names and what is said of them, of one or of several; of none nothing."""
    if not names:
        return ""
    *others, last = names
    return f"{', '.join(others)} and {last} are {what}" if others else f"{last} is {what}"


def verdict(
    methods: Iterable[tuple[str, float | None, Interval | None]],
    pairs: Sequence[JudgedPair],
    *,
    texts: int,
    most: str = "faithful",
    measure: str = "share",
    beside: str = "",
) -> str:
    """Return which method is the ``most`` faithful, which comes next, and which are chance.

    Of every method comes its name, its ``measure``, and the interval of how far that is above
    chance; ``beside`` is said of the measure.
    """
    known = [(name, value, apart) for name, value, apart in methods if value is not None]
    known.sort(key=lambda one: -one[1])
    if not known:
        return "No method can be judged on these texts."
    if len(known) > 1 and texts < RANKING_TEXTS:
        too_few = f"Too few texts ({texts}) to rank the methods"
        return "; ".join(filter(None, (too_few, beside))) + "."
    # Without an interval, as on few texts, nothing can be said about chance.
    apart = [(name, interval) for name, _, interval in known if interval is not None]
    worse = [name for name, (_, high) in apart if high < 0]
    level = [name for name, (low, high) in apart if low <= 0 <= high]
    ranked = [(name, f"{value:z.3f}".replace("-", "−")) for name, value, _ in known]
    tested = pairs if texts >= INTERVAL_TEXTS else ()
    leading = _leading(ranked, tested, most, measure)
    if len(worse) + len(level) == len(known):  # then nothing is the most faithful
        name, value = ranked[0]
        leading = f"no method is distinguishably better than chance ({name} has the largest "
        leading, level = f"{leading}{measure}, {value})", []
    on = "On this text" if texts == 1 else f"On these {texts} texts"
    parts = (
        f"{on} {leading}",
        beside,
        _said_of(worse, "worse than chance"),
        _said_of(level, "not distinguishable from chance"),
    )
    return "; ".join(filter(None, parts)) + "."


def _leading(
    ranked: Sequence[tuple[str, str]], pairs: Sequence[JudgedPair], most: str, measure: str
) -> str:
    """Say which is the ``most`` faithful, plausible …, or that the first two cannot be told."""
    one, x = ranked[0]
    if len(ranked) == 1:
        return f"{one} has the {measure} {x}"
    other, y = ranked[1]
    pair = next((p for p in pairs if set(p.methods) == {one, other}), None)
    largest = f"{one} has the largest {measure} ({x}), {other} comes second ({y})"
    if pair is None:
        return largest
    # Values are of the texts of each, a pair of those that both have, where it may turn around.
    turned = pair.methods[0] == other
    apart = shown_end(pair.difference if turned else -pair.difference)
    if pair.simultaneous is not None:
        low, high = pair.simultaneous
        ends = (low, high) if turned else (-high, -low)
        apart = f"{apart} [{', '.join(map(shown_end, ends))}]"
    if pair.differs and turned:
        return f"{largest}, but on the texts that both have {other} is ahead ({apart})"
    if pair.differs:
        return f"{one} is the most {most} ({measure} {x}), {other} second ({y}, {apart})"
    return (
        f"{one} and {other} are the most {most} and cannot be told apart ({measure} {x} and {y}, "
        f"{apart})"
    )


def judging_notices(
    methods: Sequence[JudgedMethod],
    texts: Sequence[JudgedText],
    *,
    noun: str = "word",
    foreign: Sequence[str] = (),
) -> Iterator[str]:
    """Yield what a reader of the shares must know; ``foreign`` methods are of another model."""
    room, words = [text for text in texts if text.has_room], plural(noun)
    yield from few(len(room), len(texts), sum(text.reason is not None for text in texts))
    if level := sum(text.reason is None and not text.has_room for text in texts):
        yield (
            f"{level} of {len(texts)} texts cannot tell any order from guessing, where the ceiling "
            "is chance: no share counts them."
        )
    if tied := [f"{m.method} in {m.tied} of {m.texts} texts" for m in methods if m.tied]:
        yield (
            f"Some {words} have the same score ({', '.join(tied)}); an area is then the mean over "
            "their orders."
        )
    for m in methods:
        if m.texts and m.texts != len(room):
            why = next(text.reasons[m.method] for text in room if m.method in text.reasons)
            yield (
                f"{m.method} has scores for {m.texts} of {len(room)} texts only; pairs compare "
                f"what both have. Of another text: {why}"
            )
        if m.reason:
            yield f"{m.method} is not judged: {m.reason}"
    if foreign:
        yield f"Stored explanations of another model than the judged one: {', '.join(foreign)}."
    if unsigned := [m.method for m in methods if not m.signed and m.share is not None]:
        yield (
            f"Without signs: {', '.join(unsigned)}. There {words} are ranked by size, and the "
            "column of |change| asks only whether large scores move the output, in whichever "
            "direction."
        )
    yield from _searched(room)
    if noticed := sum(bool(text.notices) for text in texts):
        yield f"{noticed} of {len(texts)} texts come with notices of their own."


def few(known: int, texts: int, lost: int) -> Iterator[str]:
    """Yield that ``known`` texts are few, and that some were lost."""
    if 0 < known < INTERVAL_TEXTS:
        yield (
            f"Intervals and p-values need at least {INTERVAL_TEXTS} texts, here {known}; judge "
            f"{FEW} or more."
        )
    elif 0 < known < FEW:
        yield f"Little can be told from few texts, here {known}; judge {FEW} or more."
    if lost:
        yield f"{lost} of {texts} texts could not be judged, each for a reason that stands with it."


def _searched(room: Sequence[JudgedText]) -> Iterator[str]:
    """Yield what is to be known where the model was asked."""
    asked = [text for text in room if text.ceiling_kind == "best found"]
    if asked:
        done = sum(text.greedy is not None for text in asked)
        won = [f"{name} ({count})" for name, count in Counter(t.best for t in asked).most_common()]
        yield (
            "No ceiling is proven here: shares are of the best order found, the best of all judged "
            f"ones and of greedy search, which came to its end on {done} of {len(asked)} texts. "
            f"The best order is that of {', '.join(won)}."
        )
    levels = [text.deletion for text in room if text.deletion is not None]
    errors = [(m.stderr or 0.0) / (m.ceiling - m.chance) for m in levels]
    # What was drawn until it met the rule meets it up to rounding.
    if worse := [error for error in errors if error > PRECISE * (1 + 1e-9)]:
        yield (
            f"Chance is known to no better than {max(worse):.1%} of its distance to the best found "
            f"on {len(worse)} of {len(room)} texts, where {PRECISE:.0%} was wanted: the budget, or "
            "the number of random orders that are drawn at most, came to its end first."
        )


def second_notice(first: Judgment, second: Judgment) -> str:
    """Say whether the order of the methods is another one under the second replacement."""
    orders = [[m.method for m in j.ranked() if m.share is not None] for j in (first, second)]
    replaced = f"With removed {plural(first.noun)} replaced by {second.settings['replacement']!r}"
    if orders[0] == orders[1]:
        return f"{replaced}, the order of the methods is the same."
    # Methods that cannot be told apart change places by chance.
    certain, other = ({pair.methods for pair in j.pairs if pair.differs} for j in (first, second))
    turned = sorted(f"{one} and {two}" for one, two in certain if (two, one) in other)
    return (
        f"{replaced}, the order of the methods changes to {', '.join(orders[1])}; of the pairs "
        f"that can be told apart under both, turned around: {'; '.join(turned) or 'none'}."
    )
