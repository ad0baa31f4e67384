"""Anchors: a few words that hold the prediction, with how often they do."""

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


class Held(NamedTuple):
    """What the model says of the untouched text.

    ``label`` is the only output that counts where labels are a yes or no each; None where one
    class is predicted. ``choice`` is that class, or 1 for yes and 0 for no.
    """

    name: str
    choice: int
    label: int | None
    for_target: bool
    warnings: tuple[str, ...] = ()

    def __call__(self, outputs: Float[np.ndarray, "n C"]) -> Bool[np.ndarray, " n"]:
        """Return whether ``outputs`` still say so."""
        return _choices(outputs, self.label) == self.choice


def held_by(one: Batch) -> Held:
    """Return what is held in the one document of ``one``."""
    model, target = one.model, int(one.targets.index[0])
    why = reason_missing(model, "is_exclusive")
    if why is not None and model.link != "sigmoid":
        raise DomainError(
            f"an anchor holds the predicted class; it needs {PROPERTIES['is_exclusive']}, and "
            f"{why}. Use 'lime', 'shapley' or 'loo'."
        )
    label = target if why is not None and one.outputs.shape[1] > 1 else None
    choice = int(_choices(one.outputs, label)[0])
    # A label that the text has not is held as well: that it has it not.
    name = model.classes[choice] if label is None else "not " * (not choice) + model.classes[target]
    agrees, warnings = choice == (target if label is None else 1), tuple[str, ...]()
    if not agrees:
        warnings = (
            f"An anchor holds what the model says, {name!r}, so its words speak against the target "
            f"{model.classes[target]!r}.",
        )
    (other,) = one.targets.against_names()
    if other is not None:
        same = f"An anchor holds what the model says, so it is the same against {other!r}."
        warnings = (*warnings, same)
    return Held(name, choice, label, agrees, warnings)


def _choices(outputs: Float[np.ndarray, "n C"], label: int | None) -> Int[np.ndarray, " n"]:
    if label is not None or outputs.shape[1] == 1:
        return (outputs[:, label or 0] > 0).astype(np.int64)
    return outputs.argmax(axis=1)


def sign_bracket_of(one: Batch, words: list[int], held: int) -> tuple[float, float] | None:
    """Return rigorous bounds on the precision of ``words``; None where there are more heads."""
    arrays = one.collapsed_inputs
    game = arrays.game
    if game.K > 1 or game.C > 2:
        return None
    # Of two outputs the larger wins: the sign of their difference, which is additive as well.
    contrast = np.array([1.0] if game.C == 1 else [-1.0, 1.0])
    N0, kept, removed = (host_array(x)[0, :, 0] for x in (game.N0, game.A, game.B))
    kept_sum, removed_sum = contrast @ kept, contrast @ removed
    at_random = np.ones(game.d, bool)
    at_random[words] = False
    start = contrast @ N0 + kept_sum[words].sum() + removed_sum[at_random].sum()
    # What summing the tables' terms in floating point may have cost.
    terms = float(
        np.abs(contrast) @ (np.abs(kept).sum(axis=1) + np.abs(removed).sum(axis=1) + np.abs(N0))
    )
    slack = 2 * np.finfo(float).eps * arrays.logit.shape[-1] * terms
    # f > 0 is sure where N/D exceeds what f may be off by.
    if game.error is not None:
        largest = float(host_array(denominator_range(game)[1])[0, 0])
        slack += largest * float(np.abs(contrast) @ host_array(game.error)[0, :, 0])
    low, high = positive_probability_bounds(
        float(start), (kept_sum - removed_sum)[at_random], slack=slack
    )
    return (low, high) if held == 1 else (1 - high, 1 - low)


_CHUNK = 4096  # masks at a time: tables hold terms for each, and `samples` has no limit


def _found_in(settings: "Anchors", one: Batch, *, brackets: bool) -> Attribution:
    """Find an anchor, and measure its precision on masks that the search has not seen.

    It is the best of all if all masks are asked; ``brackets`` the precision where tables allow it.
    """
    held = held_by(one)
    game, d = TargetGame(one, settings.replacement), len(one.features[0])
    search = AnchorSearchSettings(
        **{part.name: getattr(settings, part.name) for part in fields(AnchorSearchSettings)}
    )
    rng = text_rng(settings.seed, one.inputs[0].text)

    def holds(keep: Bool[np.ndarray, "n d"]) -> Bool[np.ndarray, " n"]:
        chunks = range(0, len(keep), _CHUNK)
        return held(np.concatenate([game.output_game(keep[i : i + _CHUNK]) for i in chunks]))

    if _asks_all(settings, d):
        found, samples = anchor_from_all_masks(holds(enumerate_masks(d)), d, settings=search), 2**d
        asked = {"masks": samples}
    else:
        found, samples = (
            find_anchor(holds, d, rng=rng, settings=search),
            cast(int, settings.samples),
        )
        asked = {"search_samples": found.sample_count}
    words = list(found.features)
    masks, every = _fresh_masks(d, words, samples, rng)
    there = holds(masks)
    gain, stderr = _gains(holds, masks, there, words)
    precision, by, rigorous = float(there.mean()), "enumeration", None
    low = high = precision
    if not every and brackets and settings.replacement == "unk":
        rigorous = sign_bracket_of(one, words, held.choice)
    if rigorous is not None:
        (low, high), precision, by = rigorous, sum(rigorous) / 2, "bracket"
    elif not every:
        low, high = clopper_pearson_interval(int(there.sum()), len(there), delta=settings.delta)
        by = "sampling"
    warnings = held.warnings
    if not words and found.reaches_threshold:
        warnings += (
            "The prediction holds without an anchor: it hardly depends on which words stay.",
        )
    if low < settings.threshold:
        warnings += (
            f"The precision lies in {low:.3f}–{high:.3f}, which does not clear the threshold "
            f"{settings.threshold:g}.",
        )
    return Attribution(
        scores=gain if held.for_target else 0.0 - gain,  # words outside have 0, and none −0
        stderr=None if every else stderr,
        anchor=Anchor(
            features=found.features,
            precision=precision,
            precision_interval=(low, high),
            coverage=0.5 ** len(words),
        ),
        warnings=warnings + game.warnings,
        diagnostics={"holds": held.name, "precision_by": by, **asked},
    )


