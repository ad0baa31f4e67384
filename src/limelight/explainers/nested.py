"""Owen values of words in sentences, and zoom: scores of sentences and of words in the strongest.

A unit is a sentence, a paragraph or a line that contains features.
"""

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
from limelight.sampling.ranks import certify_tops
from limelight.shapes import Bool, Float, Int
from limelight.text import Features, build_features, nest_features, pluralize, truncate_line
from limelight.text.splitters import SPLITTERS
from limelight.theory.namespace import host_array
from limelight.theory.owen import owen
from limelight.theory.ratio_game import extract_document

_MAX_LISTED = 8  # units in a warning
_ENDS = 2  # masks of the complete and of the empty text, which every split of a text evaluates
_DEFAULT_OPENED = 3  # sentences, if the calls suffice
# On reviews of more than 600 words, these are 0.18 of the calls for two pairs of orders of all
# words, and the share is higher (benchmarks/samplers.py --long).
_ZOOM_CALLS = 800
PARTS = ("documents", "messages")  # units that a prompt has, and a plain text has not
_UNITS = (*SPLITTERS, *PARTS)
_WITHIN = (
    "the units that contain the words: 'sentences', 'paragraphs', 'lines', 'documents' or "
    "'messages'"
)


class _Players(NamedTuple):
    """The features of a text, divided at the ends of the units that contain them.

    Parameters
    ----------
    parts
        The divided features, which are the players.
    feature
        The feature to which each part belongs.
    levels
        The unit of each part at every level, the outermost level first.
    units
        The units of every level, in the same order.
    sums
        A matrix that adds values of parts up to values of features and of the units of every level.
    starts
        The columns of ``sums`` where the levels begin.
    """

    parts: Features
    feature: Int[np.ndarray, " n"]
    levels: Int[np.ndarray, "L n"]
    units: tuple[Features, ...]
    sums: Float[np.ndarray, "n k"]
    starts: list[int]


def _divide_features(batch: Batch, within: Sequence[str]) -> _Players:
    """Divide the features of the only text of a batch at the ends of units, innermost first."""
    (model_input,), (features,) = batch.inputs, batch.features
    if features.kind in PARTS:
        raise InputError(
            f"Owen values need features inside units, not {features.kind}. Use "
            f"features='sentences' and within={features.kind!r}."
        )
    parts, feature = features, np.arange(len(features))
    levels: list[Int[np.ndarray, " n"]] = []
    units: list[Features] = []
    for unit in within:
        units.insert(0, build_features(model_input, unit))
        parts, inner, outer = nest_features(parts, units[0])
        feature, levels = feature[inner], [outer, *(level[inner] for level in levels)]
    # Parts outside all units form a unit of their own, the last one.
    counts = [
        max(len(level_units), int(level.max()) + 1)
        for level_units, level in zip(units, levels, strict=True)
    ]
    counts.insert(0, len(features))
    columns = zip((feature, *levels), counts, strict=True)
    sums = np.hstack([np.eye(count)[column] for column, count in columns])
    starts = np.cumsum(counts)[:-1].tolist()
    return _Players(parts, feature, np.stack(levels), tuple(units), sums, starts)


def _explain_exactly(settings: "Owen", batch: Batch) -> Attribution:
    """Score every feature by its exact Owen value, or by sampling if the exact game is unknown.

    If a feature occurs in several units, such as sentences, each unit has its own Owen value for
    the feature. The score is their sum.
    """
    if len(settings.units) > 1:
        raise InputError(
            f"exact Owen values support one kind of unit, not within={settings.within!r}. Use "
            f"{' or '.join(f'within={unit!r}' for unit in reversed(settings.units))}."
        )
    players, d = _divide_features(batch, settings.units), len(batch.features[0])
    divided_batch = _with_features(batch, players.parts)
    max_parts = int(np.bincount(players.feature, minlength=d).max())
    if (reason_sampled := divided_batch.reason_sampled) is not None:
        # A call of such a model takes a fraction of a millisecond.
        sampled = _explain_by_orders(settings, batch, default_pairs=ENOUGH_PAIRS)
        reason = f"Owen values of this text are sampled, because {reason_sampled}."
        return replace(sampled, warnings=(reason, *sampled.warnings))
    game = extract_document(divided_batch.ratio_game, 0)
    # A score and its error are sums of at most `max_parts` values.
    tolerance = cast(float, settings.tolerance) / max_parts
    owen_values = owen(game, players.levels[0], tolerance=tolerance)
    values = host_array(owen_values.scores)[0]
    warnings, diagnostics = _describe_units(batch, players, values @ players.sums)
    return Attribution(
        scores=np.bincount(players.feature, values, minlength=d),
        bound=float(owen_values.bound[0]) * max_parts,
        warnings=warnings,
        diagnostics=diagnostics,
    )


