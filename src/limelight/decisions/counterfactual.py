"""Find counterfactuals: with a proof for exact models, by model calls for all others."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from numbers import Integral, Real
from typing import Any

import numpy as np

from limelight import __version__
from limelight.errors import DomainError, InputError, add_text_number, short_repr
from limelight.explainers.batch import Batch, bound_kind
from limelight.explainers.budget import Budget, time_calls
from limelight.explainers.explaining import stream_batches
from limelight.explainers.target_game import TargetGame
from limelight.models import Model
from limelight.models.prediction import prediction_kind
from limelight.models.protocol import announce_calls, token_replacement
from limelight.models.text_game import TextGame
from limelight.progress import ProgressCallback, ProgressTracker
from limelight.request import Request, Targets, target_indices
from limelight.results.counterfactual import Counterfactual, LowerBoundKind
from limelight.results.decision_rule import DecisionRule
from limelight.sampling.masks import text_rng
from limelight.sampling.removal_search import (
    RemovalStability,
    measure_stability,
    prune_removal,
    search_removals,
)
from limelight.shapes import Bool, Float
from limelight.text import AnswerQuery
from limelight.theory.decisions import RemovalCertificate, certify_removals
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import (
    RatioGame,
    combine_outputs,
    extract_document,
    map_arrays,
    value,
)

DEFAULT_CALLS = 1000
# The complete text when it is read, and together with the empty text when its game begins.
_FIXED_CALLS = 3
# Random answers: means of this many guide the search, and new ones check its result.
_ANSWERS, _CHECK_ANSWERS = 5, 20
_NOISE_WARNING = (
    f"Removals were compared by means of {_ANSWERS} random answers, so a smaller set may exist."
)
_MIN_CALLS = _FIXED_CALLS + 1
_EXACT_SECONDS = 1.0
_REPRODUCIBLE_NODES = 2000  # about a second for six heads and 200 words
# Evaluated sets of an exact game, if a proof leaves the smallest set open. A million masks of 200
# words take a few seconds.
_EXACT_SETS = 20_000
_MOST_MEANS = 50  # of margins, if a desired class has to win against many classes
_STABILITY_SHARE, _PRUNE_SHARE = 0.2, 0.05  # of the calls
_TOLERANCE = 1e-6  # of the largest output, between an exact game and the model


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterfactualSettings:
    """The options of a counterfactual that are not options of an explanation.

    Parameters
    ----------
    desired_class
        The only class that counts as a change: a name or a number. None: any other prediction.
    threshold
        For scores and answers, the number below which the prediction is another.
    replacement
        The replacement of removed features.
    seed
        The seed of random removals.
    budget
        Calls or seconds for each text. None: 1,000 calls, or one second for exact models.
    is_reproducible
        Whether the search for a proof is limited by a number of steps, not by the time.
    """

    desired_class: str | int | None = None
    threshold: float | None = None
    replacement: str = "auto"
    seed: int = 0
    budget: Budget | None = None
    is_reproducible: bool = False

    def __post_init__(self) -> None:
        seed, threshold = self.seed, self.threshold
        if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
            raise InputError(f"seed must be a whole number of at least 0, not {short_repr(seed)}.")
        if threshold is None:
            return
        is_number = isinstance(threshold, Real) and not isinstance(threshold, bool)
        if not is_number or not math.isfinite(threshold):
            raise InputError(f"threshold must be a finite number, not {short_repr(threshold)}.")


@dataclass(frozen=True, slots=True)
class _Removal:
    """A set that changes the prediction, with a bound for smaller sets and random removals."""

    removed: tuple[int, ...] | None
    lower_bound: int
    bound_kind: LowerBoundKind
    stability: tuple[RemovalStability, ...] = ()
    warnings: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    diagnostics: dict[str, Any] = field(default_factory=dict)


def stream_counterfactuals(
    model: Model,
    texts: Sequence[Any],
    request: Request,
    settings: CounterfactualSettings,
    *,
    progress: ProgressCallback | None = None,
) -> Iterator[Counterfactual]:
    """Find the counterfactual of each text, batch by batch.

    Parameters
    ----------
    model
        A model that ``prepare_model`` prepared for the request.
    texts
        What the user passed, as a list.
    request
        The options of the explanation, as ``prepare_model`` returned them.
    settings
        The other options.
    progress
        Called with the number of finished texts and of all texts.

    Yields
    ------
    Counterfactual
        One for each text.
    """
    for batch in stream_batches(model, texts, request, progress=progress):
        tracker = ProgressTracker(progress, total=len(texts), estimated=True)
        name = token_replacement(batch.model, settings.replacement)
        calls = _count_calls(settings) if batch.known_game(name) is None else 0
        first, size = batch.first_index or 0, len(batch.inputs)
        with tracker.track(first, texts=size, calls=calls * size):
            yield from find_counterfactuals(batch, settings)


def _count_calls(settings: CounterfactualSettings) -> int:
    """Return the number of calls that the budget allows, or a guess if it is a time."""
    if settings.budget is None or settings.budget.calls is None:
        return DEFAULT_CALLS
    return settings.budget.calls


def find_counterfactuals(
    batch: Batch, settings: CounterfactualSettings
) -> Iterator[Counterfactual]:
    """Find the counterfactual of each input of a batch.

    Raises
    ------
    InputError
        If an option does not fit the prediction of the model.
    DomainError
        If the exact game of a model contradicts its outputs, or if the budget is too small.
    """
    name = token_replacement(batch.model, settings.replacement)
    settings = replace(settings, replacement=name)
    games = batch.known_game(name)
    for i, single in enumerate(batch.split()):
        with add_text_number(single.first_index):
            rule = _make_rule(single, settings)
            full = single.targets.query_outputs(single.outputs[0])
            if rule.desired_class is not None and rule.is_reached(full[None])[0]:
                kind: LowerBoundKind = (
                    "evaluated" if games is None else bound_kind(single.inputs[0])
                )
                yield _make_result(single, settings, rule, _keep_prediction(rule, kind))
                continue
            removal = None
            if games is not None:
                game = map_arrays(extract_document(games, i), host_array)
                removal = _certify(single, settings, rule, game)
            removal = removal or _search(single, settings, rule)
            yield _make_result(single, settings, rule, _drop_tie(single, settings, rule, removal))


def check_decision(batch: Batch) -> None:
    """Raise InputError if the model predicts nothing that a removal could change."""
    for single in batch.split():
        _make_rule(single, CounterfactualSettings())


def _make_rule(batch: Batch, settings: CounterfactualSettings) -> DecisionRule:
    """Return the rule that turns outputs for the only input of a batch into a prediction."""
    model, targets = batch.model, batch.targets
    outputs = targets.query_outputs(batch.outputs)
    query = batch.inputs[0].queries[targets.query_index] if batch.inputs[0].queries else None
    kind, threshold = prediction_kind(model, query, outputs.shape[1]), settings.threshold
    is_class = kind in ("class", "labels")
    if is_class and threshold is not None:
        raise InputError(
            "threshold is for scores and answers, but this model predicts classes. Leave threshold "
            "out."
        )
    if not is_class and settings.desired_class is not None:
        raise InputError(
            "desired_class is for models that predict classes, but this model has a single output. "
            "Use threshold instead."
        )
    if kind == "score" and threshold is None:
        raise InputError(
            "this model predicts a score, so no class can change. Pass the score that counts as a "
            "change as threshold."
        )
    if isinstance(query, AnswerQuery) and query.agreement and threshold is None:
        threshold = float(outputs[0, 0]) / 2  # half as often, or half as similar
    if isinstance(query, AnswerQuery) and threshold is None:
        # Each token has half of its probability, in the geometric mean over the tokens.
        tokens = 1 if query.per_token else max(query.length, 1)
        threshold = float(outputs[0, 0]) - tokens * math.log(2)
    return DecisionRule(
        kind=kind,
        classes=tuple(model.classes),
        threshold=None if threshold is None else float(threshold),
        desired_class=_resolve_class(settings.desired_class, model.classes, outputs),
    )


def _resolve_class(
    desired: str | int | None, classes: tuple[str, ...], outputs: Float[np.ndarray, "1 C"]
) -> str | None:
    """Return the name of the desired class, which may be given by its number."""
    if desired is None or (isinstance(desired, str) and not desired.isdecimal()):
        return desired
    return classes[int(target_indices(desired, classes, outputs)[0])]


def _keep_prediction(rule: DecisionRule, kind: LowerBoundKind) -> _Removal:
    """Return the removal of no feature, because the desired class is predicted already."""
    warning = f"The model predicts {rule.desired_class!r} already, so nothing has to be removed."
    return _Removal((), 0, kind, warnings=(warning,))


def _drop_tie(
    batch: Batch, settings: CounterfactualSettings, rule: DecisionRule, removal: _Removal
) -> _Removal:
    """Leave out a set without which two predictions are tied, and rounding chooses one.

    Outputs of several texts at a time are rounded in other ways than those of a single text.
    """
    if not removal.removed:
        return removal
    full = batch.targets.query_outputs(batch.outputs[0])
    game = batch.game(settings.replacement, answers=_CHECK_ANSWERS)
    outputs = game(_make_mask(len(batch.features[0]), removal.removed))
    if rule.is_changed(batch.targets.query_outputs(outputs), full)[0]:
        return removal
    reason = "two predictions are tied within rounding."
    if game.calls_per_mask > 1:
        reason = f"the prediction is the same in the mean of {_CHECK_ANSWERS} new answers."
    warning = f"The smallest set found has {len(removal.removed)} features. Without them, {reason}"
    return replace(removal, removed=None, warnings=(*removal.warnings, warning))


def _certify(
    batch: Batch, settings: CounterfactualSettings, rule: DecisionRule, game: RatioGame
) -> _Removal | None:
    """Find the smallest set of an exact game with a proof; None if the proof is impossible."""
    limits: dict[str, Any] = {"seconds": _EXACT_SECONDS}
    if settings.is_reproducible:
        limits = {"seconds": math.inf, "nodes": _REPRODUCIBLE_NODES}
    elif settings.budget is not None and settings.budget.seconds is not None:
        limits["seconds"] = settings.budget.seconds
    full = batch.targets.query_outputs(batch.outputs[0])
    weights, constants = rule.margin_weights(full)
    margins = [
        _shift(combine_outputs(game, row), constant)
        for row, constant in zip(weights, constants.tolist(), strict=True)
    ]
    is_joint = rule.desired_class is not None and len(margins) > 1
    try:
        certificate = (
            _certify_all(game, weights, **limits)
            if is_joint
            else certify_removals(margins, **limits)
        )
    except DomainError:
        return None
    removed, lower_bound = certificate.removed, certificate.lower_bound
    kind: LowerBoundKind = bound_kind(batch.inputs[0])
    if removed is None and not certificate.is_robust:

        def evaluate(
            masks: Bool[np.ndarray, "n d"],
        ) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
            outputs = value(game, masks).T
            return rule.margins(outputs, full), rule.is_changed(outputs, full)

        (margin,) = rule.margins(full[None], full)
        searched = search_removals(evaluate, game.d, full_margin=float(margin), calls=_EXACT_SETS)
        removed = searched.removed
        if searched.lower_bound > lower_bound:
            lower_bound, kind = searched.lower_bound, "evaluated"
    if removed is not None:
        _check_removal(batch, settings, rule, game, removed)
    diagnostics: dict[str, Any] = {"nodes": certificate.node_count}
    if certificate.limit is not None:
        diagnostics["limit"] = certificate.limit
    return _Removal(removed, lower_bound, kind, settings=limits, diagnostics=diagnostics)


def _shift(game: RatioGame, constant: float) -> RatioGame:
    """Return the game with a constant added to its value."""
    if constant == 0:
        return game
    offset = np.full((*game.batch, game.C), constant)
    return replace(game, offset=offset if game.offset is None else game.offset + offset)


def _certify_all(
    game: RatioGame, weights: Float[np.ndarray, "m C"], *, seconds: float, **limits: int
) -> RemovalCertificate:
    """Bound the size of the removals that make all margins negative.

    Each margin and each mean of margins has to become negative, so the largest of their lower
    bounds holds. A margin that is negative already bounds nothing. The certificate has no set.
    """
    certificates = list[RemovalCertificate]()
    means = [*weights, weights.mean(axis=0), *((a + b) / 2 for a, b in combinations(weights, 2))]
    for row in means[:_MOST_MEANS]:
        try:
            margin = combine_outputs(game, row)
            certificates.append(certify_removals([margin], seconds=seconds / len(means), **limits))
        except DomainError:
            continue
    if not certificates:
        return RemovalCertificate(1, None, is_robust=False)
    largest = max(certificates, key=lambda certificate: certificate.lower_bound)
    nodes = sum(certificate.node_count for certificate in certificates)
    return largest._replace(removed=None, node_count=nodes)


def _check_removal(
    batch: Batch,
    settings: CounterfactualSettings,
    rule: DecisionRule,
    game: RatioGame,
    removed: Sequence[int],
) -> None:
    """Raise DomainError if the model's output without the features differs from its exact game."""
    mask = _make_mask(game.d, removed)
    full = batch.targets.query_outputs(batch.outputs[0])
    called_output, exact_output = batch.game(settings.replacement)(mask)[0], value(game, mask)[:, 0]
    scale = max(1.0, float(np.abs(batch.outputs).max()), float(np.abs(exact_output).max()))
    is_equal = np.abs(called_output - exact_output).max() <= _TOLERANCE * scale
    # Two classes may be tied within rounding.
    is_changed = rule.margins(called_output[None], full)[0] <= _TOLERANCE * scale
    if not is_equal or not is_changed:
        raise DomainError(
            "the output of the model without the removed features contradicts its exact game. "
            "Report this as a bug, and use another replacement."
        )


