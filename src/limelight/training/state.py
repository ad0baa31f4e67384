"""What changes while a model is trained, as plain arrays and on disk."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from limelight.errors import InputError
from limelight.files import write_whole
from limelight.shapes import Array
from limelight.training.module import READING, AttentionModule, PatchModule
from limelight.training.recipe import Recipe
from limelight.training.texts import WEIGHTS, Prepared, random_numbers


@dataclass(slots=True, eq=False)
class TrainingState:
    """Weights, optimiser, moving average, best weights so far, and the history of epochs."""

    module: Any  # AttentionModule, or another with an ``embedding`` and the same call
    optimizer: Any
    average: dict[str, Array] | None
    loss_sum: Array  # of the current epoch, on the device
    best: dict[str, Array] | None = None
    step: int = 0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def kept(self) -> dict[str, Array]:
        """The weights that are validated and kept: the average where there is one."""
        if self.average is not None:
            return self.average
        return {name: weight.detach() for name, weight in self.module.named_parameters()}

    @property
    def best_epoch(self) -> dict[str, Any] | None:
        """The entry of history with the highest validation accuracy, the first of equals."""
        return max(self.history, key=lambda entry: entry["accuracy"] or 0.0, default=None)

    def tensors(self) -> dict[str, np.ndarray]:
        """Return every array of the state by name."""
        named: dict[str, Array] = {}
        for name, weight in self.module.named_parameters():
            named[f"weight.{name}"] = weight.detach()
            for key, value in self.optimizer.state[weight].items():
                named[f"optimizer.{name}.{key}"] = value
        for group in ("average", "best"):
            for name, weight in (getattr(self, group) or {}).items():
                named[f"{group}.{name}"] = weight
        return {name: tensor.cpu().contiguous().numpy() for name, tensor in named.items()}

    def notes(self) -> dict[str, Any]:
        """Return everything else, ready for JSON; floats survive it exactly."""
        return {
            "step": self.step,
            "loss_sum": float(self.loss_sum),
            "seconds": self.seconds,
            "history": self.history,
        }

    def restore(self, tensors: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
        """Become the state that ``tensors`` and ``notes`` describe."""
        for name, weight in self.module.named_parameters():
            with torch.no_grad():
                weight.copy_(torch.from_numpy(tensors[f"weight.{name}"]))
            start = f"optimizer.{name}."
            self.optimizer.state[weight] = {
                key.removeprefix(start): torch.tensor(value, device=weight.device)
                for key, value in tensors.items()
                if key.startswith(start)
            }
        self.average = self._group("average", tensors)
        self.best = self._group("best", tensors)
        self.step, self.seconds = notes["step"], notes["seconds"]
        self.history = notes["history"]
        self.loss_sum.fill_(notes["loss_sum"])

    def _group(self, group: str, tensors: dict[str, np.ndarray]) -> dict[str, Array] | None:
        """Return the weights saved under ``group``, in the order of the module's own."""
        names = [name for name, _ in self.module.named_parameters()]
        if f"{group}.{names[0]}" not in tensors:
            return None
        device = self.loss_sum.device
        return {name: torch.tensor(tensors[f"{group}.{name}"], device=device) for name in names}


def new_state(
    prepared: Prepared, recipe: Recipe, *, seed: int, device: Any, module: Any = None
) -> TrainingState:
    """Return the state before the first step, of ``module`` or of the paper's classifier."""
    if module is None:
        weights, patches = _first_weights(prepared, recipe, seed), prepared.patches
        options = {name: getattr(recipe, name) for name in READING}
        options["T_max"] = prepared.T_max
        if patches is None:
            module = AttentionModule(weights, **options)
        else:
            pictures = torch.from_numpy(patches.rows)
            module = PatchModule(weights, pictures=pictures, cut=patches.cut, **options)
    module = module.to(device)
    # Apart: the shipped recipe lets the embedding decay thirty times as fast as the projections.
    decay = recipe.weight_decay if recipe.embedding_decay is None else recipe.embedding_decay
    projections = [weight for name, weight in module.named_parameters() if name != "embedding"]
    optimizer = torch.optim.AdamW(
        [
            {"params": [module.embedding], "weight_decay": decay},
            {"params": projections, "weight_decay": recipe.weight_decay},
        ],
        lr=recipe.learning_rate,
        fused=True,
    )
    average = None
    if recipe.average:
        average = {name: weight.detach().clone() for name, weight in module.named_parameters()}
    return TrainingState(
        module, optimizer, average, torch.zeros((), dtype=torch.float64, device=device)
    )


