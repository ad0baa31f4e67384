"""The paper's classifier trained with something held, or away from another: many at a time.

Networks of one kind are one stack of arrays. Their losses are added up, and no weight occurs in two
of them, so that each is trained as it would be alone, in a fraction of the time.
"""

__all__ = [
    "COMPARED",
    "HELD",
    "Stack",
    "classifiers_of",
    "compared",
    "prepared_texts",
    "read_in_chunks",
    "trained",
]

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from limelight import AttentionClassifier
from limelight.models.attention.tables import sinusoidal_positions
from limelight.shapes import Array, Float, Int
from limelight.text import CLS
from limelight.training import RECIPES, Recipe, prepare
from limelight.training.loop import learning_rate
from limelight_reproduction.questions.training_aims import (
    Aim,
    Loss,
    distance,
    divergence,
    over_words,
    places_of_words,
)
from limelight_reproduction.setting import Setting

HELD = ("free", "uniform", "fixed")
TRAINING, QUICK_TRAINING = 25_000, 4_000  # reviews; one in five validates
# The paper's, shortened: fewer words, smaller embeddings, and a rate that needs fewer steps.
RECIPE = replace(
    RECIPES["paper"],
    vocabulary_size=10_000,
    embedding_std=0.1,
    position_scale=0.1,
    batch=64,
    learning_rate=3e-3,
    schedule="one-cycle",
    warmup=0.1,
)
COMPARED = ("tvd", "jsd", "words", "on_words")
_STREAM = 77  # of what is drawn here
_CHUNK = 256  # texts at a time where no gradient is needed


def prepared_texts(setting: Setting, recipe: Recipe = RECIPE, *, count: int | None = None) -> Any:
    """Return encoded reviews to fit and to validate on, the same for every control."""
    count = QUICK_TRAINING if setting.quick else count or TRAINING
    return prepare(setting.some_texts("imdb", "train", count), recipe, seed=setting.seed)


@final
class Stack(nn.Module):  # type: ignore[misc]
    """One of the paper's classifiers for every seed, in which ``held`` is "uniform", "fixed" (W_ℓ)
    or "free" (nothing is).

    Weights that are held are buffers, so that no optimizer sees them.
    """

    def __init__(self, recipe: Recipe, *, words: int, held: str, seeds: Sequence[int]) -> None:
        super().__init__()
        s = self.recipe = recipe
        shapes = {
            "W_q": (s.heads, s.d_att, s.d_e),
            "W_k": (s.heads, s.d_att, s.d_e),
            "W_v": (s.heads, s.d_out, s.d_e),
            "W_l": (s.heads, 2, s.d_out),
        }
        kept = {"uniform": ("W_q", "W_k"), "fixed": ("W_l",), "free": ()}[held]
        draws = [np.random.default_rng([seed, _STREAM]) for seed in seeds]
        table = np.stack([s.embedding_std * rng.standard_normal((words, s.d_e)) for rng in draws])
        self.embedding = nn.Parameter(torch.from_numpy(table).float())
        for name, shape in shapes.items():
            bound = s.weight_bound
            start = np.stack([rng.uniform(-bound, bound, shape) for rng in draws])
            if name in kept:
                weight = torch.from_numpy(start).float()
                self.register_buffer(name, weight * 0 if held == "uniform" else weight)
            else:
                setattr(self, name, nn.Parameter(torch.from_numpy(start).float()))
        places = sinusoidal_positions(s.T_max, s.d_e, base=s.position_base, scale=s.position_scale)
        self.register_buffer("positions", torch.from_numpy(places).float())
        self.order = [np.random.default_rng([seed, _STREAM, 1]) for seed in seeds]

    def __len__(self) -> int:
        return len(self.embedding)

    def forward(
        self, ids: Int[Array, "n B T"]
    ) -> tuple[Float[Array, "n B C"], Float[Array, "n B T"]]:
        """Return the outputs of every network, and its attention of [cls], a mean over heads.

        Every word is read once along the directions of the heads, then looked up.
        """
        directions = self._directions()
        read = (self.embedding @ directions).flatten(0, 1)
        first = len(self.embedding[0]) * torch.arange(len(self), device=ids.device)
        places = self.positions[: ids.shape[-1]] @ directions
        seen = F.embedding(ids + first[:, None, None], read) + places[:, None]
        logit, value = seen.split([self.recipe.heads, seen.shape[-1] - self.recipe.heads], dim=-1)
        alpha = torch.softmax(logit, dim=2)
        added = alpha.unsqueeze(-2) * value.unflatten(-1, (-1, self.recipe.heads))
        return added.sum(dim=2).mean(dim=-1), alpha.mean(dim=-1)

    def _directions(self) -> Float[Array, "n d_e R"]:
        """Return what is read of an embedding: K key directions, then C·K value directions."""
        cls = self.embedding[:, CLS] + self.positions[0]
        q = torch.einsum("nkae,ne->nka", self.W_q, cls)
        key = torch.einsum("nkae,nka->nke", self.W_k, q) / q.shape[-1] ** 0.5
        value = (self.W_l @ self.W_v).transpose(1, 2).flatten(1, 2)
        return torch.cat([key, value], dim=1).transpose(1, 2)


