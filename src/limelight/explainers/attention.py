"""Attention as an explanation: one layer, rollout, flow, and with gradients."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from limelight.errors import InputError, MissingExtraError
from limelight.explainers.batch import Batch, average_heads, sum_subword_scores
from limelight.explainers.method import (
    Implementation,
    per_input,
)
from limelight.explainers.registry import register_method
from limelight.models import Attention, Capability
from limelight.results import Attribution
from limelight.shapes import Float
from limelight.text import ModelInput, pluralize
from limelight.theory.attention import max_attention, mean_attention


def _mean_over_windows(
    one: Batch,
    score: Callable[[Attention], Float[np.ndarray, "*K t"]],
    *,
    gradients: bool = False,
) -> Float[np.ndarray, "*K T"]:
    """Return the scores of all pieces: each window counts as one of those that were read.

    One window comes after another, because the attention of all may not fit in memory.
    """
    # Of several places or sentences, the weights say whose positions are meant.
    weigh = one.targets.output_gradient if gradients or one.targets.query_count > 1 else None
    read_in = one.inputs[0].windows
    # ∂F/∂α of a window holds its share of the mean, which would be taken again here.
    windows = 1 if read_in is None else len(read_in.spans)
    found = [
        score(window._replace(gradient=window.gradient * windows) if gradients else window)
        for window in one.model.attention(one.inputs[0], weigh)
    ]
    return np.concatenate(found, axis=-1) / len(found)


def rolled_out(found: Attention) -> Float[np.ndarray, " T"]:
    """Return what reaches the classification head from every input, through all layers."""
    mass = found.readout_weights
    for layer in average_heads_with_residual(found.alpha)[::-1]:
        mass = mass @ layer
    return mass


def average_heads_with_residual(alpha: Float[np.ndarray, "L H T T"]) -> Float[np.ndarray, "L T T"]:
    """Return (mean over heads + identity)/2: what a layer passes on, with its residual."""
    return (alpha.mean(axis=1) + np.eye(alpha.shape[-1])) / 2


def flows(found: Attention) -> Float[np.ndarray, " T"]:
    """Return, for every input, the largest flow that it can send to the classification head."""
    return maximum_flows(average_heads_with_residual(found.alpha), found.readout_weights)


def maximum_flows(
    layers: Float[np.ndarray, "L T T"], reads: Float[np.ndarray, " T"]
) -> Float[np.ndarray, " T"]:
    """Return, for every input, the maximum flow from the read positions down to it.

    Capacities are the layers' weights, rounded to 1e-6; node (l, t) has the number l T + t.
    """
    try:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import maximum_flow
    except ImportError:
        raise MissingExtraError("attention flow needs scipy", "hf") from None
    (L, T, _), scale = layers.shape, 1e6
    above, below = np.meshgrid(np.arange(T), np.arange(T), indexing="ij")
    start = np.concatenate([(layer + 1) * T + above.ravel() for layer in range(L)])
    end = np.concatenate([layer * T + below.ravel() for layer in range(L)])
    source = (L + 1) * T
    start = np.concatenate([start, np.full(T, source)])
    end = np.concatenate([end, L * T + np.arange(T)])
    # SciPy takes capacities as whole numbers of 32 bits: all that flows is about 1e6, which fits.
    # Older releases want indices of 32 bits too, and coo_array makes them 64 wide.
    capacity = np.rint(np.concatenate([layers.ravel(), reads]) * scale).astype(np.int32)
    graph = coo_array((capacity, (start, end)), shape=(source + 1, source + 1)).tocsr()
    graph.indices, graph.indptr = (x.astype(np.int32) for x in (graph.indices, graph.indptr))
    return np.array([maximum_flow(graph, source, t).flow_value / scale for t in range(T)])


def relevance_of_layers(found: Attention) -> Float[np.ndarray, " T"]:
    """Return the read row of R − I, with R = I at first and R + A R after each layer.

    A is the mean over heads of (α ∂F/∂α)⁺. Without I, because a token that is read would
    otherwise get a one for being where it is.
    """
    here = np.eye(found.alpha.shape[-1])
    R = here
    for alpha, gradient in zip(found.alpha, found.gradient, strict=True):
        R = R + np.maximum(alpha * gradient, 0).mean(axis=0) @ R
    return found.readout_weights @ (R - here)


def chosen_layer(layers: Float[np.ndarray, "L H T"], name: str | int) -> Float[np.ndarray, "H T"]:
    """Return the layer that ``name`` means: "first", "last", "mean", or a number from 0."""
    if name == "mean":
        return layers.mean(axis=0)
    count = len(layers)
    number = {"first": "0", "last": "-1"}.get(str(name), str(name))
    if not number.removeprefix("-").isdecimal() or not -count <= int(number) < count:
        raise InputError(
            f"layer must be 'first', 'last', 'mean' or a number from 0 to {count - 1}; "
            f"got {name!r}."
        )
    return layers[int(number)]


_SINK = 0.005  # of the attention: less does not show
_LAYER = {"layer": '"first", "last", a number from 0, or "mean" over all layers'}


Summary = Callable[[Float[np.ndarray, "*n K T"]], Float[np.ndarray, "*n T"]]


def _from_tables(_: Any, batch: Batch, *, summary: Summary) -> list[Attribution]:
    """Score every feature by the attention of [cls] to it."""
    arrays = batch.collapsed_inputs
    alpha = arrays.attention
    scores = arrays.pool_features(summary(alpha)[..., 1:])
    heads = arrays.pool_features(alpha[..., 1:])
    shares = map(_of_table, alpha, batch.inputs)
    return [
        Attribution(scores=s, heads=h, warnings=(warning,))
        for s, h, warning in zip(scores, heads, shares, strict=True)
    ]


def _of_table(alpha: Float[np.ndarray, "K T_max"], model_input: ModelInput) -> str:
    mean, end = alpha.mean(axis=0), 1 + len(model_input.tokens)
    return (
        f"{mean[1:end].sum():.0%} of the attention goes to the text, {mean[0]:.0%} to [cls] "
        f"and {mean[end:].sum():.0%} to padding."
    )


def _gradient_from_tables(_: Any, batch: Batch, *, positive: bool = False) -> list[Attribution]:
    """Score every feature by Σ over heads of α ∂F/∂α = α u / K, or by the mean of (α u / K)⁺."""
    arrays = batch.collapsed_inputs
    product = arrays.attention * arrays.attended_u(batch.target_gradient)
    if positive:
        product = np.maximum(product / product.shape[-2], 0)
    return average_heads(arrays, product)


def _of_layer(settings: "AlphaAvg", one: Batch, *, summary: Summary) -> Attribution:
    """Score every feature by the attention that the classification head's token pays to it."""

    def read_rows(found: Attention) -> Float[np.ndarray, "H T"]:
        return chosen_layer(
            np.einsum("s,lhst->lht", found.readout_weights, found.alpha), settings.layer
        )

    heads = _mean_over_windows(one, read_rows)
    return Attribution(
        scores=sum_subword_scores(one, summary(heads)),
        heads=sum_subword_scores(one, heads),
        warnings=(_of_pieces(one, heads.mean(axis=0)),),
    )


