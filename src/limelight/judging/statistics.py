"""What follows over texts, which are the unit: shares, means, paired differences, a verdict."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np

from limelight.judging.candidates import Candidate
from limelight.judging.removals import PRECISE
from limelight.results.judgement import (
    FIRST_SENTENCE,
    Interval,
    JudgedMethod,
    JudgedPair,
    JudgedText,
    Judgement,
    MarkedText,
    Measure,
    MethodColumn,
    PlausibleMethod,
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
_FEWEST = 6  # texts that differ: of five, all have the same sign by chance once in sixteen times
_LEAST_SPREAD = 0.2  # of the standard error, in a draw
_NO_TEXT = "there is no text that could tell it from guessing."

# A row for every text: a number of each method, NaN where it takes no part; or one of the text.
PerMethod = Float[np.ndarray, "n c"]
PerText = Float[np.ndarray, " n"]
Number = tuple[float | None, Interval | None]  # None: there is none; no interval of a single text


class Resampled(NamedTuple):
    """Σ gain/Σ room of every column, and the same for resampled texts."""

    share: Float[np.ndarray, " c"]
    draws: Float[np.ndarray, "draws c"]

    def interval(self, column: int) -> Interval:
        """Return the 95 % percentile interval of a column."""
        # Percentiles: over few texts a ratio of sums is skewed, which ± a standard error would not
        # be.
        known = self.draws[np.isfinite(self.draws[:, column]), column]
        low, high = np.quantile(known, [0.025, 0.975])
        return float(low), float(high)

    def number(self, column: int, *, texts: int) -> Number:
        """Return a column with its interval, which a single text does not have."""
        if not np.isfinite(self.share[column]):
            return None, None
        # Resampling one text gives it again and again, an interval of no width.
        return float(self.share[column]), self.interval(column) if texts > 1 else None


def resampled(gain: PerMethod, room: PerText, *, seed: int) -> Resampled:
    """Return shares with their bootstrap over texts; NaN in ``gain``: a text takes no part.

    The same seed draws the same texts, so that differences of columns are paired.
    """
    draws = max(DRAWS, _PER_COLUMN * gain.shape[1])
    there = np.isfinite(gain)
    if not there.any():  # |change| where all methods have signs, marks that nobody made
        return Resampled(np.full(gain.shape[1], np.nan), np.full((0, gain.shape[1]), np.nan))
    # The room of a text counts only for methods that have scores there, so that a share is one of
    # what could have been reached; above and below the line stand the same resampled texts.
    table = np.concatenate([np.where(there, gain, 0.0), there * room[:, None]], axis=1)
    found = [_ratio(weights @ table) for weights in _redrawn(len(room), draws, seed)]
    return Resampled(share=_ratio(table.sum(axis=0)), draws=np.concatenate(found))


def _redrawn(n: int, draws: int, seed: int) -> Iterator[Int[np.ndarray, "some n"]]:
    """Yield how often each text is in each of the resampled sets, some of the sets at a time."""
    # How often each text is drawn is all that sums need: one product for all columns, where drawing
    # rows would copy the table 2,000 times. In blocks, because 2,000 × a million weights are 16 GB.
    rng, block = np.random.default_rng(seed), max(1, _CELLS // max(n, 1))
    for start in range(0, draws, block):
        yield rng.multinomial(n, np.full(n, 1 / n), size=min(block, draws - start))


def means(table: PerMethod, *, seed: int) -> Resampled:
    """Return the mean of each column: every text counts the same, as if all rooms were 1."""
    return resampled(table, np.ones(len(table)), seed=seed)


def with_intervals(found: Mapping[str, Resampled], column: int, *, texts: int) -> dict[str, Any]:
    """Return a column of every measure by its name, and by ``name_interval`` its interval."""
    own: dict[str, Any] = {}
    for name, one in found.items():
        own[name], own[f"{name}_interval"] = one.number(column, texts=texts)
    return own


def _ratio(sums: Float[np.ndarray, "*m both"]) -> Float[np.ndarray, "*m c"]:
    gain, room = np.split(sums, 2, axis=-1)
    # A draw may hold no text that a method explains: it has no share then, not an infinite one.
    return _quotient(gain, room, np.nan)


def _quotient(a: Any, b: Float[np.ndarray, "*n"], otherwise: Any) -> Float[np.ndarray, "*n"]:
    """Return a/b, and ``otherwise`` where b is 0."""
    return np.divide(a, b, out=np.broadcast_to(otherwise, b.shape).astype(float), where=b > 0)


def two_sided(draws: Float[np.ndarray, " draws"], *, texts: int) -> float:
    """Return twice the smaller part of draws on either side of 0, at least 2^(1 − texts)."""
    known = draws[np.isfinite(draws)]
    # Draws at 0 are on both sides: methods that never differ are as likely either way.
    fewer = min(np.count_nonzero(known <= 0), np.count_nonzero(known >= 0))
    # Resampling three texts that agree always finds agreement. That n signs are all the same has
    # the probability 2^(1 − n) where both are as likely: no test of n differences goes below it.
    return min(1.0, max(2 * (int(fewer) + 1) / (len(known) + 1), 2.0 ** (1 - texts)))


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


def simultaneous(gain: PerMethod, room: PerText, *, seed: int) -> list[Simultaneous | None]:
    """Return 95 % intervals of the shares Σ gain/Σ room that hold for all columns at once.

    A share δ has the residuals e = gain − δ room and the standard error s = √(Σ e²)/Σ room;
    resampled texts have δ* and s*. With q the 95 % point of the largest |δ* − δ|/s* of all columns,
    δ ± q s holds for all of them, however they depend on each other, and so for the one that is
    looked at because it is the largest. 0 lies outside exactly where p is below 5 %, the part of
    the draws whose largest is at least |δ|/s. None where fewer than six texts differ.
    """
    there = np.isfinite(gain)
    # Differences that are rounding become ties: they would give a column a spread of 1e-17, beside
    # which its share looked many standard errors large.
    g = np.where(there & (np.abs(gain) > _SAME * room[:, None]), gain, 0.0)
    r = there * room[:, None]
    total = r.sum(axis=0)
    share = _quotient(g.sum(axis=0), total, 0.0)
    e = g - share * r
    e[np.abs(e) <= _SAME * r] = 0.0  # rounding has no spread
    stderr = _quotient(np.sqrt((e**2).sum(axis=0)), total, 0.0)
    table = np.concatenate([r, e, e**2, e * r, r**2], axis=1)
    parts = []
    for weights in _redrawn(len(room), DRAWS, seed):
        total, shift, ee, er, rr = np.split(weights @ table, 5, axis=1)
        off = _quotient(shift, total, 0.0)  # δ* − δ
        error = np.sqrt(np.maximum(ee - 2 * off * er + off**2 * rr, 0.0))
        # Draws that miss the few texts which differ have next to no spread.
        error = np.maximum(error, _LEAST_SPREAD * stderr * total)
        parts.append(_quotient(np.abs(off) * total, error, 0.0))
    # Columns of too few texts must not widen the interval of the others by their wild quotients.
    known = np.flatnonzero(np.count_nonzero(g, axis=0) >= _FEWEST)
    largest = np.sort(np.concatenate(parts)[:, known].max(axis=1, initial=0.0))[::-1]
    allowed = math.ceil((1 - _LEVEL) * (DRAWS + 1)) - 2  # draws above: then p is still below 5 %
    found: list[Simultaneous | None] = [None] * len(share)
    for c in known.tolist():
        size = abs(share[c]) / stderr[c] if stderr[c] else math.inf
        p = (1 + int(np.count_nonzero(largest >= size))) / (DRAWS + 1)
        half = largest[allowed] * stderr[c]
        found[c] = Simultaneous((float(share[c] - half), float(share[c] + half)), p)
    return found


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
    result = resampled(gaps, room, seed=seed)
    texts = np.isfinite(gaps).sum(axis=0).tolist()
    p = [two_sided(draws, texts=n) for draws, n in zip(result.draws.T, texts, strict=True)]
    corrected = holm(p)
    found = []
    for c, ((i, j), at_once) in enumerate(
        zip(both, simultaneous(gaps, room, seed=seed), strict=True)
    ):
        # The better one first: a reader compares leads, and not signs of leads.
        methods, gap, (low, high) = (names[i], names[j]), float(result.share[c]), result.interval(c)
        won = _won_of_pair(gaps[:, c], room)
        ends = None if at_once is None else at_once.interval
        if gap < 0:
            methods, gap, low, high, won = methods[::-1], -gap, -high, -low, 1 - won
            ends = None if ends is None else (-ends[1], -ends[0])
        found.append(
            JudgedPair(
                methods=methods,
                difference=gap,
                interval=(low, high),
                p=p[c],
                p_holm=corrected[c],
                won=won,
                simultaneous=ends,
                p_simultaneous=None if at_once is None else at_once.p,
            )
        )
    return tuple(found)


def _won_of_pair(gap: PerText, room: PerText) -> float:
    known = np.isfinite(gap)
    # Of the room: areas of 1e-6 may be all there is on a text, and those of 1e3 nothing but noise.
    gap, slack = gap[known], _SAME * room[known]
    return float(np.mean((gap > slack) + 0.5 * (np.abs(gap) <= slack)))


class _Measured(NamedTuple):
    """One measure over texts: ``areas`` by method and the ``room`` between chance and ceiling."""

    areas: PerMethod
    chance: Float[np.ndarray, " n"]
    room: PerText

    @staticmethod
    def of(measures: Sequence[Measure | None], names: Sequence[str]) -> "_Measured":
        return _Measured(
            areas=table_of(({} if m is None else m.areas for m in measures), names),
            chance=np.array([np.nan if m is None else m.chance for m in measures]),
            # A sampled chance may lie above the best found, which is no room and not less than
            # none.
            room=np.array([0.0 if m is None else max(m.ceiling - m.chance, 0.0) for m in measures]),
        )

    def shares(self, areas: PerMethod, *, seed: int) -> Resampled:
        """Return what ``areas`` have of the room."""
        return resampled(areas - self.chance[:, None], self.room, seed=seed)

    def won(self, i: int) -> float | None:
        """Return the part of the texts on which no method has a larger area than method ``i``."""
        known = np.isfinite(self.areas[:, i])
        if not known.any():
            return None
        best = np.nanmax(self.areas[known], axis=1) - _SAME * self.room[known]
        return float(np.mean(self.areas[known, i] >= best))


def judged_rows(
    candidates: Sequence[Candidate], texts: Sequence[JudgedText], *, seed: int
) -> tuple[tuple[JudgedMethod, ...], tuple[JudgedPair, ...], Number]:
    """Return one row per method, one per pair of them, and the share of the greedy order.

    All are over texts that have room, the last over those where the search came to its end.
    """
    names = [one.name for one in candidates]
    deletion, insertion, change = (
        _Measured.of([getattr(text, name) for text in texts], names)
        for name in ("deletion", "insertion", "change")
    )
    several = {"share": deletion, "insertion": insertion, "change": change}
    shares = {name: one.shares(one.areas, seed=seed) for name, one in several.items()}
    columns = _columns(texts, names, seed=seed)
    methods = []
    for i, one in enumerate(candidates):
        count = int(np.isfinite(deletion.areas[:, i]).sum())
        own = with_intervals(shares, i, texts=count)
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
                won=deletion.won(i),
                texts=count,
                tied=sum(text.ties[one.name] > 0 for text in texts),
                sampling=None if share is None else _sampling(texts, one.name, share),
                reason=next(filter(None, reasons)) if share is None else None,
                columns=columns[i],
            )
        )
    pairs = pair_rows(names, deletion.areas, deletion.room, seed=seed)
    searched = np.array([[text.greedy] for text in texts], dtype=float).reshape(-1, 1)
    # By the same texts and the same draws as the methods, else it could not stand beside them.
    greedy = deletion.shares(searched, seed=seed)
    return tuple(methods), pairs, greedy.number(0, texts=len(texts))


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
        result = means(values, seed=seed)
        for i, columns in enumerate(found):
            n = int(np.isfinite(values[:, i]).sum())
            value, interval = result.number(i, texts=n)
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


class _Ranking(NamedTuple):
    """Names and values, best first, and which of them are worse than chance, or not to be told."""

    names: list[str]
    values: list[float]
    worse: list[str]
    level: list[str]

    @staticmethod
    def of(methods: Iterable[tuple[str, float | None, Interval | None]]) -> "_Ranking":
        """Rank names by their value; the interval is of how far each is above chance."""
        known = [(name, value, apart) for name, value, apart in methods if value is not None]
        known.sort(key=lambda one: -one[1])
        # Without an interval, as on a single text, nothing can be said about chance.
        apart = [(name, interval) for name, _, interval in known if interval is not None]
        return _Ranking(
            names=[name for name, _, _ in known],
            values=[value for _, value, _ in known],
            worse=[name for name, (_, high) in apart if high < 0],
            level=[name for name, (low, high) in apart if low <= 0 <= high],
        )

    def leading(
        self, pairs: Sequence[JudgedPair], *, most: str, measure: tuple[str, str], of: str = ""
    ) -> str:
        """Say which is the ``most`` faithful, plausible …, or that the first two cannot be told.

        ``measure`` is what they are ranked by, and its plural; ``of`` what it is a part of.
        """
        one, x = self.names[0], _number(self.values[0])
        if len(self.names) == 1:
            return f"{one} has the {measure[0]} {x}{of}"
        other, y = self.names[1], _number(self.values[1])
        pair = next((p for p in pairs if set(p.methods) == {one, other}), None)
        largest = f"{one} has the largest {measure[0]}{of} ({x}), {other} comes second ({y})"
        if pair is None:
            return largest
        # Values are of the texts of each, a pair of those that both have, where it may turn around.
        turned = pair.methods[0] == other
        apart = _number(pair.difference if turned else -pair.difference)
        if pair.simultaneous is not None:
            low, high = pair.simultaneous
            ends = (low, high) if turned else (-high, -low)
            apart = f"{apart} [{', '.join(map(shown_end, ends))}]"
        if pair.differs and turned:
            return f"{largest}, but on the texts that both have {other} is ahead ({apart})"
        if pair.differs:
            return f"{one} is the {most} ({measure[0]}{of} {x}), {other} second ({y}, {apart})"
        return (
            f"{one} and {other} are the {most} and cannot be told apart ({measure[1]}{of} {x} and "
            f"{y}, {apart})"
        )


def _said_of(names: Sequence[str], what: str, verbs: tuple[str, str] = ("is", "are")) -> str:
    """Return the names, the verb in the singular or the plural, and what is said of them."""
    if not names:
        return ""
    if len(names) == 1:
        return f"{names[0]} {verbs[0]} {what}"
    return f"{', '.join(names[:-1])} and {names[-1]} {verbs[1]} {what}"


def _sentence(*parts: str) -> str:
    return "; ".join(part for part in parts if part) + "."


def _number(x: float) -> str:
    """Return three decimals with a true minus."""
    return f"{x or 0.0:.3f}".replace("-", "−")


def _on(texts: int) -> str:
    return "On this text" if texts == 1 else f"On these {texts} texts"


def verdict(
    methods: Sequence[JudgedMethod], pairs: Sequence[JudgedPair], *, texts: int, kind: str
) -> str:
    """Return which method is the most faithful, which comes next, and which are chance."""
    found = _Ranking.of((m.method, m.share, m.interval) for m in methods)
    if not found.names:
        return "No method can be judged on these texts."
    worse = _said_of(found.worse, "worse than chance")
    first = next(m for m in methods if m.method == found.names[0])
    # Shown only where intervals tell something of chance, and then the first method has one.
    low, high = first.interval or (0.0, 0.0)
    largest = f"{_number(found.values[0])} [{_number(low)}, {_number(high)}])"
    if found.worse == found.names:
        if len(found.names) == 1:
            return f"{_on(texts)} {worse} (share {largest}."
        return (
            f"{_on(texts)} every method is worse than chance ({first.method} has the largest "
            f"share, {largest}."
        )
    if len(found.worse) + len(found.level) == len(found.names):
        than = "distinguishably better than" if found.worse else "distinguishable from"
        return _sentence(
            f"{_on(texts)} no method is {than} chance ({first.method} has the largest share, "
            f"{largest}",
            worse,
        )
    of = "" if kind == "proven" else " of the best found"
    leading = found.leading(pairs, most="most faithful", measure=("share", "shares"), of=of)
    level = _said_of(found.level, "not distinguishable from chance")
    return _sentence(f"{_on(texts)} {leading}", worse, level)


def plausible_verdict(
    methods: Sequence[PlausibleMethod],
    references: Sequence[PlausibleMethod],
    pairs: Sequence[JudgedPair],
    *,
    texts: int,
) -> str:
    """Return which method names what people marked, and which do no better than guessing."""
    found = _Ranking.of((m.method, m.precision, m.above_interval) for m in methods)
    if not found.names:
        return f"{FIRST_SENTENCE} No method can be held against rationales on these texts."
    measure, level = "average precision", found.level
    if len(found.worse) + len(level) == len(found.names):  # then there is no most plausible one
        leading = (
            f"no method is more plausible than guessing ({found.names[0]} has the largest "
            f"{measure}, {_number(found.values[0])})"
        )
        level = []
    else:
        leading = found.leading(pairs, most="most plausible", measure=(measure, measure))
    chance, reach = (f"{one.precision:.3f}" for one in references[:2])
    sentence = _sentence(
        f"{_on(texts)} {leading}",
        f"guessing has {chance}, the rationale itself as scores {reach}",
        _said_of(found.worse, "less plausible than guessing"),
        _said_of(level, "not distinguishable from guessing"),
    )
    return f"{FIRST_SENTENCE} {sentence}"


def _texts(count: int, one: str, more: str) -> str:
    """Return "1 text" or "7 texts" with what is said of one and of more; of none nothing."""
    return "" if not count else f"1 text{one}" if count == 1 else f"{count} texts{more}"


def _few(count: int, rest: str) -> str:
    return f"Only {_texts(count, rest, rest)}" if 0 < count < FEW else ""


def judging_notices(
    methods: Sequence[JudgedMethod],
    texts: Sequence[JudgedText],
    *,
    noun: str = "word",
    foreign: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return what a reader of the shares must know; ``foreign`` methods are of another model."""
    room = [text for text in texts if text.has_room]
    judged = [text for text in texts if text.reason is None]
    tied = [f"{m.method} in {m.tied} of {m.texts} texts" for m in methods if m.tied]
    unsigned = [m.method for m in methods if not m.signed and m.share is not None]
    partly = [
        (m, next(text.reasons[m.method] for text in room if m.method in text.reasons))
        for m in methods
        if m.texts and m.texts != len(room)
    ]
    notices = [
        _few(len(room), f": little can be told; judge {FEW} or more."),
        _texts(
            len(texts) - len(judged),
            " could not be judged; its reason stands with it.",
            " could not be judged; each has its reason.",
        ),
        _texts(
            len(judged) - len(room),
            " cannot tell any order from guessing, since its ceiling is its chance; it is in no "
            "share.",
            " cannot tell any order from guessing, since their ceiling is their chance; they "
            "are in no share.",
        ),
        f"Some {plural(noun)} have the same score ({', '.join(tied)}); an area is then the mean "
        "over their orders."
        if tied
        else "",
        *(
            f"{m.method} has scores for {m.texts} of {len(room)} texts only; pairs compare what "
            f"both have. Of another text: {why}"
            for m, why in partly
        ),
        *(f"{m.method} is not judged: {m.reason}" for m in methods if m.reason),
        _said_of(
            foreign, "stored explanations of another model than the judged one.", ("holds", "hold")
        ),
        _said_of(
            unsigned,
            f"no signs: {plural(noun)} are ranked by size, and the column of |change| asks only "
            "whether large scores move the output, in whichever direction.",
            ("has", "have"),
        ),
        _searched(room),
        _imprecise(room),
        _texts(
            sum(bool(text.notices) for text in texts),
            " comes with notices of its own.",
            " come with notices of their own.",
        ),
    ]
    return tuple(filter(None, notices))


