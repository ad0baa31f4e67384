"""Anchors: a few words that are enough to keep the prediction, and how often they keep it."""

import math
from dataclasses import fields, replace
from functools import partial
from typing import Annotated, NamedTuple, cast

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.explainers.batch import Batch
from limelight.explainers.method import (
    Cost,
    Implementation,
    PositiveShare,
    Share,
    at_least,
    per_input,
)
from limelight.explainers.registry import register_method
from limelight.explainers.target_game import TargetGame
from limelight.models import PROPERTIES, reason_missing
from limelight.models.protocol import token_replacement
from limelight.progress import expect_calls
from limelight.results import Anchor, AnchorGuarantee, Attribution
from limelight.sampling.all_masks import can_enumerate_masks
from limelight.sampling.anchors import (
    AnchorSearchSettings,
    KeepsPrediction,
    anchor_from_all_masks,
    clopper_pearson_interval,
    find_anchor,
    positive_probability_bounds,
)
from limelight.sampling.masks import draw_coin_masks, text_rng
from limelight.shapes import Bool, Float, Int, Rng
from limelight.theory.decisions import SufficientSet, find_sufficient_set
from limelight.theory.enumeration import enumerate_masks
from limelight.theory.faithfulness import certified_full_value
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import (
    RatioGame,
    combine_outputs,
    denominator_range,
    extract_document,
    map_arrays,
    value,
)


class AnchoredPrediction(NamedTuple):
    """The prediction for the complete text, which an anchor must keep.

    Parameters
    ----------
    name
        The prediction as text: a class, or "not" and a class.
    choice
        The predicted class. For a model with several labels, 1 if the text has the label, else 0.
    label
        The only output that counts, for a model with several labels. None if the model predicts one
        class.
    for_target
        Whether the prediction is the target.
    warnings
        Warnings if the prediction is not the target, or if the target has a contrast.
    """

    name: str
    choice: int
    label: int | None
    for_target: bool
    warnings: tuple[str, ...] = ()

    def __call__(self, outputs: Float[np.ndarray, "n C"]) -> Bool[np.ndarray, " n"]:
        """Return for each row of outputs whether it leads to the same prediction."""
        return _predict_classes(outputs, self.label) == self.choice


def read_prediction(batch: Batch) -> AnchoredPrediction:
    """Return the prediction for the only document of a batch."""
    model, target = batch.model, int(batch.targets.index[0])
    reason = reason_missing(model, "is_exclusive")
    if reason is not None and model.link != "sigmoid":
        raise DomainError(
            f"method 'anchors' needs {PROPERTIES['is_exclusive']}, but {reason}. Use 'lime', "
            "'shapley' or 'loo'."
        )
    label = target if reason is not None and batch.outputs.shape[1] > 1 else None
    choice = int(_predict_classes(batch.outputs, label)[0])
    # If the text does not have the label, the anchor keeps this prediction.
    name = model.classes[choice] if label is None else "not " * (not choice) + model.classes[target]
    agrees, warnings = choice == (target if label is None else 1), tuple[str, ...]()
    if not agrees:
        warnings = (
            f"The anchor keeps the prediction {name!r}, so its words speak against the target "
            f"{model.classes[target]!r}.",
        )
    (contrast_class,) = batch.targets.against_names()
    if contrast_class is not None:
        warning = f"The anchor keeps the prediction, so against={contrast_class!r} has no effect."
        warnings = (*warnings, warning)
    return AnchoredPrediction(name, choice, label, agrees, warnings)


def _predict_classes(outputs: Float[np.ndarray, "n C"], label: int | None) -> Int[np.ndarray, " n"]:
    """Return the class of the largest output in each row; for a ``label``, 1 if it is positive."""
    if label is not None or outputs.shape[1] == 1:
        return (outputs[:, label or 0] > 0).astype(np.int64)
    return outputs.argmax(axis=1)


