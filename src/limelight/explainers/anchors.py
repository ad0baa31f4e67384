"""Anchors: a few words that are enough to keep the prediction, and how often they keep it."""

from dataclasses import fields
from functools import partial
from typing import Annotated, NamedTuple, cast

import numpy as np

from limelight.errors import DomainError
from limelight.explainers.batch import Batch
from limelight.explainers.method import (
    Cost,
    Implementation,
    Share,
    at_least,
    per_input,
)
from limelight.explainers.registry import register_method
from limelight.explainers.target_game import TargetGame
from limelight.models import PROPERTIES, reason_missing
from limelight.progress import expect_calls
from limelight.results import Anchor, Attribution
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
from limelight.shapes import Bool, Float, Int
from limelight.theory.enumeration import enumerate_masks
from limelight.theory.namespace import host_array
from limelight.theory.ratio_game import denominator_range


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


def bound_precision(batch: Batch, words: list[int], choice: int) -> tuple[float, float] | None:
    """Return rigorous bounds on the precision of an anchor, None for a model of several heads.

    ``words`` are the features of the anchor. ``choice`` is the predicted class, 0 or 1.
    """
    arrays = batch.collapsed_inputs
    game = arrays.game
    if game.K > 1 or game.C > 2:
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
    slack = 2 * np.finfo(float).eps * arrays.logit.shape[-1] * terms
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

    if _evaluates_all_masks(settings, d):
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
    gain, stderr = _precision_gains(keeps_prediction, masks, is_kept, words)
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
    if low < settings.threshold:
        verb = "is" if high < settings.threshold else "may be"
        warnings += (
            f"The precision ({low:.3f}–{high:.3f}) {verb} below the threshold "
            f"{settings.threshold:g}.",
        )
    return Attribution(
        # Words outside the anchor have the score 0, never −0.
        scores=gain if prediction.for_target else 0.0 - gain,
        stderr=None if is_exact else stderr,
        anchor=Anchor(
            features=anchor.features,
            precision=precision,
            precision_interval=(low, high),
            coverage=0.5 ** len(words),
        ),
        warnings=warnings + game.warnings,
        diagnostics={"holds": prediction.name, "precision_by": source, **counts},
    )


def _evaluates_all_masks(settings: "Anchors", d: int) -> bool:
    """Return whether all masks are no more than single words and the precision would take."""
    return can_enumerate_masks(d, cast(int, settings.samples) + cast(int, settings.batch) * (1 + d))


def _fresh_masks(
    d: int, words: list[int], samples: int, rng: np.random.Generator
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
    "threshold": "the precision that an anchor must reach",
    "delta": "the probability that a precision lies outside its interval",
    "slack": "precisions that differ by less than this count as equal in the search",
    "batch": "masks drawn at a time in the search",
    "beam": "candidates kept at each size",
    "max_size": "largest number of words in an anchor. None: no limit",
    "samples": "number of masks that measure the reported precision",
    "max_samples": "largest number of masks in the search",
    "replacement": "the replacement of a removed word",
    "seed": "the same seed gives the same anchor",
}


def _count_calls(settings: "Anchors", d: int) -> int:
    """Return the number of masks for the precision; the search announces its own masks later."""
    return 2**d if _evaluates_all_masks(settings, d) else min(cast(int, settings.samples), 2**d)


@register_method(
    id="anchors",
    label="Anchors",
    formula="shortest A with P(prediction is kept | A kept, others with probability ½) ≥ threshold",
    sees="which words are enough to keep the prediction, interactions included",
    blind="the strength of words, and effects below the threshold",
    cost="10⁴ to 10⁶ forward passes on the tables (a second)",
    implementations=(
        Implementation(
            needs="tables",
            exactness="sampled",
            explain=per_input(partial(_explain_anchor, with_bounds=True)),
            settings=_SETTINGS,
            defaults={"batch": 100, "samples": 10_000, "max_samples": 1_000_000},
            cost=Cost(calls=_count_calls),
        ),
        Implementation(
            exactness="sampled",
            explain=per_input(partial(_explain_anchor, with_bounds=False)),
            settings=_SETTINGS,
            # A model call takes a thousand times as long as a call of the tables.
            defaults={"batch": 50, "samples": 500, "max_samples": 2000},
            cost=Cost(calls=_count_calls, summary="hundreds to thousands of model calls"),
        ),
    ),
)
class Anchors:
    """Settings of anchors (Ribeiro et al., 2018).

    An anchor keeps the predicted class, even if the target is another class, while every other
    word is kept or removed by a fair coin. For a model with several labels, it keeps the prediction
    for the label of the target.

    ``threshold``, ``delta``, ``slack``, ``batch``, ``beam`` and ``max_size`` control the search.
    The reported precision is measured on ``samples`` masks that the search has not seen. It is
    measured on all masks if there are no more, and a model of one head has a rigorous bound.

    If the 2^d masks of a text are at most 1,024, or no more than a search begins with, all of them
    are evaluated, and the anchor is the best possible one.

    The score of an anchor word is the precision that the anchor loses without it. It is negative if
    the prediction is not the target. Words outside the anchor have the score 0.
    """

    threshold: Annotated[float, Share] = 0.95
    delta: Annotated[float, Share] = 0.05
    slack: Annotated[float, Share] = 0.15
    batch: Annotated[int | None, at_least(1)] = None
    beam: Annotated[int, at_least(1)] = 4
    max_size: Annotated[int | None, at_least(1)] = None
    samples: Annotated[int | None, at_least(1)] = None
    max_samples: Annotated[int | None, at_least(1)] = None
    replacement: str = "auto"
    seed: Annotated[int, at_least(0)] = 0
