"""The loop: steps, epochs, validation, checkpoints."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from limelight.errors import InputError
from limelight.shapes import Array, Float, Int
from limelight.training.module import with_words_lost
from limelight.training.recipe import Recipe
from limelight.training.state import Checkpoint, TrainingState, new_state
from limelight.training.texts import NOISE, ORDER, EncodedTexts, Prepared, random_numbers

_REPORT = 20  # steps between two looks at the loss or two checkpoints: each one waits
_CHUNK = 1024  # documents at a time where no gradient is needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run stands; ``accuracy`` is the last validation's, ``loss`` the epoch's mean.

    ``steps`` is where the run will end; one that stops by ``patience`` then has had no better
    validation, and goes on for longer if it has. ``best`` is the best accuracy so far.
    """

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    accuracy: float | None
    best: float | None
    patience: int | None
    seconds: float
    epoch_ended: bool


def learning_rate(recipe: Recipe, step: int, steps: int) -> float:
    """Return the rate of ``step``: constant, or a cosine up from 1/25 of the peak and down to 0."""
    if recipe.schedule == "constant":
        return recipe.learning_rate
    done, turn = (step + 0.5) / steps, recipe.warmup
    if done < turn:
        rising = (1 - math.cos(math.pi * done / turn)) / 2
        return recipe.learning_rate * (0.04 + 0.96 * rising)
    return recipe.learning_rate * (1 + math.cos(math.pi * (done - turn) / (1 - turn))) / 2


def fit(
    prepared: Prepared,
    recipe: Recipe,
    *,
    seed: int = 0,
    device: Any = "cpu",
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Checkpoint | None = None,
    module: Any = None,
) -> TrainingState:
    """Return the state after the last epoch; ``best`` in it are the weights to keep.

    With a ``checkpoint`` the run continues what it finds there and saves itself every few minutes.
    Without a ``module`` of your own the paper's classifier is trained. Yours is called as that one
    is, ``module(ids, dropout=, rng=)``, and names its word embeddings ``embedding``.
    """
    state = new_state(prepared, recipe, seed=seed, device=device, module=module)
    if checkpoint is not None:
        checkpoint.restore(state)
    loop = _Loop(prepared, recipe, seed, device, progress, checkpoint)
    with _steady_arithmetic():
        while len(state.history) < loop.last_epoch(state):
            loop.run_epoch(state)
    return state


@contextlib.contextmanager
def _steady_arithmetic() -> Iterator[None]:
    """Let torch use one thread on the CPU and round the tiniest numbers to zero.

    A step is many small, memory-bound operations: a second thread gains nothing on an idle machine
    and waits ten times as long on a busy one; and sums keep their order on any number of cores.
    Momenta of rare words shrink by a tenth each step until they are subnormal, and then take most
    of the time of a step without moving any weight.
    """
    threads, flushed = torch.get_num_threads(), float(torch.tensor(1e-40) * 0.5) == 0
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushed)