def _make_mask(d: int, removed: Sequence[int]) -> Bool[np.ndarray, "1 d"]:
    mask = np.ones((1, d), bool)
    mask[0, list(removed)] = False
    return mask


def _search(batch: Batch, settings: CounterfactualSettings, rule: DecisionRule) -> _Removal:
    """Search for a small set by calls of the model, and measure random removals."""
    game = batch.game(settings.replacement, answers=_ANSWERS)
    d, calls_per_mask = len(batch.features[0]), game.calls_per_mask
    budget = settings.budget or Budget(None, DEFAULT_CALLS)
    is_random = calls_per_mask > 1
    check_calls = _CHECK_ANSWERS * is_random
    minimum_calls = calls_per_mask * _MIN_CALLS + check_calls
    affordable = _affordable_calls(budget, game, minimum_calls)
    if affordable < minimum_calls:
        raise DomainError(
            f"a counterfactual needs at least {minimum_calls} model calls, but the budget of "
            f"{budget} allows {affordable}. Use a larger budget, such as {DEFAULT_CALLS} calls."
        )
    calls = (affordable - check_calls) // calls_per_mask
    announce_calls(batch.model, lambda: calls_per_mask * min(calls, 2**d) + check_calls)
    full = batch.targets.query_outputs(batch.outputs[0])
    call_count = _FIXED_CALLS

    def evaluate(
        masks: Bool[np.ndarray, "n d"],
    ) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
        """Return the margin for each mask, and whether the prediction has changed."""
        nonlocal call_count
        call_count += len(masks)
        return _evaluate_masks(game, rule, batch.targets, full, masks)

    (margin,) = rule.margins(full[None], full)
    available = calls - _FIXED_CALLS
    stability_calls, prune_calls = (int(s * available) for s in (_STABILITY_SHARE, _PRUNE_SHARE))
    search_calls = available - stability_calls - prune_calls
    if 2**d - 2 <= available:
        # All sets can be evaluated, the empty text is known, and no other text is called later.
        search_calls = 2**d - 1
    searched = search_removals(evaluate, d, full_margin=float(margin), calls=search_calls)
    removed = searched.removed

    def evaluate_random(
        masks: Bool[np.ndarray, "n d"],
    ) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
        """Evaluate random removals, and store one if it is the smallest that changes anything."""
        nonlocal removed
        margins, changes = evaluate(masks)
        for mask in masks[changes]:
            if removed is None or np.count_nonzero(~mask) < len(removed):
                removed = tuple(np.flatnonzero(~mask).tolist())
        return margins, changes

    rng = text_rng(settings.seed, batch.inputs[0].text)
    stability = measure_stability(
        evaluate_random,
        d,
        calls=stability_calls,
        rng=rng,
        has_singles=searched.has_singles,
    )
    if removed is not None and removed != searched.removed:
        bound = searched.lower_bound
        removed = prune_removal(evaluate, d, removed, lower_bound=bound, calls=prune_calls)
    return _Removal(
        removed,
        # Means of a few random answers may hide a change, so no size is excluded.
        min(searched.lower_bound, 1) if is_random else searched.lower_bound,
        "evaluated",
        stability=stability,
        warnings=TargetGame(batch, settings.replacement).warnings + (_NOISE_WARNING,) * is_random,
        settings={"budget": str(budget), "seed": settings.seed},
        diagnostics={"calls": calls_per_mask * call_count + check_calls},
    )