def prediction_margins(batch: Batch, prediction: AnchoredPrediction) -> list[RatioGame]:
    """Return the exact games of the margins of a prediction, for the only document of a batch.

    The prediction stays if all margins are positive. They are the outputs of the predicted class
    minus those of each other class, or plus or minus the only output that counts.
    """
    game = map_arrays(extract_document(batch.output_ratio_game, 0), host_array)
    identity, choice = np.eye(game.C), prediction.choice
    if prediction.label is not None or game.C == 1:
        weights = [identity[prediction.label or 0] * (1.0 if choice else -1.0)]
    else:
        weights = [identity[choice] - identity[k] for k in range(game.C) if k != choice]
    return [combine_outputs(game, row) for row in weights]


def bound_precision(batch: Batch, words: list[int], choice: int) -> tuple[float, float] | None:
    """Return rigorous bounds on the precision of an anchor, None for several heads or a norm.

    ``words`` are the features of the anchor. ``choice`` is the predicted class, 0 or 1.
    """
    game = batch.output_ratio_game
    if game.K > 1 or game.C > 2 or game.power != 1 or game.offset is not None:
        return None
    # The larger of two outputs is predicted. Their difference is additive, and its sign decides.
    contrast = np.array([1.0] if game.C == 1 else [-1.0, 1.0])
    N0, kept_terms, removed_terms = (host_array(x)[0, :, 0] for x in (game.N0, game.A, game.B))
    kept_sum, removed_sum = contrast @ kept_terms, contrast @ removed_terms
    is_random = np.ones(game.d, bool)
    is_random[words] = False
    start = contrast @ N0 + kept_sum[words].sum() + removed_sum[is_random].sum()
    # An upper limit of the rounding errors of sums over the tables.
    terms = float(
        np.abs(contrast)
        @ (np.abs(kept_terms).sum(axis=1) + np.abs(removed_terms).sum(axis=1) + np.abs(N0))
    )
    slack = 2 * np.finfo(float).eps * (game.d + 16) * terms
    # f > 0 is certain if N/D is larger than the error bound of f.
    if game.error is not None:
        largest = float(host_array(denominator_range(game)[1])[0, 0])
        slack += largest * float(np.abs(contrast) @ host_array(game.error)[0, :, 0])
    low, high = positive_probability_bounds(
        float(start), (kept_sum - removed_sum)[is_random], slack=slack
    )
    return (low, high) if choice == 1 else (1 - high, 1 - low)


# Masks that are evaluated together. Tables hold terms for each of them, and `samples` has no limit.
_CHUNK = 4096


def _explain_exact_game(settings: "Anchors", batch: Batch) -> Attribution:
    """Find a proven anchor if the threshold is 1, otherwise one with a measured precision."""
    prediction, warnings = read_prediction(batch), tuple[str, ...]()
    _check_effects(settings)
    if settings.threshold == 1:
        margins = prediction_margins(batch, prediction)
        nodes = cast(int, settings.nodes)
        try:
            words = find_sufficient_set(margins, seconds=math.inf, nodes=nodes)
        except DomainError:
            warnings = (
                "The output is within rounding of another prediction, so the precision of the "
                "anchor is measured and not proven.",
            )
        else:
            return _make_proven_anchor(batch, prediction, words)
    attribution = _explain_anchor(settings, batch, with_bounds=True)
    return replace(attribution, warnings=warnings + attribution.warnings)


def _check_effects(settings: "Anchors") -> None:
    """Raise InputError if a setting that was changed has no effect on an exact model.

    A proof has no samples. If rounding prevents it, the precision is measured with the defaults.
    """
    is_proof = settings.threshold == 1
    defaults = {field.name: field.default for field in fields(settings)} | _EXACT_DEFAULTS
    for name in _SAMPLING_SETTINGS if is_proof else ("nodes",):
        if getattr(settings, name) == defaults[name]:
            continue
        if is_proof:
            raise InputError(
                f"{name} is for anchors with a measured precision, but with threshold=1 the anchor "
                f"is proven. Pass threshold=0.95 too, or leave {name} out."
            )
        raise InputError(
            "nodes limits a proof, but a precision below 1 is measured. Leave nodes or threshold "
            "out."
        )