def _first_weights(prepared: Prepared, recipe: Recipe, seed: int) -> dict[str, Array]:
    rng = random_numbers(seed, WEIGHTS)
    K, bound, V = recipe.heads, recipe.weight_bound, len(prepared.vocabulary)
    shapes: dict[str, tuple[int, ...]] = {
        "W_q": (K, recipe.d_att, recipe.d_e),
        "W_k": (K, recipe.d_att, recipe.d_e),
        "W_v": (K, recipe.d_out, recipe.d_e),
        "W_l": (K, prepared.outputs(recipe), recipe.d_out),
    }
    wide = recipe.d_e * (K if recipe.head_embeddings else 1)
    if recipe.biases:
        # No key bias: dot products do not notice one, and hidden units add it to that of queries.
        shapes |= {"b_q": (K, recipe.d_att), "b_v": (K, recipe.d_out)}
    if recipe.attention == "additive":
        shapes["w_a"] = (K, recipe.d_att)
    if recipe.skip is not None:
        shapes["W_s"] = (prepared.outputs(recipe), wide)
    weights = {"embedding": rng.standard_normal((V, wide)) * recipe.embedding_std}
    weights |= {name: rng.uniform(-bound, bound, shape) for name, shape in shapes.items()}
    if (patches := prepared.patches) is not None:
        p, d_h = len(patches.mean), recipe.hidden
        # Pixels from 0 to 1 vary by a third or so: twice what inputs of variance 1 would take.
        weights["patch_in"] = rng.uniform(-1, 1, (d_h, p)) * np.sqrt(24 / p)
        weights["patch_bias"] = rng.uniform(-1, 1, d_h) / 6
        weights["patch_out"] = rng.uniform(-1, 1, (wide, d_h)) * np.sqrt(3 / d_h)
        weights["patch_mean"] = patches.mean
        if recipe.learned_positions:
            weights["position_table"] = rng.standard_normal((prepared.T_max, wide))
    return {name: torch.from_numpy(array.astype(np.float32)) for name, array in weights.items()}


CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a run saves its state, and the arguments that a run must share to continue it."""

    folder: Path
    arguments: dict[str, Any]
    minutes: float = 5.0

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / CHECKPOINT

    def save(self, state: TrainingState) -> None:
        """Write ``state``; where that fails, the checkpoint before it stays."""
        notes = json.dumps({"arguments": self.arguments, **state.notes()})
        try:
            write_whole(self.path, save(state.tensors(), metadata={"limelight": notes}))
        except OSError as error:
            kept = "; the one before it is kept" if self.path.exists() else ""
            raise InputError(
                f"the checkpoint '{self.path}' could not be written "
                f"({(error.strerror or str(error)).lower()}){kept}. "
                "Make room, then run the same command to continue."
            ) from None

    def restore(self, state: TrainingState) -> bool:
        """Bring ``state`` to where the checkpoint left off; say whether there was one."""
        if not self.path.exists():
            return False
        try:
            with safe_open(self.path, framework="numpy") as file:
                notes = json.loads((file.metadata() or {})["limelight"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            self._check(notes.pop("arguments"))
            state.restore(tensors, notes)
        except (SafetensorError, KeyError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"the checkpoint '{self.path}' is damaged ({error}); start over with --fresh."
            ) from None
        return True

    def _check(self, saved: dict[str, Any]) -> None:
        now = json.loads(json.dumps(self.arguments))
        changed = [name for name in {**saved, **now} if saved.get(name) != now.get(name)]
        if changed:
            told = ", ".join(f"{n} was {saved.get(n)}, now {now.get(n)}" for n in changed)
            raise InputError(
                f"the run in '{self.folder}' was started with other arguments ({told}); "
                "give the same to continue it, or start over with --fresh."
            )
