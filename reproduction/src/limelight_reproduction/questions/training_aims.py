"""Training objectives: to classify, or to predict like another model with other attention."""

__all__ = [
    "Aim",
    "Loss",
    "adversarial_aim",
    "classification_aim",
    "distance",
    "divergence",
    "restrict_to_words",
    "word_mask",
]

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
import torch.nn.functional as F

from limelight.shapes import Array, Float, Int
from limelight.text import UNK

# The loss of every network, from the rows of its texts, its outputs, its attention, and the share
# of λ that already counts.
Loss = Callable[[Int[Array, "n B"], Float[Array, "n B C"], Float[Array, "n B T"], float], Array]


@final
@dataclass(frozen=True)
class Aim:
    """The loss on the training texts, and the loss on the validation texts that selects the epoch.

    Both are functions of rows of these texts.
    """

    training_loss: Loss
    validation_loss: Loss


def classification_aim(prepared_texts: Any, device: str) -> Aim:
    """Return the objective to classify, which is the cross-entropy."""

    def cross_entropy(labels: Int[np.ndarray, " N"]) -> Loss:
        """Return the loss on texts with these labels."""
        targets = torch.from_numpy(labels.copy()).to(device)
        return lambda rows, outputs, _alpha, _share: F.cross_entropy(
            outputs.transpose(1, 2), targets[rows], reduction="none"
        ).mean(dim=1)

    return Aim(
        cross_entropy(prepared_texts.training.labels),
        cross_entropy(prepared_texts.validation.labels),
    )


def adversarial_aim(
    read: Callable[[Int[np.ndarray, "N T"]], tuple[Float[Array, "n N C"], Float[Array, "n N T"]]],
    prepared_texts: Any,
    *,
    first_indices: Sequence[int],
    objectives: Sequence[tuple[str, float]],
    device: str,
) -> Aim:
    """Return the objective to predict as a first model does, with other attention.

    The loss is TVD(p, p_first) − λ·D(α, α_first) (Wiegreffe and Pinter, 2019). α is the mean over
    heads, because heads have no order: an adversary could move every head and still attend to the
    same words. λ grows from 0 during the first half of the training. With the full λ from the
    start, attention moves to a few tokens before the values are trained, and stays there.

    Parameters
    ----------
    read
        Returns the outputs and the attention of the first models.
    prepared_texts
        Texts for training and validation.
    first_indices
        The number of the first model of each network.
    objectives
        D and λ of each network. D is "kl" (the paper's, of α from α_first), "jsd" (the divergence
        that is reported) or "words" (JSD over the words only, as an explanation shows them).
    device
        The device of the networks.

    Returns
    -------
    The objective for training and validation.
    """
    first = torch.tensor(first_indices, device=device)[:, None]
    weight = {
        name: torch.tensor([w if d == name else 0.0 for d, w in objectives], device=device)
        for name in {d for d, w in objectives if w}
    }

    def loss(texts: Any) -> Loss:
        """Return the loss on these texts."""
        first_outputs, first_alpha = read(texts.ids)
        p, is_word = first_outputs.softmax(-1), torch.from_numpy(word_mask(texts.ids)).to(device)

        def network_losses(rows: Array, outputs: Array, alpha: Array, share: float) -> Array:
            """Return the loss of every network on the texts ``rows``."""
            loss_by_network = distance(outputs.softmax(-1), p[first, rows]).mean(dim=1)
            for name, lambdas in weight.items():
                alphas = alpha, first_alpha[first, rows]
                if name == "words":
                    alphas = tuple(
                        restrict_to_words(attention, is_word[rows]) for attention in alphas
                    )
                loss_by_network = loss_by_network - share * lambdas * _DIVERGENCES[name](
                    *alphas
                ).mean(dim=1)
            return loss_by_network

        return network_losses

    return Aim(loss(prepared_texts.training), loss(prepared_texts.validation))


def distance(p: Float[Array, "*n C"], q: Float[Array, "*n C"]) -> Float[Array, "*n"]:
    """Return the total variation distance of two distributions, 1 at most."""
    return (p - q).abs().sum(-1) / 2


def divergence(p: Float[Array, "*n T"], q: Float[Array, "*n T"]) -> Float[Array, "*n"]:
    """Return the Jensen–Shannon divergence of two distributions, ln 2 at most."""
    middle = torch.log(((p + q) / 2).clamp_min(1e-30))  # where both are 0, nothing is added
    p_part, q_part = (
        distribution * (torch.log(distribution.clamp_min(1e-30)) - middle)
        for distribution in (p, q)
    )
    return (p_part + q_part).sum(-1) / 2


def _relative_entropy(p: Float[Array, "*n T"], q: Float[Array, "*n T"]) -> Float[Array, "*n"]:
    """Return the Kullback–Leibler divergence of ``p`` from ``q``."""
    return (p * (torch.log(p.clamp_min(1e-30)) - torch.log(q.clamp_min(1e-30)))).sum(-1)


_DIVERGENCES = {"jsd": divergence, "words": divergence, "kl": _relative_entropy}


def word_mask(ids: Int[np.ndarray, "N T"]) -> np.ndarray:
    """Return a mask of the words of texts: after [cls], and before the UNK at the window's end."""
    end = ids.shape[1] - (ids != UNK)[:, ::-1].argmax(axis=1)
    position = np.arange(ids.shape[1])
    return (position > 0) & (position < end[:, None])


def restrict_to_words(alpha: Float[Array, "*n T"], words: Array) -> Float[Array, "*n T"]:
    """Return the attention to ``words`` as a distribution over them."""
    inside = alpha * words
    return inside / inside.sum(-1, keepdim=True).clamp_min(1e-30)