def _make_proven_anchor(
    batch: Batch, prediction: AnchoredPrediction, words: SufficientSet
) -> Attribution:
    """Score each anchor word by its effect on the text that contains only the anchor."""
    game = map_arrays(extract_document(batch.ratio_game, 0), host_array)
    indices = list(words.features)
    masks = np.zeros((1 + len(indices), game.d), bool)
    masks[:, indices] = True
    masks[np.arange(1, len(masks)), indices] = False
    (anchor_value, *values_without_word) = value(game, masks)[0]
    scores = np.zeros(game.d)
    scores[indices] = anchor_value - np.array(values_without_word)
    guarantee: AnchorGuarantee = "minimal" if words.is_subset_minimal else "sufficient"
    warnings = prediction.warnings
    if not indices:
        warnings += ("The anchor has no words, because no removal changes the prediction.",)
    diagnostics = {"holds": prediction.name, "precision_by": "proof", "nodes": words.node_count}
    if words.limit is not None:
        diagnostics["limit"] = words.limit
    return Attribution(
        scores=scores,
        # The error of a difference of two values.
        bound=2 * float(certified_full_value(game).bound),
        anchor=Anchor(
            features=words.features,
            precision=1.0,
            precision_interval=(1.0, 1.0),
            coverage=0.5 ** len(indices),
            guarantee="smallest" if words.is_smallest else guarantee,
        ),
        warnings=warnings,
        diagnostics=diagnostics,
    )


