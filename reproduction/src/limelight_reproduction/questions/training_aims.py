"""What networks are trained for: to classify, or to predict as others do and attend elsewhere."""

__all__ = [
    "Aim",
    "Loss",
    "away_from",
    "distance",
    "divergence",
    "over_words",
    "places_of_words",
    "rightly",
]

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
import torch.nn.functional as F

from limelight.shapes import Array, Float, Int
from limelight.text import UNK

# The loss of every network, from the rows that each was shown, its outputs, its attention, and the
# share of λ that counts already.
Loss = Callable[[Int[Array, "n B"], Float[Array, "n B C"], Float[Array, "n B T"], float], Array]


@final
@dataclass(frozen=True)
class Aim:
    """What is minimised on the texts to fit, and what says on held-out texts which epoch to keep.

    Both are losses of rows of these texts.
    """

    fitted: Loss
    validated: Loss


def rightly(prepared: Any, device: str) -> Aim:
    """Return the aim to classify: the cross-entropy."""

    def of(labels: Int[np.ndarray, " N"]) -> Loss:
        wanted = torch.from_numpy(labels.copy()).to(device)
        return lambda rows, outputs, _alpha, _share: F.cross_entropy(
            outputs.transpose(1, 2), wanted[rows], reduction="none"
        ).mean(dim=1)

    return Aim(of(prepared.training.labels), of(prepared.validation.labels))


def away_from(
    read: Callable[[Int[np.ndarray, "N T"]], tuple[Float[Array, "n N C"], Float[Array, "n N T"]]],
    prepared: Any,
    *,
    of: Sequence[int],
    how: Sequence[tuple[str, float]],
    device: str,
) -> Aim:
    """Return the aim to predict as a first model does and to attend elsewhere.

    Its loss is TVD(p, p_first) − λ·D(α, α_first) (Wiegreffe and Pinter, 2019). The first model of
    each network is that number ``of`` those whose outputs and attention ``read`` returns; ``how``
    says D, "kl" (theirs, of α from α_first), "jsd" (what is measured in the end) or "words" (JSD
    over the words alone, which is what an explanation shows), and λ. α is the mean over heads:
    heads have no order, so that an adversary could move every head and attend to the same words. λ
    grows from 0 in the first half of the training: at once, attention flees to a few tokens before
    the values have learnt anything, and stays there.
    """
    base = torch.tensor(of, device=device)[:, None]
    weight = {
        d: torch.tensor([w if h == d else 0.0 for h, w in how], device=device)
        for d in {h for h, w in how if w}
    }

    def loss(texts: Any) -> Loss:
        wanted, attended = read(texts.ids)
        p, words = wanted.softmax(-1), torch.from_numpy(places_of_words(texts.ids)).to(device)

        def value(rows: Array, outputs: Array, alpha: Array, share: float) -> Array:
            apart = distance(outputs.softmax(-1), p[base, rows]).mean(dim=1)
            for name, counted in weight.items():
                pair = alpha, attended[base, rows]
                if name == "words":
                    pair = tuple(over_words(one, words[rows]) for one in pair)
                apart = apart - share * counted * _APART[name](*pair).mean(dim=1)
            return apart

        return value

    return Aim(loss(prepared.training), loss(prepared.validation))


def distance(p: Float[Array, "*n C"], q: Float[Array, "*n C"]) -> Float[Array, "*n"]:
    """Return the total variation distance of two distributions, 1 at most."""
    return (p - q).abs().sum(-1) / 2


def divergence(p: Float[Array, "*n T"], q: Float[Array, "*n T"]) -> Float[Array, "*n"]:
    """Return the Jensen–Shannon divergence of two distributions, ln 2 at most."""
    middle = torch.log(((p + q) / 2).clamp_min(1e-30))  # where both are 0, nothing is added
    one, other = (x * (torch.log(x.clamp_min(1e-30)) - middle) for x in (p, q))
    return (one + other).sum(-1) / 2


def _relative_entropy(p: Float[Array, "*n T"], q: Float[Array, "*n T"]) -> Float[Array, "*n"]:
    return (p * (torch.log(p.clamp_min(1e-30)) - torch.log(q.clamp_min(1e-30)))).sum(-1)


_APART = {"jsd": divergence, "words": divergence, "kl": _relative_entropy}


def places_of_words(ids: Int[np.ndarray, "N T"]) -> np.ndarray:
    """Return where words of a text stand: after [cls], and before the UNK that end the window."""
    end = ids.shape[1] - (ids != UNK)[:, ::-1].argmax(axis=1)
    place = np.arange(ids.shape[1])
    return (place > 0) & (place < end[:, None])


def over_words(alpha: Float[Array, "*n T"], words: Array) -> Float[Array, "*n T"]:
    """Return attention to the ``words`` alone, as a distribution over them."""
    inside = alpha * words
    return inside / inside.sum(-1, keepdim=True).clamp_min(1e-30)