def _explain_by_orders(
    settings: "Owen", batch: Batch, *, default_pairs: int = MIN_PAIRS
) -> Attribution:
    """Score every feature by its mean contribution in orders that keep its units together.

    If the settings have no number of samples, at least ``default_pairs`` of orders are drawn.
    """
    players, d = _divide_features(batch, settings.units), len(batch.features[0])
    n, sample_count = len(players.parts), settings.sample_size.initial_count(d)
    game = TargetGame(_with_features(batch, players.parts), settings.replacement)
    all_sets = count_owen_masks(players.levels)
    affordable = max(sample_count, DEFAULT_CALLS if settings.samples is None else 0)
    if all_sets <= affordable and has_time(all_sets):
        totals = owen_values_from_all_masks(game, players.levels)[0] @ players.sums
        warnings, diagnostics = _describe_units(batch, players, totals)
        return game.make_attribution(totals[:d], warnings=warnings, masks=all_sets, **diagnostics)
    # All orders share the complete and the empty text.
    pairs = (sample_count - _ENDS) // (2 * max(n - 1, 1))
    if settings.samples is None:
        pairs = max(pairs, default_pairs)
    if pairs < MIN_PAIRS:
        needed = _ENDS + 4 * (n - 1)
        raise DomainError(
            f"Owen values of {d} features ({n} parts within {settings.within}) need at least "
            f"{needed:,} samples, not {sample_count:,}. Set samples to {needed:,}, or use a budget "
            f"of {needed + 1:,} calls."
        )
    sample = shapley_values_from_orders(
        game,
        n,
        text_rng(settings.seed, batch.inputs[0].text),
        pairs=pairs,
        known_range=game.known_range,
        levels=players.levels,
        sum_matrix=players.sums,
    )
    warnings, diagnostics = _describe_units(batch, players, sample.values[0], sample.stderr[0])
    warnings += pair_warnings(Shapley(pairs=pairs), sample, n, batch.features[0].noun)
    errors, draws = nonzero_or_none(sample.stderr[0, :d]), sample.draws[:, :d]
    allowed_effect = float(sample.allowed_effect[0])
    return game.make_attribution(
        sample.values[0, :d],
        errors,
        warnings=warnings,
        draws=draws,
        certain_tops=certify_tops(draws, allowed_effect=allowed_effect),
        **diagnostics,
        pairs_drawn=sample.pairs,
        samples_drawn=_ENDS + 2 * sample.pairs * max(n - 1, 1),
    )


