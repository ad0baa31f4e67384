"""Gradients, integrated gradients, and LRP."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np

from limelight.errors import DomainError
from limelight.explainers.batch import Batch, average_heads, sum_subword_scores
from limelight.explainers.method import (
    Cost,
    Implementation,
    NotBelow,
    Positive,
    at_least,
    per_input,
)
from limelight.explainers.registry import register_method
from limelight.models import Gradients, Model, resolve_replacement
from limelight.models.protocol import position_preserving_replacement
from limelight.rendering.wording import round_up
from limelight.results import Attribution
from limelight.shapes import Float
from limelight.theory.gradient import gradient_summary, gradient_times_input
from limelight.theory.path_quadrature import nested_rules

if TYPE_CHECKING:
    from limelight.theory.integrated_gradients import IntegratedGradients

_BACKWARD = "one forward and one backward pass"
# A backward pass costs about two forward passes, and a step is one of each.
_STEP_CALLS = 3
_ROUNDING = 1e-4  # of the mean size of the gradient
# Shares: 0 is a random order of the features, and 1 is the best known order. See
# docs/explanation/judging.md and docs/how-to/choose-method.md.
_WORSE_THAN_CHANCE = (
    "G-avg is unreliable: on 1,000 IMDB reviews, it ranked words worse than a random order "
    "(share −0.64, Shapley values 0.99). Use 'shapley' or 'lime'."
)
_CHANCE_ON_DEEP = (
    "G×I is unreliable on deep models: on 110 IMDB reviews with MiniLM, it ranked words no better "
    "than a random order (share −0.02, LRP 0.66, Shapley values 0.88). Use 'shapley' or 'lime'."
)
_PER_HEAD = {
    "per_head": "also score the gradient of every head. Norms of heads do not average to the score"
}
Summary = Literal["mean", "l1", "l2"]


def _score_gradient_from_tables(
    settings: "GAvg", batch: Batch, *, summary: Summary
) -> list[Attribution]:
    """Score every feature by the gradient of the target at its positions (Theorem 4.1)."""
    arrays, weights = batch.collapsed_inputs, batch.target_gradient
    scores = arrays.pool_features(gradient_summary(arrays.token_gradient(weights), summary))
    if not settings.per_head:
        return [Attribution(scores=s) for s in scores]
    gradients = arrays.head_gradients(weights)[..., 1:, :]
    heads = arrays.pool_features(gradient_summary(gradients, summary))
    return [Attribution(scores=s, heads=h) for s, h in zip(scores, heads, strict=True)]


def _score_gradient_times_input_from_tables(_: "GxI", batch: Batch) -> list[Attribution]:
    """Score every feature and every head by e_t · ∇_{e_t} f at the feature's positions."""
    arrays = batch.collapsed_inputs
    u = arrays.target_u(batch.target_gradient)
    linear_u = arrays.read_u(batch.target_gradient)
    return average_heads(
        arrays, gradient_times_input(arrays.alpha, u, arrays.read_logit, linear_u=linear_u)
    )


def _score_gradient(_: "GAvg", batch: Batch, *, summary: Summary) -> Attribution:
    """Score every feature by the gradient of the target at its embedded subword tokens."""
    G = _embedding_and_gradient(batch)[1]
    scores = sum_subword_scores(batch, gradient_summary(G, summary))
    # Under a layer norm the gradient has mean zero. Means below this size are rounding errors.
    noise, largest = float(_ROUNDING * np.abs(G).mean()), np.abs(scores).max()
    if summary != "mean" or noise < largest:
        return Attribution(scores=scores)
    warning = (
        "The model normalizes its embedded input, so the mean of the gradient is zero and these "
        f"scores are rounding errors (at most {largest:.0e}). Use 'shapley' or 'lime'."
    )
    return Attribution(scores=scores, warnings=(warning,), diagnostics={"rounding": noise})


def _score_gradient_times_input(_: "GxI", batch: Batch) -> Attribution:
    """Score every feature by gradient times embedding, summed over its subword tokens."""
    e, G = _embedding_and_gradient(batch)
    return Attribution(scores=sum_subword_scores(batch, (G * e).sum(axis=-1)))