def _gradient_of_layer(settings: "AlphaGrad", one: Batch) -> Attribution:
    """Score every feature by Σ over heads of α ∂F/∂α where the classification head reads."""

    def product(found: Attention) -> Float[np.ndarray, "H T"]:
        read = (found.readout_weights > 0).astype(np.float64)
        layers = np.einsum("s,lhst->lht", read, found.alpha * found.gradient)
        return chosen_layer(layers, settings.layer)

    heads = _mean_over_windows(one, product, gradients=True)
    return Attribution(
        scores=sum_subword_scores(one, heads.sum(axis=0)),
        heads=sum_subword_scores(one, heads * len(heads)),
    )


def _through_layers(
    _: Any,
    one: Batch,
    *,
    score: Callable[[Attention], Float[np.ndarray, " T"]],
    gradients: bool = False,
    shares: bool = False,
) -> Attribution:
    """Score every feature by what ``score`` gives its pieces; with ``shares`` of the attention."""
    found = _mean_over_windows(one, score, gradients=gradients)
    warnings = (_of_pieces(one, found),) if shares else ()
    return Attribution(scores=sum_subword_scores(one, found), warnings=warnings)


def _of_pieces(one: Batch, mass: Float[np.ndarray, " T"]) -> str:
    own, tokens = float(sum_subword_scores(one, mass).sum()), float(mass.sum())
    units = pluralize(one.features[0].noun)
    if 1 - tokens < _SINK:
        return f"{own:.0%} of the attention goes to the {units}, {1 - own:.0%} to other tokens."
    return (
        f"{own:.0%} of the attention goes to the {units}, {tokens - own:.0%} to other tokens and "
        f"{1 - tokens:.0%} to no token at all, but to the sink of the model."
    )


