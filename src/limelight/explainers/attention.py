"""Attention as an explanation: one layer, rollout, flow, and with gradients."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from limelight.errors import InputError, MissingExtraError
from limelight.explainers.batch import Batch, average_heads, sum_subword_scores
from limelight.explainers.method import Implementation, per_input
from limelight.explainers.registry import register_method
from limelight.models import Attention, Capability
from limelight.results import Attribution
from limelight.shapes import Float
from limelight.text import ModelInput, pluralize
from limelight.theory.attention import max_attention, mean_attention


def _mean_over_windows(
    batch: Batch,
    score: Callable[[Attention], Float[np.ndarray, "*K t"]],
    *,
    gradients: bool = False,
) -> Float[np.ndarray, "*K T"]:
    """Return the scores of all subword tokens, divided by the number of windows.

    The windows are read one after another, because the attention of all may not fit in memory.
    """
    targets, model_input = batch.targets, batch.inputs[0]
    # With several queries, the weights select the positions of one of them.
    output_weights = targets.output_gradient if gradients or targets.query_count > 1 else None
    # ∂F/∂α of a window contains the division by the number of windows, which comes again below.
    count = 1 if model_input.windows is None else len(model_input.windows.spans)
    scores = [
        score(window._replace(gradient=window.gradient * count) if gradients else window)
        for window in batch.model.attention(model_input, output_weights)
    ]
    return np.concatenate(scores, axis=-1) / len(scores)


def attention_rollout(attention: Attention) -> Float[np.ndarray, " T"]:
    """Return how much attention every token receives from the classification head.

    The attention of all layers is multiplied.
    """
    mass = attention.readout_weights
    for layer in average_heads_with_residual(attention.alpha)[::-1]:
        mass = mass @ layer
    return mass


def average_heads_with_residual(alpha: Float[np.ndarray, "L H T T"]) -> Float[np.ndarray, "L T T"]:
    """Return (mean over heads + identity)/2, the attention of a layer with its residual."""
    return (alpha.mean(axis=1) + np.eye(alpha.shape[-1])) / 2


def attention_flow(attention: Attention) -> Float[np.ndarray, " T"]:
    """Return the largest flow that each token can send to the classification head."""
    layers = average_heads_with_residual(attention.alpha)
    return maximum_flows(layers, attention.readout_weights)


def maximum_flows(
    layers: Float[np.ndarray, "L T T"], readout_weights: Float[np.ndarray, " T"]
) -> Float[np.ndarray, " T"]:
    """Return the maximum flow from the read positions to each token.

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
    # SciPy takes capacities as integers of 32 bits. The total flow is about 1e6, which fits.
    # Older releases need indices of 32 bits too, and coo_array makes indices of 64 bits.
    capacity = np.rint(np.concatenate([layers.ravel(), readout_weights]) * scale).astype(np.int32)
    graph = coo_array((capacity, (start, end)), shape=(source + 1, source + 1)).tocsr()
    graph.indices, graph.indptr = (x.astype(np.int32) for x in (graph.indices, graph.indptr))
    return np.array([maximum_flow(graph, source, t).flow_value / scale for t in range(T)])


def generic_attention_relevance(attention: Attention) -> Float[np.ndarray, " T"]:
    """Return the read row of R − I, where R starts as I and each layer adds A R to it.

    A is the mean over heads of (α ∂F/∂α)⁺. I is subtracted, because a token that is read would
    otherwise get a score of 1 for its position.
    """
    identity = np.eye(attention.alpha.shape[-1])
    R = identity
    for alpha, gradient in zip(attention.alpha, attention.gradient, strict=True):
        R = R + np.maximum(alpha * gradient, 0).mean(axis=0) @ R
    return attention.readout_weights @ (R - identity)


def select_layer(layers: Float[np.ndarray, "L H T"], name: str | int) -> Float[np.ndarray, "H T"]:
    """Return a layer by its name: "first", "last", "mean", or a number from 0."""
    if name == "mean":
        return layers.mean(axis=0)
    count = len(layers)
    number = {"first": "0", "last": "-1"}.get(str(name), str(name))
    if not number.removeprefix("-").isdecimal() or not -count <= int(number) < count:
        raise InputError(
            f"layer must be 'first', 'last', 'mean' or a number from 0 to {count - 1}, "
            f"not {name!r}."
        )
    return layers[int(number)]


