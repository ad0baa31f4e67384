"""Units inside units: Owen values of words in sentences; sentences, then words of some (zoom)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple, cast, final

import numpy as np

from limelight.errors import DomainError, InputError, unknown_name_message
from limelight.explainers.batch import Batch
from limelight.explainers.method import (
    OneOf,
    Share,
    at_least,
    exact_implementation,
    per_input,
)
from limelight.explainers.registry import register_method
from limelight.explainers.sample_size import (
    DEFAULT_CALLS,
    MAX_SAMPLES,
    SampleSize,
    sampled_implementation,
)
from limelight.explainers.shapley import (
    ENOUGH_PAIRS,
    MIN_PAIRS,
    Shapley,
    explain_by_sampling,
    fit_pair_count,
    pair_warnings,
)
from limelight.explainers.target_game import TargetGame, nonzero_or_none
from limelight.results import Attribution
from limelight.sampling.all_masks import count_owen_masks, owen_values_from_all_masks
from limelight.sampling.deadline import count_masks_before_deadline, has_time, limit_time_share
from limelight.sampling.masks import text_rng
from limelight.sampling.orders import (
    MIN_RELIABLE_PAIRS,
    group_owen_values,
    shapley_values_from_orders,
)
from limelight.shapes import Float, Int
from limelight.text import Features, build_features, feature_noun, nest_features, truncate_line
from limelight.text.splitters import SPLITTERS
from limelight.theory.namespace import host_array
from limelight.theory.owen import owen
from limelight.theory.ratio_game import extract_document

_SHOWN = 8  # sentences
_ENDS = 2  # the text, and nothing of it: each cut of a text asks about both
_OPENED = 3  # sentences, where the calls suffice and no number is set
# On reviews of more than 600 words 0.18 of two pairs of orders of all their words, for more of the
# share (benchmarks/samplers.py --long).
_ZOOM_CALLS = 800
_WITHIN = "what the words lie in: 'sentences', 'paragraphs' or 'lines'"


class _Players(NamedTuple):
    """The features of a text cut where the units that hold them end.

    ``levels`` are the units of each part from the outermost on, ``units`` the cuts in the same
    order, and ``feature`` is what a part belongs to. ``sums`` adds values of parts up to those of
    features, then of the units of every level, which begin at ``starts``.
    """

    parts: Features
    feature: Int[np.ndarray, " n"]
    levels: Int[np.ndarray, "L n"]
    units: tuple[Features, ...]
    sums: Float[np.ndarray, "n k"]
    starts: list[int]


def _players(one: Batch, within: Sequence[str]) -> _Players:
    (model_input,), (features,) = one.inputs, one.features
    parts, feature = features, np.arange(len(features))
    levels: list[Int[np.ndarray, " n"]] = []
    units: list[Features] = []
    for unit in within:
        units.insert(0, build_features(model_input, unit))
        parts, inner, outer = nest_features(parts, units[0])
        feature, levels = feature[inner], [outer, *(level[inner] for level in levels)]
    # What lies in no unit is one of its own, after all others.
    counts = [max(len(own), int(level.max()) + 1) for own, level in zip(units, levels, strict=True)]
    counts.insert(0, len(features))
    columns = zip((feature, *levels), counts, strict=True)
    sums = np.hstack([np.eye(count)[column] for column, count in columns])
    starts = np.cumsum(counts)[:-1].tolist()
    return _Players(parts, feature, np.stack(levels), tuple(units), sums, starts)


def _in_sentences(settings: "Owen", one: Batch) -> Attribution:
    """Score every feature by its Owen value; one that spans sentences is a player in each.

    The values are sampled if the game of these players has no exact formula.
    """
    if len(settings.units) > 1:
        raise InputError(
            f"Owen values of this model are exact, of words within one kind of unit; got within="
            f"{settings.within!r}. Leave out all but one of them."
        )
    players, d = _players(one, settings.units), len(one.features[0])
    refined = _of_features(one, players.parts)
    several = np.bincount(players.feature, minlength=d)
    if (reason_sampled := refined.reason_sampled) is not None:
        # Such a model answers in a fraction of a millisecond.
        sampled = _in_nested_orders(settings, one, usual_pairs=ENOUGH_PAIRS)
        reason = f"Owen values of this text are sampled: {reason_sampled}."
        return replace(sampled, warnings=(reason, *sampled.warnings))
    game = extract_document(refined.ratio_game, 0)
    # A score is the sum of that many values at most, and so is its error.
    tolerance = cast(float, settings.tolerance) / int(several.max())
    found = owen(game, players.levels[0], tolerance=tolerance)
    values = host_array(found.scores)[0]
    said, known = _of_units(one, players, values @ players.sums)
    return Attribution(
        scores=np.bincount(players.feature, values, minlength=d),
        bound=float(found.bound[0]) * int(several.max()),
        warnings=said,
        diagnostics=known,
    )


def _in_nested_orders(settings: "Owen", one: Batch, *, usual_pairs: int = MIN_PAIRS) -> Attribution:
    """Score every feature by what it adds in orders that keep the units around it together.

    ``usual_pairs`` of orders or more are drawn unless the settings say how many.
    """
    players, d = _players(one, settings.units), len(one.features[0])
    n, asked = len(players.parts), settings.sample_size.initial_count(d)
    refined = _of_features(one, players.parts)
    game = TargetGame(refined, settings.replacement)
    all_sets = count_owen_masks(players.levels)
    affordable = max(asked, DEFAULT_CALLS if settings.samples is None else 0)
    if all_sets <= affordable and has_time(all_sets):
        totals = owen_values_from_all_masks(game, players.levels)[0] @ players.sums
        said, known = _of_units(one, players, totals)
        return game.make_attribution(totals[:d], said=said, masks=all_sets, **known)
    pairs = (asked - 2) // (2 * max(n - 1, 1))  # both ends are those of every order
    if settings.samples is None:
        pairs = max(pairs, usual_pairs)
    if pairs < MIN_PAIRS:
        raise DomainError(
            f"Owen values of {d} features, {n} parts within {settings.within}, take at least "
            f"{(needed := 2 + 4 * (n - 1)):,} samples; got {asked:,}. Set samples to {needed:,}, "
            f"or give a budget of {needed + 1:,} calls."
        )
    drawn = shapley_values_from_orders(
        game,
        n,
        text_rng(settings.seed, one.inputs[0].text),
        pairs=pairs,
        known_range=game.known_range,
        levels=players.levels,
        sum_matrix=players.sums,
    )
    said, known = _of_units(one, players, drawn.values[0], drawn.stderr[0])
    said += pair_warnings(Shapley(pairs=pairs), drawn, n, one.features[0].noun)
    errors = nonzero_or_none(drawn.stderr[0, :d])
    return game.make_attribution(
        drawn.values[0, :d],
        errors,
        said=said,
        **known,
        pairs_drawn=drawn.pairs,
        samples_drawn=2 + 2 * drawn.pairs * max(n - 1, 1),
    )


def _of_units(
    one: Batch,
    players: _Players,
    totals: Float[np.ndarray, " k"],
    stderr: Float[np.ndarray, " k"] | None = None,
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return warnings and diagnostics: the units around the features, each with its total.

    ``totals`` are those of the features, then of the units of every level, with their errors.
    """
    diagnostics: dict[str, Any] = {}
    warnings = _shared_warning(one.features[0], players)
    for units, level, start in zip(players.units, players.levels, players.starts, strict=True):
        own = slice(start, start + len(units))
        errors = None if stderr is None else stderr[own]
        diagnostics[units.kind] = _totals(units, totals[own], level, errors)
        warnings += _strongest(units, totals[own])
    return warnings, diagnostics


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


