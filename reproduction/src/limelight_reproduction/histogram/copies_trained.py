"""Training of many copies of the counting model at a time."""

__all__ = ["Words", "accuracies", "as_words", "gradient_norms", "trained"]

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

from limelight_reproduction.histogram.counting_model import Weights, losses, outputs
from limelight_reproduction.histogram.task import LETTERS, occurrences

_BATCH = 128


class Words(NamedTuple):
    """Words as the model takes them: one-hot letters (T, V, n) and counts less one (T, n)."""

    letters: Any
    counts: Any

    def some(self, rows: Any) -> "Words":
        """Return the words of these numbers."""
        return Words(self.letters[:, :, rows], self.counts[:, rows])


def as_words(letters: np.ndarray) -> Words:
    """Return words, given by the numbers of their letters, ready for the model."""
    one_hot = np.eye(len(LETTERS), dtype=np.float32)[letters]
    return Words(
        torch.from_numpy(np.ascontiguousarray(one_hot.transpose(1, 2, 0))),
        torch.from_numpy(np.ascontiguousarray(occurrences(letters).T - 1)),
    )


def trained(
    weights: Weights,
    words: Words,
    *,
    steps: int,
    rate: float,
    rng: np.random.Generator,
    free: Weights | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Weights:
    """Return ``weights`` after Adam, its rate risen and fallen to nothing.

    ``free`` holds weights back where it is 0. Copies do not see each other: the sum of their
    losses has each one's own gradient.
    """
    own = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    parameters = list(own.values())
    adam = torch.optim.Adam(parameters, lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, rate, total_steps=steps, pct_start=0.1)
    with _without_denormals():
        for _ in range(steps):
            rows = torch.from_numpy(rng.integers(0, words.counts.shape[1], _BATCH))
            entropy, penalty = losses(own, *words.some(rows))
            gradients = torch.autograd.grad((entropy + penalty).sum(), parameters)
            for (name, weight), gradient in zip(own.items(), gradients, strict=True):
                weight.grad = gradient if free is None else gradient * free[name]
            adam.step()
            schedule.step()
            tick()
    return {name: weight.detach() for name, weight in own.items()}


def gradient_norms(weights: Weights, words: Words) -> list[float]:
    """Return the norm of every copy's gradient over all the words."""
    own = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    entropy, penalty = losses(own, *words)
    gradients: Sequence[Any] = torch.autograd.grad((entropy + penalty).sum(), list(own.values()))
    return torch.cat([one.flatten(1) for one in gradients], dim=1).norm(dim=1).tolist()


def accuracies(weights: Weights, words: Words) -> list[float]:
    """Return the share of letters whose count every copy gets right."""
    with torch.no_grad():
        right = outputs(weights, words.letters).argmax(dim=2) == words.counts
    return right.float().flatten(1).mean(1).tolist()


@contextmanager
def _without_denormals() -> Iterator[None]:
    # Sharp softmaxes are full of numbers below the smallest normal one, which slow a step tenfold.
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
