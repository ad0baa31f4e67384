"""Shapley values and their kin: Owen values of words inside sentences, and leave-one-out."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, NamedTuple, cast, final

import numpy as np

from limelight.errors import DomainError, InputError, nearest
from limelight.explainers.budget import DEFAULT_CALLS, Draws, by_draws
from limelight.explainers.learned import PREFIX, Learned, Start
from limelight.explainers.method import (
    MEANS,
    Counted,
    Method,
    NotBelow,
    OneOf,
    Positive,
    Share,
    Way,
    at_least,
    by_quadrature,
    each,
    settings_class,
)
from limelight.explainers.reading import Reading
from limelight.explainers.target_game import (
    MEAN_FIELD,
    TargetGame,
    bounded,
    exact_values,
    seen_errors,
    unseen_effects,
)
from limelight.models import resolved_replacement
from limelight.results import Finding
from limelight.sampling.all_masks import nested_count, owen_of_all_masks, shapley_of_all_masks
from limelight.sampling.kernel import fewest_pairs, regression_shapley
from limelight.sampling.masks import text_rng
from limelight.sampling.orders import (
    FEWEST,
    ShapleySample,
    inner_shapley,
    permutation_shapley,
)
from limelight.sampling.spread import half_quantile
from limelight.shapes import Float, Int
from limelight.text import Features, features_of, name_of_one, nested, one_line
from limelight.text.units import CUTTERS
from limelight.theory.leave_one_out import leave_one_out
from limelight.theory.mean_field import shapley_mean_field, shapley_mean_field_bound
from limelight.theory.namespace import host_array
from limelight.theory.owen import owen
from limelight.theory.ratio_game import one_document
from limelight.theory.shapley import shapley

# Pairs: with 10, ±2 standard errors held in 0.78 of cases beside a smooth part. Orders of words are
# good sooner: on MiniLM 25, 5 and 2 pairs reach 0.88, 0.86 and 0.83 of the way from a random order
# to that of greedy search.
_ENOUGH = 25
_FEWEST = 2  # one pair has no spread
# Draws that what a learned method knows of their spread counts for, beside those of the text.
_KNOWN_DRAWS = 8
_WIDENED: list[float] = np.geomspace(1.0, 1e6, 121).tolist()
SAMPLERS = ("auto", "orders", "regression")
# A regression is the better sampler of at most so many units, from d²/2 calls on: 6 for each of 12,
# 15 for each of 30. On words under MiniLM d²/3 would do, under a small GPT-2 orders are as good to
# d² (20 words); benchmarks/samplers.py measures and checks it.
_FEW_UNITS, _SHARE_OF_SQUARE = 30, 2


@final
@settings_class
class Shapley:
    """Settings of Shapley values: of a quadrature, or of random orders or masks of the words."""

    tolerance: Annotated[float | None, Positive] = None
    per_head: bool = False
    pairs: Annotated[int | None, at_least(1)] = None
    max_pairs: Annotated[int, at_least(1), NotBelow("pairs")] = 10_000
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0
    spare: Annotated[int, at_least(0)] = 0
    sampler: Annotated[str, OneOf(SAMPLERS)] = "auto"
    start: Learned | str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.start, str):
            try:
                learned = Learned.load(self.start.removeprefix(PREFIX))
            except InputError as error:
                raise InputError(f"the setting 'start' must be a learned method: {error}") from None
            object.__setattr__(self, "start", learned)
        for name in ("pairs", "max_pairs") if self.start is None else ():
            if getattr(self, name) == 1:
                raise InputError(
                    f"{name} must be at least {_FEWEST}, since one pair has no spread, unless a "
                    "learned method is the start; got 1."
                )
        if self.tolerance is not None and self.sampler == "regression":
            raise InputError(
                "a tolerance is met by drawing more orders; leave the sampler 'regression' out, or "
                "set pairs instead of the tolerance."
            )
        if self.tolerance is not None and self.max_pairs < FEWEST:
            raise InputError(
                f"max_pairs must be at least {FEWEST} with a tolerance, because fewer pairs do "
                f"not show their spread; got {self.max_pairs}."
            )

    def by_regression(self, d: int) -> bool:
        """Whether pairs are of a mask and its complement, not of an order and its reverse."""
        if self.sampler != "auto":
            return self.sampler == "regression"
        # A number of pairs has always been one of orders, and a tolerance is met by adding some.
        return self.pairs is None and self.tolerance is None and _few_units(d, DEFAULT_CALLS)

    @property
    def draws(self) -> Draws:
        """How many pairs are drawn: all orders begin and end with the same two masks."""

        least = _FEWEST if self.start is None else 1

        def fewest(d: int) -> int:
            if not self.by_regression(d):
                return least
            if self.sampler == "regression":
                return fewest_pairs(d)
            # What either of the two takes, in pairs of masks.
            enough = math.ceil(d * d / (2 * _SHARE_OF_SQUARE)) - 1
            return min(max(fewest_pairs(d), enough), least * (d - 1))

        def each(d: int) -> int:
            return 2 if self.by_regression(d) else 2 * max(d - 1, 1)

        return Draws(
            count=self.pairs,
            most=self.max_pairs,
            tolerance=self.tolerance,
            usual=lambda d: max((DEFAULT_CALLS - 2) // each(d), fewest(d)),
            fewest=least,
            determining=fewest,
            each=each,
            shared=2,
            beside=0,
            kind="pairs of orders",
            limit="max_pairs",
        )


def _few_units(d: int, calls: int) -> bool:
    return d <= _FEW_UNITS and _SHARE_OF_SQUARE * calls >= d * d


def _with_sampler(settings: Shapley, d: int, calls: int) -> Shapley:
    """Return the settings with the sampler that is best for so many calls."""
    if settings.sampler != "auto":
        return settings
    return replace(settings, sampler="regression" if _few_units(d, calls) else "orders")


def _check_pairs(settings: Shapley, d: int) -> None:
    """Refuse before any call a regression that has too little to go by."""
    draws, least = settings.draws, fewest_pairs(d)
    if settings.by_regression(d) and draws.first(d) < least and not draws.asks_all(d):
        raise DomainError(
            f"a regression on {d} words needs at least {least} pairs of masks; got "
            f"{draws.first(d)}. Set pairs to {least} or more, or leave the sampler out."
        )


def _sampled(settings: Shapley, one: Reading) -> Finding:
    """Score every feature by what it adds to the words before it, or by a regression on masks."""
    game, d, draws = TargetGame(one, settings.replacement), len(one.features[0]), settings.draws
    start = _start(settings, one)
    if draws.asks_all(d):
        return game.of_all_masks(shapley_of_all_masks(game, d)[0])
    _check_pairs(settings, d)
    rng, regressed = text_rng(settings.seed, one.documents[0].text), settings.by_regression(d)
    if regressed:
        found = regression_shapley(game, d, rng, pairs=draws.first(d), known_range=game.known_range)
    else:
        found = permutation_shapley(
            game,
            d,
            rng,
            pairs=draws.first(d),
            tolerance=settings.tolerance,
            most=settings.max_pairs,
            known_range=game.known_range,
            spare=settings.spare,
        )
    drawn = {"pairs_drawn": found.pairs, "sampler": "regression" if regressed else "orders"}
    said = _of_pairs(settings, found, d) + game.notices
    if start is not None and d > 2:
        return _combined(start, found, regressed, game.base_value, said, drawn)
    return Finding(
        scores=found.values[0],
        # Two words have one pair of orders, whose mean is exact.
        stderr=seen_errors(found.stderr[0]) if d > 2 else found.stderr[0],
        base_value=game.base_value,
        notices=said,
        diagnostics=drawn,
    )


def _start(settings: Shapley, one: Reading) -> Start | None:
    """Return what a learned method says of the text; refuse what it has not learned about."""
    if not isinstance(settings.start, Learned):
        return None
    if one.targets.scale == "probability":
        raise InputError(
            "a learned method knows logits only; ask for the logit, or leave start out."
        )
    usual = resolved_replacement(one.model, "auto")
    if settings.replacement != usual:
        raise InputError(
            f"a learned method knows what removing a word does if {usual!r} stands for it; leave "
            f"replacement out, or start. Got {settings.replacement!r}."
        )
    start = settings.start.starts(one)[0]
    if np.isnan(start.draw).any():
        raise InputError(
            "this method was learned from stored values that were not drawn by orders of words, "
            "so it does not know how far off a pair of orders is; learn from texts, or leave start "
            "out."
        )
    return start


def _combined(
    start: Start,
    found: ShapleySample,
    regressed: bool,
    base_value: float | None,
    said: tuple[str, ...],
    drawn: dict[str, Any],
) -> Finding:
    """Return the mean of learned and drawn scores, each by its squared error, word by word.

    The squared error of one pair of orders is what the learned method has seen on other texts; of
    several, the text's own spread counts as so many draws more. Where the learned scores are
    farther from the drawn ones than both errors allow, over all words, theirs are widened: the text
    is unlike those they were learned from. Last, what scores lack of f(all) − f(none), which the
    drawn ones add up to, goes to each by its squared error; in the distance that weighs words by
    these, the truth is then nearer.
    """
    values, square = found.values[0], found.squared[0]
    if not regressed:
        n = found.drawn
        known = _KNOWN_DRAWS + n - 1.0
        square = (_KNOWN_DRAWS * start.draw**2 / n + (n - 1) * square) / known
        square = square * half_quantile(known) ** 2  # it is an estimate itself
    apart, own = (start.scores - values) ** 2, start.stderr**2
    fits = (x for x in _WIDENED if np.mean(apart / (x * own + square)) <= 1)
    widened = next(fits, _WIDENED[-1])
    weight = square / (widened * own + square)
    scores, variance = weight * start.scores + (1 - weight) * values, (1 - weight) * square
    scores = scores + variance / variance.sum() * (values.sum() - scores.sum())
    what = "pairs of masks" if regressed else "pairs of orders"
    many = f"{found.pairs} {what if found.pairs > 1 else 'pair of orders'}"
    far = f", whose errors are taken {widened**0.5:.1f} times as large here" if widened > 4 else ""
    return Finding(
        scores=scores,
        stderr=np.sqrt(variance),
        base_value=base_value,
        notices=(
            f"Scores are means of those of the learned method{far} and of {many}, each weighed by "
            "its squared error; those that were drawn alone, which have no bias, are in the "
            "diagnostics as 'unbiased'.",
            *start.notices,
            *said,
        ),
        diagnostics={
            **drawn,
            "unbiased": values.tolist(),
            "unbiased_stderr": np.sqrt(square).tolist(),
            "learned_share": float(weight.mean()),
            "learned_widened": widened,
        },
    )


def _of_pairs(
    settings: Shapley, found: ShapleySample, d: int, *, more: str = f"set pairs to {_ENOUGH}"
) -> tuple[str, ...]:
    """Return what must be said of the pairs; ``more`` is how to have enough of them."""
    few: tuple[str, ...] = ()
    regressed = settings.by_regression(d)
    # An order of two words and its reverse are all orders.
    if not regressed and found.pairs < _ENOUGH and d > 2 and settings.start is None:
        few = (
            f"Good for which words matter and which way they pull: {found.pairs} pairs of orders "
            f"rank words nearly as well as {_ENOUGH} do. For the size of a single score and its "
            f"standard error {more} or more, since what shows in few orders only "
            "may not have come up yet.",
        )
    return (
        few
        + settings.draws.unmet(found.pairs, float(found.stderr.max()))
        + unseen_effects(
            flat=bool(found.flat[0]) and d > 2 and settings.start is None,
            spike=float(found.spike[0]),
            size=float(found.size[0]),
            draws=found.pairs,
            same="fit one linear model" if regressed else "give the same scores",
            what="pairs of masks" if regressed else "pairs of orders",
            tail=float(found.tail[0]),
        )
    )


_SHOWN = 8  # sentences
_MOST_MASKS = 500_000
# On reviews of more than 600 words a fifth of two pairs of orders of all their words, or less:
# 1,000 were 0.227 of them (benchmarks/samplers.py --long).
_ZOOM_CALLS = 800
_WITHIN = "what the words lie in: 'sentences', 'paragraphs' or 'lines'"


@final
@settings_class
class Owen:
    """Settings of Owen values: of a quadrature, or of random orders that keep units together."""

    # Here, because a text's share of it is what the quadrature sees.
    tolerance: Annotated[float | None, Share] = None
    within: str = "sentences"
    samples: Annotated[int | None, at_least(4)] = None
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0

    def __post_init__(self) -> None:
        for unit in self.units:
            if unit not in CUTTERS:
                raise InputError(nearest("units to be within", unit, CUTTERS))

    @property
    def units(self) -> list[str]:
        """The units that words lie in, innermost first."""
        return self.within.split(" in ")

    @property
    def draws(self) -> Draws:
        """How many masks are asked, all those of the orders together."""
        return _masks_in_all(self.samples, fewest=lambda d: 2 + 4 * max(d - 1, 1))


def _masks_in_all(
    samples: int | None, fewest: Callable[[int], int], usual: int = DEFAULT_CALLS
) -> Draws:
    return Draws(
        count=samples,
        most=_MOST_MASKS,
        tolerance=None,
        usual=lambda d: max(usual, fewest(d)),
        fewest=4,
        determining=fewest,
        beside=0,
        enumerates=False,
    )


class _Players(NamedTuple):
    """The features of a text cut where the units that hold them end.

    ``levels`` are the units of each part from the outermost on, ``units`` the cuts in the same
    order, and ``feature`` is what a part belongs to.
    """

    parts: Features
    feature: Int[np.ndarray, " n"]
    levels: Int[np.ndarray, "L n"]
    units: tuple[Features, ...]


def _players(one: Reading, within: Sequence[str]) -> _Players:
    (document,), (features,) = one.documents, one.features
    parts, feature = features, np.arange(len(features))
    levels: list[Int[np.ndarray, " n"]] = []
    units: list[Features] = []
    for unit in within:
        units.insert(0, features_of(document, unit))
        parts, inner, outer = nested(parts, units[0])
        feature, levels = feature[inner], [outer, *(level[inner] for level in levels)]
    return _Players(parts, feature, np.stack(levels), tuple(units))


def _in_sentences(settings: Owen, one: Reading) -> Finding:
    """Score every feature by its Owen value; one that spans sentences is a player in each."""
    if len(settings.units) > 1:
        raise InputError(
            f"Owen values of this model are exact, of words within one kind of unit; got within="
            f"{settings.within!r}. Leave out all but one of them."
        )
    players, d = _players(one, settings.units), len(one.features[0])
    refined = _of_features(one, players.parts)
    several = np.bincount(players.feature, minlength=d)
    # A score is the sum of that many values at most, and so is its error.
    tolerance = cast(float, settings.tolerance) / int(several.max())
    found = owen(one_document(refined.ratio_game, 0), players.levels[0], tolerance=tolerance)
    values = host_array(found.scores)[0]
    return Finding(
        scores=np.bincount(players.feature, values, minlength=d),
        bound=float(found.bound[0]) * int(several.max()),
        **_of_units(one, players, values @ _sums(players, d)),
    )


def _sums(players: _Players, d: int) -> Float[np.ndarray, "n k"]:
    """The matrix that adds values of parts up to those of features, then of the units around."""
    counts = [d, *map(_held, players.units, players.levels)]
    columns = zip((players.feature, *players.levels), counts, strict=True)
    return np.hstack([np.eye(count)[column] for column, count in columns])


def _held(units: Features, level: Int[np.ndarray, " n"]) -> int:
    return max(len(units), int(level.max()) + 1)


def _in_nested_orders(settings: Owen, one: Reading) -> Finding:
    """Score every feature by what it adds in orders that keep the units around it together."""
    players, d, draws = _players(one, settings.units), len(one.features[0]), settings.draws
    n, asked = len(players.parts), draws.first(d)
    refined = _of_features(one, players.parts)
    game, sums = TargetGame(refined, settings.replacement), _sums(players, d)
    if nested_count(players.levels) <= max(asked, DEFAULT_CALLS if settings.samples is None else 0):
        totals = owen_of_all_masks(game, players.levels)[0] @ sums
        own = _of_units(one, players, totals)
        masks = {"masks": nested_count(players.levels)}
        return game.of_all_masks(totals[:d], said=own["notices"], **own["diagnostics"] | masks)
    pairs = (asked - 2) // (2 * max(n - 1, 1))
    if settings.samples is None:
        pairs = max(pairs, _FEWEST)
    if pairs < _FEWEST:
        raise DomainError(
            f"Owen values of {d} words, {n} parts within {settings.within}, take at least "
            f"{2 + 4 * (n - 1):,} samples; got {asked:,}. Score features='positions' or raise them."
        )
    drawn = permutation_shapley(
        game,
        n,
        text_rng(settings.seed, one.documents[0].text),
        pairs=pairs,
        known_range=game.known_range,
        levels=players.levels,
        into=sums,
    )
    own = _of_units(one, players, drawn.values[0], drawn.stderr[0])
    enough = f"set samples to {2 + _ENOUGH * 2 * (n - 1):,}"
    said = _of_pairs(Shapley(pairs=pairs), drawn, n, more=enough)
    return Finding(
        scores=drawn.values[0, :d],
        stderr=seen_errors(drawn.stderr[0, :d]),
        base_value=game.base_value,
        notices=own["notices"] + said + game.notices,
        diagnostics=own["diagnostics"] | {"pairs_drawn": pairs},
    )


def _of_units(
    one: Reading,
    players: _Players,
    totals: Float[np.ndarray, " k"],
    stderr: Float[np.ndarray, " k"] | None = None,
) -> dict[str, Any]:
    """Return notices and diagnostics: the units around the features, each with its total.

    ``totals`` are those of the features, then of the units of every level, with their errors.
    """
    (features,), start = one.features, len(one.features[0])
    diagnostics: dict[str, Any] = {}
    notices = _shared_notice(features, players)
    for units, level in zip(players.units, players.levels, strict=True):
        own = slice(start, start + len(units))
        start += _held(units, level)
        diagnostics[units.unit] = _totals(
            units, totals[own], level, None if stderr is None else stderr[own]
        )
        notices += _strongest(units, totals[own])
    return {"notices": notices, "diagnostics": diagnostics}


def _totals(
    units: Features,
    totals: Float[np.ndarray, " n"],
    present: Int[np.ndarray, " parts"],
    stderr: Float[np.ndarray, " n"] | None,
) -> list[dict[str, Any]]:
    """The units that hold something scored, each with the sum of its scores."""
    return [
        {
            "text": units.strings[i],
            "span": list(_extent(units, i)),
            "score": float(totals[i]),
            **({} if stderr is None else {"stderr": float(stderr[i])}),
        }
        for i in np.unique(present[present < len(units)]).tolist()
    ]


def _shared_notice(features: Features, players: _Players) -> tuple[str, ...]:
    several = np.bincount(players.feature, minlength=len(features))
    shared = [features.strings[j] for j in np.flatnonzero(several > 1)]
    if not shared:
        return ()
    count = "1 feature occurs" if len(shared) == 1 else f"{len(shared)} features occur"
    unit = players.units[-1].unit
    return (
        f"{count} in several {unit} ({one_line(', '.join(shared), 60)}): each "
        f"{name_of_one(unit)}'s share is a player of its own, and the score is the sum of them.",
    )


def _strongest(units: Features, totals: Float[np.ndarray, " n"]) -> tuple[str, ...]:
    if len(units) < 2:
        return ()
    order = np.argsort(-np.abs(totals), kind="stable")[:_SHOWN].tolist()
    shown = [f"{totals[i]:+.3g} {one_line(units.strings[i], 30)!r}" for i in order]
    rest = ["…"] if len(units) > _SHOWN else []
    return (f"{units.unit.capitalize()}, strongest first: {', '.join(shown + rest)}.",)


@final
@settings_class
class Zoom:
    """Settings of a long document: its sentences, then the words of those that matter."""

    opened: Annotated[int, at_least(1)] = 3
    within: Annotated[str, OneOf(CUTTERS)] = "sentences"
    samples: Annotated[int | None, at_least(16)] = None
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0

    @property
    def draws(self) -> Draws:
        """How many masks are asked, of sentences and of words together."""
        return _masks_in_all(self.samples, fewest=lambda _: 16, usual=_ZOOM_CALLS)


def _zoomed(settings: Zoom, one: Reading) -> Finding:
    """Score every sentence, and in place of the strongest ones their words."""
    (document,), (features,), unit = one.documents, one.features, settings.within
    if features.unit not in ("words", "positions"):
        raise InputError(
            f"zoom looks at {unit} and then at words, which is what it scores; leave features out."
        )
    around = np.where(features.of_token >= 0, features_of(document, unit).of_token, -1)
    whole = features_of(document, around.tolist())
    if len(whole) < 2:
        raise DomainError(
            f"this text has one of the {unit} that zoom begins with; explain it by 'shapley'."
        )
    # Half of what is asked tells which sentences matter, the other half what matters in them.
    asked, usual = (
        settings.draws.first(len(features)),
        Shapley(replacement=settings.replacement, seed=settings.seed),
    )
    counted = cast(Counted, _BY_ASKING.counted)
    if (least := counted.fewest(usual, len(whole))) > asked // 2:
        if settings.samples is not None:
            larger = ", or begin with larger units (within='paragraphs')" * (unit == "sentences")
            raise DomainError(
                f"zoom into {len(whole)} {unit} takes at least {2 * least:,} samples; got "
                f"{asked:,}. Allow for more{larger}."
            )
        asked = 2 * least
    fitted = counted.fitted(usual, len(whole), asked // 2)
    coarse = _sampled(fitted, _of_features(one, whole))
    left = asked - fitted.draws.calls(len(whole)) - fitted.spare
    sizes = np.bincount(whole.of_token[whole.of_token >= 0])
    strongest = np.argsort(-np.abs(coarse.scores), kind="stable").tolist()
    wanted = [g for g in strongest[: settings.opened] if sizes[g] > 1]
    opened, each = list[int](), 0
    for g in wanted:  # one that is too long for what is left does not keep the next ones closed
        if (each + 2 * (sizes[g] + 1)) * _FEWEST <= left:
            opened.append(g)
            each += 2 * (sizes[g] + 1)
    pairs = left // each if opened else 0
    inside = np.isin(whole.of_token, opened)
    own = np.where(inside, len(whole) + np.arange(len(inside)), whole.of_token)
    units = replace(features_of(document, own.tolist()), unit=f"{unit} and words")
    found = _opened(settings, one, whole, coarse, units, opened, int(pairs))
    if not (closed := [g for g in wanted if g not in opened]):
        return found
    more = 2 * _FEWEST * sum(2 * (sizes[g] + 1) for g in wanted)
    said = (
        f"{len(closed)} of the {len(wanted)} strongest {unit} stayed closed, because two pairs of "
        f"orders of their words take more calls than were left: set samples to {more:,} or more."
    )
    return replace(found, notices=(found.notices[0], said, *found.notices[1:]))


def _of_features(one: Reading, features: Features) -> Reading:
    return replace(one, features=(features,), shared=type(one.shared)())


def _opened(
    settings: Zoom,
    one: Reading,
    whole: Features,
    coarse: Finding,
    units: Features,
    opened: list[int],
    pairs: int,
) -> Finding:
    """Return the scores of sentences, and of the words of those that are ``opened``."""
    game = TargetGame(_of_features(one, units), settings.replacement)
    group = np.zeros(len(units), int)
    scored = units.of_token >= 0
    group[units.of_token[scored]] = whole.of_token[scored]
    scores = coarse.scores[group]
    errors = np.zeros(len(whole)) if coarse.stderr is None else coarse.stderr
    stderr, rng = errors[group], text_rng(settings.seed, one.documents[0].text)
    for g in opened:
        values, spread = inner_shapley(
            game, group, g, rng, pairs=pairs, known_range=game.known_range
        )
        (*found, total), (*off, off_total) = values[0], spread[0]
        if pairs < FEWEST:  # draws that happen to agree say nothing: words vary as their sentence's
            off = np.maximum(off, np.sqrt(np.mean(np.square(off))))
        # Words add up to their sentence, whose own score more was asked about.
        count = len(found)
        scores[group == g] = np.array(found) + (coarse.scores[g] - total) / count
        stderr[group == g] = np.hypot(off, np.hypot(errors[g], off_total) / count)
    held = np.abs(coarse.scores)
    share = held[opened].sum() / held.sum() if held.any() else 0.0
    rest = len(whole) - len(opened)
    others = "the other one" if rest == 1 else f"the other {rest}"
    return Finding(
        scores=scores,
        stderr=seen_errors(stderr),
        base_value=coarse.base_value,
        notices=(
            f"{len(opened)} of {len(whole)} {settings.within} were opened, which hold "
            f"{100 * share:.0f} % of the sizes of all scores of {settings.within}."
            + f" Of {others} no word was looked at."
            * (rest > 0),
            *_few_inside(pairs, name_of_one(settings.within)),
            *(said for said in coarse.notices if "set pairs" not in said),
        ),
        diagnostics={
            "opened": [list(_extent(whole, g)) for g in opened],
            "pairs_in_each": pairs,
            settings.within: _totals(whole, coarse.scores, np.arange(len(whole)), coarse.stderr),
        },
        units=units,
    )


def _few_inside(pairs: int, unit: str) -> tuple[str, ...]:
    if not 0 < pairs < _ENOUGH:
        return ()
    return (
        f"Words of an opened {unit} rest on {pairs} pairs of orders: good for which of them "
        "matter. Raise samples, or open fewer, for the size of a single score.",
    )


def _extent(units: Features, i: int) -> tuple[int, int]:
    return units.spans[i][0][0], units.spans[i][-1][1]


_ROUNDING = 2.0**-52


@final
@settings_class
class Loo:
    """Settings of leave-one-out."""

    replacement: str = "auto"


def _loo_from_game(_: Loo, reading: Reading) -> list[Finding]:
    """Score every feature by what the explained output loses without it, in closed form."""
    targets, outputs = reading.targets, reading.outputs
    loss = leave_one_out(reading.games)
    without = np.moveaxis(outputs[..., None] - host_array(loss.scores), -1, 0)
    scores = targets.value(outputs) - targets.value(without)
    # A logit is a sum of outputs, and so is its error; taking a loss off an output and back costs a
    # few roundings of it.
    off = host_array(loss.bound) + 8 * _ROUNDING * np.abs(outputs)
    bounds = (np.abs(reading.target_weights) * off).sum(axis=-1)
    return [
        Finding(
            scores=scores[: len(features), i],
            bound=float(bounds[i]) if targets.scale != "probability" else None,
        )
        for i, features in enumerate(reading.features)
    ]


def _loo_by_asking(settings: Loo, one: Reading) -> Finding:
    """Score every feature by what the explained output loses without it."""
    game, d = TargetGame(one, settings.replacement), len(one.features[0])
    masks = np.concatenate([np.ones((1, d), bool), ~np.eye(d, dtype=bool)])
    (whole, *without) = game(masks)[:, 0]
    return Finding(
        scores=whole - np.array(without), base_value=game.base_value, notices=game.notices
    )


@final
@settings_class
class ShapleyMeanField:
    """Settings of mean-field Shapley values: none."""


def _mean_field(_: ShapleyMeanField, reading: Reading) -> list[Finding]:
    scores, bounds = (f(reading.ratio_game) for f in (shapley_mean_field, shapley_mean_field_bound))
    return bounded(reading, scores, bounds, MEAN_FIELD.format("the Shapley value"))


_BY_ASKING = by_draws(
    _sampled,
    {
        "sampler": "'orders' of the words, 'regression' on masks, or 'auto': a "
        f"regression for at most {_FEW_UNITS} words and at least "
        f"d²/{_SHARE_OF_SQUARE} calls, where it comes closer, and orders for more "
        "words or fewer calls, or if pairs or a tolerance is set",
        "pairs": "pairs of a random order and its reverse, 2 (d − 1) calls each, or of "
        "a random mask and its complement, 2 calls each; None: as many as "
        f"{DEFAULT_CALLS:,} calls allow, at least 2. If all 2^d masks take no more "
        "calls, or at most 1,024, they are asked instead",
        "spare": "calls that are too few for a pair, spent on a stretch of one; what a "
        "budget leaves over",
        "start": "a learned method, or its folder, whose scores are combined with the "
        "drawn ones by the errors of both; then one pair suffices",
    },
    count="pairs",
    spare="spare",
    unsaid=("start",),
    choose=_with_sampler,
    feasible=_check_pairs,
    cost="2 (d − 1) calls of the model for each pair of orders of d words, 2 for each "
    "pair of masks",
)

ROWS = (
    Method(
        id="shapley-mean-field",
        label="Shapley (mean field)",
        formula="(A_j − B_j) ∫₀¹dx/D̄ − (a_j − b_j) ∫₀¹N̄ dx/D̄²",
        sees="Shapley values where no word holds most of the attention; adds up to how far all "
        "words together move the output",
        blind="which texts a word is kept in: each is taken for the mean text of its size",
        cost="one forward pass, O(d log d)",
        settings=ShapleyMeanField,
        ways=(Way(needs="collapses", exactness="exact", explain=_mean_field, logits=True),),
    ),
    Method(
        id="loo",
        label="LOO",
        formula="f(text) − f(text without the word)",
        sees="what really happens when one word is replaced by UNK",
        blind="words that stand in for each other: each alone seems not to matter",
        cost="one forward pass, O(d)",
        settings=Loo,
        ways=(
            Way(needs="games", exactness="bound", explain=_loo_from_game),
            Way(
                needs=None,
                exactness="exact",
                explain=each(_loo_by_asking),
                settings={"replacement": MEANS["replacement"]},
                calls=lambda _, d: d + 2,
                counted=Counted(lambda _, d: d + 2),
                cost="one call of the model per word",
            ),
        ),
    ),
    Method(
        id="shapley",
        label="Shapley",
        formula="∫₀¹ (E_p[f | word kept] − E_p[f | word removed]) dp",
        sees="the word's mean effect over all sets of other words; adds up to how far all words "
        "together move the output",
        blind="which other words it needs (see interactions)",
        cost="milliseconds, exact to quadrature precision with a bound",
        settings=Shapley,
        ways=(
            by_quadrature(partial(exact_values, value=shapley), ("tolerance", "per_head")),
            _BY_ASKING,
        ),
    ),
    Method(
        id="owen",
        label="Owen",
        formula="∫₀¹∫₀¹ (E[f | word kept] − E[f | word removed]) dq dp, other sentences there with "
        "1 − p as wholes, other words of the sentence with 1 − q",
        sees="the word's mean effect inside its sentence; sentence totals are Shapley values of "
        "sentences, and all add up to how far the words together move the output",
        blind="parts of other sentences: they come and go as wholes",
        cost="milliseconds, exact to quadrature precision with a bound",
        settings=Owen,
        ways=(
            by_quadrature(each(_in_sentences), ("tolerance", "within"), within=_WITHIN),
            by_draws(
                _in_nested_orders,
                {
                    "within": f"{_WITHIN}; units may lie within others: 'sentences in paragraphs'",
                    "samples": "masks that are asked, in pairs of an order and its reverse in "
                    "which the words of each unit stand together: 2 (n − 1) for each pair of n "
                    "words, a word of two sentences being two; None: as many as two pairs take, at "
                    f"least {DEFAULT_CALLS:,}. All nested sets are asked if they are no more",
                },
                most=_MOST_MASKS,
                cost="calls of the model: 1,000, or 4 (d − 1) of d words if that is more",
            ),
        ),
    ),
    Method(
        id="zoom",
        label="Zoom",
        formula="Shapley values of sentences; of the strongest ones, Owen values of their words",
        sees="the sentences that matter in a long document, and the words that matter in them; "
        "adds up to how far all words together move the output",
        blind="words of sentences that are not opened",
        cost="800 calls of the model, or eight for each sentence if that is more",
        settings=Zoom,
        ways=(
            by_draws(
                _zoomed,
                {
                    "opened": "sentences that are opened, strongest first; those are left out for "
                    "which the samples do not allow two pairs of orders of their words",
                    "within": "what is scored whole: 'sentences', 'paragraphs' or 'lines'",
                    "samples": "masks that are asked, half of them about sentences and half about "
                    f"words of those that are opened; None: {_ZOOM_CALLS}, or as many as two pairs "
                    "of orders of the sentences and as much again take",
                },
                most=_MOST_MASKS,
            ),
        ),
    ),
)