def _embedding_and_gradient(
    batch: Batch,
) -> tuple[Float[np.ndarray, "T d_e"], Float[np.ndarray, "T d_e"]]:
    """Return the embedding of a single input, and the gradient of the target there."""
    model, model_input = batch.model, batch.inputs[0]
    e = model.embed(model_input)
    return e, model.gradients(model_input, e[None], batch.targets.output_gradient).gradient[0]


def _with_warning(
    explain: Callable[[Any, Batch], list[Attribution]], warning: str
) -> Callable[[Any, Batch], list[Attribution]]:
    """Return a version of ``explain`` that adds a warning to each attribution."""

    def explain_and_warn(settings: Any, batch: Batch) -> list[Attribution]:
        """Explain a batch, and add the warning to each attribution."""
        return [
            replace(attribution, warnings=(*attribution.warnings, warning))
            for attribution in explain(settings, batch)
        ]

    return explain_and_warn


def _summary_implementations(summary: Summary, *, warning: str = "") -> tuple[Implementation, ...]:
    """Return two implementations: the exact gradient of the tables, and autograd."""
    explain = partial(_score_gradient_from_tables, summary=summary)
    return (
        Implementation(
            needs="tables",
            exactness="exact",
            explain=_with_warning(explain, warning) if warning else explain,
            settings=_PER_HEAD,
        ),
        Implementation(
            needs="gradients",
            exactness="exact",
            explain=per_input(partial(_score_gradient, summary=summary)),
            cost=Cost(summary=_BACKWARD),
        ),
    )


_COST = "one forward pass and two small products"


_NODES_PER_CALL = 16  # bounds the memory for gradients
# The error of a score, relative to its change when half of the nodes are used. On MiniLM and tiny
# networks of six families the error was at most 0.31 of the change when the scores added up.
_ERROR_SHARE = 1 / 3
_PADDING_WARNING = (
    "Integrated gradients move words to the padding embedding, which other words still attend to. "
    "To mask removed words out, use 'lime', 'shapley' or 'loo' with replacement='pad'."
)


def _integrate_gradients_from_tables(settings: "IG", batch: Batch) -> list[Attribution]:
    """Score every feature by integrated gradients from UNK to the word, in closed form."""
    # One input at a time, so its quadrature does not depend on the other inputs of the batch.
    integrals = [_integrate_input(settings, batch, i) for i in range(len(batch.inputs))]
    # The scores of heads add up to the score, but `average_heads` expects scores to average.
    scores = np.concatenate([ig.scores * ig.scores.shape[-2] for ig in integrals])
    attributions = average_heads(batch.collapsed_inputs, scores)
    return [
        replace(
            attribution,
            bound=float(ig.bound[0]),
            warnings=_quadrature_warnings(ig, cast(float, settings.tolerance)),
            diagnostics={"completeness_gap": float(ig.gap[0]), "nodes": ig.nodes},
        )
        for attribution, ig in zip(attributions, integrals, strict=True)
    ]


def _integrate_input(settings: "IG", batch: Batch, i: int) -> "IntegratedGradients":
    """Return the integrated gradients of the ``i``-th input of a batch."""
    # Imported here, because a comparison imports this module for other methods.
    from limelight.theory.integrated_gradients import integrated_gradients

    arrays, index = batch.collapsed_inputs, slice(i, i + 1)
    targets = batch.targets.select(i)
    return integrated_gradients(
        arrays.path(index),
        arrays.u[index],
        arrays.base_u[index],
        output_gradient=targets.output_gradient,
        explained_value=targets.value,
        derivative_bounds=targets.derivative_bounds(arrays.u.shape[1]),
        tolerance=cast(float, settings.tolerance),
        logit_error=arrays.bounds.logit[index],
        value_error=arrays.bounds.value[index],
    )


def _quadrature_warnings(integrals: "IntegratedGradients", tolerance: float) -> tuple[str, ...]:
    """Return a warning if the error of the quadrature exceeds the tolerance.

    There is no warning if rounding errors are larger than the error of the quadrature, because
    more nodes would not help. The bound contains both errors.
    """
    quadrature, bound = float(integrals.quadrature[0]), float(integrals.bound[0])
    if quadrature <= max(tolerance, bound - quadrature):
        return ()
    return (
        f"The proven error of the integrals is {round_up(quadrature)}, above the tolerance "
        f"{tolerance:.1g}.",
    )


