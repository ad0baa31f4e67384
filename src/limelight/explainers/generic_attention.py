"""Generic attention explainability (Chefer, Gur and Wolf, 2021)."""

__all__ = ["ROWS", "GenericAttention"]

from dataclasses import dataclass
from typing import cast, final

import numpy as np

from limelight.explainers.attention_paths import mean_over_windows
from limelight.explainers.method import Method, Way
from limelight.explainers.pieces_pooled import pooled_pieces
from limelight.explainers.reading import Reading
from limelight.models import Attended, Attends
from limelight.results import Finding
from limelight.shapes import Float


@final
@dataclass(frozen=True, kw_only=True)
class GenericAttention:
    """Settings of generic attention explainability: none."""


def _from_tables(_: GenericAttention, reading: Reading) -> list[Finding]:
    """Score every feature by the mean over heads of (α ∂F/∂α)⁺, where ∂F/∂α is u/K."""
    arrays = reading.collapsed
    product = arrays.attention * arrays.attended_u(reading.target_weights)
    product = product / product.shape[-2]
    parts = arrays.pooled(np.maximum(product, 0)[..., 1:])
    return [Finding(scores=part.mean(axis=0), heads=part) for part in parts]


def _through_layers(_: GenericAttention, reading: Reading) -> list[Finding]:
    """Score every feature by what the layers bring from its pieces to the positions read."""

    def found(one: Reading) -> Finding:
        read_in = one.documents[0].windows
        windows = 1 if read_in is None else len(read_in.spans)

        def relevance(window: Attended) -> Float[np.ndarray, " T"]:
            # ∂F/∂α of a window holds its share of the mean, which every layer would take again.
            return relevance_of_layers(window._replace(gradient=window.gradient * windows))

        attended = cast(Attends, one.model).attended(one.documents[0], one.targets.weights)
        return Finding(scores=pooled_pieces(one, mean_over_windows(attended, relevance)))

    return [found(one) for one in reading.apart()]


def relevance_of_layers(found: Attended) -> Float[np.ndarray, " T"]:
    """Return the read row of R − I, with R = I at first and R + A R after each layer.

    A is the mean over heads of (α ∂F/∂α)⁺. Without I, because a token that is read would
    otherwise get a one for being where it is.
    """
    here = np.eye(found.alpha.shape[-1])
    R = here
    for alpha, gradient in zip(found.alpha, found.gradient, strict=True):
        R = R + np.maximum(alpha * gradient, 0).mean(axis=0) @ R
    return found.reads @ (R - here)


ROWS = (
    Method(
        id="generic-attention",
        label="Generic attention",
        formula="read row of R − I, R ← R + mean over heads of (α ∂f/∂α)⁺ R (Chefer et al. 2021)",
        sees="attention through all layers and, to first order, where it speaks for the class",
        blind="what speaks against the class; values, except through the gradient of α",
        cost="one forward and one backward pass",
        signed=False,
        settings=GenericAttention,
        ways=(
            Way(needs="collapses", exactness="exact", explain=_from_tables),
            Way(needs="relays", exactness="exact", explain=_through_layers),
        ),
    ),
)
