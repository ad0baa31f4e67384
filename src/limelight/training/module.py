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

# The options of a classifier, besides its weights, that decide how it reads a text.
READING_OPTIONS = ("T_max", "position_base", "position_scale", "skip", "head_embeddings")


class AttentionModule(nn.Module):  # type: ignore[misc]
    r"""The attention classifier, with the attention of K heads at [cls].

    The query of [cls] is one vector for all documents. Each head therefore projects an embedding
    on one key direction :math:`W_k^\top q / \sqrt{d_{att}}` and C value directions
    :math:`W_\ell W_v`. Autograd carries the gradient through the directions to the weights.
    Biases, a skip connection, separate embeddings for each head and additive attention are
    options, as in the classifier. Additive attention uses d_att directions per head, one for each
    hidden unit.
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
            weight = weights.get(name)
            setattr(self, name, None if weight is None else nn.Parameter(weight.clone()))
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
        return self._build_classifier(
            **weights,
            vocabulary=vocabulary,
            classes=classes,
            **{name: getattr(self, name) for name in READING_OPTIONS},
            attention="dot-product" if self.w_a is None else "additive",
            record=record or {},
        )

    def _build_classifier(self, **fields: Any) -> AttentionClassifier:
        """Build the classifier from its fields; a subclass builds another class."""
        return AttentionClassifier(**fields)

    def forward(
        self,
        ids: Int[Array, "B T"],
        *,
        dropout: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> Float[Array, "B C"]:
        """Return f of every document.

        Parameters
        ----------
        ids
            A whole window in each row, as ``limelight.text.window`` builds it. Padding takes part
            in attention.
        dropout
            The probability of zeroing an entry of a word's embedding.
        rng
            Draws the entries.
        """
        if dropout == 0 and len(self.embedding) < ids.numel():
            # Fewer words than tokens: project every word once, then look up the projections.
            cls_row = self.embedding[CLS]
            directions = self._directions(cls_row)
            projections = F.embedding(ids, self.embedding @ directions)
        else:
            mask, scale = None, 1.0
            if dropout and rng is not None:
                shape = (*ids.shape, self.embedding.shape[1])
                mask = dropout_mask(shape, dropout, rng=rng, device=ids.device)
                scale = 1 / keep_probability(dropout)
            words, cls_row = _LookUp.apply(self.embedding, ids, mask)
            directions = self._directions(cls_row)
            projections = words @ (directions * scale)
        position_projections = self.positions[: ids.shape[1]] @ directions
        return self._attend(projections + position_projections, cls_row)

    def _directions(self, cls_row: Float[Array, " d_e"]) -> Float[Array, "d_e R"]:
        """Return the directions on which embeddings are projected.

        First come the key directions for the logits: K for dot products, and one for each of
        d_att · K hidden units otherwise. Then come C · K value directions, and C directions of the
        skip connection.
        """
        value = (self.W_l @ self.W_v).transpose(0, 1)  # C K d_e
        if self.w_a is None:
            query = self._query(cls_row)
            keys = self._widen((query.unsqueeze(1) @ self.W_k).squeeze(1) / query.shape[1] ** 0.5)
        else:
            keys = self._widen(self.W_k.transpose(0, 1)).flatten(0, 1)  # d_att·K d_e
        rows = [keys, self._widen(value).flatten(0, 1)]
        if self.skip == "mean":
            rows.append(self.W_s)
        return torch.cat(rows).T

    def _query(self, cls_row: Float[Array, " d_e"]) -> Float[Array, "K d_att"]:
        """Return the query of [cls] in every head."""
        K, _, d_e = self.W_q.shape
        cls = cls_row + self.positions[0]
        by_head = cls.unflatten(0, (K, d_e)) if self.head_embeddings else cls.expand(K, d_e)
        query = (self.W_q @ by_head.unsqueeze(-1)).squeeze(-1)
        return query if self.b_q is None else query + self.b_q

    def _logits(
        self, keys: Float[Array, "B T R"], cls_row: Float[Array, " d_e"]
    ) -> Float[Array, "B T K"]:
        """Return the attention logits of the projections on key directions.

        The bias of keys adds the same number to all dot products of a head, so only additive
        attention uses it.
        """
        if self.w_a is None:
            return keys
        query = self._query(cls_row) if self.b_k is None else self._query(cls_row) + self.b_k
        units = torch.tanh(keys.unflatten(-1, (-1, len(query))) + query.T)  # B T d_att K
        return (units * self.w_a.T).sum(dim=2)

    def _widen(self, directions: Float[Array, "*C K d_e"]) -> Float[Array, "*C K wide"]:
        """Pad the directions of each head with zeros if every head has its own embedding."""
        if not self.head_embeddings:
            return directions
        K = directions.shape[-2]
        identity = torch.eye(K, dtype=directions.dtype, device=directions.device).unsqueeze(-1)
        return (directions.unsqueeze(-2) * identity).flatten(-2)

    def _attend(
        self, projections: Float[Array, "B T R"], cls_row: Float[Array, " d_e"]
    ) -> Float[Array, "B C"]:
        """Return the mean over heads of Σ_t α_t u_t, plus the bias and the skip connection."""
        K, C, _ = self.W_l.shape
        skip_count = C if self.skip == "mean" else 0
        key_count = projections.shape[-1] - C * K - skip_count
        keys, value, skipped = projections.split([key_count, C * K, skip_count], dim=-1)
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
    """Draw a random mask: 1 where an entry is kept, else 0.

    One random byte decides per entry. On a CPU this takes a tenth of the time of torch's
    ``bernoulli_``.

    Parameters
    ----------
    shape
        The shape of the mask.
    dropout
        The probability of 0.
    rng
        Draws the bytes, or the seed of the generator of a GPU.
    device
        The device of the mask.

    Returns
    -------
    The mask.
    """
    count, dropped = int(np.prod(shape)), round(256 * dropout)
    if torch.device(device).type == "cpu":
        random = torch.from_numpy(np.frombuffer(bytearray(rng.bytes(count)), dtype=np.uint8))
    else:
        generator = torch.Generator(device=device).manual_seed(int(rng.integers(2**63)))
        random = torch.empty(count, dtype=torch.uint8, device=device)
        random.random_(0, 256, generator=generator)
    return (random >= dropped).view(shape).float()


def drop_words(
    ids: Int[Array, "B T"], share: float, *, rng: np.random.Generator
) -> Int[Array, "B T"]:
    """Replace a random ``share`` of the words by UNK; [cls] stays."""
    is_dropped = torch.from_numpy(rng.random(tuple(ids.shape), dtype=np.float32) < share)
    return ids.masked_fill(is_dropped.to(ids.device) & (ids != CLS), UNK)


class _LookUp(torch.autograd.Function):  # type: ignore[misc]
    """Look up rows of the embedding, multiply them by a mask, and look up the row of [cls].

    One function does both, because each separate use of the embedding in autograd costs a gradient
    as large as the whole table.
    """

    @staticmethod
    def forward(ctx: Any, embedding: Array, ids: Array, mask: Array | None) -> tuple[Array, Array]:
        """Return the masked rows of ``ids``, and the row of [cls]."""
        ctx.save_for_backward(ids, *([] if mask is None else [mask]))
        ctx.rows = len(embedding)
        words = F.embedding(ids, embedding)
        if mask is not None:
            words *= mask
        return words, embedding[CLS].clone()

    @staticmethod
    def backward(ctx: Any, grad_words: Array, grad_cls: Array) -> tuple[Array, None, None]:
        """Return the gradient of the embedding."""
        ids, *masks = ctx.saved_tensors
        if masks:
            grad_words = grad_words * masks[0]
        grad = torch.ops.aten.embedding_dense_backward(grad_words, ids, ctx.rows, -1, False)
        grad[CLS] += grad_cls
        return grad, None, None