def _asks_all(settings: "Anchors", d: int) -> bool:
    """Whether all masks are no more than a search asks for words alone, and for the precision."""
    return can_enumerate_masks(d, cast(int, settings.samples) + cast(int, settings.batch) * (1 + d))


def _fresh_masks(
    d: int, words: list[int], samples: int, rng: np.random.Generator
) -> tuple[Bool[np.ndarray, "n d"], bool]:
    """Return every mask that keeps ``words`` if there are at most ``samples``, else random ones."""
    free = [j for j in range(d) if j not in words]
    if len(free) > np.log2(samples):
        return draw_coin_masks(d, samples, rng, fixed_features=words), False
    masks = np.ones((2 ** len(free), d), bool)
    masks[:, free] = np.arange(len(masks))[:, None] >> np.arange(len(free)) & 1
    return masks, True


def _gains(
    holds: KeepsPrediction,
    masks: Bool[np.ndarray, "n d"],
    held: Bool[np.ndarray, " n"],
    words: list[int],
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """What precision loses without each anchor word, which a fair coin would then remove.

    precision(A) − precision(A without j) = ½ [P(holds | A) − P(holds | A without j, j removed)].
    """
    gain, stderr = np.zeros(masks.shape[1]), np.zeros(masks.shape[1])
    expect_calls(len(masks) * len(words))
    for j in words:
        without = masks.copy()
        without[:, j] = False
        loss = (held.astype(float) - holds(without)) / 2
        gain[j] = loss.mean()
        # Losses that all agree are not certain: one more of either kind might have come.
        seen = np.append(loss, (-0.5, 0.5))
        stderr[j] = seen.std() / np.sqrt(len(seen))
    return gain, stderr


_SETTINGS = {
    "threshold": "the precision that an anchor must reach",
    "delta": "the chance that a precision lies outside its interval",
    "slack": "precisions that differ by less than this count as equal in the search",
    "batch": "masks drawn at a time in the search",
    "beam": "candidates kept at each size",
    "max_size": "the most words an anchor may have; None: no limit",
    "samples": "masks for the precision that is reported",
    "max_samples": "the most masks that the search may draw",
    "replacement": "what stands for a removed word",
    "seed": "same seed, same anchor",
}


def _calls(settings: "Anchors", d: int) -> int:
    """Masks of the reported precision; what the search asks besides is announced as it goes."""
    return 2**d if _asks_all(settings, d) else min(cast(int, settings.samples), 2**d)


@register_method(
    id="anchors",
    label="Anchors",
    formula="shortest A with P(prediction holds | A kept, others by fair coin) ≥ threshold",
    sees="which words suffice for the predicted class, interactions included",
    blind="how strongly words pull, and anything below the threshold",
    cost="10⁴ to 10⁶ forward passes on the tables (a second)",
    implementations=(
        Implementation(
            needs="tables",
            exactness="sampled",
            explain=per_input(partial(_found_in, brackets=True)),
            settings=_SETTINGS,
            defaults={"batch": 100, "samples": 10_000, "max_samples": 1_000_000},
            cost=Cost(calls=_calls),
        ),
        Implementation(
            exactness="sampled",
            explain=per_input(partial(_found_in, brackets=False)),
            settings=_SETTINGS,
            # Asking a model costs a thousand times what asking the tables does.
            defaults={"batch": 50, "samples": 500, "max_samples": 2000},
            cost=Cost(calls=_calls, summary="hundreds to thousands of calls of the model"),
        ),
    ),
)
class Anchors:
    """Settings of anchors (Ribeiro et al., 2018).

    An anchor holds the predicted class, whatever the target (in a model with several labels,
    whether the text has the target's), while every word outside it is kept or removed by a fair
    coin. ``threshold``, ``delta``, ``slack``, ``batch``, ``beam`` and ``max_size`` steer the
    search; the precision that is reported comes from ``samples`` masks that the search never saw
    (from all masks if there are no more than that, and for one head from a rigorous bracket). If
    all 2^d masks of a text are no more than a search begins with, or at most 1,024, they are asked,
    and the anchor is the best there is. The score of an anchor word is what precision loses when
    the anchor lets go of it, negative where what is held is not the target; words outside the
    anchor have 0.
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