def plausible_notices(texts: Sequence[MarkedText], *, cut: int) -> tuple[str, ...]:
    """Return what a reader of plausibility must know; ``cut`` texts are not read to the end."""
    known = sum(text.reason is None for text in texts)
    notices = [
        _few(known, " with rationales: little can be told."),
        _texts(
            len(texts) - known,
            " could not be held against a rationale; its reason stands with it.",
            " could not be held against a rationale; each has its reason.",
        ),
        f"The model does not read {cut} text{'s' * (cut != 1)} to the end: what is marked past "
        "that is not counted."
        if cut
        else "",
    ]
    return tuple(filter(None, notices))


def _searched(room: Sequence[JudgedText]) -> str:
    asked = [text for text in room if text.ceiling_kind == "best found"]
    if not asked:
        return ""
    done = sum(text.greedy is not None for text in asked)
    won = [f"{name} ({count})" for name, count in Counter(t.best for t in asked).most_common()]
    return (
        "No ceiling is proven here: shares are of the best order found, the best of all judged "
        f"ones and of greedy search, which came to its end on {done} of {len(asked)} texts. "
        f"The best order is that of {', '.join(won)}."
    )


def _imprecise(room: Sequence[JudgedText]) -> str:
    levels = [text.deletion for text in room if text.deletion is not None]
    errors = [(m.stderr or 0.0) / (m.ceiling - m.chance) for m in levels]
    # What was drawn until it met the rule meets it up to rounding.
    worse = [error for error in errors if error > PRECISE * (1 + 1e-9)]
    if not worse:
        return ""
    return (
        f"Chance is known to no better than {max(worse):.1%} of its distance to the best found on "
        f"{len(worse)} text{'s' * (len(worse) != 1)}, where {PRECISE:.0%} was wanted: the budget, "
        "or the number of random orders that are drawn at most, came to its end first."
    )


def second_notice(first: Judgement, second: Judgement) -> str:
    """Say whether the order of the methods is another one under the second replacement."""
    orders = [[m.method for m in j.ranked() if m.share is not None] for j in (first, second)]
    replaced = f"With removed {plural(first.noun)} replaced by {second.settings['replacement']!r}"
    if orders[0] == orders[1]:
        return f"{replaced}, the order of the methods is the same."
    # Methods that cannot be told apart change places by chance.
    turned = [
        f"{one} and {other}" for one, other in _certain(first) if (other, one) in _certain(second)
    ]
    sure = (
        f"of the pairs that can be told apart under both, {_said_of(turned, 'turned around')}"
        if turned
        else "no pair that can be told apart under both is turned around"
    )
    return f"{replaced}, the order of the methods changes to {', '.join(orders[1])}; {sure}."


def _certain(j: Judgement) -> list[tuple[str, str]]:
    return [pair.methods for pair in j.pairs if pair.differs]