def _shared_warning(features: Features, players: _Players) -> tuple[str, ...]:
    several = np.bincount(players.feature, minlength=len(features))
    shared = [features.strings[j] for j in np.flatnonzero(several > 1)]
    if not shared:
        return ()
    count = "1 feature occurs" if len(shared) == 1 else f"{len(shared)} features occur"
    unit = players.units[-1].kind
    return (
        f"{count} in several {unit} ({truncate_line(', '.join(shared), 60)}): each "
        f"{feature_noun(unit)}'s share is a player of its own, and the score is the sum of them.",
    )


def _strongest(units: Features, totals: Float[np.ndarray, " n"]) -> tuple[str, ...]:
    if len(units) < 2:
        return ()
    order = np.argsort(-np.abs(totals), kind="stable")[:_SHOWN].tolist()
    shown = [f"{totals[i]:+.3g} {truncate_line(units.strings[i], 30)!r}" for i in order]
    rest = ["…"] if len(units) > _SHOWN else []
    return (f"{units.kind.capitalize()}, strongest first: {', '.join(shown + rest)}.",)


def _zoomed(settings: "Zoom", one: Batch) -> Attribution:
    """Score every sentence, and in place of the strongest ones their words."""
    (model_input,), (features,), unit = one.inputs, one.features, settings.within
    if features.kind not in ("words", "positions"):
        raise InputError(
            f"zoom looks at {unit} and then at words, which is what it scores; leave features out."
        )
    around = np.where(
        features.feature_index >= 0, build_features(model_input, unit).feature_index, -1
    )
    whole = build_features(model_input, around.tolist())
    asked = settings.sample_size.initial_count(len(features))
    usual = Shapley(replacement=settings.replacement, seed=settings.seed)
    least = usual.sample_size.minimum_calls(len(features))
    if len(whole) == 1 and (settings.samples is None or least <= asked):
        # It is opened at once: which of them matters is no question.
        fitted = fit_pair_count(usual, len(features), max(asked, least))
        found = explain_by_sampling(fitted, one)
        known = {**found.diagnostics, "opened": [list(_extent(whole, 0))]}
        return replace(found, diagnostics=known)
    sizes = np.bincount(whole.feature_index[whole.feature_index >= 0])
    coarse_calls, asked = _split_calls(settings, whole, sizes, asked)
    fitted = fit_pair_count(usual, len(whole), coarse_calls)
    with limit_time_share(coarse_calls / asked):
        coarse = explain_by_sampling(fitted, _of_features(one, whole))
    left = asked - fitted.sample_size.calls(len(whole)) - fitted.spare - _ENDS
    if settings.opened is None and (masks := count_masks_before_deadline()) is not None:
        left = min(left, masks)
    strongest = np.argsort(-np.abs(coarse.scores), kind="stable").tolist()
    wanted = [g for g in strongest[: settings.opened or _OPENED] if sizes[g] > 1]
    opened, each = list[int](), 0
    for g in wanted:  # one that is too long for what is left does not keep the next ones closed
        if (each + 2 * (sizes[g] + 1)) * MIN_PAIRS <= left:
            opened.append(g)
            each += 2 * (sizes[g] + 1)
    pairs = left // each if opened else 0
    inside = np.isin(whole.feature_index, opened)
    own = np.where(inside, len(whole) + np.arange(len(inside)), whole.feature_index)
    units = replace(build_features(model_input, own.tolist()), kind=f"{unit} and words")
    found = _opened(settings, one, whole, coarse, units, opened, int(pairs))
    if (sentence_pairs := coarse.diagnostics.get("pairs_drawn")) is None:
        masks = 2 ** len(whole)
    else:
        masks = (
            2 + fitted.sample_size.calls_per_sample(len(whole)) * int(sentence_pairs) + fitted.spare
        )
    masks += found.diagnostics["samples_drawn"] + _ENDS
    found = replace(found, diagnostics={**found.diagnostics, "samples_drawn": masks})
    if not (closed := [g for g in wanted if g not in opened]):
        return found
    more = 2 * _calls_to_open(sizes, len(wanted))
    said = (
        f"{len(closed)} of the {len(wanted)} strongest {unit} stayed closed, because two pairs of "
        f"orders of their words take more calls than were left: set samples to {more:,} or more, "
        f"or give a budget of {more + 1:,} calls."
    )
    return replace(found, warnings=(found.warnings[0], said, *found.warnings[1:]))


