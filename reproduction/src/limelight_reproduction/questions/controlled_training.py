"""Train many classifiers of the paper at a time, with frozen weights or as adversaries.

Networks of one kind are stacked in one set of arrays. Their losses are added up, and no two
networks share a weight. So each network is trained as it would be by itself, in less time.
"""

__all__ = [
    "COMPARISONS",
    "CONTROL_KINDS",
    "Stack",
    "build_classifiers",
    "compare_with_first",
    "prepare_texts",
    "run_in_chunks",
    "train_stack",
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
    restrict_to_words,
    word_mask,
)
from limelight_reproduction.setting import Setting

CONTROL_KINDS = ("free", "uniform", "fixed")
TRAINING, QUICK_TRAINING = 25_000, 4_000  # reviews; one in five validates
# The paper's recipe, shortened: fewer words, smaller embeddings, and a learning rate that needs
# fewer steps.
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
COMPARISONS = ("tvd", "jsd", "words", "on_words")
_STREAM = 77  # random stream of this module
_CHUNK = 256  # texts per forward pass without gradients


def prepare_texts(setting: Setting, recipe: Recipe = RECIPE, *, count: int | None = None) -> Any:
    """Return encoded reviews for training and validation, the same for every control."""
    count = QUICK_TRAINING if setting.quick else count or TRAINING
    return prepare(setting.sample_texts("imdb", "train", count), recipe, seed=setting.seed)


@final
class Stack(nn.Module):  # type: ignore[misc]
    """One classifier of the paper for every seed, all with the same control.

    With ``control`` "uniform" attention is uniform, with "fixed" W_ℓ keeps its random start, and
    with "free" all weights are trained. With "removed" d_out is 1 and W_ℓ is 1, so that the output
    is the mean over heads of attention times value, as the log-odds of the second class. Frozen
    weights are buffers, so that no optimizer sees them.
    """

    def __init__(self, recipe: Recipe, *, words: int, control: str, seeds: Sequence[int]) -> None:
        super().__init__()
        self.recipe = recipe
        shapes = {
            "W_q": (recipe.heads, recipe.d_att, recipe.d_e),
            "W_k": (recipe.heads, recipe.d_att, recipe.d_e),
            "W_v": (recipe.heads, recipe.d_out, recipe.d_e),
            "W_l": (recipe.heads, 2, recipe.d_out),
        }
        frozen = {
            "uniform": ("W_q", "W_k"),
            "fixed": ("W_l",),
            "removed": ("W_l",),
            "free": (),
        }[control]
        generators = [np.random.default_rng([seed, _STREAM]) for seed in seeds]
        table = np.stack(
            [recipe.embedding_std * rng.standard_normal((words, recipe.d_e)) for rng in generators]
        )
        self.embedding = nn.Parameter(torch.from_numpy(table).float())
        for name, shape in shapes.items():
            bound = recipe.weight_bound
            initial = np.stack([rng.uniform(-bound, bound, shape) for rng in generators])
            if name in frozen:
                weight = torch.from_numpy(initial).float()
                if control == "removed":
                    weight = torch.zeros_like(weight)
                    weight[:, :, 1] = 1
                self.register_buffer(name, weight * 0 if control == "uniform" else weight)
            else:
                setattr(self, name, nn.Parameter(torch.from_numpy(initial).float()))
        positions = sinusoidal_positions(
            recipe.T_max, recipe.d_e, base=recipe.position_base, scale=recipe.position_scale
        )
        self.register_buffer("positions", torch.from_numpy(positions).float())
        self.order = [np.random.default_rng([seed, _STREAM, 1]) for seed in seeds]

    def __len__(self) -> int:
        return len(self.embedding)

    def forward(
        self, ids: Int[Array, "n B T"]
    ) -> tuple[Float[Array, "n B C"], Float[Array, "n B T"]]:
        """Return the outputs of every network, and its attention of [cls], a mean over heads.

        Every word is projected once on the directions of the heads, then looked up.
        """
        directions = self._directions()
        by_word = (self.embedding @ directions).flatten(0, 1)
        offsets = len(self.embedding[0]) * torch.arange(len(self), device=ids.device)
        positions = self.positions[: ids.shape[-1]] @ directions
        by_token = F.embedding(ids + offsets[:, None, None], by_word) + positions[:, None]
        logit, value = by_token.split(
            [self.recipe.heads, by_token.shape[-1] - self.recipe.heads], dim=-1
        )
        alpha = torch.softmax(logit, dim=2)
        weighted = alpha.unsqueeze(-2) * value.unflatten(-1, (-1, self.recipe.heads))
        return weighted.sum(dim=2).mean(dim=-1), alpha.mean(dim=-1)

    def _directions(self) -> Float[Array, "n d_e R"]:
        """Return the directions that embeddings are projected on: K for keys, C·K for values."""
        cls = self.embedding[:, CLS] + self.positions[0]
        q = torch.einsum("nkae,ne->nka", self.W_q, cls)
        key = torch.einsum("nkae,nka->nke", self.W_k, q) / q.shape[-1] ** 0.5
        value = (self.W_l @ self.W_v).transpose(1, 2).flatten(1, 2)
        return torch.cat([key, value], dim=1).transpose(1, 2)