def _explain_anchor(settings: "Anchors", batch: Batch, *, with_bounds: bool) -> Attribution:
    """Find an anchor, and measure its precision on masks that the search has not seen.

    If all masks are evaluated, the anchor is the best of all. With ``with_bounds`` the precision
    is bounded if the tables allow it.
    """
    prediction = read_prediction(batch)
    game, d = TargetGame(batch, settings.replacement), len(batch.features[0])
    search_settings = AnchorSearchSettings(
        **{field.name: getattr(settings, field.name) for field in fields(AnchorSearchSettings)}
    )
    rng = text_rng(settings.seed, batch.inputs[0].text)

    def keeps_prediction(masks: Bool[np.ndarray, "n d"]) -> Bool[np.ndarray, " n"]:
        """Return whether each mask keeps the prediction."""
        chunks = range(0, len(masks), _CHUNK)
        outputs = [game.output_game(masks[i : i + _CHUNK]) for i in chunks]
        return prediction(np.concatenate(outputs))

    evaluates_all = _evaluates_all_masks(settings, d)
    if evaluates_all:
        is_kept, samples = keeps_prediction(enumerate_masks(d)), 2**d
        anchor = anchor_from_all_masks(is_kept, d, settings=search_settings)
        counts = {"masks": samples}
    else:
        anchor = find_anchor(keeps_prediction, d, rng=rng, settings=search_settings)
        samples = cast(int, settings.samples)
        counts = {"search_samples": anchor.sample_count}
    words = list(anchor.features)
    masks, is_exact = _fresh_masks(d, words, samples, rng)
    is_kept = keeps_prediction(masks)
    # All words together take at most as many new masks as the precision.
    gain_count = len(masks)
    if words and not evaluates_all:
        gain_count = min(gain_count, max(1, samples // len(words)))
    rows = np.sort(rng.permutation(len(masks))[:gain_count])
    gain, stderr = _precision_gains(keeps_prediction, masks[rows], is_kept[rows], words)
    gain_is_exact = is_exact and gain_count == len(masks)
    precision, source, bounds = float(is_kept.mean()), "enumeration", None
    low = high = precision
    if not is_exact and with_bounds and settings.replacement == "unk":
        bounds = bound_precision(batch, words, prediction.choice)
    if bounds is not None:
        (low, high), precision, source = bounds, sum(bounds) / 2, "bracket"
    elif not is_exact:
        low, high = clopper_pearson_interval(int(is_kept.sum()), len(is_kept), delta=settings.delta)
        source = "sampling"
    warnings = prediction.warnings
    if not words and anchor.reaches_threshold:
        warnings += (
            "The anchor has no words, because the prediction hardly depends on the words.",
        )
    threshold = cast(float, settings.threshold)
    if low < threshold:
        verb = "is" if high < threshold else "may be"
        warnings += (
            f"The precision ({low:.3f}–{high:.3f}) {verb} below the threshold {threshold:g}.",
        )
    return Attribution(
        # Words outside the anchor have the score 0, never −0.
        scores=gain if prediction.for_target else 0.0 - gain,
        stderr=None if gain_is_exact else stderr,
        anchor=Anchor(
            features=anchor.features,
            precision=precision,
            precision_interval=(low, high),
            coverage=0.5 ** len(words),
            # Every text with the anchor has been evaluated.
            guarantee="sufficient" if is_exact and precision == 1 else None,
        ),
        warnings=warnings + game.warnings,
        diagnostics={"holds": prediction.name, "precision_by": source, **counts},
    )


def _evaluates_all_masks(settings: "Anchors", d: int) -> bool:
    """Return whether all masks are few, and no more than the search and the precision may take."""
    samples, batch = cast(int, settings.samples), cast(int, settings.batch)
    if not can_enumerate_masks(d, samples + batch * (1 + d)):
        return False
    return 2**d <= cast(int, settings.max_samples) + 2 * samples


_MIN_SAMPLES = 40  # for texts of more masks


def _fit_budget(settings: "Anchors", d: int, calls: int) -> "Anchors":  # noqa: ARG001
    """Return the settings that a number of calls allows: half of them search for the anchor."""
    calls -= 2  # the complete and the empty text are masks too
    samples = max(1, calls // 4)
    search = max(1, calls - 2 * samples)
    batch = max(1, min(cast(int, settings.batch), search // 4))
    return replace(settings, samples=samples, max_samples=search, batch=batch)


def _fresh_masks(
    d: int, words: list[int], samples: int, rng: Rng
) -> tuple[Bool[np.ndarray, "n d"], bool]:
    """Return masks that keep ``words``, and whether they are all such masks.

    They are all masks if there are at most ``samples``, and random masks otherwise.
    """
    free = [j for j in range(d) if j not in words]
    if len(free) > np.log2(samples):
        return draw_coin_masks(d, samples, rng, fixed_features=words), False
    masks = np.ones((2 ** len(free), d), bool)
    masks[:, free] = np.arange(len(masks))[:, None] >> np.arange(len(free)) & 1
    return masks, True


def _precision_gains(
    keeps_prediction: KeepsPrediction,
    masks: Bool[np.ndarray, "n d"],
    is_kept: Bool[np.ndarray, " n"],
    words: list[int],
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Return how much precision each anchor word adds, with standard errors.

    A word that leaves the anchor is removed by a fair coin, so the gain is
    precision(A) − precision(A without j) = ½ [P(kept | A) − P(kept | A without j, j removed)].
    ``is_kept`` says which of the masks keep the prediction.
    """
    gain, stderr = np.zeros(masks.shape[1]), np.zeros(masks.shape[1])
    expect_calls(len(masks) * len(words))
    for j in words:
        masks_without_word = masks.copy()
        masks_without_word[:, j] = False
        losses = (is_kept.astype(float) - keeps_prediction(masks_without_word)) / 2
        gain[j] = losses.mean()
        # Equal losses do not mean certainty, so one more loss of each kind is added.
        losses = np.append(losses, (-0.5, 0.5))
        stderr[j] = losses.std() / np.sqrt(len(losses))
    return gain, stderr


_SETTINGS = {
    "threshold": "the precision that an anchor must reach. 1: proven, if the model is exact",
    "delta": "the probability that a precision lies outside its interval",
    "batch": "masks drawn at a time in the search",
    "max_size": "largest number of words in an anchor. None: no limit",
    "samples": "masks that measure the precision, and again as many for the scores",
    "max_samples": "largest number of masks in the search",
    "replacement": "the replacement of a removed word",
    "seed": "the same seed gives the same anchor",
}
_EXACT_SETTINGS = _SETTINGS | {
    "nodes": "largest number of nodes of branch and bound in a proof",
}
_TABLE_DEFAULTS = {"threshold": 0.95, "batch": 100, "samples": 10_000, "max_samples": 1_000_000}


_EXACT_DEFAULTS = _TABLE_DEFAULTS | {"threshold": 1.0, "nodes": 3000}
# Settings without an effect on a proof.
_SAMPLING_SETTINGS = ("delta", "batch", "max_size", "samples", "max_samples", "seed")


def _count_exact_calls(settings: "Anchors", d: int) -> int:
    """Return the number of evaluated masks, 0 for a proof."""
    return 0 if settings.threshold == 1 else _count_calls(settings, d)


def _count_calls(settings: "Anchors", d: int) -> int:
    """Return the number of masks for the precision; the search announces its own masks later."""
    return 2**d if _evaluates_all_masks(settings, d) else min(cast(int, settings.samples), 2**d)


@register_method(
    id="anchors",
    label="Anchors",
    formula="shortest A with P(prediction is kept | A kept, others with probability ½) ≥ threshold",
    sees="which words are enough to keep the prediction, interactions included",
    blind="the strength of words, and effects below the threshold",
    cost="a proof by branch and bound (up to a second)",
    implementations=(
        Implementation(
            needs="exact_game",
            exactness="exact",
            explain=per_input(_explain_exact_game),
            settings=_EXACT_SETTINGS,
            defaults=_EXACT_DEFAULTS,
            cost=Cost(calls=_count_exact_calls),
        ),
        Implementation(
            needs="tables",
            exactness="sampled",
            explain=per_input(partial(_explain_anchor, with_bounds=True)),
            settings=_SETTINGS,
            choose_replacement=token_replacement,
            defaults=_TABLE_DEFAULTS,
            cost=Cost(
                calls=_count_calls, summary="10⁴ to 10⁶ forward passes on the tables (a second)"
            ),
        ),
        Implementation(
            exactness="sampled",
            explain=per_input(partial(_explain_anchor, with_bounds=False)),
            settings=_SETTINGS,
            choose_replacement=token_replacement,
            # A model call takes a thousand times as long as a call of the tables.
            defaults={"threshold": 0.95, "batch": 50, "samples": 500, "max_samples": 2000},
            cost=Cost(
                calls=_count_calls,
                minimum=lambda _, d: 2 + min(2**d, _MIN_SAMPLES),
                settings=("samples", "max_samples"),
                fit=_fit_budget,
                summary="hundreds to thousands of model calls",
            ),
        ),
    ),
)
class Anchors:
    """Settings of anchors (Ribeiro et al., 2018).

    An anchor keeps the predicted class, even if the target is another class, while every other
    word is kept or removed by a fair coin. For a model with several labels, it keeps the prediction
    for the label of the target.

    With ``threshold=1`` and an exact model the anchor is proven: the prediction stays whatever else
    is removed. ``nodes`` limits the proof that no word can be left out, and that no smaller anchor
    exists. The score of an anchor word is then its effect on the text that contains only the
    anchor. This is the default for exact models. The other settings then raise an error.

    ``threshold``, ``delta``, ``batch``, ``max_samples`` and ``max_size`` control the search.
    The reported precision is measured on ``samples`` masks that the search has not seen. It is
    measured on all masks if there are no more, and a model of one head has a rigorous bound.

    If a text has at most 1,024 masks, or no more than a search begins with, all of them are
    evaluated, and the anchor is the best possible one.

    Otherwise the score of an anchor word is the precision that the anchor loses without it. It is
    negative if the prediction is not the target. Words outside the anchor have the score 0.
    """

    threshold: Annotated[float | None, PositiveShare] = None
    delta: Annotated[float, Share] = 0.05
    batch: Annotated[int | None, at_least(1)] = None
    max_size: Annotated[int | None, at_least(1)] = None
    samples: Annotated[int | None, at_least(1)] = None
    max_samples: Annotated[int | None, at_least(1)] = None
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0
    nodes: Annotated[int | None, at_least(0)] = None