def trained(
    stack: Stack,
    prepared: Any,
    aim: Aim,
    *,
    epochs: int,
    device: str,
    tick: Callable[[int, int], None],
) -> Stack:
    """Return ``stack`` trained, every network at its epoch of the lowest loss on held-out texts.

    The rate is that of the stack's recipe.
    """
    recipe, stack = stack.recipe, stack.to(device)
    optimizer = torch.optim.AdamW(
        stack.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
    )
    ids = torch.from_numpy(prepared.training.ids).to(device)
    every = math.ceil(len(ids) / recipe.batch)
    best = torch.full((len(stack),), math.inf, device=device)
    kept = {name: weight.detach().clone() for name, weight in stack.named_parameters()}
    for epoch in range(epochs):
        order = np.stack([rng.permutation(len(ids)) for rng in stack.order])
        shown = torch.from_numpy(order).to(device)
        for step in range(every):
            done = epoch * every + step
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(recipe, done, epochs * every)
            rows = shown[:, step * recipe.batch : (step + 1) * recipe.batch]
            share = min(1.0, 2 * done / (epochs * every))
            outputs, attention = stack(ids[rows])
            loss = aim.fitted(rows, outputs, attention, share).sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if step % 20 == 0:
                tick(done, epochs * every)
        _keep(stack, best, kept, _validated(stack, prepared.validation.ids, aim.validated, device))
    stack.load_state_dict(dict(stack.named_buffers()) | kept)
    return stack


def _keep(stack: Stack, best: Array, kept: dict[str, Array], loss: Array) -> None:
    """Copy the weights of those networks whose ``loss`` is the ``best`` so far."""
    better = loss < best
    best[better] = loss[better]
    for name, weight in stack.named_parameters():
        kept[name][better] = weight.detach()[better]


@torch.no_grad()  # type: ignore[untyped-decorator]
def _validated(stack: Stack, ids: Int[np.ndarray, "N T"], loss: Loss, device: str) -> Array:
    total = torch.zeros(len(stack), device=device)
    every = torch.from_numpy(ids).to(device)
    for rows in torch.arange(len(ids), device=device).split(_CHUNK):
        shown = rows.expand(len(stack), -1)
        outputs, attention = stack(every[shown])
        total += len(rows) * loss(shown, outputs, attention, 1.0)
    return total / len(ids)


@torch.no_grad()  # type: ignore[untyped-decorator]
def read_in_chunks(
    stack: Stack, ids: Int[np.ndarray, "N T"], device: str
) -> tuple[Float[Array, "n N C"], Float[Array, "n N T"]]:
    """Return outputs and attention of every network for all texts."""
    found = [
        stack(rows.to(device).expand(len(stack), -1, -1))
        for rows in torch.from_numpy(ids).split(_CHUNK)
    ]
    outputs, alpha = zip(*found, strict=True)
    return torch.cat(outputs, dim=1), torch.cat(alpha, dim=1)


@torch.no_grad()  # type: ignore[untyped-decorator]
def compared(
    stack: Stack, first: Stack, *, of: Sequence[int], texts: Any, device: str
) -> dict[str, np.ndarray]:
    """Return which ``texts`` every network gets right, and how far it is from its first model.

    The first model of each is that number ``of`` the stack ``first``. "tvd" is the distance of the
    predictions, "jsd" the divergence of attention over the window, "words" over the words alone,
    and "on_words" the attention that words get: means over texts.
    """
    right, sums = [], torch.zeros(4, len(stack), device=device)
    for start in range(0, len(texts), _CHUNK):
        chunk = texts.ids[start : start + _CHUNK]
        ids, words = (torch.from_numpy(x).to(device) for x in (chunk, places_of_words(chunk)))
        outputs, alpha = stack(ids.expand(len(stack), -1, -1))
        wanted, attended = (x[list(of)] for x in first(ids.expand(len(first), -1, -1)))
        told = [
            distance(outputs.softmax(-1), wanted.softmax(-1)),
            divergence(alpha, attended),
            divergence(over_words(alpha, words), over_words(attended, words)),
            (alpha * words).sum(-1),
        ]
        sums += torch.stack([one.sum(1) for one in told])
        right.append(outputs.argmax(-1).cpu().numpy() == texts.labels[start : start + _CHUNK])
    means = dict(zip(COMPARED, (sums / len(texts)).cpu().numpy(), strict=True))
    return means | {"right": np.concatenate(right, axis=1)}


def classifiers_of(stack: Stack, prepared: Any) -> list[AttentionClassifier]:
    """Return the networks as models that every exact method explains."""
    names = ("embedding", "W_q", "W_k", "W_v", "W_l")
    arrays = {name: getattr(stack, name).detach().cpu().numpy() for name in names}
    return [
        AttentionClassifier(
            **{name: array[i] for name, array in arrays.items()},
            vocabulary=prepared.vocabulary,
            classes=prepared.classes,
            T_max=stack.recipe.T_max,
            position_base=stack.recipe.position_base,
            position_scale=stack.recipe.position_scale,
        )
        for i in range(len(stack))
    ]