def _integrate_gradients(settings: "IG", batch: Batch) -> Attribution:
    """Score every feature by integrated gradients, along the line from replacement to word.

    The steps are doubled until the scores meet the tolerance.
    """
    model, model_input, targets = batch.model, batch.inputs[0], batch.targets
    tolerance = cast(float, settings.tolerance)
    end = model.embed(model_input)
    start = model.embed(model_input, batch.features[0], settings.replacement)
    outputs = model.gradients(model_input, np.stack([start, end]), targets.output_gradient).outputs
    base_value, full_value = targets.value(outputs[:, None])[:, 0]
    change = float(full_value - base_value)
    nodes = settings.steps
    while True:
        positions, weights = nested_rules(nodes)  # all nodes, and either half of them
        integrals, _ = _path_integrals(batch, model.gradients, (start, end), positions, weights)
        scores, *half_scores = sum_subword_scores(batch, integrals)
        errors = np.max([np.abs(half - scores) for half in half_scores], axis=0)
        gap = abs(float(integrals[0].sum() - change))
        # Scores may have errors although they add up, because errors of two words can cancel.
        warnings = _tolerance_warnings(scores, errors, gap, change, tolerance)
        if not warnings or 2 * nodes > settings.max_steps:
            break
        nodes *= 2
    if settings.replacement == "pad":
        warnings += (_PADDING_WARNING,)
    return Attribution(
        scores=scores,
        base_value=float(base_value),
        warnings=warnings,
        diagnostics={"completeness_gap": gap, "nodes": nodes, "score_errors": errors.tolist()},
    )


