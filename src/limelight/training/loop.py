"""Run the steps and epochs of a training, validate, and save checkpoints."""

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
from limelight.training.module import drop_words
from limelight.training.recipe import Recipe
from limelight.training.state import Checkpoint, make_initial_module
from limelight.training.texts import NOISE, ORDER, EncodedTexts, PreparedData, make_generator

_REPORT = 20  # steps between two reports of the loss or checkpoints: each waits for the device
_CHUNK = 1024  # documents in one forward pass without a gradient


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a training run.

    ``loss`` is the mean of the epoch, ``accuracy`` is that of the last validation, and ``best`` is
    the best accuracy so far. ``steps`` is the expected number of steps. With ``patience``, the run
    goes on for longer if a validation is better than before.
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
    """Return the rate of ``step``: constant, or a cosine from 1/25 to the peak and down to 0."""
    if recipe.schedule == "constant":
        return recipe.learning_rate
    done, turn = (step + 0.5) / steps, recipe.warmup
    if done < turn:
        rising = (1 - math.cos(math.pi * done / turn)) / 2
        return recipe.learning_rate * (0.04 + 0.96 * rising)
    return recipe.learning_rate * (1 + math.cos(math.pi * (done - turn) / (1 - turn))) / 2


def fit(
    prepared: PreparedData,
    recipe: Recipe,
    *,
    seed: int = 0,
    device: Any = "cpu",
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Checkpoint | None = None,
    module: Any = None,
) -> "Training":
    """Train a module to its last epoch.

    Parameters
    ----------
    prepared
        The encoded texts, from :func:`prepare`.
    recipe
        The settings of the training.
    seed
        The same seed gives the same weights on the same machine.
    device
        The device of the module and the texts.
    progress
        Called with the progress every few steps.
    checkpoint
        The run continues from it, and saves its state there every few minutes.
    module
        The module to train; by default a new ``AttentionClassifier`` as a module. It is called as
        ``module(ids, dropout=, rng=)``, and its word embeddings are ``module.embedding``.

    Returns
    -------
    The training after its last epoch. Its ``best`` are the weights of the best epoch.

    Raises
    ------
    InputError
        If the loss becomes infinite, or if the checkpoint is damaged or has other arguments.
    """
    if module is None:
        module = make_initial_module(prepared, recipe, seed)
    training = Training(module.to(device), prepared, recipe, seed, progress, checkpoint)
    with _steady_arithmetic():
        while len(training.history) < training.last_epoch:
            training.run_epoch()
    return training


@contextlib.contextmanager
def _steady_arithmetic() -> Iterator[None]:
    """Let torch use one thread on the CPU and round the tiniest numbers to zero.

    A step is many small, memory-bound operations. A second thread gains nothing on an idle machine
    and takes ten times as long on a busy one. With one thread, sums have the same order on any
    number of cores. Momenta of rare words shrink by a tenth each step until they are subnormal.
    Then they take most of the time of a step and change no weight.
    """
    threads, flushed = torch.get_num_threads(), float(torch.tensor(1e-40) * 0.5) == 0
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushed)


_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # the state of AdamW for every weight
_NOTES = ("step", "seconds", "history")  # stored as JSON, which changes no float


