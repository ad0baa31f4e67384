"""A small transformer encoder that is read at [cls]."""

__all__ = ["ACTIVATIONS", "NetworkShape", "Transformer"]

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from limelight.models.attention.tables import sinusoidal_positions
from limelight.shapes import Array, Float, Int
from limelight.training.module import dropout_mask, keep_probability

ACTIVATIONS: dict[str, Any] = {"identity": lambda x: x, "relu": F.relu, "gelu": F.gelu}


@final
@dataclass(frozen=True, kw_only=True)
class NetworkShape:
    """The shape of a network. The sizes are those of the paper, whose model has one layer."""

    layers: int = 6
    heads: int = 6
    d_e: int = 128
    d_att: int = 64
    d_hidden: int = 256
    activation: str = "gelu"
    T_max: int = 256
    position_scale: float = 0.03
    embedding_std: float = 0.02
    layer: Literal["pre-norm", "skip", "plain"] = "pre-norm"
    """"plain": heads and a linear map, as in the paper's Section 2; "skip": the same with a skip
    connection; "pre-norm": with a skip connection, layer norms and a perceptron."""


@final
class Transformer(nn.Module):  # type: ignore[misc]
    """Layers of self-attention, then one linear map of [cls].

    By default each layer also has a perceptron. Attention and perceptron have a layer norm before
    them and a skip connection. Words, positions and padding are as in the paper: padding is UNK and
    takes part in attention.
    """

    def __init__(
        self, shape: NetworkShape, *, words: int, outputs: int, rng: np.random.Generator
    ) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Parameter(_normal((words, shape.d_e), shape.embedding_std, rng))
        positions = sinusoidal_positions(
            shape.T_max, shape.d_e, base=10000.0, scale=shape.position_scale
        )
        self.register_buffer("positions", torch.from_numpy(positions).float())
        self.layers = nn.ModuleList(_Layer(shape, rng) for _ in range(shape.layers))
        self.norm = _norm(shape)
        self.head = _linear(shape.d_e, outputs, rng)

    def forward(
        self,
        ids: Int[Array, "B T"],
        *,
        dropout: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> Float[Array, "B C"]:
        """Return the outputs of every document. ``dropout`` sets entries of embeddings to zero."""
        words = F.embedding(ids, self.embedding)
        if dropout and rng is not None:
            mask = dropout_mask(tuple(words.shape), dropout, rng=rng, device=ids.device)
            words = words * mask / keep_probability(dropout)
        # Half precision is used only in training on a GPU, where it is faster.
        half = ids.is_cuda and rng is not None
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            outputs = self.embedding_outputs(words + self.positions)
        return outputs.float()

    def embed(self, ids: Int[Array, "B T"]) -> Float[Array, "B T d_e"]:
        """Return the embeddings of the documents, including positions."""
        return F.embedding(ids, self.embedding) + self.positions

    def embedding_outputs(
        self, e: Float[Array, "B T d_e"], attention: list[Any] | None = None
    ) -> Float[Array, "B C"]:
        """Return the outputs for embedded documents.

        Every layer appends its attention weights (B, K, T, T) to the list ``attention``.
        """
        for layer in self.layers:
            e = layer(e, attention)
        return self.head(self.norm(e[:, 0]))


class _Layer(nn.Module):  # type: ignore[misc]
    def __init__(self, shape: NetworkShape, rng: np.random.Generator) -> None:
        super().__init__()
        wide = shape.heads * shape.d_att
        self.heads, self.activation = shape.heads, ACTIVATIONS[shape.activation]
        self.has_skip = shape.layer != "plain"
        self.has_perceptron = shape.layer == "pre-norm"
        self.norm_attention = _norm(shape)
        self.query, self.key, self.value = (_linear(shape.d_e, wide, rng) for _ in range(3))
        self.mixed = _linear(wide, shape.d_e, rng)
        if self.has_perceptron:
            self.norm_hidden = _norm(shape)
            self.hidden = _linear(shape.d_e, shape.d_hidden, rng)
            self.back = _linear(shape.d_hidden, shape.d_e, rng)

    def forward(
        self, e: Float[Array, "B T d_e"], attention: list[Any] | None = None
    ) -> Float[Array, "B T d_e"]:
        """Apply the layer, and append its attention weights to ``attention``."""
        x = self.norm_attention(e)
        query, key, value = (
            self._split(project(x)) for project in (self.query, self.key, self.value)
        )
        if attention is None:
            pooled = F.scaled_dot_product_attention(query, key, value)
        else:  # the fused kernel above is several times faster, but does not return the weights
            logit = query @ key.transpose(-1, -2) / key.shape[-1] ** 0.5
            attention.append(torch.softmax(logit, dim=-1))
            pooled = attention[-1] @ value
        mixed = self.mixed(pooled.transpose(1, 2).flatten(2))
        e = e + mixed if self.has_skip else mixed
        if not self.has_perceptron:
            return e
        return e + self.back(self.activation(self.hidden(self.norm_hidden(e))))

    def _split(self, x: Float[Array, "B T wide"]) -> Float[Array, "B K T d_att"]:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def _norm(shape: NetworkShape) -> Any:
    return nn.LayerNorm(shape.d_e) if shape.layer == "pre-norm" else nn.Identity()


def _linear(inputs: int, outputs: int, rng: np.random.Generator) -> Any:
    """Return a linear map whose weights come from ``rng``; its bias starts at zero."""
    linear = nn.Linear(inputs, outputs)
    with torch.no_grad():
        linear.weight.copy_(_normal((outputs, inputs), inputs**-0.5, rng))
        linear.bias.zero_()
    return linear


def _normal(shape: tuple[int, ...], deviation: float, rng: np.random.Generator) -> Array:
    return torch.from_numpy((deviation * rng.standard_normal(shape)).astype(np.float32))