def _describe_units(
    batch: Batch,
    players: _Players,
    totals: Float[np.ndarray, " k"],
    stderr: Float[np.ndarray, " k"] | None = None,
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return warnings and diagnostics about the units around the features, with their totals.

    ``totals`` are the totals of the features, then of the units of every level. ``stderr`` are
    their standard errors.
    """
    diagnostics: dict[str, Any] = {}
    warnings = _shared_feature_warning(batch.features[0], players)
    for units, level, start in zip(players.units, players.levels, players.starts, strict=True):
        columns = slice(start, start + len(units))
        errors = None if stderr is None else stderr[columns]
        diagnostics[units.kind] = _unit_rows(units, totals[columns], level, errors)
        warnings += _strongest_units_warning(units, totals[columns])
    return warnings, diagnostics


def _unit_rows(
    units: Features,
    totals: Float[np.ndarray, " n"],
    part_units: Int[np.ndarray, " parts"],
    stderr: Float[np.ndarray, " n"] | None,
) -> list[dict[str, Any]]:
    """Return the units that contain scored parts, each with the sum of its scores."""
    return [
        {
            "text": units.strings[i],
            "span": list(_unit_span(units, i)),
            "score": float(totals[i]),
            **({} if stderr is None else {"stderr": float(stderr[i])}),
        }
        for i in np.unique(part_units[part_units < len(units)]).tolist()
    ]


def _shared_feature_warning(features: Features, players: _Players) -> tuple[str, ...]:
    """Warn about features that occur in several units."""
    part_counts = np.bincount(players.feature, minlength=len(features))
    shared = [features.strings[j] for j in np.flatnonzero(part_counts > 1)]
    if not shared:
        return ()
    is_single, unit = len(shared) == 1, players.units[-1].kind
    count = "1 feature occurs" if is_single else f"{len(shared)} features occur"
    sums = "Its score is a sum" if is_single else "Their scores are sums"
    return (
        f"{count} in several {unit} ({truncate_line(', '.join(shared), 60)}). {sums} over these "
        f"{unit}.",
    )


def _strongest_units_warning(units: Features, totals: Float[np.ndarray, " n"]) -> tuple[str, ...]:
    """List the strongest units with their totals."""
    if len(units) < 2:
        return ()
    order = np.argsort(-np.abs(totals), kind="stable")[:_MAX_LISTED].tolist()
    labels = [f"{totals[i]:+.3g} {truncate_line(units.strings[i], 30)!r}" for i in order]
    ellipsis = ["…"] if len(units) > _MAX_LISTED else []
    return (f"{units.kind.capitalize()}, strongest first: {', '.join(labels + ellipsis)}.",)


def _explain_zoom(settings: "Zoom", batch: Batch) -> Attribution:
    """Score every sentence, and score the words of the strongest sentences instead of these."""
    (model_input,), (features,) = batch.inputs, batch.features
    is_protected = features.feature_index < 0
    default_unit = features.kind if features.kind in PARTS else "sentences"
    settings = replace(settings, within=settings.within or default_unit)
    if features.kind in PARTS and settings.within == features.kind:
        features = _select_tokens(build_features(model_input, "sentences"), ~is_protected)
        batch = _with_features(batch, features)
    elif features.kind == "sentences" and settings.within in PARTS:
        is_protected = np.zeros_like(is_protected)
    elif features.kind not in ("words", "positions"):
        raise InputError(
            f"method 'zoom' cannot score {settings.within} and {features.kind}. Leave features "
            "and within out."
        )
    unit, inner_noun = str(settings.within), features.noun
    unit_index = np.where(is_protected, -1, build_features(model_input, unit).feature_index)
    sentences = build_features(model_input, unit_index.tolist())
    if unit in PARTS:
        units_by_part = list(dict.fromkeys(i for i in unit_index.tolist() if i >= 0))
        names = tuple(model_input.parts[i].id for i in units_by_part)
        sentences = replace(sentences, strings=names)
    # Words of an opened sentence are scored by position, and sentences of a document as a whole.
    inner_index = np.arange(len(unit_index)) if inner_noun == "word" else features.feature_index
    total_calls = settings.sample_size.initial_count(len(features))
    shapley = Shapley(replacement=settings.replacement, seed=settings.seed)
    min_calls = shapley.sample_size.minimum_calls(len(features))
    if len(sentences) == 1 and (settings.samples is None or min_calls <= total_calls):
        # The only sentence is opened, so it needs no score of its own.
        shapley = fit_pair_count(shapley, len(features), max(total_calls, min_calls))
        attribution = explain_by_sampling(shapley, batch)
        opened_spans = [list(_unit_span(sentences, 0))]
        return replace(attribution, diagnostics={**attribution.diagnostics, "opened": opened_spans})
    inner_pairs = np.unique([sentences.feature_index, inner_index], axis=1)
    inner_pairs = inner_pairs[:, (inner_pairs >= 0).all(axis=0)]
    sizes = np.bincount(inner_pairs[0], minlength=len(sentences))
    sentence_calls, total_calls = _split_calls(settings, sentences, sizes, total_calls)
    shapley = fit_pair_count(shapley, len(sentences), sentence_calls)
    with limit_time_share(sentence_calls / total_calls):
        coarse = explain_by_sampling(
            shapley,
            _with_features(batch, sentences),
            budget_calls=_recommended_budget(settings, sizes),
        )
    remaining = total_calls - shapley.sample_size.calls(len(sentences)) - shapley.spare - _ENDS
    if settings.opened is None and (masks := count_masks_before_deadline()) is not None:
        remaining = min(remaining, masks)
    order = np.argsort(-np.abs(coarse.scores), kind="stable").tolist()
    strongest = [g for g in order[: settings.opened or _DEFAULT_OPENED] if sizes[g] > 1]
    opened, calls_per_pair = list[int](), 0
    for g in strongest:  # a sentence that is too long stays closed, and the next may be opened
        if (calls_per_pair + 2 * (sizes[g] + 1)) * MIN_PAIRS <= remaining:
            opened.append(g)
            calls_per_pair += 2 * (sizes[g] + 1)
    pairs = remaining // calls_per_pair if opened else 0
    is_opened = np.isin(sentences.feature_index, opened)
    opened_units = np.where(inner_index >= 0, len(sentences) + inner_index, -1)
    token_units = np.where(is_opened, opened_units, sentences.feature_index)
    units = build_features(model_input, token_units.tolist())
    unit_numbers = dict.fromkeys(number for number in token_units.tolist() if number >= 0)
    names = tuple(
        sentences.strings[number] if number < len(sentences) else name
        for number, name in zip(unit_numbers, units.strings, strict=True)
    )
    units = replace(units, strings=names, kind=f"{unit} and {pluralize(inner_noun)}")
    attribution = _open_sentences(settings, batch, sentences, coarse, units, opened, int(pairs))
    if (sentence_pairs := coarse.diagnostics.get("pairs_drawn")) is None:
        masks = 2 ** len(sentences)
    else:
        calls = shapley.sample_size.calls_per_sample(len(sentences))
        masks = _ENDS + calls * int(sentence_pairs) + shapley.spare
    masks += attribution.diagnostics["samples_drawn"] + _ENDS
    attribution = replace(
        attribution, diagnostics={**attribution.diagnostics, "samples_drawn": masks}
    )
    if not (closed := [g for g in strongest if g not in opened]):
        return attribution
    needed = 2 * _count_opening_calls(sizes, len(strongest))
    warning = (
        f"{len(closed)} of the {len(strongest)} strongest {unit} were not opened, because their "
        f"{pluralize(inner_noun)} need more calls. Set samples to {needed:,} or more, or use a "
        f"budget of {needed + 1:,} calls."
    )
    first, *warnings = attribution.warnings
    return replace(attribution, warnings=(first, warning, *warnings))


def _count_opening_calls(sizes: Int[np.ndarray, " sentences"], count: int) -> int:
    """Return the number of calls that suffices to open any ``count`` sentences."""
    longest = np.sort(sizes[sizes > 1])[::-1][:count]
    return MIN_PAIRS * int((2 * (longest + 1)).sum()) + _ENDS


def _recommended_budget(settings: "Zoom", sizes: Int[np.ndarray, " sentences"]) -> int:
    """Return the budget, in calls, that is enough for reliable scores of sentences."""
    sentence_calls = _ENDS + 2 * ENOUGH_PAIRS * (len(sizes) - 1)
    word_calls = 0 if settings.opened is None else _count_opening_calls(sizes, settings.opened)
    return 1 + sentence_calls + max(sentence_calls, word_calls)


def _split_calls(
    settings: "Zoom", sentences: Features, sizes: Int[np.ndarray, " sentences"], total_calls: int
) -> tuple[int, int]:
    """Return the number of calls for the sentences, and for sentences and words together.

    Sentences get half of the calls, and words the other half. If the settings have a number of
    sentences to open, the calls for words suffice for the longest sentences.
    """
    unit = settings.within
    shapley = Shapley(replacement=settings.replacement)
    sentence_calls = shapley.sample_size.minimum_calls(len(sentences))
    word_calls = 0 if settings.opened is None else _count_opening_calls(sizes, settings.opened)
    needed = sentence_calls + max(sentence_calls, word_calls)
    if needed > total_calls and settings.samples is not None:
        advice = [f"Set samples to {needed:,}", f"use a budget of {needed + 1:,} calls"]
        if word_calls > sentence_calls:
            advice.append("lower opened")
        if unit == "sentences":
            advice.append("use within='paragraphs'")
        *first, last = advice
        raise DomainError(
            f"zoom into {len(sentences)} {unit} needs at least {needed:,} samples, not "
            f"{total_calls:,}. {', '.join(first)}, or {last}."
        )
    total_calls = max(total_calls, needed)
    return min(max(total_calls // 2, sentence_calls), total_calls - word_calls), total_calls


def _select_tokens(features: Features, is_selected: Bool[np.ndarray, " T"]) -> Features:
    """Return the features of selected tokens. The other tokens are never removed."""
    index = np.where(is_selected, features.feature_index, -1)
    numbers, new_index = np.unique(index[index >= 0], return_inverse=True)
    feature_index = np.full(len(index), -1)
    feature_index[index >= 0] = new_index
    return replace(
        features,
        strings=tuple(features.strings[i] for i in numbers),
        spans=tuple(features.spans[i] for i in numbers),
        feature_index=feature_index,
    )


def _with_features(batch: Batch, features: Features) -> Batch:
    """Return a batch of one text with other features, and with an empty cache."""
    return replace(batch, features=(features,), cache=type(batch.cache)())


def _open_sentences(
    settings: "Zoom",
    batch: Batch,
    sentences: Features,
    coarse: Attribution,
    units: Features,
    opened: list[int],
    pairs: int,
) -> Attribution:
    """Score the words of the ``opened`` sentences, and keep the ``coarse`` scores of the others.

    ``units`` are the closed sentences and the words of the opened ones. ``pairs`` of orders are
    drawn for each opened sentence.
    """
    game = TargetGame(_with_features(batch, units), settings.replacement)
    group = np.zeros(len(units), int)
    is_scored = units.feature_index >= 0
    group[units.feature_index[is_scored]] = sentences.feature_index[is_scored]
    scores = coarse.scores[group]
    errors = np.zeros(len(sentences)) if coarse.stderr is None else coarse.stderr
    stderr, rng = errors[group], text_rng(settings.seed, batch.inputs[0].text)
    masks = [2 * (np.count_nonzero(group == g) + 1) for g in opened]
    pair_counts = list[int]()
    for i, g in enumerate(opened):
        with limit_time_share(masks[i] / sum(masks[i:])):
            values, value_errors, pair_count = group_owen_values(
                game, group, g, rng, pairs=pairs, known_range=game.known_range
            )
        pair_counts.append(pair_count)
        (*word_values, total), (*word_errors, total_error) = values[0], value_errors[0]
        if pair_count < MIN_RELIABLE_PAIRS:
            # A few draws may agree by chance, so a word has at least the typical error.
            word_errors = np.maximum(word_errors, np.sqrt(np.mean(np.square(word_errors))))
        # Words add up to the score of their sentence, for which more calls were made.
        n = len(word_values)
        scores[group == g] = np.array(word_values) + (coarse.scores[g] - total) / n
        stderr[group == g] = np.hypot(word_errors, np.hypot(errors[g], total_error) / n)
    pairs = min(pair_counts, default=0)
    sentence_sizes = np.abs(coarse.scores)
    share = sentence_sizes[opened].sum() / sentence_sizes.sum() if sentence_sizes.any() else 0.0
    inner = units.kind.rpartition(" ")[2]
    closed_note = f" {inner.capitalize()} in other {settings.within} have no scores of their own."
    few_pairs_warning = (
        f"Scores of {inner} come from {pairs} pairs of orders: their ranking is usable, but their "
        "sizes are rough. For reliable sizes, raise samples or lower opened."
    )
    few_pairs_warnings = (few_pairs_warning,) if 0 < pairs < ENOUGH_PAIRS else ()
    return Attribution(
        scores=scores,
        stderr=nonzero_or_none(stderr),
        base_value=coarse.base_value,
        warnings=(
            f"{len(opened)} of {len(sentences)} {settings.within} were opened. They have "
            f"{100 * share:.0f} % of the total size of scores."
            f"{closed_note * (len(opened) < len(sentences))}",
            *few_pairs_warnings,
            *coarse.warnings,
        ),
        diagnostics={
            "opened": [list(_unit_span(sentences, g)) for g in opened],
            "pairs_in_each": pairs,
            "samples_drawn": sum(n * size for n, size in zip(pair_counts, masks, strict=True)),
            str(settings.within): _unit_rows(
                sentences, coarse.scores, np.arange(len(sentences)), coarse.stderr
            ),
        },
        features=units,
    )


def _unit_span(units: Features, i: int) -> tuple[int, int]:
    """Return the span from the beginning of a unit to its end."""
    return units.spans[i][0][0], units.spans[i][-1][1]


@final
@register_method(
    id="owen",
    label="Owen",
    formula="∫₀¹∫₀¹ (E[f | word kept] − E[f | word removed]) dq dp, other sentences kept as a "
    "whole with probability 1 − p, other words of the sentence with 1 − q",
    sees="the mean effect of a word in its sentence. Totals of sentences are their Shapley values, "
    "and add up to the effect of all words",
    blind="parts of other sentences, which are kept or removed as a whole",
    cost="milliseconds, exact to quadrature precision with a bound",
    implementations=(
        replace(
            exact_implementation(
                per_input(_explain_exactly),
                ("tolerance", "within", "samples", "seed"),
                within=_WITHIN,
                samples="number of masks for a text that is sampled, because a word occurs in "
                f"several sentences. None: the masks of {ENOUGH_PAIRS} pairs of orders",
                seed="the same seed gives the same scores, if they are sampled",
            ),
            hidden_settings=("samples", "seed"),
        ),
        sampled_implementation(
            _explain_by_orders,
            {
                "within": f"{_WITHIN}, or nested units such as 'sentences in paragraphs'",
                "samples": "number of masks: 2 (n − 1) for each pair of orders of n words. A word "
                f"in two sentences counts twice. None: two pairs, at least {DEFAULT_CALLS:,} "
                "masks. If there are no more nested sets, all are evaluated",
            },
            max_count=MAX_SAMPLES,
            summary="1,000 model calls, or 4 (d − 1) for d words if that is more",
        ),
    ),
)
class Owen:
    """Settings of Owen values, by quadrature or by random orders that keep units together."""

    # A field of Owen and not of the quadrature, which gets a part of the tolerance for each text.
    tolerance: Annotated[float | None, Share] = None
    within: str = "sentences"
    samples: Annotated[int | None, at_least(4)] = None
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0

    def __post_init__(self) -> None:
        for unit in self.units:
            if unit not in _UNITS:
                raise InputError(unknown_name_message("unit of within", unit, _UNITS))

    @property
    def units(self) -> list[str]:
        """The kinds of units that contain the words, innermost first."""
        return self.within.split(" in ")

    @property
    def sample_size(self) -> SampleSize:
        """The number of masks that the random orders of a text take together, and its minimum."""
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
    formula="Shapley values of sentences, and Owen values of the words in the strongest sentences",
    sees="the sentences that matter in a long document and the words that matter in them. Scores "
    "add up to the effect of all words",
    blind="words of sentences that are not opened",
    cost="800 model calls, or eight per sentence if that is more",
    implementations=(
        sampled_implementation(
            _explain_zoom,
            {
                "opened": "number of sentences to open, strongest first. If the samples are too "
                f"few, an error is raised. None: up to {_DEFAULT_OPENED}, if the samples allow two "
                "pairs of orders of their words",
                "within": "the units to score: 'sentences', 'paragraphs', 'lines', 'documents' or "
                "'messages'. Documents and messages are opened into sentences. None: the documents "
                "or messages of a conversation, and the sentences of a text",
                "samples": "number of masks, half for sentences and half for words of opened "
                f"sentences. None: {_ZOOM_CALLS}, or more if two pairs of orders of the sentences "
                "need more",
            },
            max_count=MAX_SAMPLES,
        ),
    ),
)
class Zoom:
    """Settings for long documents: scores of sentences, and of words in the strongest sentences."""

    opened: Annotated[int | None, at_least(1)] = None
    within: Annotated[str | None, OneOf(_UNITS)] = None
    samples: Annotated[int | None, at_least(16)] = None
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0

    @property
    def sample_size(self) -> SampleSize:
        """Number of masks, those of sentences and of words together."""
        return SampleSize(
            count=self.samples,
            default=lambda _: _ZOOM_CALLS,
            minimum=lambda _: 16,
            fixed_calls=0,
            enumerates=False,
        )