class Training:
    """The state of a training: weights, optimizer, the best weights so far, and the epochs."""

    def __init__(
        self,
        module: Any,  # AttentionModule, or another with an ``embedding`` and the same call
        prepared: PreparedData,
        recipe: Recipe,
        seed: int,
        progress: Callable[[Progress], None] | None,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.module, self.recipe, self.seed = module, recipe, seed
        self.progress, self.checkpoint = progress, checkpoint
        self.device, self.weights = module.embedding.device, dict(module.named_parameters())
        self.ids = torch.from_numpy(prepared.training.ids).to(self.device)
        self.labels = torch.from_numpy(prepared.training.labels.copy()).to(self.device)
        self.validation = prepared.validation
        self.per_epoch = math.ceil(len(self.ids) / recipe.batch)
        # Two groups: in the shipped recipe the embedding decays thirty times as fast as the others.
        decay = recipe.weight_decay if recipe.embedding_decay is None else recipe.embedding_decay
        projections = [weight for name, weight in self.weights.items() if name != "embedding"]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [module.embedding], "weight_decay": decay},
                {"params": projections, "weight_decay": recipe.weight_decay},
            ],
            lr=recipe.learning_rate,
            fused=True,
        )
        self.average = self._copy_weights(self.weights) if recipe.average else None
        self.best: dict[str, Array] | None = None
        self.history: list[dict[str, Any]] = []
        self.step, self.seconds = 0, 0.0
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)  # of the epoch
        if checkpoint is not None and (state := checkpoint.load()) is not None:
            self._restore(*state)
        self.save_time, self.saved_step = time.monotonic(), self.step
        self.start_time = self.save_time - self.seconds

    @staticmethod
    def _copy_weights(weights: dict[str, Array]) -> dict[str, Array]:
        """Return copies of weights that later steps do not change."""
        return {name: weight.detach().clone() for name, weight in weights.items()}

    @property
    def validated_weights(self) -> dict[str, Array]:
        """The weights that are validated and stored: the average, if the recipe has one."""
        return self.weights if self.average is None else self.average

    @property
    def best_epoch(self) -> dict[str, Any] | None:
        """The epoch with the best accuracy, or the last one if nothing is validated.

        Of two equal epochs it is the earlier one, which has fitted its own texts less.
        """
        return max(
            self.history,
            key=lambda epoch: epoch["epoch"] if epoch["accuracy"] is None else epoch["accuracy"],
            default=None,
        )

    @property
    def last_epoch(self) -> int:
        """The last epoch of the run if no validation gets better."""
        recipe = self.recipe
        if recipe.patience is None:
            return recipe.epochs
        best = (self.best_epoch or {"epoch": 1})["epoch"]
        minimum = math.ceil(recipe.least_steps / self.per_epoch)
        return min(recipe.epochs, max(best + recipe.patience, minimum))

    def run_epoch(self) -> None:
        """Continue to the end of an epoch, and copy its weights if they are the best."""
        batch, epoch = self.recipe.batch, len(self.history)
        order = make_generator(self.seed, ORDER, epoch).permutation(len(self.ids))
        order = torch.from_numpy(order).to(self.device)
        while (done := self.step - epoch * self.per_epoch) < self.per_epoch:
            rows = order[done * batch : (done + 1) * batch]
            self._step(self.ids[rows], self.labels[rows])
            if (done + 1) % _REPORT == 0:
                self._report(self._mean_loss(done + 1), epoch_ended=False)
        mean = self._mean_loss(self.per_epoch)
        score = None if self.validation is None else accuracy(self, self.validation)
        seconds = round(time.monotonic() - self.start_time, 3)
        epoch_entry = {"epoch": epoch + 1, "loss": mean, "accuracy": score, "seconds": seconds}
        self.history.append(epoch_entry)
        if self.best_epoch is epoch_entry:
            self.best = self._copy_weights(self.validated_weights)
        self.loss_sum.zero_()
        self._report(mean, epoch_ended=True)

    def _step(self, ids: Array, labels: Array) -> None:
        """Update the weights with one batch."""
        recipe = self.recipe
        rng = make_generator(self.seed, NOISE, self.step)
        if recipe.word_dropout:
            ids = drop_words(ids, recipe.word_dropout, rng=rng)
        rate = learning_rate(recipe, self.step, self.per_epoch * recipe.epochs)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        f = self.module(ids, dropout=recipe.dropout, rng=rng)
        value = loss(f, labels, smoothing=recipe.label_smoothing)
        self.optimizer.zero_grad(set_to_none=True)
        value.backward()
        self.optimizer.step()
        self.loss_sum += value.detach()  # on the device: a number on the host would wait for it
        self.step += 1
        if self.average is not None:
            # Shorter at first: an average of 100 steps would contain the random start for as long.
            decay = min(recipe.average, self.step / (self.step + 9))
            new = [weight.detach() for weight in self.weights.values()]
            torch._foreach_lerp_(list(self.average.values()), new, 1 - decay)

    def _mean_loss(self, steps: int) -> float:
        """Return the mean loss of the epoch; raise `InputError` if it is not finite."""
        mean = float(self.loss_sum) / steps
        if not math.isfinite(mean):
            raise InputError(
                f"the loss became {mean} in epoch {len(self.history) + 1}, by step {self.step}. "
                "Lower the learning rate."
            )
        return mean

    def _report(self, mean: float, *, epoch_ended: bool) -> None:
        """Save the state if it is time, and call the callback with the progress."""
        now = time.monotonic()
        self.seconds = now - self.start_time
        if self.checkpoint is not None:
            is_due = now - self.save_time > 60 * self.checkpoint.minutes
            # Epochs of a step or two are not all saved.
            if is_due or (epoch_ended and self.step - self.saved_step >= _REPORT):
                notes = {name: getattr(self, name) for name in _NOTES}
                notes["loss_sum"] = float(self.loss_sum)
                self.checkpoint.save(self._tensors(), notes)
                self.save_time, self.saved_step = time.monotonic(), self.step
        if self.progress is not None:
            self.progress(
                Progress(
                    epoch=len(self.history) + (not epoch_ended),
                    epochs=self.recipe.epochs,
                    step=self.step,
                    steps=self.per_epoch * self.last_epoch,
                    loss=mean,
                    accuracy=self.history[-1]["accuracy"] if self.history else None,
                    best=(self.best_epoch or {}).get("accuracy"),
                    patience=self.recipe.patience,
                    seconds=self.seconds,
                    epoch_ended=epoch_ended,
                )
            )

    def _tensors(self) -> dict[str, Array]:
        """Return every array of the state by name."""
        groups = {"weight": self.weights, "average": self.average or {}, "best": self.best or {}}
        named = {
            f"{group}.{name}": tensor
            for group, tensors in groups.items()
            for name, tensor in tensors.items()
        }
        for name, weight in self.weights.items():
            moments = self.optimizer.state[weight]
            named |= {f"optimizer.{name}.{key}": moments[key] for key in _MOMENTS}
        return named

    def _restore(self, tensors: dict[str, Array], notes: dict[str, Any]) -> None:
        """Restore the state from the tensors and notes of a checkpoint."""
        tensors = {name: tensor.to(self.device) for name, tensor in tensors.items()}
        for name, weight in self.weights.items():
            with torch.no_grad():
                weight.copy_(tensors[f"weight.{name}"])
            moments = {key: tensors[f"optimizer.{name}.{key}"] for key in _MOMENTS}
            self.optimizer.state[weight] = moments
        self.step, self.seconds, self.history = (notes[name] for name in _NOTES)
        self.loss_sum.fill_(notes["loss_sum"])
        if self.average is not None:
            self.average = {name: tensors[f"average.{name}"] for name in self.weights}
        if self.history:
            self.best = {name: tensors[f"best.{name}"] for name in self.weights}


def loss(f: Float[Array, "B C"], labels: Int[Array, " B"], *, smoothing: float) -> Array:
    """Return binary cross-entropy for one output, and cross-entropy for more outputs."""
    if f.shape[1] > 1:
        return F.cross_entropy(f, labels, label_smoothing=smoothing)
    targets = labels * (1 - smoothing) + smoothing / 2
    return F.binary_cross_entropy_with_logits(f[:, 0], targets.to(f))


@torch.no_grad()  # type: ignore[untyped-decorator]
def accuracy(training: Training, texts: EncodedTexts) -> float:
    """Return the accuracy of the validated weights on ``texts``."""
    correct = 0
    for start in range(0, len(texts), _CHUNK):
        ids = torch.from_numpy(texts.ids[start : start + _CHUNK]).to(training.device)
        f = torch.func.functional_call(training.module, training.validated_weights, (ids,))
        predicted = (f[:, 0] > 0).long() if f.shape[1] == 1 else f.argmax(dim=1)
        correct += int((predicted.cpu().numpy() == texts.labels[start : start + _CHUNK]).sum())
    return correct / len(texts)