class _Loop:
    def __init__(
        self,
        prepared: Prepared,
        recipe: Recipe,
        seed: int,
        device: Any,
        progress: Callable[[Progress], None] | None,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.recipe, self.seed, self.device = recipe, seed, device
        self.ids = torch.from_numpy(prepared.training.ids).to(device)
        self.labels = torch.from_numpy(prepared.training.labels.copy()).to(device)
        self.validation = prepared.validation
        self.progress, self.checkpoint = progress, checkpoint
        self.per_epoch = math.ceil(len(self.ids) / recipe.batch)
        self.last = self.saved = time.monotonic()
        self.saved_step = 0

    def last_epoch(self, state: TrainingState) -> int:
        """Return the epoch with which the run ends if no validation gets better."""
        recipe = self.recipe
        if recipe.patience is None:
            return recipe.epochs
        best = (state.best_epoch or {"epoch": 1})["epoch"]
        least = math.ceil(recipe.least_steps / self.per_epoch)
        return min(recipe.epochs, max(best + recipe.patience, least))

    def run_epoch(self, state: TrainingState) -> None:
        epoch, batch = len(state.history), self.recipe.batch
        order = random_numbers(self.seed, ORDER, epoch).permutation(len(self.ids))
        order = torch.from_numpy(order).to(self.device)
        while (done := state.step - epoch * self.per_epoch) < self.per_epoch:
            rows = order[done * batch : (done + 1) * batch]
            self._step(state, self.ids[rows], self.labels[rows])
            if (done + 1) % _REPORT == 0:
                self._tell(state, self._mean_loss(state, done + 1), ended=False)
                minutes = (time.monotonic() - self.saved) / 60
                if self.checkpoint and minutes > self.checkpoint.minutes:
                    self._save(state)
        self._end_epoch(state)

    def _step(self, state: TrainingState, ids: Array, labels: Array) -> None:
        recipe = self.recipe
        rng = random_numbers(self.seed, NOISE, state.step)
        if recipe.word_dropout:
            ids = with_words_lost(ids, recipe.word_dropout, rng=rng)
        rate = learning_rate(recipe, state.step, self.per_epoch * recipe.epochs)
        for group in state.optimizer.param_groups:
            group["lr"] = rate
        f = state.module(ids, dropout=recipe.dropout, rng=rng)
        value = loss(f, labels, smoothing=recipe.label_smoothing)
        state.optimizer.zero_grad(set_to_none=True)
        value.backward()
        state.optimizer.step()
        state.loss_sum += value.detach()  # on the device: a number on the host would wait for it
        state.step += 1
        if state.average is not None:
            # Shorter at first: an average of 100 steps would remember the random start for as long.
            decay = min(recipe.average, state.step / (state.step + 9))
            new = [weight.detach() for weight in state.module.parameters()]
            torch._foreach_lerp_(list(state.average.values()), new, 1 - decay)

    def _end_epoch(self, state: TrainingState) -> None:
        epoch = len(state.history) + 1
        mean = self._mean_loss(state, self.per_epoch)
        score = None if self.validation is None else accuracy(state, self.validation)
        best = state.best_epoch
        # A tie keeps the earlier epoch, which has fitted less to its own texts.
        if score is None or best is None or score > best["accuracy"]:
            state.best = {name: weight.clone() for name, weight in state.kept.items()}
        self._count_time(state)
        seconds = round(state.seconds, 3)
        state.history.append({"epoch": epoch, "loss": mean, "accuracy": score, "seconds": seconds})
        state.loss_sum.zero_()
        if self.checkpoint and state.step - self.saved_step >= _REPORT:
            self._save(state)
        self._tell(state, mean, ended=True)

    def _tell(self, state: TrainingState, mean: float, *, ended: bool) -> None:
        self._count_time(state)
        if not self.progress:
            return
        self.progress(
            Progress(
                epoch=len(state.history) + (not ended),
                epochs=self.recipe.epochs,
                step=state.step,
                steps=self.per_epoch * self.last_epoch(state),
                loss=mean,
                accuracy=state.history[-1]["accuracy"] if state.history else None,
                best=(state.best_epoch or {}).get("accuracy"),
                patience=self.recipe.patience,
                seconds=state.seconds,
                epoch_ended=ended,
            )
        )

    def _mean_loss(self, state: TrainingState, steps: int) -> float:
        mean = float(state.loss_sum) / steps
        if not math.isfinite(mean):
            raise InputError(
                f"the loss became {mean} in epoch {len(state.history) + 1}, by step {state.step}; "
                "lower the learning rate."
            )
        return mean

    def _save(self, state: TrainingState) -> None:
        if self.checkpoint:
            self.checkpoint.save(state)
            self.saved, self.saved_step = time.monotonic(), state.step

    def _count_time(self, state: TrainingState) -> None:
        now = time.monotonic()
        state.seconds += now - self.last
        self.last = now


def loss(f: Float[Array, "B C"], labels: Int[Array, " B"], *, smoothing: float) -> Array:
    """Return binary cross-entropy for one output, cross-entropy for several."""
    if f.shape[1] > 1:
        return F.cross_entropy(f, labels, label_smoothing=smoothing)
    wanted = labels * (1 - smoothing) + smoothing / 2
    return F.binary_cross_entropy_with_logits(f[:, 0], wanted.to(f))


@torch.no_grad()  # type: ignore[untyped-decorator]
def accuracy(state: TrainingState, texts: EncodedTexts) -> float:
    """Return the share of ``texts`` whose class the kept weights get right."""
    right = 0
    for start in range(0, len(texts), _CHUNK):
        ids = torch.from_numpy(texts.ids[start : start + _CHUNK]).to(state.loss_sum.device)
        f = torch.func.functional_call(state.module, state.kept, (ids,))
        predicted = (f[:, 0] > 0).long() if f.shape[1] == 1 else f.argmax(dim=1)
        right += int((predicted.cpu().numpy() == texts.labels[start : start + _CHUNK]).sum())
    return right / len(texts)