def _affordable_calls(budget: Budget, game: TextGame, minimum: int) -> int:
    """Return the number of calls that a budget allows, for a time at least ``minimum``."""
    if budget.seconds is None:
        return budget.calls or 0
    seconds_per_mask, _ = time_calls(budget.seconds, game)
    return max(int(budget.seconds / seconds_per_mask) * game.calls_per_mask, minimum)


def _evaluate_masks(
    game: TextGame,
    rule: DecisionRule,
    targets: Targets,
    full: Float[np.ndarray, " C"],
    masks: Bool[np.ndarray, "n d"],
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Return the margin of the prediction for each mask, and whether the prediction has changed.

    A text that the model rejects has no prediction. It counts as unchanged.
    """
    count = game.imputed_count
    outputs = targets.query_outputs(game(masks))
    margins, changes = rule.margins(outputs, full), rule.is_changed(outputs, full)
    if game.imputed_count > count:
        for j in range(len(masks)):
            count = game.imputed_count
            game(masks[j : j + 1])
            if game.imputed_count > count:
                margins[j], changes[j] = np.inf, False
    return margins, changes


# Fields that all results take from a batch. Texts have no image.
_BATCH_FIELDS = (
    "text", "features", "spans", "image", "classes", "link", "prediction", "cut", "parts", "query",
    "model",
)  # fmt: skip


def _make_result(
    batch: Batch, settings: CounterfactualSettings, rule: DecisionRule, removal: _Removal
) -> Counterfactual:
    """Return the counterfactual of the only input of a batch."""
    fields, features = batch.base_fields(0), batch.features[0]
    prediction_after = None
    if removal.removed == ():
        prediction_after = fields["prediction"]
    elif removal.removed is not None:
        game = batch.game(settings.replacement, answers=_CHECK_ANSWERS)
        outputs = game(_make_mask(len(features), removal.removed))[0]
        prediction_after = dict(
            zip(fields["prediction"], batch.targets.query_outputs(outputs).tolist(), strict=True)
        )
    return Counterfactual(
        **{name: fields[name] for name in _BATCH_FIELDS if name in fields},
        removed=removal.removed or (),
        lower_bound=removal.lower_bound,
        bound_kind=removal.bound_kind,
        kind=rule.kind,
        threshold=rule.threshold,
        desired_class=rule.desired_class,
        prediction_after=prediction_after,
        replacement=settings.replacement,
        stability=removal.stability,
        warnings=(*batch.inputs[0].warnings, *features.warnings, *removal.warnings),
        settings=fields["settings"] | {"replacement": settings.replacement} | removal.settings,
        diagnostics=fields["diagnostics"] | removal.diagnostics,
        version=__version__,
    )