def train_stack(
    stack: Stack,
    prepared_texts: Any,
    aim: Aim,
    *,
    epochs: int,
    device: str,
    tick: Callable[[int, int], None],
) -> Stack:
    """Train every network of a stack, and keep its epoch with the lowest validation loss.

    The learning rate is that of the recipe of the stack.

    Parameters
    ----------
    stack
        The networks before training.
    prepared_texts
        Encoded texts for training and validation.
    aim
        The objective.
    epochs
        Number of epochs.
    device
        "cpu" or "cuda".
    tick
        Called with the steps done and the steps in all.

    Returns
    -------
    The stack with the best weights of each network.
    """
    recipe, stack = stack.recipe, stack.to(device)
    optimizer = torch.optim.AdamW(
        stack.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
    )
    ids = torch.from_numpy(prepared_texts.training.ids).to(device)
    steps_per_epoch = math.ceil(len(ids) / recipe.batch)
    best_loss = torch.full((len(stack),), math.inf, device=device)
    best_weights = {name: weight.detach().clone() for name, weight in stack.named_parameters()}
    for epoch in range(epochs):
        order = np.stack([rng.permutation(len(ids)) for rng in stack.order])
        text_order = torch.from_numpy(order).to(device)
        for step in range(steps_per_epoch):
            step_count = epoch * steps_per_epoch + step
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(recipe, step_count, epochs * steps_per_epoch)
            rows = text_order[:, step * recipe.batch : (step + 1) * recipe.batch]
            share = min(1.0, 2 * step_count / (epochs * steps_per_epoch))
            outputs, attention = stack(ids[rows])
            loss = aim.training_loss(rows, outputs, attention, share).sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if step % 20 == 0:
                tick(step_count, epochs * steps_per_epoch)
        _save_best_weights(
            stack,
            best_loss,
            best_weights,
            _validation_loss(stack, prepared_texts.validation.ids, aim.validation_loss, device),
        )
    stack.load_state_dict(dict(stack.named_buffers()) | best_weights)
    return stack


def _save_best_weights(
    stack: Stack, best_loss: Array, best_weights: dict[str, Array], loss: Array
) -> None:
    """Copy the weights of the networks whose ``loss`` is lower than ``best_loss``."""
    better = loss < best_loss
    best_loss[better] = loss[better]
    for name, weight in stack.named_parameters():
        best_weights[name][better] = weight.detach()[better]


@torch.no_grad()  # type: ignore[untyped-decorator]
def _validation_loss(stack: Stack, ids: Int[np.ndarray, "N T"], loss: Loss, device: str) -> Array:
    """Return the mean loss of every network over the validation texts."""
    total = torch.zeros(len(stack), device=device)
    all_ids = torch.from_numpy(ids).to(device)
    for rows in torch.arange(len(ids), device=device).split(_CHUNK):
        stacked_rows = rows.expand(len(stack), -1)
        outputs, attention = stack(all_ids[stacked_rows])
        total += len(rows) * loss(stacked_rows, outputs, attention, 1.0)
    return total / len(ids)


@torch.no_grad()  # type: ignore[untyped-decorator]
def run_in_chunks(
    stack: Stack, ids: Int[np.ndarray, "N T"], device: str
) -> tuple[Float[Array, "n N C"], Float[Array, "n N T"]]:
    """Return outputs and attention of every network for all texts."""
    chunks = [
        stack(rows.to(device).expand(len(stack), -1, -1))
        for rows in torch.from_numpy(ids).split(_CHUNK)
    ]
    outputs, alpha = zip(*chunks, strict=True)
    return torch.cat(outputs, dim=1), torch.cat(alpha, dim=1)


@torch.no_grad()  # type: ignore[untyped-decorator]
def compare_with_first(
    stack: Stack, first: Stack, *, first_indices: Sequence[int], texts: Any, device: str
) -> dict[str, np.ndarray]:
    """Return the texts that every network gets right, and its distances from its first model.

    Network i is compared with network ``first_indices[i]`` of the stack ``first``. "tvd" is the
    distance of the predictions, "jsd" the divergence of attention over the window, "words" over the
    words alone, and "on_words" the attention that words get: means over texts.

    Parameters
    ----------
    stack
        The networks to compare.
    first
        The networks with which they are compared.
    first_indices
        For each network, the index of its first model.
    texts
        Encoded test texts.
    device
        "cpu" or "cuda".

    Returns
    -------
    A value for each network and name; "right" has one for each text too.
    """
    is_right, sums = [], torch.zeros(4, len(stack), device=device)
    for start in range(0, len(texts), _CHUNK):
        chunk = texts.ids[start : start + _CHUNK]
        ids, is_word = (torch.from_numpy(array).to(device) for array in (chunk, word_mask(chunk)))
        outputs, alpha = stack(ids.expand(len(stack), -1, -1))
        first_outputs, first_alpha = (
            array[list(first_indices)] for array in first(ids.expand(len(first), -1, -1))
        )
        measures = [
            distance(outputs.softmax(-1), first_outputs.softmax(-1)),
            divergence(alpha, first_alpha),
            divergence(restrict_to_words(alpha, is_word), restrict_to_words(first_alpha, is_word)),
            (alpha * is_word).sum(-1),
        ]
        sums += torch.stack([measure.sum(1) for measure in measures])
        is_right.append(outputs.argmax(-1).cpu().numpy() == texts.labels[start : start + _CHUNK])
    means = dict(zip(COMPARISONS, (sums / len(texts)).cpu().numpy(), strict=True))
    return means | {"right": np.concatenate(is_right, axis=1)}


def build_classifiers(stack: Stack, prepared_texts: Any) -> list[AttentionClassifier]:
    """Return the networks as classifiers, which every exact method can explain."""
    names = ("embedding", "W_q", "W_k", "W_v", "W_l")
    arrays = {name: getattr(stack, name).detach().cpu().numpy() for name in names}
    return [
        AttentionClassifier(
            **{name: array[i] for name, array in arrays.items()},
            vocabulary=prepared_texts.vocabulary,
            classes=prepared_texts.classes,
            T_max=stack.recipe.T_max,
            position_base=stack.recipe.position_base,
            position_scale=stack.recipe.position_scale,
        )
        for i in range(len(stack))
    ]
