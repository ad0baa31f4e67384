"""LRP: gradient × input of the network whose weights are frozen (Ali et al., 2022)."""

__all__ = ["ROWS", "Lrp"]

from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np

from limelight.errors import DomainError, InputError
from limelight.explainers.budget import STEP
from limelight.explainers.method import Counted, Method, Way
from limelight.explainers.pieces_pooled import pooled_pieces
from limelight.explainers.reading import Reading
from limelight.models import Freezes, Model, resolved_replacement
from limelight.models.protocol import replacement_in_place
from limelight.results import Finding
from limelight.shapes import Float

_NODES = 16  # whose gradients are held at a time
_SAME = 0.03  # of the answer, or of 1: more than half precision does to what is read


@final
@dataclass(frozen=True, kw_only=True)
class Lrp:
    """Settings of LRP: one gradient at the text, or several on the way to it."""

    steps: int = 1
    replacement: str = "auto"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InputError(f"steps must be at least 1; got {self.steps}.")


def _from_tables(_: Lrp, reading: Reading) -> list[Finding]:
    """Score every feature by α u: with α frozen, f = (1/K) Σ_i Σ_t α_t u_t is linear in e_t.

    What biases add to u is no token's, and left out.
    """
    arrays = reading.collapsed
    product = arrays.alpha * arrays.read_u(reading.target_weights)
    parts = arrays.pooled(product[..., 1:])
    return [Finding(scores=part.mean(axis=0), heads=part) for part in parts]


def _at_pieces(settings: Lrp, reading: Reading) -> list[Finding]:
    """Score every feature by the frozen network's gradient at its pieces times what moved there.

    One step is gradient × input: the path from the zero vector, seen from its end alone.
    """
    if settings.steps > 1:
        return [_on_the_way(settings, one) for one in reading.apart()]
    model = cast(Freezes, reading.model)
    found = model.frozen_times_input(reading.documents, reading.target_weights)
    findings = []
    for one, product, outputs in zip(reading.apart(), *found, strict=True):
        _check_same(one.outputs[0], outputs)
        findings.append(
            Finding(scores=pooled_pieces(one, product), diagnostics=_shares(one, product))
        )
    return findings


def _on_the_way(settings: Lrp, one: Reading) -> Finding:
    """Integrate the gradient from the replacement to the text."""
    model, document = cast(Freezes, one.model), one.documents[0]
    end = model.embedded(document)
    token = replacement_in_place(one.model, settings.replacement)
    start = model.embedded(document, one.features[0], token)
    nodes, weights = np.polynomial.legendre.leggauss(settings.steps)
    # The text itself comes last and counts nothing: its outputs are compared.
    at, weight = np.append((nodes + 1) / 2, 1.0), np.append(weights / 2, 0.0)
    return Finding(scores=pooled_pieces(one, _integral(one, start, end, at, weight)))


def _integral(
    one: Reading,
    start: Float[np.ndarray, "T d_e"],
    end: Float[np.ndarray, "T d_e"],
    at: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " T"]:
    """Return Σ_k w_k (e − s) · ∇f at s + x_k (e − s), the last of which is the text."""
    ask, mean = cast(Freezes, one.model).frozen_gradient, np.zeros_like(end)
    outputs = one.outputs
    for first in range(0, len(at), _NODES):
        some = slice(first, first + _NODES)
        points = start + at[some, None, None] * (end - start)
        found = ask(one.documents[0], points, one.targets.weights)
        mean += np.einsum("n,nte->te", weight[some], found.gradient)
        outputs = found.outputs
    _check_same(one.outputs[0], outputs[-1])
    return (mean * (end - start)).sum(axis=-1)


def _check_same(held: Float[np.ndarray, " C"], frozen: Float[np.ndarray, " C"]) -> None:
    """Refuse a network that answers something else with its weights frozen: it is another one."""
    gap = float(np.abs(frozen - held).max())
    if gap <= _SAME * max(1.0, float(np.abs(held).max())):
        return
    raise DomainError(
        f"with its weights frozen the model must answer as before; its outputs move by {gap:.2g}. "
        "Use 'ig', 'shapley' or 'lime'."
    )


def _shares(one: Reading, scores: Float[np.ndarray, " T"]) -> dict[str, Any]:
    """Return what goes to no feature: special tokens, and biases, of which there is no token.

    On the scale of probabilities F is not what the frozen network computes, and has no biases.
    """
    words, everything = float(pooled_pieces(one, scores).sum()), float(scores.sum())
    shares = {"to_other_tokens": everything - words}
    if one.targets.scale != "probability":
        shares["to_biases"] = float(one.targets.value(one.outputs)[0]) - everything
    return shares


def _start_if_any(model: Model, name: str) -> str:
    """Return where a path would start; one step needs no such token, and "auto" may stay."""
    if name == "auto" and set(model.replacements) == {"delete"}:
        return name
    return (
        replacement_in_place(model, name) if name == "auto" else resolved_replacement(model, name)
    )


ROWS = (
    Method(
        id="lrp",
        label="LRP",
        formula="e_t · ∇_{e_t} f with attention, norms and activations frozen (Ali et al. 2022)",
        sees="what a word passes on to the output through all layers, with a sign",
        blind="what a word does by moving attention, norms and gates, which are frozen",
        cost="one forward pass",
        settings=Lrp,
        ways=(
            Way(needs="collapses", exactness="exact", explain=_from_tables),
            Way(
                needs="freezes",
                exactness="exact",
                explain=_at_pieces,
                settings={
                    "steps": "gradients on the way from the replacement; 1 takes that of the text",
                    "replacement": "the token at which the way starts, with 2 steps or more",
                },
                counted=Counted(lambda settings, _: STEP * (settings.steps + (settings.steps > 1))),
                cost="one forward and one backward pass per step",
                replaced=_start_if_any,
                joint=True,
            ),
        ),
    ),
)