def _calls_to_open(sizes: Int[np.ndarray, " sentences"], count: int) -> int:
    """Return the calls that surely open ``count`` sentences: those of the longest ones."""
    longest = np.sort(sizes[sizes > 1])[::-1][:count]
    return MIN_PAIRS * int((2 * (longest + 1)).sum()) + _ENDS


def _split_calls(
    settings: "Zoom", whole: Features, sizes: Int[np.ndarray, " sentences"], asked: int
) -> tuple[int, int]:
    """Return the calls about the sentences, and the calls about these and their words together.

    Half of the calls tell which sentences matter, the other half what matters in them. Where a
    number of sentences is to be opened, enough is kept for the longest ones.
    """
    unit = settings.within
    about_sentences = Shapley(replacement=settings.replacement).sample_size.minimum_calls(
        len(whole)
    )
    about_words = 0 if settings.opened is None else _calls_to_open(sizes, settings.opened)
    needed = about_sentences + max(about_sentences, about_words)
    if needed > asked and settings.samples is not None:
        fewer = ", or open fewer" * (about_words > about_sentences)
        larger = ", or begin with larger units (within='paragraphs')" * (unit == "sentences")
        raise DomainError(
            f"zoom into {len(whole)} {unit} takes at least {needed:,} samples; got {asked:,}. Set "
            f"samples to {needed:,}, give a budget of {needed + 1:,} calls{fewer}{larger}."
        )
    asked = max(asked, needed)
    return min(max(asked // 2, about_sentences), asked - about_words), asked


def _of_features(one: Batch, features: Features) -> Batch:
    return replace(one, features=(features,), cache=type(one.cache)())


def _opened(
    settings: "Zoom",
    one: Batch,
    whole: Features,
    coarse: Attribution,
    units: Features,
    opened: list[int],
    pairs: int,
) -> Attribution:
    """Return the scores of sentences, and of the words of those that are ``opened``."""
    game = TargetGame(_of_features(one, units), settings.replacement)
    group = np.zeros(len(units), int)
    scored = units.feature_index >= 0
    group[units.feature_index[scored]] = whole.feature_index[scored]
    scores = coarse.scores[group]
    errors = np.zeros(len(whole)) if coarse.stderr is None else coarse.stderr
    stderr, rng = errors[group], text_rng(settings.seed, one.inputs[0].text)
    masks = [2 * (np.count_nonzero(group == g) + 1) for g in opened]
    drawn = list[int]()
    for i, g in enumerate(opened):
        with limit_time_share(masks[i] / sum(masks[i:])):
            values, spread, count = group_owen_values(
                game, group, g, rng, pairs=pairs, known_range=game.known_range
            )
        drawn.append(count)
        (*found, total), (*off, off_total) = values[0], spread[0]
        if (
            count < MIN_RELIABLE_PAIRS
        ):  # draws that happen to agree say nothing: words vary as their sentence's
            off = np.maximum(off, np.sqrt(np.mean(np.square(off))))
        # Words add up to their sentence, whose own score more was asked about.
        count = len(found)
        scores[group == g] = np.array(found) + (coarse.scores[g] - total) / count
        stderr[group == g] = np.hypot(off, np.hypot(errors[g], off_total) / count)
    pairs = min(drawn, default=0)
    held = np.abs(coarse.scores)
    share = held[opened].sum() / held.sum() if held.any() else 0.0
    rest = " No word of the others was looked at." * (len(opened) < len(whole))
    few = (
        f"Words of what was opened rest on {pairs} pairs of orders: good for which of them matter. "
        "Raise samples, or open fewer, for the size of a single score.",
    )
    return Attribution(
        scores=scores,
        stderr=nonzero_or_none(stderr),
        base_value=coarse.base_value,
        warnings=(
            f"{len(opened)} of {len(whole)} {settings.within} were opened, which hold "
            f"{100 * share:.0f} % of the sizes of all scores of {settings.within}.{rest}",
            *(few if 0 < pairs < ENOUGH_PAIRS else ()),
            *coarse.warnings,
        ),
        diagnostics={
            "opened": [list(_extent(whole, g)) for g in opened],
            "pairs_in_each": pairs,
            "samples_drawn": sum(n * size for n, size in zip(drawn, masks, strict=True)),
            settings.within: _totals(whole, coarse.scores, np.arange(len(whole)), coarse.stderr),
        },
        features=units,
    )


def _extent(units: Features, i: int) -> tuple[int, int]:
    return units.spans[i][0][0], units.spans[i][-1][1]


@final
@register_method(
    id="owen",
    label="Owen",
    formula="∫₀¹∫₀¹ (E[f | word kept] − E[f | word removed]) dq dp, other sentences there with "
    "1 − p as wholes, other words of the sentence with 1 − q",
    sees="the word's mean effect inside its sentence; sentence totals are Shapley values of "
    "sentences, and all add up to how far the words together move the output",
    blind="parts of other sentences: they come and go as wholes",
    cost="milliseconds, exact to quadrature precision with a bound",
    implementations=(
        replace(
            exact_implementation(
                per_input(_in_sentences),
                ("tolerance", "within", "samples", "seed"),
                within=_WITHIN,
                samples="masks that are drawn for a text that is sampled, because a word of "
                "several sentences cannot be divided among them; None: as many as "
                f"{ENOUGH_PAIRS} pairs of orders take",
                seed="same seed, same scores, where they are sampled",
            ),
            hidden_settings=("samples", "seed"),
        ),
        sampled_implementation(
            _in_nested_orders,
            {
                "within": f"{_WITHIN}; units may lie within others: 'sentences in paragraphs'",
                "samples": "masks that are asked, in pairs of an order and its reverse in "
                "which the words of each unit stand together: 2 (n − 1) for each pair of n "
                "words, a word of two sentences being two; None: as many as two pairs take, at "
                f"least {DEFAULT_CALLS:,}. All nested sets are asked if they are no more",
            },
            max_count=MAX_SAMPLES,
            summary="calls of the model: 1,000, or 4 (d − 1) of d words if that is more",
        ),
    ),
)
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
            if unit not in SPLITTERS:
                raise InputError(unknown_name_message("units to be within", unit, SPLITTERS))

    @property
    def units(self) -> list[str]:
        """The units that words lie in, innermost first."""
        return self.within.split(" in ")

    @property
    def sample_size(self) -> SampleSize:
        """How many masks are asked, all those of the orders together."""
        return SampleSize(
            count=self.samples,
            minimum=lambda d: 2 + 4 * max(d - 1, 1),
            fixed_calls=0,
            enumerates=False,
        )


@final
@register_method(
    id="zoom",
    label="Zoom",
    formula="Shapley values of sentences; of the strongest ones, Owen values of their words",
    sees="the sentences that matter in a long document, and the words that matter in them; "
    "adds up to how far all words together move the output",
    blind="words of sentences that are not opened",
    cost="800 calls of the model, or eight for each sentence if that is more",
    implementations=(
        sampled_implementation(
            _zoomed,
            {
                "opened": "sentences that are opened, strongest first: this many, or an error "
                f"if the samples do not suffice; None: up to {_OPENED}, as far as they allow "
                "two pairs of orders of the words",
                "within": "what is scored whole: 'sentences', 'paragraphs' or 'lines'",
                "samples": "masks that are asked, half of them about sentences and half about "
                f"words of those that are opened; None: {_ZOOM_CALLS}, or as many as two pairs "
                "of orders of the sentences and as much again take",
            },
            max_count=MAX_SAMPLES,
        ),
    ),
)
class Zoom:
    """Settings of a long document: its sentences, then the words of those that matter."""

    opened: Annotated[int | None, at_least(1)] = None
    within: Annotated[str, OneOf(SPLITTERS)] = "sentences"
    samples: Annotated[int | None, at_least(16)] = None
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0

    @property
    def sample_size(self) -> SampleSize:
        """How many masks are asked, of sentences and of words together."""
        return SampleSize(
            count=self.samples,
            default=lambda _: _ZOOM_CALLS,
            minimum=lambda _: 16,
            fixed_calls=0,
            enumerates=False,
        )