_MIN_SINK_SHARE = 0.005  # a smaller share of the attention would be rounded to 0 %
_LAYER = {"layer": '"first", "last", a number from 0, or "mean" over all layers'}


Summary = Callable[[Float[np.ndarray, "*n K T"]], Float[np.ndarray, "*n T"]]


def _score_attention_from_tables(_: Any, batch: Batch, *, summary: Summary) -> list[Attribution]:
    """Score every feature by the attention of [cls] to its positions, summarized over heads."""
    arrays = batch.collapsed_inputs
    alpha = arrays.attention
    scores = arrays.pool_features(summary(alpha)[..., 1:])
    heads = arrays.pool_features(alpha[..., 1:])
    shares = map(_table_shares, alpha, batch.inputs)
    return [
        Attribution(scores=s, heads=h, warnings=(warning,))
        for s, h, warning in zip(scores, heads, shares, strict=True)
    ]


def _table_shares(alpha: Float[np.ndarray, "K T_max"], model_input: ModelInput) -> str:
    """Return a sentence with the shares of the attention to text, [cls] and padding."""
    mean, end = alpha.mean(axis=0), 1 + len(model_input.tokens)
    return (
        f"{mean[end:].sum():.0%} of the attention falls on padding, {mean[0]:.0%} on [cls] and "
        f"{mean[1:end].sum():.0%} on the text."
    )


def _score_attention_gradient_from_tables(
    _: Any, batch: Batch, *, positive: bool = False
) -> list[Attribution]:
    """Score every feature by Σ over heads of α ∂F/∂α = α u / K, or by the mean of (α u / K)⁺."""
    arrays = batch.collapsed_inputs
    product = arrays.attention * arrays.attended_u(batch.target_gradient)
    if positive:
        product = np.maximum(product / product.shape[-2], 0)
    return average_heads(arrays, product)


def _score_layer(settings: "AlphaAvg", batch: Batch, *, summary: Summary) -> Attribution:
    """Score every feature by the attention that the classification head's token pays to it."""

    def read_rows(attention: Attention) -> Float[np.ndarray, "H T"]:
        """Return the attention of the readout positions in each head."""
        rows = np.einsum("s,lhst->lht", attention.readout_weights, attention.alpha)
        return select_layer(rows, settings.layer)

    heads = _mean_over_windows(batch, read_rows)
    return Attribution(
        scores=sum_subword_scores(batch, summary(heads)),
        heads=sum_subword_scores(batch, heads),
        warnings=(_subword_shares(batch, heads.mean(axis=0)),),
    )


def _score_layer_gradient(settings: "AlphaGrad", batch: Batch) -> Attribution:
    """Score every feature by Σ over heads of α ∂F/∂α where the classification head reads."""

    def attention_times_gradient(attention: Attention) -> Float[np.ndarray, "H T"]:
        """Return attention times its gradient in each head."""
        is_read = (attention.readout_weights > 0).astype(np.float64)
        layers = np.einsum("s,lhst->lht", is_read, attention.alpha * attention.gradient)
        return select_layer(layers, settings.layer)

    heads = _mean_over_windows(batch, attention_times_gradient, gradients=True)
    return Attribution(
        scores=sum_subword_scores(batch, heads.sum(axis=0)),
        heads=sum_subword_scores(batch, heads * len(heads)),
    )


def _score_all_layers(
    _: Any,
    batch: Batch,
    *,
    score: Callable[[Attention], Float[np.ndarray, " T"]],
    gradients: bool = False,
    warns_about_shares: bool = False,
) -> Attribution:
    """Score every feature by the sum of the scores of its subword tokens.

    ``score`` returns the scores of the tokens from the attention of all layers. With
    ``warns_about_shares`` a warning gives the shares of the attention.
    """
    token_scores = _mean_over_windows(batch, score, gradients=gradients)
    warnings = (_subword_shares(batch, token_scores),) if warns_about_shares else ()
    return Attribution(scores=sum_subword_scores(batch, token_scores), warnings=warnings)


