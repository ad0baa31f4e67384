"""Attention and gradients of a transformers model, by automatic differentiation."""

__all__ = ["attended", "differentiated", "embedded"]

from typing import Any

import numpy as np

from limelight.adapters.model import Attended, Differentiated, Weigh
from limelight.adapters.untouched import untouched
from limelight.errors import InputError
from limelight.shapes import Float, Int

_POINTS = 2048  # pieces in a batch of points whose gradient is taken


def attended(network: Any, ids: Int[np.ndarray, " T"], weigh: Weigh | None) -> Attended:
    """Return the attention on ``ids``, which positions the head reads, and ∂F/∂α for ``weigh``."""
    import torch

    def begin(_module: Any, _given: Any, rows: Any) -> Any:
        """Let a graph begin at the embedded input, for networks whose weights are frozen."""
        return rows if rows.requires_grad else rows.requires_grad_()

    hook = None if weigh is None else begin
    with (
        torch.inference_mode(mode=False),
        untouched(network, eager=True, hook=hook),
        torch.set_grad_enabled(weigh is not None),
    ):
        given = _given(network, ids, 1)
        out = network(**given, output_attentions=True)
        layers = [layer for layer in out.attentions or () if layer is not None]
        if not layers:
            raise InputError(
                f"{type(network).__name__} shows no attention; use 'gxi', 'lime' or 'loo'."
            )
        gradient = np.full_like(_stacked(layers), np.nan)
        if weigh is not None:
            aim = _aimed(out.logits, weigh)
            gradient = _stacked(torch.autograd.grad(aim, layers))
    alpha = _stacked(layers)
    return Attended(alpha, _reads(network, alpha), gradient)


def embedded(network: Any, ids: Int[np.ndarray, " T"]) -> Float[np.ndarray, "T d_e"]:
    """Return the rows of the input embedding."""
    import torch

    with torch.inference_mode():
        rows = network.get_input_embeddings()(torch.as_tensor(ids, device=network.device))
        return rows.double().cpu().numpy()


def differentiated(
    network: Any, ids: Int[np.ndarray, " T"], points: Float[np.ndarray, "n T d_e"], weigh: Weigh
) -> Differentiated:
    """Return the gradient of F at ``points``, put in place of the embedded ``ids``."""
    import torch

    alone = network.config.pad_token_id is None
    step = 1 if alone else max(1, _POINTS // points.shape[1])
    gradients, outputs = [], []
    weight = network.get_input_embeddings().weight
    for start in range(0, len(points), step):
        with torch.inference_mode(mode=False), torch.enable_grad():
            here = torch.as_tensor(
                points[start : start + step], dtype=weight.dtype, device=weight.device
            ).requires_grad_()

            def in_place(*_: Any, here: Any = here) -> Any:
                return here

            with untouched(network, hook=in_place):
                logits = network(**_given(network, ids, len(here))).logits
            (gradient,) = torch.autograd.grad(_aimed(logits, weigh), here)
        gradients.append(gradient.double().cpu().numpy())
        outputs.append(logits.detach().double().cpu().numpy())
    return Differentiated(np.concatenate(gradients), np.concatenate(outputs))


def _given(network: Any, ids: Int[np.ndarray, " T"], copies: int) -> dict[str, Any]:
    import torch

    rows = torch.as_tensor(ids, device=network.device).expand(copies, -1)
    return {"input_ids": rows, "attention_mask": torch.ones_like(rows)}


def _aimed(logits: Any, weigh: Weigh) -> Any:
    """A number whose gradient is that of F: Σ ∂F/∂f_c f_c with the weights held fixed."""
    weights = weigh(logits.detach().double().cpu().numpy())
    return (logits * logits.new_tensor(np.ascontiguousarray(weights))).sum()


def _stacked(layers: Any) -> Float[np.ndarray, "L H T T"]:
    return np.stack([layer[0].detach().double().cpu().numpy() for layer in layers])


def _reads(network: Any, alpha: Float[np.ndarray, "L H T T"]) -> Float[np.ndarray, " T"]:
    """Which positions the classification head reads: the first, the last of a causal model,
    or the mean of all where the configuration says so.
    """
    T = alpha.shape[-1]
    if getattr(network.config, "classifier_pooling", None) == "mean":
        return np.full(T, 1 / T)
    causal = T > 1 and not np.triu(alpha.max(axis=(0, 1)), k=1).any()
    reads = np.zeros(T)
    reads[-1 if causal else 0] = 1.0
    return reads