def _fit_steps(settings: "IG", _: int, calls: int) -> "IG":
    """Return settings whose steps fit in a number of calls.

    Two calls go to the ends of the path. The steps count twice, because they may be doubled.
    """
    max_steps = max((calls // _STEP_CALLS - 2) // 2, 1)
    return replace(settings, steps=min(settings.steps, max_steps), max_steps=max_steps)


def _path_integrals(
    batch: Batch,
    compute_gradients: Callable[..., Gradients],
    ends: tuple[Float[np.ndarray, "T d_e"], Float[np.ndarray, "T d_e"]],
    positions: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, "r n"],
) -> tuple[Float[np.ndarray, "r T"], Float[np.ndarray, " C"]]:
    """Return path integrals of the gradient, and the outputs at the last position.

    The integral of a token is Σ_k w_k (e − s) · ∇F at s + x_k (e − s), for each row w of
    ``weights``, with the positions x and the ends s and e of the path.
    """
    start, difference = ends[0], ends[1] - ends[0]
    means, outputs = np.zeros((len(weights), *difference.shape)), batch.outputs
    for first in range(0, len(positions), _NODES_PER_CALL):
        nodes = slice(first, first + _NODES_PER_CALL)
        points = start + positions[nodes, None, None] * difference
        gradients = compute_gradients(batch.inputs[0], points, batch.targets.output_gradient)
        means += np.einsum("rn,nte->rte", weights[:, nodes], gradients.gradient)
        outputs = gradients.outputs
    return (means * difference).sum(axis=-1), outputs[-1]


def _tolerance_warnings(
    scores: Float[np.ndarray, " d"],
    errors: Float[np.ndarray, " d"],
    gap: float,
    change: float,
    tolerance: float,
) -> tuple[str, ...]:
    """Return a warning if a score, or the sum of the scores, misses the tolerance.

    ``gap`` is the distance of the sum of the scores from the ``change`` of the output.
    """
    largest_error = float(_ERROR_SHARE * errors.max(initial=0.0))
    largest = float(np.abs(scores).max(initial=0.0))
    if largest_error <= tolerance * largest and gap <= tolerance * abs(change):
        return ()
    return (
        f"Integrated gradients did not converge to {tolerance:.1%}: scores may be off by "
        f"{largest_error:.2g} (largest score {largest:.2g}), and their sum by {gap:.1g} (total "
        f"{change:.3g}). Raise max_steps or the budget.",
    )


# Relative to the output, or to 1. Half precision changes an output by less.
_OUTPUT_TOLERANCE = 0.03


def _explain_lrp_from_tables(_: "Lrp", batch: Batch) -> list[Attribution]:
    """Score every feature by LRP from the tables: Σ α u, averaged over heads.

    With constant attention α, the output f = (1/K) Σ_i Σ_t α_t u_t is linear in the embeddings.

    The part of u that comes from biases belongs to no token, so it is left out.
    """
    arrays = batch.collapsed_inputs
    return average_heads(arrays, arrays.alpha * arrays.read_u(batch.target_gradient))


def _explain_lrp_from_network(settings: "Lrp", batch: Batch) -> list[Attribution]:
    """Score every feature by LRP: gradient times input, with attention, gates and norms constant.

    With several steps, the gradient is averaged over points between replaced and full text.
    """
    if settings.steps > 1:
        return [_explain_lrp_along_path(settings, single) for single in batch.split()]
    products, frozen_outputs = batch.model.frozen_input_products(
        batch.inputs, batch.target_gradient
    )
    attributions = []
    for single, product, outputs in zip(batch.split(), products, frozen_outputs, strict=True):
        _check_frozen_outputs(outputs, single.outputs[0])
        attributions.append(
            Attribution(
                scores=sum_subword_scores(single, product),
                diagnostics=_unassigned_scores(single, product),
            )
        )
    return attributions


def _explain_lrp_along_path(settings: "Lrp", batch: Batch) -> Attribution:
    """Score every feature by LRP, averaged over points between the replaced and the full text.

    At each point, attention weights, gates and norms are constants of the gradient.
    """
    model, model_input = batch.model, batch.inputs[0]
    end = model.embed(model_input)
    token = position_preserving_replacement(model, settings.replacement)
    start = model.embed(model_input, batch.features[0], token)
    nodes, weights = np.polynomial.legendre.leggauss(settings.steps)
    # The last position is the text itself. Its weight is 0, but its outputs are checked.
    positions, weight = np.append((nodes + 1) / 2, 1.0), np.append(weights / 2, 0.0)
    (scores,), outputs = _path_integrals(
        batch, model.frozen_gradient, (start, end), positions, weight[None]
    )
    _check_frozen_outputs(outputs, batch.outputs[0])
    return Attribution(scores=sum_subword_scores(batch, scores))


def _check_frozen_outputs(
    frozen: Float[np.ndarray, " C"], outputs: Float[np.ndarray, " C"]
) -> None:
    """Raise an error if the frozen network does not return the outputs of the model."""
    gap = float(np.abs(frozen - outputs).max())
    if gap <= _OUTPUT_TOLERANCE * max(1.0, float(np.abs(outputs).max())):
        return
    raise DomainError(
        f"LRP does not work for this model, because freezing its weights changes its outputs by "
        f"{gap:.2g}. Use 'ig', 'shapley' or 'lime'."
    )


def _unassigned_scores(batch: Batch, scores: Float[np.ndarray, " T"]) -> dict[str, Any]:
    """Return the sums of scores that no feature gets: those of special tokens and of biases.

    For probabilities there is no sum of biases, because the frozen network computes logits.
    """
    feature_sum, token_sum = float(sum_subword_scores(batch, scores).sum()), float(scores.sum())
    sums = {"to_other_tokens": token_sum - feature_sum}
    if batch.targets.scale != "probability":
        sums["to_biases"] = float(batch.targets.value(batch.outputs)[0]) - token_sum
    return sums


def _count_lrp_calls(settings: "Lrp", _: int) -> int:
    """Return the calls of LRP. With several steps, the text itself is one step more."""
    return _STEP_CALLS * (settings.steps + (settings.steps > 1))


def _choose_path_start(model: Model, name: str) -> str:
    """Return the replacement at which a path starts.

    If the model can only delete tokens, "auto" stays, because one step needs no start.
    """
    if name == "auto" and set(model.replacements) == {"delete"}:
        return name
    return (
        position_preserving_replacement(model, name)
        if name == "auto"
        else resolve_replacement(model, name)
    )


@register_method(
    id="g-avg",
    label="G-avg",
    formula="mean over dimensions of ∇_{e_t} f (Theorem 4.1)",
    sees="attention, values and the last layer, to first order",
    blind="effects far from the text. Signs depend on the arbitrary axes of the embedding",
    cost=_COST,
    implementations=_summary_implementations("mean", warning=_WORSE_THAN_CHANCE),
)
class GAvg:
    """Settings of G-avg."""

    per_head: bool = False


@register_method(
    id="g-l1",
    label="G-l1",
    formula="‖∇_{e_t} f‖₁ (Theorem 4.1)",
    sees="how sensitive the output is to a word",
    blind="the sign, and effects far from the text",
    cost=_COST,
    signed=False,
    implementations=_summary_implementations("l1"),
)
class GL1(GAvg):
    """Settings of G-l1."""


@register_method(
    id="g-l2",
    label="G-l2",
    formula="‖∇_{e_t} f‖₂ (Theorem 4.1)",
    sees="how sensitive the output is to a word",
    blind="the sign, and effects far from the text",
    cost=_COST,
    signed=False,
    implementations=_summary_implementations("l2"),
)
class GL2(GAvg):
    """Settings of G-l2."""


@register_method(
    id="gxi",
    label="G×I",
    formula="e_t · ∇_{e_t} f (Theorem 4.1)",
    sees="attention, values and the last layer, with a sign",
    blind="saturation: it compares with the zero vector, which is not a word",
    cost="one forward pass",
    implementations=(
        Implementation(
            needs="tables", exactness="exact", explain=_score_gradient_times_input_from_tables
        ),
        Implementation(
            needs="gradients",
            exactness="exact",
            explain=_with_warning(per_input(_score_gradient_times_input), _CHANCE_ON_DEEP),
            cost=Cost(summary=_BACKWARD),
        ),
    ),
)
class GxI:
    """Settings of gradient × input: none."""


@register_method(
    id="ig",
    label="IG",
    formula="∫₀¹ (e_t − h)·∇_{e_t} f dx along UNK → word",
    sees="the whole path from UNK to the word, with scores that add up to the effect of all words",
    blind="mixtures of kept and removed words off that path",
    cost="32 forward passes on the tables for each change of the logits by 16",
    implementations=(
        Implementation(
            needs="tables",
            exactness="bound",
            explain=_integrate_gradients_from_tables,
            settings={"tolerance": "largest error of the integral of a score, in units of f"},
            defaults={"tolerance": 1e-11},
        ),
        Implementation(
            needs="gradients",
            exactness="estimated",
            explain=per_input(_integrate_gradients),
            settings={
                "tolerance": "largest error of the sum, relative to the change of the output, and "
                "of a score, relative to the largest score",
                "steps": "initial number of Gauss–Legendre nodes, doubled until the tolerance is "
                "met",
                "max_steps": "largest number of nodes",
                "replacement": "the token at which the path to the word starts",
            },
            defaults={"tolerance": 0.01},
            cost=Cost(
                minimum=lambda *_: 4 * _STEP_CALLS,
                settings=("steps", "max_steps"),
                fit=_fit_steps,
                summary="one forward and one backward pass per step",
            ),
            choose_replacement=position_preserving_replacement,
        ),
    ),
)
class IG:
    """Settings of integrated gradients along replacement → word."""

    tolerance: Annotated[float | None, Positive] = None
    steps: Annotated[int, at_least(1)] = 16
    max_steps: Annotated[int, NotBelow("steps")] = 256
    replacement: str = "auto"


@register_method(
    id="lrp",
    label="LRP",
    formula="e_t · ∇_{e_t} f with attention, norms and activations frozen (Ali et al. 2022)",
    sees="what a word passes to the output through all layers, with a sign",
    blind="effects through attention, norms and gates, which are frozen",
    cost="one forward pass",
    implementations=(
        Implementation(needs="tables", exactness="exact", explain=_explain_lrp_from_tables),
        Implementation(
            needs="lrp",
            exactness="exact",
            explain=_explain_lrp_from_network,
            settings={
                "steps": "number of gradients between the replacement and the text. 1: at the text",
                "replacement": "the token at which the path starts, for 2 steps or more",
            },
            cost=Cost(
                minimum=_count_lrp_calls,
                summary="one forward and one backward pass per step",
            ),
            choose_replacement=_choose_path_start,
            is_batched=True,
        ),
    ),
)
class Lrp:
    """Settings of LRP: one gradient at the text, or several on the way to it."""

    steps: Annotated[int, at_least(1)] = 1
    replacement: str = "auto"
