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
from limelight.training.module import drop_words
from limelight.training.recipe import Recipe
from limelight.training.state import Checkpoint, make_initial_module
from limelight.training.texts import NOISE, ORDER, EncodedTexts, PreparedData, random_numbers

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
    prepared: PreparedData,
    recipe: Recipe,
    *,
    seed: int = 0,
    device: Any = "cpu",
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Checkpoint | None = None,
    module: Any = None,
) -> "Training":
    """Return the training after its last epoch; ``best`` in it are the weights to keep.

    With a ``checkpoint`` the run continues what it finds there and saves itself every few minutes.
    Without a ``module`` of your own the paper's classifier is trained. Yours is called as that one
    is, ``module(ids, dropout=, rng=)``, and names its word embeddings ``embedding``.
    """
    own = make_initial_module(prepared, recipe, seed) if module is None else module
    training = Training(own.to(device), prepared, recipe, seed, progress, checkpoint)
    with _steady_arithmetic():
        while len(training.history) < training.last_epoch:
            training.run_epoch()
    return training


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


_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # what AdamW keeps of every weight
_NOTES = ("step", "seconds", "history")  # what is stored as JSON, which floats survive exactly


class Training:
    """Weights and what moves them, the best weights so far, and the history of epochs."""

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
        # Apart: the shipped recipe lets the embedding decay thirty times as fast as the rest.
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
        self.average = self._copied(self.weights) if recipe.average else None
        self.best: dict[str, Array] | None = None
        self.history: list[dict[str, Any]] = []
        self.step, self.seconds = 0, 0.0
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)  # of the epoch
        if checkpoint is not None and (found := checkpoint.load()) is not None:
            self._restore(*found)
        self.saved, self.saved_step = time.monotonic(), self.step
        self.began = self.saved - self.seconds

    @staticmethod
    def _copied(weights: dict[str, Array]) -> dict[str, Array]:
        return {name: weight.detach().clone() for name, weight in weights.items()}

    @property
    def kept(self) -> dict[str, Array]:
        """The weights that are validated and kept: the average where there is one."""
        return self.weights if self.average is None else self.average

    @property
    def best_epoch(self) -> dict[str, Any] | None:
        """The entry of history whose weights are kept: the most accurate; without any, the last.

        A tie keeps the earlier epoch, which has fitted less to its own texts.
        """
        return max(
            self.history,
            key=lambda one: one["epoch"] if one["accuracy"] is None else one["accuracy"],
            default=None,
        )

    @property
    def last_epoch(self) -> int:
        """The epoch with which the run ends if no validation gets better."""
        recipe = self.recipe
        if recipe.patience is None:
            return recipe.epochs
        best = (self.best_epoch or {"epoch": 1})["epoch"]
        least = math.ceil(recipe.least_steps / self.per_epoch)
        return min(recipe.epochs, max(best + recipe.patience, least))

    def run_epoch(self) -> None:
        """Go on to the end of an epoch, and keep its weights if they are the best."""
        batch, epoch = self.recipe.batch, len(self.history)
        order = random_numbers(self.seed, ORDER, epoch).permutation(len(self.ids))
        order = torch.from_numpy(order).to(self.device)
        while (done := self.step - epoch * self.per_epoch) < self.per_epoch:
            rows = order[done * batch : (done + 1) * batch]
            self._step(self.ids[rows], self.labels[rows])
            if (done + 1) % _REPORT == 0:
                self._report(self._mean_loss(done + 1), ended=False)
        mean = self._mean_loss(self.per_epoch)
        score = None if self.validation is None else accuracy(self, self.validation)
        seconds = round(time.monotonic() - self.began, 3)
        ended = {"epoch": epoch + 1, "loss": mean, "accuracy": score, "seconds": seconds}
        self.history.append(ended)
        if self.best_epoch is ended:
            self.best = self._copied(self.kept)
        self.loss_sum.zero_()
        self._report(mean, ended=True)

    def _step(self, ids: Array, labels: Array) -> None:
        recipe = self.recipe
        rng = random_numbers(self.seed, NOISE, self.step)
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
            # Shorter at first: an average of 100 steps would remember the random start for as long.
            decay = min(recipe.average, self.step / (self.step + 9))
            new = [weight.detach() for weight in self.weights.values()]
            torch._foreach_lerp_(list(self.average.values()), new, 1 - decay)

    def _mean_loss(self, steps: int) -> float:
        mean = float(self.loss_sum) / steps
        if not math.isfinite(mean):
            raise InputError(
                f"the loss became {mean} in epoch {len(self.history) + 1}, by step "
                f"{self.step}; lower the learning rate."
            )
        return mean

    def _report(self, mean: float, *, ended: bool) -> None:
        """Save the state where it is time to, and tell where the run stands."""
        now = time.monotonic()
        self.seconds = now - self.began
        if self.checkpoint is not None:
            long = now - self.saved > 60 * self.checkpoint.minutes
            # Epochs of a step or two are not all saved.
            if long or (ended and self.step - self.saved_step >= _REPORT):
                notes = {name: getattr(self, name) for name in _NOTES}
                notes["loss_sum"] = float(self.loss_sum)
                self.checkpoint.save(self._tensors(), notes)
                self.saved, self.saved_step = time.monotonic(), self.step
        if self.progress is not None:
            self.progress(
                Progress(
                    epoch=len(self.history) + (not ended),
                    epochs=self.recipe.epochs,
                    step=self.step,
                    steps=self.per_epoch * self.last_epoch,
                    loss=mean,
                    accuracy=self.history[-1]["accuracy"] if self.history else None,
                    best=(self.best_epoch or {}).get("accuracy"),
                    patience=self.recipe.patience,
                    seconds=self.seconds,
                    epoch_ended=ended,
                )
            )

    def _tensors(self) -> dict[str, Array]:
        """Return every array of the state by name."""
        groups = {"weight": self.weights, "average": self.average or {}, "best": self.best or {}}
        named = {f"{group}.{name}": x for group, own in groups.items() for name, x in own.items()}
        for name, weight in self.weights.items():
            moments = self.optimizer.state[weight]
            named |= {f"optimizer.{name}.{key}": moments[key] for key in _MOMENTS}
        return named

    def _restore(self, tensors: dict[str, Array], notes: dict[str, Any]) -> None:
        """Become the state that ``tensors`` and ``notes`` describe."""
        own = {name: one.to(self.device) for name, one in tensors.items()}
        for name, weight in self.weights.items():
            with torch.no_grad():
                weight.copy_(own[f"weight.{name}"])
            moments = {key: own[f"optimizer.{name}.{key}"] for key in _MOMENTS}
            self.optimizer.state[weight] = moments
        self.step, self.seconds, self.history = (notes[name] for name in _NOTES)
        self.loss_sum.fill_(notes["loss_sum"])
        if self.average is not None:
            self.average = {name: own[f"average.{name}"] for name in self.weights}
        if self.history:
            self.best = {name: own[f"best.{name}"] for name in self.weights}


def loss(f: Float[Array, "B C"], labels: Int[Array, " B"], *, smoothing: float) -> Array:
    """Return binary cross-entropy for one output, cross-entropy for several."""
    if f.shape[1] > 1:
        return F.cross_entropy(f, labels, label_smoothing=smoothing)
    wanted = labels * (1 - smoothing) + smoothing / 2
    return F.binary_cross_entropy_with_logits(f[:, 0], wanted.to(f))


@torch.no_grad()  # type: ignore[untyped-decorator]
def accuracy(training: Training, texts: EncodedTexts) -> float:
    """Return the share of ``texts`` whose class the kept weights get right."""
    right = 0
    for start in range(0, len(texts), _CHUNK):
        ids = torch.from_numpy(texts.ids[start : start + _CHUNK]).to(training.device)
        f = torch.func.functional_call(training.module, training.kept, (ids,))
        predicted = (f[:, 0] > 0).long() if f.shape[1] == 1 else f.argmax(dim=1)
        right += int((predicted.cpu().numpy() == texts.labels[start : start + _CHUNK]).sum())
    return right / len(texts)
