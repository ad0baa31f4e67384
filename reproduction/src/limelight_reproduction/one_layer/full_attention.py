"""The classifier with full self-attention, of which it uses only the row of [cls].

This reference implementation is slow and simple. Tests and benchmarks compare with it.
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from limelight import AttentionClassifier
from limelight.shapes import Array, Float, Int


class FullAttention(nn.Module):  # type: ignore[misc]
    """A classifier with multi-head self-attention between all positions."""

    def __init__(
        self, *, V: int, d_e: int, K: int, d_att: int, d_out: int, C: int, T_max: int
    ) -> None:
        super().__init__()
        self.K = K
        self.embedding = nn.Embedding(V, d_e)
        self.query = nn.Linear(d_e, K * d_att, bias=False)
        self.key = nn.Linear(d_e, K * d_att, bias=False)
        self.value = nn.Linear(d_e, K * d_out, bias=False)
        self.output = nn.Linear(K * d_out, C, bias=False)
        self.register_buffer("positions", torch.zeros(T_max, d_e))

    @classmethod
    def from_classifier(
        cls, classifier: AttentionClassifier, *, dtype: Any = torch.float32
    ) -> "FullAttention":
        """Copy the weights of ``classifier`` into a module with full self-attention."""
        module = cls(**classifier.sizes).to(dtype)
        weights = {
            "embedding": classifier.embedding,
            "query": np.concatenate(list(classifier.W_q)),
            "key": np.concatenate(list(classifier.W_k)),
            "value": np.concatenate(list(classifier.W_v)),
            "output": np.concatenate(list(classifier.W_l), axis=1),
        }
        with torch.no_grad():
            for name, array in weights.items():
                getattr(module, name).weight.copy_(torch.tensor(array))
            module.positions.copy_(torch.tensor(classifier.positions))
        return module

    def forward(self, ids: Int[Array, "B T"]) -> Float[Array, "B C"]:
        """Return the logits f of every input."""
        e = self.embedding(ids) + self.positions[: ids.shape[1]]
        query, key, value = (
            projection.unflatten(-1, (self.K, -1)).transpose(1, 2)
            for projection in (self.query(e), self.key(e), self.value(e))
        )
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        heads = torch.softmax(scores, dim=-1) @ value
        return self.output(heads[:, :, 0].flatten(1)) / self.K