def _subword_shares(batch: Batch, mass: Float[np.ndarray, " T"]) -> str:
    """Return a sentence with the shares of the attention to features, tokens and the sink."""
    feature_share, token_share = float(sum_subword_scores(batch, mass).sum()), float(mass.sum())
    features = pluralize(batch.features[0].noun)
    if 1 - token_share < _MIN_SINK_SHARE:
        return (
            f"{feature_share:.0%} of the attention goes to the {features}, "
            f"{1 - feature_share:.0%} to other tokens."
        )
    return (
        f"{feature_share:.0%} of the attention goes to the {features}, "
        f"{token_share - feature_share:.0%} to other tokens and {1 - token_share:.0%} to the "
        "attention sink of the model."
    )


def _attention_implementations(
    tables: Callable[..., list[Attribution]],
    deep: Callable[..., Attribution],
    *,
    needs: Capability = "attention",
) -> tuple[Implementation, ...]:
    """Return two implementations: for the tables, and for the attention of a deep model."""
    return (
        Implementation(needs="tables", exactness="exact", explain=tables),
        Implementation(
            needs=needs,
            exactness="exact",
            explain=per_input(deep),
            settings=_LAYER if needs == "attention" else {},
        ),
    )


_MEAN = partial(_score_attention_from_tables, summary=mean_attention)
_BLIND = "values, the last layer, and so the sign and the class"  # attention without gradients


@register_method(
    id="alpha-avg",
    label="α-avg",
    formula="mean over heads of α_t (Eq. 10)",
    sees="where [cls] attends",
    blind=_BLIND,
    cost="one forward pass",
    signed=False,
    implementations=_attention_implementations(
        _MEAN, partial(_score_layer, summary=mean_attention)
    ),
)
class AlphaAvg:
    """Settings of α-avg: which layer of a deep model."""

    layer: str | int = "last"


@register_method(
    id="alpha-max",
    label="α-max",
    formula="max over heads of α_t (Eq. 11)",
    sees="where at least one head attends",
    blind=_BLIND,
    cost="one forward pass",
    signed=False,
    implementations=_attention_implementations(
        partial(_score_attention_from_tables, summary=max_attention),
        partial(_score_layer, summary=max_attention),
    ),
)
class AlphaMax(AlphaAvg):
    """Settings of α-max: which layer of a deep model."""


@register_method(
    id="alpha-grad",
    label="α×grad",
    formula="Σ over heads of α_t ∂f/∂α_t at the read position, one layer",
    sees="attention and its first-order effect on the class",
    blind="effects through other layers and residual connections",
    cost="one forward and one backward pass",
    implementations=_attention_implementations(
        _score_attention_gradient_from_tables, _score_layer_gradient
    ),
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
    implementations=_attention_implementations(
        _MEAN,
        partial(_score_all_layers, score=attention_rollout, warns_about_shares=True),
        needs="attention_only",
    ),
)
class Rollout:
    """Settings of attention rollout (Abnar & Zuidema, 2020): none."""


@register_method(
    id="flow",
    label="Flow",
    formula="maximum flow from the read position to the word, capacities (α + I)/2",
    sees="the widest paths of attention through all layers",
    cost="one forward pass and one maximum flow per token (cubic in the length)",
    blind=_BLIND,
    signed=False,
    implementations=_attention_implementations(
        _MEAN, partial(_score_all_layers, score=attention_flow), needs="attention_only"
    ),
)
class Flow:
    """Settings of attention flow (Abnar & Zuidema, 2020): none."""


@register_method(
    id="generic-attention",
    label="Generic attention",
    formula="read row of R − I, R ← R + mean over heads of (α ∂f/∂α)⁺ R (Chefer et al. 2021)",
    sees="attention through all layers that, to first order, supports the class",
    blind="evidence against the class, and values except through the gradient of α",
    cost="one forward and one backward pass",
    signed=False,
    implementations=_attention_implementations(
        partial(_score_attention_gradient_from_tables, positive=True),
        partial(_score_all_layers, score=generic_attention_relevance, gradients=True),
        needs="attention_only",
    ),
)
class GenericAttention:
    """Settings of generic attention explainability: none."""
