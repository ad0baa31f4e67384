"""Gradients, integrated gradients, and LRP."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, cast

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
from limelight.theory.integrated_gradients import IntegratedGradients, integrated_gradients
from limelight.theory.path_quadrature import nested_rules

_BACKWARD = "one forward and one backward pass"
# A backward pass costs about two forward passes, and a step is one of each.
_STEP_CALLS = 3
_ROUNDING = 1e-4  # of the mean size of the gradient
# Shares of the way from a random order (0) to the best order known (1): docs/explanation/judging.md and
# docs/how-to/choose-method.md.
_WORSE_THAN_CHANCE = (
    "Worse than chance: of the way from a random order of the words to the best possible one, it "
    "goes −0.64 on the shipped model and 1,000 IMDB reviews, where Shapley values go 0.99. Its "
    "signs depend on the axes of the embedding, which are arbitrary; believe 'shapley' or 'lime'."
)
_CHANCE_ON_DEEP = (
    "No better than chance on deep models: of the way from a random order of the words to that of "
    "greedy search, it went −0.02 [−0.05, 0.02] on MiniLM and 110 IMDB reviews, where Shapley "
    "values went 0.88 and 'lrp', at the same cost, 0.66; use 'shapley', 'lime' or 'lrp'."
)
_PER_HEAD = {
    "per_head": "also score every head's own gradient; norms of those do not average to the whole"
}
Summary = Literal["mean", "l1", "l2"]


def _from_tables(settings: "GAvg", batch: Batch, *, summary: Summary) -> list[Attribution]:
    """Score every feature by the gradient of the target at its places (Theorem 4.1)."""
    arrays, weights = batch.collapsed_inputs, batch.target_gradient
    scores = arrays.pool_features(gradient_summary(arrays.token_gradient(weights), summary))
    if not settings.per_head:
        return [Attribution(scores=s) for s in scores]
    of_heads = arrays.head_gradients(weights)[..., 1:, :]
    heads = arrays.pool_features(gradient_summary(of_heads, summary))
    return [Attribution(scores=s, heads=h) for s, h in zip(scores, heads, strict=True)]


def _input_from_tables(_: "GxI", batch: Batch) -> list[Attribution]:
    """Score every feature by e_t · ∇_{e_t} f at its places; the heads come with it."""
    arrays = batch.collapsed_inputs
    u, read = (f(batch.target_gradient) for f in (arrays.target_u, arrays.read_u))
    return average_heads(
        arrays, gradient_times_input(arrays.alpha, u, arrays.read_logit, linear_u=read)
    )


def _at_pieces(_: "GAvg", one: Batch, *, summary: Summary) -> Attribution:
    """Score every feature by the gradient of the target at its embedded pieces."""
    G = _embedded_and_gradient(one)[1]
    scores = sum_subword_scores(one, gradient_summary(G, summary))
    # Under a layer norm the gradient has mean zero, and below this size means of it are rounding.
    noise, largest = float(_ROUNDING * np.abs(G).mean()), np.abs(scores).max()
    if summary != "mean" or noise < largest:
        return Attribution(scores=scores)
    warning = (
        "The model normalizes its embedded input, so the mean of the gradient is zero and these "
        f"scores are rounding errors: none is larger than {largest:.0e}, and below "
        f"{noise:.0e} nothing can be said. Use 'shapley', 'lime' or 'lrp'."
    )
    return Attribution(scores=scores, warnings=(warning,), diagnostics={"rounding": noise})


def _times_input(_: "GxI", one: Batch) -> Attribution:
    """Score every feature by the gradient at its embedded pieces times what is embedded there."""
    e, G = _embedded_and_gradient(one)
    return Attribution(scores=sum_subword_scores(one, (G * e).sum(axis=-1)))


def _embedded_and_gradient(
    one: Batch,
) -> tuple[Float[np.ndarray, "T d_e"], Float[np.ndarray, "T d_e"]]:
    model, model_input = one.model, one.inputs[0]
    e = model.embed(model_input)
    return e, model.gradients(model_input, e[None], one.targets.output_gradient).gradient[0]


def _with_warning(
    explain: Callable[[Any, Batch], list[Attribution]], warning: str
) -> Callable[[Any, Batch], list[Attribution]]:
    """Add a warning to everything that ``explain`` returns."""

    def explain_and_warn(settings: Any, batch: Batch) -> list[Attribution]:
        findings = explain(settings, batch)
        return [replace(finding, warnings=(*finding.warnings, warning)) for finding in findings]

    return explain_and_warn


def _summary_implementations(summary: Summary, *, warning: str = "") -> tuple[Implementation, ...]:
    """Return the exact gradient of the tables, then automatic differentiation."""
    explain = partial(_from_tables, summary=summary)
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
            explain=per_input(partial(_at_pieces, summary=summary)),
            cost=Cost(summary=_BACKWARD),
        ),
    )


_COST = "one forward pass and two small products"


_NODES = 16  # whose gradients are held at a time
# Of what half of the points would change: on MiniLM and tiny networks of six families a score was
# off by at most 0.31 of it, where all of them added up.
_OFF = 1 / 3
_PADDED = (
    "Integrated gradients move words to the padding token's embedding, which the others still "
    "attend to; 'lime', 'shapley' and 'loo' with replacement 'pad' mask a removed word out."
)


def _integrated_from_tables(settings: "IG", batch: Batch) -> list[Attribution]:
    """Score every feature by the gradient summed along its path from UNK to the word."""
    # One text at a time: each has the panels that its own logits need, whatever comes beside it.
    found = [_path_of(settings, batch, i) for i in range(len(batch.inputs))]
    # The path's scores are each head's part of a sum, and what is shown of heads has their mean.
    tokens = np.concatenate([ig.scores * ig.scores.shape[-2] for ig in found])
    return [
        replace(
            finding,
            bound=float(ig.bound[0]),
            warnings=_unproven(ig, cast(float, settings.tolerance)),
            diagnostics={"completeness_gap": float(ig.gap[0]), "nodes": ig.nodes},
        )
        for finding, ig in zip(average_heads(batch.collapsed_inputs, tokens), found, strict=True)
    ]


def _path_of(settings: "IG", batch: Batch, i: int) -> IntegratedGradients:
    arrays, one = batch.collapsed_inputs, slice(i, i + 1)
    targets = batch.targets.select(i)
    return integrated_gradients(
        arrays.path(one),
        arrays.u[one],
        arrays.base_u[one],
        output_gradient=targets.output_gradient,
        explained_value=targets.value,
        derivative_bounds=targets.derivative_bounds(arrays.u.shape[1]),
        tolerance=cast(float, settings.tolerance),
        logit_error=arrays.bounds.logit[one],
        value_error=arrays.bounds.value[one],
    )


def _unproven(found: IntegratedGradients, tolerance: float) -> tuple[str, ...]:
    """Say that the integral is not as exact as was asked, where it is not for rounding alone.

    Below what rounding does no node is spent; the bound has both.
    """
    quadrature, bound = float(found.quadrature[0]), float(found.bound[0])
    if quadrature <= max(tolerance, bound - quadrature):
        return ()
    return (
        f"The integral of a score is proven within {round_up(quadrature)} only, not within the "
        f"tolerance {tolerance:.1g}.",
    )


def _along(settings: "IG", one: Batch) -> Attribution:
    """Score every feature by the gradient summed along its path to the word."""
    model, model_input, targets = one.model, one.inputs[0], one.targets
    tolerance = cast(float, settings.tolerance)
    end = model.embed(model_input)
    start = model.embed(model_input, one.features[0], settings.replacement)
    ends = model.gradients(model_input, np.stack([start, end]), targets.output_gradient).outputs
    base, whole = targets.value(ends[:, None])[:, 0]
    nodes = settings.steps
    while True:
        at, weights = nested_rules(nodes)  # all nodes, and either half of them
        found, _ = _integrals(one, model.gradients, (start, end), at, weights)
        scores, *halves = sum_subword_scores(one, found)
        errors = np.max([np.abs(half - scores) for half in halves], axis=0)
        gap = abs(float(found[0].sum() - (whole - base)))
        # Scores may be off although they add up: errors of two words cancel.
        warnings = _unmet(scores, errors, gap, float(whole - base), tolerance)
        if not warnings or 2 * nodes > settings.max_steps:
            break
        nodes *= 2
    padded = (_PADDED,) if settings.replacement == "pad" else ()
    return Attribution(
        scores=scores,
        base_value=float(base),
        warnings=warnings + padded,
        diagnostics={"completeness_gap": gap, "nodes": nodes, "score_errors": errors.tolist()},
    )


def _fit_steps(settings: "IG", _: int, calls: int) -> "IG":
    """Return the steps that fit beside both ends; they are doubled, so their sum counts twice."""
    most = max((calls // _STEP_CALLS - 2) // 2, 1)
    return replace(settings, steps=min(settings.steps, most), max_steps=most)


def _integrals(
    one: Batch,
    ask: Callable[..., Gradients],
    ends: tuple[Float[np.ndarray, "T d_e"], Float[np.ndarray, "T d_e"]],
    at: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, "r n"],
) -> tuple[Float[np.ndarray, "r T"], Float[np.ndarray, " C"]]:
    """Return Σ_k w_k (e − s) · ∇F at s + x_k (e − s) for each row of weights, of every token.

    Beside them the outputs at the last of these points.
    """
    start, way = ends[0], ends[1] - ends[0]
    means, outputs = np.zeros((len(weights), *way.shape)), one.outputs
    for first in range(0, len(at), _NODES):
        some = slice(first, first + _NODES)
        points = start + at[some, None, None] * way
        found = ask(one.inputs[0], points, one.targets.output_gradient)
        means += np.einsum("rn,nte->rte", weights[:, some], found.gradient)
        outputs = found.outputs
    return (means * way).sum(axis=-1), outputs[-1]


def _unmet(
    scores: Float[np.ndarray, " d"],
    errors: Float[np.ndarray, " d"],
    gap: float,
    change: float,
    tolerance: float,
) -> tuple[str, ...]:
    """Say that a tolerance is not met: of a score, or of how they add up to the ``change``."""
    worst, largest = float(_OFF * errors.max(initial=0.0)), float(np.abs(scores).max(initial=0.0))
    if worst <= tolerance * largest and gap <= tolerance * abs(change):
        return ()
    return (
        f"A score may be off by {worst:.2g} where the largest is {largest:.2g}, as far as half of "
        f"the points tell, and the scores add up to the change of the output ({change:.3g}) within "
        f"{gap:.1g}; both were to be within {tolerance:.1%}: raise max_steps.",
    )


_SAME = 0.03  # of the answer, or of 1: more than half precision does to what is read


def _frozen_from_tables(_: "Lrp", batch: Batch) -> list[Attribution]:
    """Score every feature by α u: with α frozen, f = (1/K) Σ_i Σ_t α_t u_t is linear in e_t.

    What biases add to u is no token's, and left out.
    """
    arrays = batch.collapsed_inputs
    return average_heads(arrays, arrays.alpha * arrays.read_u(batch.target_gradient))


def _frozen_at_pieces(settings: "Lrp", batch: Batch) -> list[Attribution]:
    """Score every feature by the frozen network's gradient at its pieces times what moved there.

    One step is gradient × input: the path from the zero vector, seen from its end alone.
    """
    if settings.steps > 1:
        return [_on_the_way(settings, one) for one in batch.split()]
    model = batch.model
    found = model.frozen_input_products(batch.inputs, batch.target_gradient)
    findings = []
    for one, product, outputs in zip(batch.split(), *found, strict=True):
        _check_same(one.outputs[0], outputs)
        findings.append(
            Attribution(scores=sum_subword_scores(one, product), diagnostics=_shares(one, product))
        )
    return findings


def _on_the_way(settings: "Lrp", one: Batch) -> Attribution:
    """Integrate the gradient from the replacement to the text."""
    model, model_input = one.model, one.inputs[0]
    end = model.embed(model_input)
    token = position_preserving_replacement(one.model, settings.replacement)
    start = model.embed(model_input, one.features[0], token)
    nodes, weights = np.polynomial.legendre.leggauss(settings.steps)
    # The text itself comes last and counts nothing: its outputs are compared.
    at, weight = np.append((nodes + 1) / 2, 1.0), np.append(weights / 2, 0.0)
    (scores,), outputs = _integrals(one, model.frozen_gradient, (start, end), at, weight[None])
    _check_same(one.outputs[0], outputs)
    return Attribution(scores=sum_subword_scores(one, scores))


def _check_same(held: Float[np.ndarray, " C"], frozen: Float[np.ndarray, " C"]) -> None:
    """Refuse a network that answers something else with its weights frozen: it is another one."""
    gap = float(np.abs(frozen - held).max())
    if gap <= _SAME * max(1.0, float(np.abs(held).max())):
        return
    raise DomainError(
        f"with its weights frozen the model must answer as before; its outputs move by {gap:.2g}. "
        "Use 'ig', 'shapley' or 'lime'."
    )


def _shares(one: Batch, scores: Float[np.ndarray, " T"]) -> dict[str, Any]:
    """Return what goes to no feature: special tokens, and biases, of which there is no token.

    On the scale of probabilities F is not what the frozen network computes, and has no biases.
    """
    words, everything = float(sum_subword_scores(one, scores).sum()), float(scores.sum())
    shares = {"to_other_tokens": everything - words}
    if one.targets.scale != "probability":
        shares["to_biases"] = float(one.targets.value(one.outputs)[0]) - everything
    return shares


def _count_lrp_calls(settings: "Lrp", _: int) -> int:
    """Return the calls of LRP; with several steps, the text itself is one step more."""
    return _STEP_CALLS * (settings.steps + (settings.steps > 1))


def _start_if_any(model: Model, name: str) -> str:
    """Return where a path would start; one step needs no such token, and "auto" may stay."""
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
    blind="what happens far from the text; the axes of the embedding are arbitrary",
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
    blind="the sign; what happens far from the text",
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
    blind="the sign; what happens far from the text",
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
    cost="one forward pass: no embedding is touched",
    implementations=(
        Implementation(needs="tables", exactness="exact", explain=_input_from_tables),
        Implementation(
            needs="gradients",
            exactness="exact",
            explain=_with_warning(per_input(_times_input), _CHANCE_ON_DEEP),
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
    sees="the whole path from UNK to the word; scores add up to how far all words together "
    "move the output",
    blind="mixtures of kept and removed words off that path",
    cost="32 forward passes on the tables for each 16 that logits move by",
    implementations=(
        Implementation(
            needs="tables",
            exactness="bound",
            explain=_integrated_from_tables,
            settings={"tolerance": "largest error of the integral of a score, in units of f"},
            defaults={"tolerance": 1e-11},
        ),
        Implementation(
            needs="gradients",
            exactness="estimated",
            explain=per_input(_along),
            settings={
                "tolerance": "the largest gap to adding up, as a share of the change, and "
                "error of a score, as a share of the largest",
                "steps": "Gauss–Legendre nodes at first; doubled until the tolerance is met",
                "max_steps": "the most nodes",
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
    sees="what a word passes on to the output through all layers, with a sign",
    blind="what a word does by moving attention, norms and gates, which are frozen",
    cost="one forward pass",
    implementations=(
        Implementation(needs="tables", exactness="exact", explain=_frozen_from_tables),
        Implementation(
            needs="lrp",
            exactness="exact",
            explain=_frozen_at_pieces,
            settings={
                "steps": "gradients on the way from the replacement; 1 takes that of the text",
                "replacement": "the token at which the way starts, with 2 steps or more",
            },
            cost=Cost(
                minimum=_count_lrp_calls,
                summary="one forward and one backward pass per step",
            ),
            choose_replacement=_start_if_any,
            is_batched=True,
        ),
    ),
)
class Lrp:
    """Settings of LRP: one gradient at the text, or several on the way to it."""

    steps: Annotated[int, at_least(1)] = 1
    replacement: str = "auto"
