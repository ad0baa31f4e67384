"""What a network answers, by the plainest road: one text, no padding, no hooks, no batches."""

__all__ = ["ByHand", "Table", "masks_of"]

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

Array = np.ndarray


def masks_of(d: int) -> Array:
    """Return all 2^d masks of d words."""
    return (np.arange(2**d)[:, None] >> np.arange(d) & 1).astype(bool)


@dataclass(frozen=True)
class ByHand:
    """One text under one network; ``word`` is the word of every piece, -1 at special ones."""

    network: Any
    tokenizer: Any
    text: str
    known: dict[tuple[str, bytes], Array] = field(default_factory=dict)

    @cached_property
    def ids(self) -> Array:
        """The pieces of the text, with special ones."""
        return np.array(self.tokenizer(self.text)["input_ids"])

    @cached_property
    def word(self) -> Array:
        """The word of every piece, -1 at special ones."""
        words = self.tokenizer(self.text).word_ids()
        return np.array([-1 if one is None else one for one in words])

    @property
    def d(self) -> int:
        """How many words there are."""
        return int(self.word.max()) + 1

    def call(self, ids: Array, mask: Array | None = None, **options: Any) -> Any:
        """Call the network on one text."""
        rows = torch.tensor(ids[None])
        seen = torch.ones_like(rows) if mask is None else torch.tensor(mask[None])
        return self.network(input_ids=rows, attention_mask=seen, **options)

    def outputs(self, keep: Array, replacement: str) -> Array:
        """Return the outputs for one mask of words, asked once."""
        key = (replacement, keep.tobytes())
        if key not in self.known:
            self.known[key] = self._outputs(keep, replacement)
        return self.known[key]

    def _outputs(self, keep: Array, replacement: str) -> Array:
        gone = ~np.append(keep, True)[self.word]
        ids, mask = self.ids.copy(), np.ones_like(self.ids)
        if replacement == "delete":
            ids, mask = ids[~gone], mask[~gone]
        else:
            ids[gone] = getattr(self.tokenizer, f"{replacement}_token_id")
            mask[gone & (replacement == "pad")] = 0
        with torch.no_grad():
            return self.call(ids, mask).logits[0].double().numpy()

    def table(self, replacement: str) -> Array:
        """Return the outputs for all masks of the words."""
        return np.array([self.outputs(keep, replacement) for keep in masks_of(self.d)])

    def gradient(self, target: int, *, towards: int | None = None, at: float = 1.0) -> Array:
        """Return ∂f/∂e at every piece, from the gradient of the embedding's own weights.

        Pieces must differ, so that each row of the embedding stands for one place. With
        ``towards``, words stand at the part ``at`` of the way from that token to themselves.
        """
        assert len(set(self.ids)) == len(self.ids)
        weight = self.network.get_input_embeddings().weight
        before, rows = weight.detach().clone(), torch.tensor(self.ids[self.word >= 0])
        try:
            with torch.no_grad():
                if towards is not None:
                    weight[rows] = before[towards] + at * (before[rows] - before[towards])
            weight.requires_grad_(True)
            weight.grad = None
            with torch.enable_grad():
                self.call(self.ids).logits[0, target].backward()
            grad = weight.grad
            found = grad.to_dense() if grad.is_sparse else grad
            return found[torch.tensor(self.ids)].double().numpy() / self.scale
        finally:
            with torch.no_grad():
                weight.copy_(before)

    @cached_property
    def scale(self) -> float:
        """What the embedding multiplies its weights by."""
        table = self.network.get_input_embeddings()
        with torch.no_grad():
            row = table(torch.tensor(self.ids[None]))[0]
            return float((row / table.weight[torch.tensor(self.ids)]).median())

    @cached_property
    def embedded(self) -> Array:
        """The embedded pieces."""
        with torch.no_grad():
            table = self.network.get_input_embeddings()
            return table(torch.tensor(self.ids[None]))[0].double().numpy()

    def words(self, scores: Array) -> Array:
        """Return scores of pieces summed over each word."""
        return scores @ (self.word[:, None] == np.arange(self.d))


@dataclass(frozen=True, eq=False)
class Table:
    """A model of one text that knows the outputs for all masks, and nothing else."""

    inner: Any
    answers: Array
    classes: tuple[str, ...]
    link: str
    replacements: tuple[str, ...]
    capabilities: dict[str, Any] = field(default_factory=dict)
    is_exclusive: bool = True
    has_subwords: bool = True
    fingerprint: str = "a table"
    numbers: None = None

    def read(self, text: str, *, subwords: bool = False) -> Any:
        """Return what the model itself reads."""
        return self.inner.read(text, subwords=subwords)

    def outputs(self, inputs: Any) -> Array:
        """Return the outputs of the whole text."""
        return np.tile(self.answers[-1], (len(inputs), 1))

    def game(self, _document: Any, _features: Any, _replacement: str) -> Any:
        """Look masks up."""
        return lambda keep: self.answers[keep @ (1 << np.arange(keep.shape[1]))]
