"""Train many copies of the counting model in parallel."""

__all__ = ["Words", "accuracies", "encode_words", "gradient_norms", "train_copies"]

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

from limelight_reproduction.histogram.counting_model import Weights, losses, outputs
from limelight_reproduction.histogram.task import LETTERS, count_occurrences

_BATCH = 128


class Words(NamedTuple):
    """Inputs and targets of the model: one-hot letters (T, V, n) and counts minus 1 (T, n)."""

    letters: Any
    counts: Any

    def select(self, numbers: Any) -> "Words":
        """Return the words with these numbers."""
        return Words(self.letters[:, :, numbers], self.counts[:, numbers])


def encode_words(letters: np.ndarray) -> Words:
    """Encode words, which are rows of letter numbers, for the model."""
    one_hot = np.eye(len(LETTERS), dtype=np.float32)[letters]
    return Words(
        torch.from_numpy(np.ascontiguousarray(one_hot.transpose(1, 2, 0))),
        torch.from_numpy(np.ascontiguousarray(count_occurrences(letters).T - 1)),
    )


def train_copies(
    weights: Weights,
    words: Words,
    *,
    steps: int,
    rate: float,
    rng: np.random.Generator,
    mask: Weights | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Weights:
    """Train all copies with Adam and a one-cycle learning rate.

    The copies are independent, because the gradient of the summed loss is the gradient of each
    copy's loss.

    Parameters
    ----------
    weights
        Initial weights. The first axis is the copy.
    words
        Training words.
    steps
        Number of training steps.
    rate
        Maximum of the learning rate.
    rng
        Source of the batches.
    mask
        Weights with mask 0 do not change. By default all weights are trained.
    tick
        Callback after each step.

    Returns
    -------
    The weights after training.
    """
    variables = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    parameters = list(variables.values())
    optimizer = torch.optim.Adam(parameters, lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=steps, pct_start=0.1
    )
    with _flush_denormals():
        for _ in range(steps):
            rows = torch.from_numpy(rng.integers(0, words.counts.shape[1], _BATCH))
            entropy, penalty = losses(variables, *words.select(rows))
            gradients = torch.autograd.grad((entropy + penalty).sum(), parameters)
            for (name, weight), gradient in zip(variables.items(), gradients, strict=True):
                weight.grad = gradient if mask is None else gradient * mask[name]
            optimizer.step()
            schedule.step()
            tick()
    return {name: weight.detach() for name, weight in variables.items()}


def gradient_norms(weights: Weights, words: Words) -> list[float]:
    """Return the norm of the gradient over all words, for every copy."""
    variables = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    entropy, penalty = losses(variables, *words)
    gradients: Sequence[Any] = torch.autograd.grad(
        (entropy + penalty).sum(), list(variables.values())
    )
    return torch.cat([gradient.flatten(1) for gradient in gradients], dim=1).norm(dim=1).tolist()


def accuracies(weights: Weights, words: Words) -> list[float]:
    """Return the share of letters with the correct count, for every copy."""
    with torch.no_grad():
        is_correct = outputs(weights, words.letters).argmax(dim=2) == words.counts
    return is_correct.float().flatten(1).mean(1).tolist()


@contextmanager
def _flush_denormals() -> Iterator[None]:
    # Sharp softmaxes have many denormal numbers, which make a step ten times slower.
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