def _both_implementations(
    tables: Callable[..., list[Attribution]],
    deep: Callable[..., Attribution],
    *,
    needs: Capability = "attention",
) -> tuple[Implementation, ...]:
    """Return that of the tables, then that of a deep model: of one layer, or relayed by all."""
    return (
        Implementation(needs="tables", exactness="exact", explain=tables),
        Implementation(
            needs=needs,
            exactness="exact",
            explain=per_input(deep),
            settings=_LAYER if needs == "attention" else {},
        ),
    )


_MEAN = partial(_from_tables, summary=mean_attention)
_BLIND = "values, the last layer, and so the sign and the class"  # attention without gradients


@register_method(
    id="alpha-avg",
    label="α-avg",
    formula="mean over heads of α_t (Eq. 10)",
    sees="where [cls] looks",
    blind=_BLIND,
    cost="one forward pass",
    signed=False,
    implementations=_both_implementations(_MEAN, partial(_of_layer, summary=mean_attention)),
)
class AlphaAvg:
    """Settings of α-avg: which layer of a deep model."""

    layer: str | int = "last"


@register_method(
    id="alpha-max",
    label="α-max",
    formula="max over heads of α_t (Eq. 11)",
    sees="where at least one head looks",
    blind=_BLIND,
    cost="one forward pass",
    signed=False,
    implementations=_both_implementations(
        partial(_from_tables, summary=max_attention), partial(_of_layer, summary=max_attention)
    ),
)
class AlphaMax(AlphaAvg):
    """Settings of α-max: which layer of a deep model."""


@register_method(
    id="alpha-grad",
    label="α×grad",
    formula="Σ over heads of α_t ∂f/∂α_t at the read position, one layer",
    sees="attention and, to first order, what it is worth to the class",
    blind="what reaches the output by other layers and through the residual",
    cost="one forward and one backward pass",
    implementations=_both_implementations(_gradient_from_tables, _gradient_of_layer),
)
class AlphaGrad(AlphaAvg):
    """Settings of α×grad: which layer of a deep model."""


@register_method(
    id="rollout",
    label="Rollout",
    formula="Π over layers of (mean over heads of α + I)/2, the row that is read",
    sees="how attention mixes the words through all layers",
    blind=_BLIND,
    cost="one forward pass",
    signed=False,
    implementations=_both_implementations(
        _MEAN, partial(_through_layers, score=rolled_out, shares=True), needs="attention_only"
    ),
)
class Rollout:
    """Settings of attention rollout (Abnar & Zuidema, 2020): none."""


@register_method(
    id="flow",
    label="Flow",
    formula="maximum flow from the read position to the word, capacities (α + I)/2",
    sees="the widest paths of attention through all layers",
    cost="one forward pass and one maximum flow per token: grows with the cube of the length",
    blind=_BLIND,
    signed=False,
    implementations=_both_implementations(
        _MEAN, partial(_through_layers, score=flows), needs="attention_only"
    ),
)
class Flow:
    """Settings of attention flow (Abnar & Zuidema, 2020): none."""


@register_method(
    id="generic-attention",
    label="Generic attention",
    formula="read row of R − I, R ← R + mean over heads of (α ∂f/∂α)⁺ R (Chefer et al. 2021)",
    sees="attention through all layers and, to first order, where it speaks for the class",
    blind="what speaks against the class; values, except through the gradient of α",
    cost="one forward and one backward pass",
    signed=False,
    implementations=_both_implementations(
        partial(_gradient_from_tables, positive=True),
        partial(_through_layers, score=relevance_of_layers, gradients=True),
        needs="attention_only",
    ),
)
class GenericAttention:
    """Settings of generic attention explainability: none."""
