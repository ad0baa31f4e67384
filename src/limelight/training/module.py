"""The attention classifier as a torch module, without any T×T matrix."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from limelight.models.attention import AttentionClassifier
from limelight.models.attention.tables import sinusoidal_positions
from limelight.models.attention.weights import OPTIONS, WEIGHTS, model_weights
from limelight.shapes import Array, Float, Int
from limelight.text import CLS, UNK, Vocabulary

# What besides its weights says how a classifier reads a text.
READING_OPTIONS = ("T_max", "position_base", "position_scale", "skip", "head_embeddings")


class AttentionModule(nn.Module):  # type: ignore[misc]
    r"""K heads read at [cls].

    The query of [cls] is one vector for all documents, so each head reads an embedding along one
    key direction :math:`W_k^\top q / \sqrt{d_{att}}` and C value directions :math:`W_\ell W_v`;
    autograd carries the gradient through the directions to the weights. Biases, a skip connection,
    embeddings of every head's own and additive attention are options, as in the classifier; the
    last reads along d_att directions per head, one for each hidden unit.
    """

    def __init__(
        self,
        weights: Mapping[str, Array],
        *,
        T_max: int = 256,
        position_base: float = 10000.0,
        position_scale: float = 1.0,
        skip: str | None = None,
        head_embeddings: bool = False,
    ) -> None:
        super().__init__()
        for name in (*WEIGHTS, *OPTIONS):
            given = weights.get(name)
            setattr(self, name, None if given is None else nn.Parameter(given.clone()))
        self.T_max, self.position_base, self.position_scale = T_max, position_base, position_scale
        self.skip, self.head_embeddings = skip, head_embeddings
        K, _, d_e = self.W_q.shape
        positions = sinusoidal_positions(T_max, d_e, base=position_base, scale=position_scale)
        positions = np.tile(positions, K if head_embeddings else 1)
        self.register_buffer("positions", torch.from_numpy(positions).to(self.embedding))

    @classmethod
    def from_classifier(
        cls, classifier: AttentionClassifier, *, dtype: Any = torch.float32
    ) -> "AttentionModule":
        """Return a trainable copy of ``classifier``."""
        weights = {
            name: torch.tensor(np.asarray(array), dtype=dtype)
            for name, array in model_weights(classifier).items()
        }
        return cls(weights, **{name: getattr(classifier, name) for name in READING_OPTIONS})

    def to_classifier(
        self,
        vocabulary: Vocabulary,
        classes: tuple[str, ...],
        *,
        record: Mapping[str, Any] | None = None,
    ) -> AttentionClassifier:
        """Return the module as frozen NumPy arrays."""
        weights: dict[str, Any] = {
            name: weight.detach().cpu().numpy() for name, weight in self.named_parameters()
        }
        return self._made(
            **weights,
            vocabulary=vocabulary,
            classes=classes,
            **{name: getattr(self, name) for name in READING_OPTIONS},
            attention="dot-product" if self.w_a is None else "additive",
            record=record or {},
        )

    def _made(self, **given: Any) -> AttentionClassifier:
        return AttentionClassifier(**given)

    def forward(
        self,
        ids: Int[Array, "B T"],
        *,
        dropout: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> Float[Array, "B C"]:
        """Return f of every document; ``dropout`` zeroes entries of the words' embeddings.

        Row by row ``ids`` is a whole window, as ``limelight.text.window`` makes it: padding takes
        part in attention.
        """
        if dropout == 0 and len(self.embedding) < ids.numel():
            # Fewer words than tokens: read every word once, then look up what was read.
            cls_row = self.embedding[CLS]
            directions = self._directions(cls_row)
            read = F.embedding(ids, self.embedding @ directions)
        else:
            kept, scale = None, 1.0
            if dropout and rng is not None:
                shape = (*ids.shape, self.embedding.shape[1])
                kept = dropout_mask(shape, dropout, rng=rng, device=ids.device)
                scale = 1 / keep_probability(dropout)
            words, cls_row = _LookUp.apply(self.embedding, ids, kept)
            directions = self._directions(cls_row)
            read = words @ (directions * scale)
        return self._pooled(read + self.positions[: ids.shape[1]] @ directions, cls_row)

    def _directions(self, cls_row: Float[Array, " d_e"]) -> Float[Array, "d_e R"]:
        """Return what is read of an embedding: for logits, C·K value directions, C skipped ones.

        For logits K key directions, of dot products; those of d_att · K hidden units otherwise.
        """
        value = (self.W_l @ self.W_v).transpose(0, 1)  # C K d_e
        if self.w_a is None:
            query = self._query(cls_row)
            keys = self._wide((query.unsqueeze(1) @ self.W_k).squeeze(1) / query.shape[1] ** 0.5)
        else:
            keys = self._wide(self.W_k.transpose(0, 1)).flatten(0, 1)  # d_att·K d_e
        rows = [keys, self._wide(value).flatten(0, 1)]
        if self.skip == "mean":
            rows.append(self.W_s)
        return torch.cat(rows).T

    def _query(self, cls_row: Float[Array, " d_e"]) -> Float[Array, "K d_att"]:
        K, _, d_e = self.W_q.shape
        cls = cls_row + self.positions[0]
        own = cls.unflatten(0, (K, d_e)) if self.head_embeddings else cls.expand(K, d_e)
        query = (self.W_q @ own.unsqueeze(-1)).squeeze(-1)
        return query if self.b_q is None else query + self.b_q

    def _logits(
        self, read: Float[Array, "B T R"], cls_row: Float[Array, " d_e"]
    ) -> Float[Array, "B T K"]:
        """Return the logits of what was read for them.

        The bias of keys adds the same to all dot products of a head: it is not read there.
        """
        if self.w_a is None:
            return read
        given = self._query(cls_row) if self.b_k is None else self._query(cls_row) + self.b_k
        units = torch.tanh(read.unflatten(-1, (-1, len(given))) + given.T)  # B T d_att K
        return (units * self.w_a.T).sum(dim=2)

    def _wide(self, read: Float[Array, "*C K d_e"]) -> Float[Array, "*C K wide"]:
        """Let every head read its own part of the embedding, where each has its own."""
        if not self.head_embeddings:
            return read
        K = read.shape[-2]
        apart = torch.eye(K, dtype=read.dtype, device=read.device).unsqueeze(-1)
        return (read.unsqueeze(-2) * apart).flatten(-2)

    def _pooled(
        self, read: Float[Array, "B T R"], cls_row: Float[Array, " d_e"]
    ) -> Float[Array, "B C"]:
        """Return the mean over heads of Σ_t α_t u_t, and what is added to it."""
        K, C, _ = self.W_l.shape
        last = C if self.skip == "mean" else 0
        asked = read.shape[-1] - C * K - last
        keys, value, skipped = read.split([asked, C * K, last], dim=-1)
        alpha = torch.softmax(self._logits(keys, cls_row), dim=1)
        f = (alpha.unsqueeze(2) * value.unflatten(-1, (C, K))).sum(dim=1).mean(dim=-1)
        if self.b_v is not None:
            f = f + (self.W_l @ self.b_v.unsqueeze(-1)).squeeze(-1).mean(dim=0)
        if self.skip == "mean":
            f = f + skipped.mean(dim=1)
        if self.skip == "cls":
            f = f + self.W_s @ (cls_row + self.positions[0])
        return f


def keep_probability(dropout: float) -> float:
    """Return the probability with which an entry is kept: 1 − dropout, rounded to 1/256."""
    return (256 - round(256 * dropout)) / 256


def dropout_mask(
    shape: tuple[int, ...], dropout: float, *, rng: np.random.Generator, device: Any
) -> Float[Array, "..."]:
    """Return a mask: 1 where an entry is kept, else 0.

    One random byte decides per entry: on a CPU this takes a tenth of torch's ``bernoulli_``.
    """
    count, lost = int(np.prod(shape)), round(256 * dropout)
    if torch.device(device).type == "cpu":
        random = torch.from_numpy(np.frombuffer(bytearray(rng.bytes(count)), dtype=np.uint8))
    else:
        generator = torch.Generator(device=device).manual_seed(int(rng.integers(2**63)))
        random = torch.empty(count, dtype=torch.uint8, device=device)
        random.random_(0, 256, generator=generator)
    return (random >= lost).view(shape).float()


def drop_words(
    ids: Int[Array, "B T"], share: float, *, rng: np.random.Generator
) -> Int[Array, "B T"]:
    """Return ``ids`` with a random ``share`` of the words replaced by UNK; [cls] stays."""
    lost = torch.from_numpy(rng.random(tuple(ids.shape), dtype=np.float32) < share)
    return ids.masked_fill(lost.to(ids.device) & (ids != CLS), UNK)


class _LookUp(torch.autograd.Function):  # type: ignore[misc]
    """Rows of the embedding, masked, and the row of [cls].

    One function for both, because each use of the embedding that autograd sees by itself costs a
    gradient as large as the whole table.
    """

    @staticmethod
    def forward(ctx: Any, embedding: Array, ids: Array, kept: Array | None) -> tuple[Array, Array]:
        ctx.save_for_backward(ids, *([] if kept is None else [kept]))
        ctx.rows = len(embedding)
        words = F.embedding(ids, embedding)
        if kept is not None:
            words *= kept
        return words, embedding[CLS].clone()

    @staticmethod
    def backward(ctx: Any, grad_words: Array, grad_cls: Array) -> tuple[Array, None, None]:
        ids, *kept = ctx.saved_tensors
        if kept:
            grad_words = grad_words * kept[0]
        grad = torch.ops.aten.embedding_dense_backward(grad_words, ids, ctx.rows, -1, False)
        grad[CLS] += grad_cls
        return grad, None, None
