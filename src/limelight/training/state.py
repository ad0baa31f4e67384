"""Create the initial weights of a training, and save its state to disk while it runs."""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from limelight.errors import InputError
from limelight.files import write_atomically
from limelight.shapes import Array
from limelight.training.images import initial_patch_weights, make_module
from limelight.training.module import READING_OPTIONS, AttentionModule
from limelight.training.recipe import Recipe
from limelight.training.texts import WEIGHTS, PreparedData, make_generator


def make_initial_module(prepared: PreparedData, recipe: Recipe, seed: int) -> AttentionModule:
    """Create an ``AttentionClassifier`` as a module, with the weights before the first step."""
    weights = _initial_weights(prepared, recipe, seed)
    options = {name: getattr(recipe, name) for name in READING_OPTIONS} | {"T_max": prepared.T_max}
    return make_module(weights, prepared.images, **options)


def _initial_weights(prepared: PreparedData, recipe: Recipe, seed: int) -> dict[str, Array]:
    """Draw the weights before the first step."""
    rng = make_generator(seed, WEIGHTS)
    K, bound, V = recipe.heads, recipe.weight_bound, len(prepared.vocabulary)
    shapes: dict[str, tuple[int, ...]] = {
        "W_q": (K, recipe.d_att, recipe.d_e),
        "W_k": (K, recipe.d_att, recipe.d_e),
        "W_v": (K, recipe.d_out, recipe.d_e),
        "W_l": (K, prepared.outputs(recipe), recipe.d_out),
    }
    wide = recipe.d_e * (K if recipe.head_embeddings else 1)
    if recipe.biases:
        # No key bias: it changes no dot product, and hidden units add it to the bias of queries.
        shapes |= {"b_q": (K, recipe.d_att), "b_v": (K, recipe.d_out)}
    if recipe.attention == "additive":
        shapes["w_a"] = (K, recipe.d_att)
    if recipe.skip is not None:
        shapes["W_s"] = (prepared.outputs(recipe), wide)
    weights = {"embedding": rng.standard_normal((V, wide)) * recipe.embedding_std}
    weights |= {name: rng.uniform(-bound, bound, shape) for name, shape in shapes.items()}
    weights |= initial_patch_weights(prepared.images, recipe, wide=wide, rng=rng)
    return {name: torch.from_numpy(array.astype(np.float32)) for name, array in weights.items()}


CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The folder in which a run saves its state, and the arguments with which it was started.

    A run with other arguments cannot continue it.
    """

    folder: Path
    arguments: dict[str, Any]
    minutes: float = 5.0

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.folder / CHECKPOINT

    def save(self, tensors: dict[str, Array], notes: dict[str, Any]) -> None:
        """Write the state of a run; if that fails, the previous checkpoint stays."""
        metadata = json.dumps({"arguments": self.arguments, **notes})
        arrays = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        with explain_write_errors(self.path, MAKE_ROOM):
            write_atomically(self.path, save(arrays, metadata={"limelight": metadata}))

    def load(self) -> tuple[dict[str, Array], dict[str, Any]] | None:
        """Read the saved state, or return None if there is no file.

        Raises `InputError` if the file is damaged, or if its run has other arguments.
        """
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="torch") as file:
                notes = json.loads((file.metadata() or {})["limelight"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            saved, now = notes["arguments"], json.loads(json.dumps(self.arguments))
        except (SafetensorError, KeyError, ValueError) as error:
            raise InputError(
                f"the checkpoint '{self.path}' is damaged ({error}). Start over with --fresh."
            ) from None
        changed = [name for name in {**saved, **now} if saved.get(name) != now.get(name)]
        if changed:
            changes = ", ".join(f"{n} was {saved.get(n)}, now {now.get(n)}" for n in changed)
            raise InputError(
                f"the run in '{self.folder}' was started with other arguments ({changes}). Give "
                "the same to continue it, or start over with --fresh."
            )
        return tensors, notes


MAKE_ROOM = "Free some space, and run the same command again to continue from the last checkpoint"


def make_writable_folder(folder: Path) -> None:
    """Create ``folder`` if needed; raise `InputError` if no file can be written there."""
    with explain_write_errors(folder, "Choose another output folder"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


@contextlib.contextmanager
def explain_write_errors(path: Path, advice: str) -> Iterator[None]:
    """Turn an `OSError` of the block into an `InputError` with the reason and ``advice``."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"'{path}' cannot be written ({reason}). {advice}.") from None
