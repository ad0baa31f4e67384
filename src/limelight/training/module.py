"""The attention classifier as a torch module, without any T×T matrix."""

__all__ = ["AttentionModule"]

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from limelight.model import AttentionClassifier
from limelight.model.classifier import WEIGHTS
from limelight.model.positions import sinusoidal_positions
from limelight.shapes import Array, Float, Int
from limelight.text import CLS, Vocabulary


@final
class AttentionModule(nn.Module):  # type: ignore[misc]
    r"""K heads read at [cls].

    The query of [cls] is one vector for all documents, so each head reads an embedding along one
    key direction :math:`W_k^\top q / \sqrt{d_{att}}` and C value directions :math:`W_\ell W_v`;
    autograd carries the gradient through the directions to the five weights.
    """

    def __init__(
        self,
        weights: Mapping[str, Array],
        *,
        T_max: int = 256,
        position_base: float = 10000.0,
        position_scale: float = 1.0,
    ) -> None:
        super().__init__()
        for name in WEIGHTS:
            setattr(self, name, nn.Parameter(weights[name].clone()))
        self.T_max, self.position_base, self.position_scale = T_max, position_base, position_scale
        positions = sinusoidal_positions(
            T_max, self.embedding.shape[1], base=position_base, scale=position_scale
        )
        self.register_buffer("positions", torch.from_numpy(positions).to(self.embedding))

    @classmethod
    def from_classifier(
        cls, classifier: AttentionClassifier, *, dtype: Any = torch.float32
    ) -> "AttentionModule":
        """Return a trainable copy of ``classifier``."""
        weights = {n: torch.tensor(np.asarray(getattr(classifier, n)), dtype=dtype) for n in WEIGHTS}
        return cls(
            weights,
            T_max=classifier.T_max,
            position_base=classifier.position_base,
            position_scale=classifier.position_scale,
        )

    def to_classifier(
        self,
        vocabulary: Vocabulary,
        classes: tuple[str, ...],
        *,
        record: Mapping[str, Any] | None = None,
    ) -> AttentionClassifier:
        """Return the module as frozen NumPy arrays."""
        weights = {name: getattr(self, name).detach().cpu().numpy() for name in WEIGHTS}
        return AttentionClassifier(
            **weights,
            vocabulary=vocabulary,
            classes=classes,
            T_max=self.T_max,
            position_base=self.position_base,
            position_scale=self.position_scale,
            record=record or {},
        )

    def directions(self) -> Float[Array, "d_e K+C*K"]:
        """Return what the heads read of an embedding: K key directions, then C·K value directions."""
        d_att, d_e = self.W_q.shape[1:]
        q = self.W_q @ (self.embedding[CLS] + self.positions[0])
        key = (q.unsqueeze(1) @ self.W_k).squeeze(1) / d_att**0.5
        value = (self.W_l @ self.W_v).transpose(0, 1).reshape(-1, d_e)
        return torch.cat([key, value]).T

    def forward(
        self,
        ids: Int[Array, "B T_max"],
        *,
        dropout: float = 0.0,
        generator: Any = None,
    ) -> Float[Array, "B C"]:
        """Return f of every document; ``dropout`` zeroes entries of the words' embeddings."""
        directions = self.directions()
        at_position = self.positions[: ids.shape[1]] @ directions
        if dropout == 0 and len(self.embedding) < ids.numel():
            # Fewer words than tokens: read every word once, then look up what was read.
            read = F.embedding(ids, self.embedding @ directions)
        else:
            words = F.embedding(ids, self.embedding)
            if dropout:
                kept = torch.empty_like(words).bernoulli_(1 - dropout, generator=generator)
                words = words * kept
                directions = directions / (1 - dropout)
            read = words @ directions
        return self._pooled(read + at_position)

    def _pooled(self, read: Float[Array, "B T K+C*K"]) -> Float[Array, "B C"]:
        """Return the mean over heads of Σ_t α_t u_t."""
        K, C, _ = self.W_l.shape
        logit, value = read.split([K, C * K], dim=-1)
        alpha = torch.softmax(logit, dim=1)
        return (alpha.unsqueeze(2) * value.unflatten(-1, (C, K))).sum(dim=1).mean(dim=-1)
